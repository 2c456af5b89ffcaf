/*
 * A minimal NVTX client for the tests: it loads the library that NVTX_INJECTION64_PATH names, as a program that
 * contains NVTX does at its first call, and calls what the library installs.
 */
#ifndef PROFKIT_TEST_NVTX_CLIENT_H
#define PROFKIT_TEST_NVTX_CLIENT_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef void (*client_function)(void);

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        uint32_t u32;
        int32_t i32;
        float f32;
    } payload;
    int32_t message_type;
    const void *message;
} event_t;

static client_function core_functions[16], core2_functions[16];
static client_function *core_table[16], *core2_table[16];
static uint32_t told_version;

static int module_table(int module, client_function ***table, unsigned *size)
{
    if (module != 1 && module != 5)
        return 0;
    *table = module == 1 ? core_table : core2_table;
    *size = 16;
    return 1;
}

static void tell_version(uint32_t version) { told_version = version; }

static const struct {
    size_t size;
    int (*get)(int, client_function ***, unsigned *);
} callbacks_export = {sizeof callbacks_export, module_table};

static const struct {
    size_t size;
    uint32_t version, reserved;
    void (*set)(uint32_t);
} version_export = {sizeof version_export, 3, 0, tell_version};

static const void *export_table(uint32_t id)
{
    return id == 1 ? (const void *)&callbacks_export : id == 3 ? (const void *)&version_export : NULL;
}

/* Load the tool; returns what its entry point returned, or -1 without one. */
static int client_load(void)
{
    for (int i = 0; i < 16; i++) {
        core_table[i] = &core_functions[i];
        core2_table[i] = &core2_functions[i];
    }
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path == NULL ? NULL : dlopen(path, RTLD_LAZY);
    if (library == NULL) {
        fprintf(stderr, "no tool: %s\n", path == NULL ? "NVTX_INJECTION64_PATH is not set" : dlerror());
        return -1;
    }
    int (*initialize)(const void *(*)(uint32_t)) = NULL;
    *(void **)&initialize = dlsym(library, "InitializeInjectionNvtx2");
    return initialize == NULL ? -1 : initialize(export_table);
}

#define CORE(id, type) ((type)core_functions[id])
#define CORE2(id, type) ((type)core2_functions[id])

static inline void nv_mark(const char *t) { CORE(2, void (*)(const char *))(t); }
static inline void nv_mark_wide(const wchar_t *t) { CORE(3, void (*)(const wchar_t *))(t); }
static inline uint64_t nv_start(const char *t) { return CORE(5, uint64_t (*)(const char *))(t); }
static inline void nv_end(uint64_t id) { CORE(7, void (*)(uint64_t))(id); }
static inline int nv_push_event(const event_t *e) { return CORE(8, int (*)(const event_t *))(e); }
static inline int nv_push(const char *t) { return CORE(9, int (*)(const char *))(t); }
static inline int nv_push_wide(const wchar_t *t) { return CORE(10, int (*)(const wchar_t *))(t); }
static inline int nv_pop(void) { return CORE(11, int (*)(void))(); }
static inline void nv_category(uint32_t c, const char *t) { CORE(12, void (*)(uint32_t, const char *))(c, t); }
static inline void nv_thread(uint32_t tid, const char *t) { CORE(14, void (*)(uint32_t, const char *))(tid, t); }
static inline void nv_domain_mark(void *d, const event_t *e) { CORE2(1, void (*)(void *, const event_t *))(d, e); }
static inline uint64_t nv_domain_start(void *d, const event_t *e)
{
    return CORE2(2, uint64_t (*)(void *, const event_t *))(d, e);
}
static inline void nv_domain_end(void *d, uint64_t id) { CORE2(3, void (*)(void *, uint64_t))(d, id); }
static inline int nv_domain_push(void *d, const event_t *e) { return CORE2(4, int (*)(void *, const event_t *))(d, e); }
static inline int nv_domain_pop(void *d) { return CORE2(5, int (*)(void *))(d); }
static inline void nv_domain_category(void *d, uint32_t c, const char *t)
{
    CORE2(8, void (*)(void *, uint32_t, const char *))(d, c, t);
}
static inline void *nv_register(void *d, const char *t) { return CORE2(10, void *(*)(void *, const char *))(d, t); }
static inline void *nv_domain(const char *t) { return CORE2(12, void *(*)(const char *))(t); }
static inline void *nv_domain_wide(const wchar_t *t) { return CORE2(13, void *(*)(const wchar_t *))(t); }
static inline void nv_domain_destroy(void *d) { CORE2(14, void (*)(void *))(d); }

static inline event_t event_registered(void *handle)
{
    return (event_t){.version = 3, .size = sizeof(event_t), .message_type = 3, .message = handle};
}

#endif
