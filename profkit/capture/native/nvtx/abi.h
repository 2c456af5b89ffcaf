/* The interface between NVTX 3 and an injected tool, written from its documentation without NVTX's headers: export
 * tables, function numbers, and event attributes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef void (*nvtx_function)(void);
typedef const void *(*nvtx_get_export_table)(uint32_t table);

enum { NVTX_TABLE_CALLBACKS = 1, NVTX_TABLE_VERSION = 3 };

struct nvtx_callbacks_table {
    size_t struct_size;
    /* Returns 0 for unknown modules. To install a function: `*table[id] = function`. */
    int (*get_module_function_table)(int module, nvtx_function ***table, unsigned *size);
};

struct nvtx_version_table {
    size_t struct_size;
    uint32_t version;
    uint32_t reserved;
    void (*set_injection_version)(uint32_t version);
};

enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };

enum {
    NVTX_MARK_EX = 1,
    NVTX_MARK_A,
    NVTX_MARK_W,
    NVTX_RANGE_START_EX,
    NVTX_RANGE_START_A,
    NVTX_RANGE_START_W,
    NVTX_RANGE_END,
    NVTX_RANGE_PUSH_EX,
    NVTX_RANGE_PUSH_A,
    NVTX_RANGE_PUSH_W,
    NVTX_RANGE_POP,
    NVTX_NAME_CATEGORY_A,
    NVTX_NAME_CATEGORY_W,
    NVTX_NAME_OS_THREAD_A,
    NVTX_NAME_OS_THREAD_W,
    NVTX_CORE_SIZE
};

enum {
    NVTX_DOMAIN_MARK_EX = 1,
    NVTX_DOMAIN_RANGE_START_EX,
    NVTX_DOMAIN_RANGE_END,
    NVTX_DOMAIN_RANGE_PUSH_EX,
    NVTX_DOMAIN_RANGE_POP,
    NVTX_DOMAIN_RESOURCE_CREATE,
    NVTX_DOMAIN_RESOURCE_DESTROY,
    NVTX_DOMAIN_NAME_CATEGORY_A,
    NVTX_DOMAIN_NAME_CATEGORY_W,
    NVTX_DOMAIN_REGISTER_STRING_A,
    NVTX_DOMAIN_REGISTER_STRING_W,
    NVTX_DOMAIN_CREATE_A,
    NVTX_DOMAIN_CREATE_W,
    NVTX_DOMAIN_DESTROY,
    NVTX_INITIALIZE,
    NVTX_CORE2_SIZE
};

enum { NVTX_COLOR_ARGB = 1 };
enum { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_WIDE = 2, NVTX_MESSAGE_REGISTERED = 3 };
enum {
    NVTX_PAYLOAD_U64 = 1,
    NVTX_PAYLOAD_I64,
    NVTX_PAYLOAD_F64,
    NVTX_PAYLOAD_U32,
    NVTX_PAYLOAD_I32,
    NVTX_PAYLOAD_F32
};

struct nvtx_attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        uint32_t u32;
        int32_t i32;
        float f32;
    } payload;
    int32_t message_type;
    union {
        const char *ascii;
        const wchar_t *wide;
        void *registered;
    } message;
};

_Static_assert(offsetof(struct nvtx_attributes, color) == 12, "event attributes: color");
_Static_assert(offsetof(struct nvtx_attributes, payload) == 24, "event attributes: payload");
_Static_assert(offsetof(struct nvtx_attributes, message_type) == 32, "event attributes: message type");
_Static_assert(offsetof(struct nvtx_attributes, message) == 40, "event attributes: message");
_Static_assert(sizeof(struct nvtx_attributes) == 48, "event attributes: size (64-bit machines only)");
