/* profkit's NVTX collector: the functions that NVTX calls. Each writes one record. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "listener.h"
#include "names.h"
#include "threads.h"

/* XLA's domain: if it is accepted, JAX sends its annotations to the tool, and JAX's profiler loses them. */
static const char xla_domain[] = "TSL";
static bool keep_xla;

/* Returned without an open range, and by NVTX itself without a tool. */
enum { NO_RANGE = -2 };

static _Atomic(const struct range_listener *) listener;

/* The watched range, or NULL, and its domain. */
static _Atomic(struct name *) watched_name;
enum { ANY_DOMAIN = -1 };
static int32_t watched_domain;

/* The thread's level at which it was pushed, and the id with which it was started. */
static _Thread_local struct {
    int32_t level;
    uint16_t domain;
    bool inside;
} pushed_here;
static _Atomic uint64_t started_id;

/* Of the watched ranges that are open in several threads, only the one that began first is reported, unless
 * `watch_each`. It is known by where it is kept: &pushed_here of its thread, or &started_id; NULL for none. */
static bool watch_each;
static _Atomic(const void *) first_watched;
static pthread_key_t first_pushed; /* set in the thread that pushed it, to see that thread end */

struct event {
    uint64_t time_ns; /* 0: the time of writing */
    struct name *name; /* the name of `string` */
    uint64_t payload;
    uint32_t string;
    uint32_t category;
    uint32_t color;
    uint16_t domain;
    uint8_t payload_type;
};

static uint16_t domain_id(const struct domain *domain)
{
    return domain == NULL ? 0 : domain->id;
}

static struct event event_of(uint16_t domain, const struct nvtx_attributes *attributes)
{
    struct event event = {.domain = domain};
    /* Later versions may append fields. */
    if (attributes == NULL || attributes->size < sizeof *attributes)
        return event;
    if (attributes->message_type == NVTX_MESSAGE_REGISTERED)
        event.name = attributes->message.registered;
    else if (attributes->message_type == NVTX_MESSAGE_ASCII)
        event.name = names_intern(attributes->message.ascii);
    else if (attributes->message_type == NVTX_MESSAGE_WIDE)
        event.name = names_intern_wide(attributes->message.wide);
    event.string = names_use(event.name);
    event.category = attributes->category;
    event.color = attributes->color_type == NVTX_COLOR_ARGB ? attributes->color : 0;
    if (attributes->payload_type >= NVTX_PAYLOAD_U64 && attributes->payload_type <= NVTX_PAYLOAD_F32) {
        bool is_long = attributes->payload_type <= NVTX_PAYLOAD_F64; /* else the upper half is uninitialised */
        event.payload_type = (uint8_t)attributes->payload_type;
        event.payload = is_long ? attributes->payload.u64 : attributes->payload.u32;
    }
    return event;
}

static struct event named(struct name *name)
{
    return (struct event){.name = name, .string = names_use(name)};
}

/* Write one record; NULL if it was lost. The clock is read here, last, when a range begins, and was read first when
 * one ends, so the collector's time is outside the range. */
static struct record *write_event(enum record_kind kind, const struct event *event)
{
    struct record *record = threads_slot();
    if (record == NULL)
        return NULL;
    record->time_ns = event->time_ns != 0 ? event->time_ns : now_ns();
    record->category = event->category;
    record->color = event->color;
    record->payload = event->payload;
    uint64_t head = (uint64_t)kind | (uint64_t)event->payload_type << 8 | (uint64_t)event->domain << 16 |
                    (uint64_t)event->string << 32;
    /* Last, so that a visible record is complete wherever the process is killed. */
    atomic_store_explicit(&record->head, head, memory_order_release);
    return record;
}

static void mark(struct event event)
{
    write_event(RECORD_MARK, &event);
}

static bool is_watched(const struct event *event)
{
    const struct name *name = atomic_load_explicit(&watched_name, memory_order_acquire);
    return __builtin_expect(name != NULL, 0) && name == event->name &&
           (watched_domain == ANY_DOMAIN || watched_domain == event->domain);
}

static void report_watched(bool begins)
{
    const struct range_listener *to = atomic_load_explicit(&listener, memory_order_acquire);
    if (to != NULL)
        to->watched(begins);
}

static void watched_begins(const void *range)
{
    const void *none = NULL;
    if (!watch_each) {
        if (!atomic_compare_exchange_strong(&first_watched, &none, range))
            return;
        if (range == &pushed_here)
            pthread_setspecific(first_pushed, range);
    }
    report_watched(true);
}

/* Make way for the next range; return whether the end of this one is to be reported, after that: who sees what comes
 * of the report can begin the next. */
static bool watched_is_over(const void *range)
{
    if (watch_each)
        return true;
    if (!atomic_compare_exchange_strong(&first_watched, &range, NULL))
        return false;
    pthread_setspecific(first_pushed, NULL); /* where it was started, it is NULL already */
    return true;
}

/* The thread ends before its range, which nothing can end any more. */
static void first_watched_is_left(void *range)
{
    const void *first = range;
    if (!atomic_compare_exchange_strong(&first_watched, &first, NULL))
        return;
    const struct range_listener *to = atomic_load_explicit(&listener, memory_order_acquire);
    if (to != NULL)
        to->left();
}

/* What is open in other threads is the parent's alone. */
static void watch_anew_in_child(void)
{
    atomic_store(&first_watched, NULL);
    atomic_store(&started_id, 0);
}

static bool watch_possible;

static void prepare_watching(void)
{
    watch_possible = pthread_key_create(&first_pushed, first_watched_is_left) == 0 &&
                     pthread_atfork(NULL, NULL, watch_anew_in_child) == 0;
}

static int push(struct event event)
{
    int32_t *depth = threads_depth(event.domain);
    int32_t level = depth == NULL ? 0 : (*depth)++;
    if (is_watched(&event) && !pushed_here.inside) {
        pushed_here.inside = true;
        pushed_here.domain = event.domain;
        pushed_here.level = level;
        watched_begins(&pushed_here);
    }
    const struct range_listener *to = atomic_load_explicit(&listener, memory_order_acquire);
    if (to != NULL)
        to->pushed(event.domain, names_use(names_pattern(event.name)));
    write_event(RECORD_PUSH, &event);
    return level;
}

static int pop(uint16_t domain)
{
    struct event event = {.time_ns = now_ns(), .domain = domain};
    int32_t *depth = threads_depth(domain);
    int32_t level = depth == NULL || *depth == 0 ? NO_RANGE : --*depth;
    write_event(RECORD_POP, &event);
    const struct range_listener *to = atomic_load_explicit(&listener, memory_order_acquire);
    if (to != NULL)
        to->popped(domain);
    if (__builtin_expect(pushed_here.inside, 0) && pushed_here.domain == domain && level <= pushed_here.level) {
        pushed_here.inside = false;
        if (watched_is_over(&pushed_here))
            report_watched(false);
    }
    return level;
}

static uint64_t start(struct event event)
{
    uint64_t none = 0;
    /* Its id is known after writing; until then it has the id of no range. */
    bool watched = is_watched(&event) && atomic_compare_exchange_strong(&started_id, &none, UINT64_MAX);
    if (watched)
        watched_begins(&started_id);
    const struct record *record = write_event(RECORD_START, &event);
    uint64_t id = 0;
    if (record != NULL) {
        const struct thread *self = thread_self;
        uint64_t offset = self->chunk.offset + (uint64_t)((const char *)record - (const char *)self->chunk.begin);
        id = (uint64_t)(collector_generation & 0xFFFF) << 48 | offset;
    }
    if (watched)
        atomic_store(&started_id, id);
    if (watched && id == 0) /* its end will not be known: leave it to the next one's */
        watched_is_over(&started_id);
    return id;
}

static void end(uint64_t id)
{
    struct event event = {.time_ns = now_ns(), .payload = id};
    if (id != 0) /* 0: the start was lost, and counted as such */
        write_event(RECORD_END, &event);
    if (__builtin_expect(id != 0 && atomic_load_explicit(&started_id, memory_order_relaxed) == id, 0)) {
        bool told = watched_is_over(&started_id);
        atomic_store(&started_id, 0);
        if (told)
            report_watched(false);
    }
}

/* CORE: the default domain */

static void mark_ex(const struct nvtx_attributes *a) { mark(event_of(0, a)); }
static void mark_a(const char *text) { mark(named(names_intern(text))); }
static void mark_w(const wchar_t *text) { mark(named(names_intern_wide(text))); }
static uint64_t start_ex(const struct nvtx_attributes *a) { return start(event_of(0, a)); }
static uint64_t start_a(const char *text) { return start(named(names_intern(text))); }
static uint64_t start_w(const wchar_t *text) { return start(named(names_intern_wide(text))); }
static int push_ex(const struct nvtx_attributes *a) { return push(event_of(0, a)); }
static int push_a(const char *text) { return push(named(names_intern(text))); }
static int push_w(const wchar_t *text) { return push(named(names_intern_wide(text))); }
static int pop_default(void) { return pop(0); }

static void define_wide(enum definition_kind kind, uint32_t id, uint32_t extra, const wchar_t *text)
{
    char narrow[MOST_TEXT + 1];
    if (text == NULL)
        return;
    names_narrow(text, narrow, sizeof narrow);
    names_define(kind, id, extra, narrow);
}

static void category_a(uint32_t category, const char *text)
{
    names_define(DEFINITION_CATEGORY, category, 0, text);
}

static void category_w(uint32_t category, const wchar_t *text)
{
    define_wide(DEFINITION_CATEGORY, category, 0, text);
}

static void os_thread_a(uint32_t tid, const char *text) { names_define(DEFINITION_THREAD, tid, 0, text); }
static void os_thread_w(uint32_t tid, const wchar_t *text) { define_wide(DEFINITION_THREAD, tid, 0, text); }

/* CORE2: any domain */

static void domain_mark_ex(struct domain *d, const struct nvtx_attributes *a)
{
    mark(event_of(domain_id(d), a));
}

static uint64_t domain_start_ex(struct domain *d, const struct nvtx_attributes *a)
{
    return start(event_of(domain_id(d), a));
}

static void domain_end(struct domain *d, uint64_t id)
{
    (void)d; /* implied by the id */
    end(id);
}

static int domain_push_ex(struct domain *d, const struct nvtx_attributes *a)
{
    return push(event_of(domain_id(d), a));
}

static int domain_pop(struct domain *d) { return pop(domain_id(d)); }

static void domain_category_a(struct domain *d, uint32_t category, const char *text)
{
    names_define(DEFINITION_CATEGORY, category, domain_id(d), text);
}

static void domain_category_w(struct domain *d, uint32_t category, const wchar_t *text)
{
    define_wide(DEFINITION_CATEGORY, category, domain_id(d), text);
}

static void *register_a(struct domain *d, const char *text)
{
    (void)d; /* strings are numbered across domains */
    return names_intern(text);
}

static void *register_w(struct domain *d, const wchar_t *text)
{
    (void)d;
    return names_intern_wide(text);
}

static struct domain *create_a(const char *text)
{
    if (text == NULL || (!keep_xla && strcmp(text, xla_domain) == 0))
        return NULL;
    return names_domain(text);
}

static struct domain *create_w(const wchar_t *text)
{
    char narrow[MOST_TEXT + 1];
    if (text == NULL)
        return NULL;
    names_narrow(text, narrow, sizeof narrow);
    return create_a(narrow);
}

/* Threads may still use the domain, and its name brings it back. */
static void destroy(struct domain *d) { (void)d; }

static void initialize(const void *reserved) { (void)reserved; }

#define FUNCTION(f) ((nvtx_function)(void (*)(void))(f))

static const nvtx_function core[NVTX_CORE_SIZE] = {
    [NVTX_MARK_EX] = FUNCTION(mark_ex),
    [NVTX_MARK_A] = FUNCTION(mark_a),
    [NVTX_MARK_W] = FUNCTION(mark_w),
    [NVTX_RANGE_START_EX] = FUNCTION(start_ex),
    [NVTX_RANGE_START_A] = FUNCTION(start_a),
    [NVTX_RANGE_START_W] = FUNCTION(start_w),
    [NVTX_RANGE_END] = FUNCTION(end),
    [NVTX_RANGE_PUSH_EX] = FUNCTION(push_ex),
    [NVTX_RANGE_PUSH_A] = FUNCTION(push_a),
    [NVTX_RANGE_PUSH_W] = FUNCTION(push_w),
    [NVTX_RANGE_POP] = FUNCTION(pop_default),
    [NVTX_NAME_CATEGORY_A] = FUNCTION(category_a),
    [NVTX_NAME_CATEGORY_W] = FUNCTION(category_w),
    [NVTX_NAME_OS_THREAD_A] = FUNCTION(os_thread_a),
    [NVTX_NAME_OS_THREAD_W] = FUNCTION(os_thread_w),
};

/* Resources are not recorded: NVTX keeps its own functions, which do nothing. */
static const nvtx_function core2[NVTX_CORE2_SIZE] = {
    [NVTX_DOMAIN_MARK_EX] = FUNCTION(domain_mark_ex),
    [NVTX_DOMAIN_RANGE_START_EX] = FUNCTION(domain_start_ex),
    [NVTX_DOMAIN_RANGE_END] = FUNCTION(domain_end),
    [NVTX_DOMAIN_RANGE_PUSH_EX] = FUNCTION(domain_push_ex),
    [NVTX_DOMAIN_RANGE_POP] = FUNCTION(domain_pop),
    [NVTX_DOMAIN_NAME_CATEGORY_A] = FUNCTION(domain_category_a),
    [NVTX_DOMAIN_NAME_CATEGORY_W] = FUNCTION(domain_category_w),
    [NVTX_DOMAIN_REGISTER_STRING_A] = FUNCTION(register_a),
    [NVTX_DOMAIN_REGISTER_STRING_W] = FUNCTION(register_w),
    [NVTX_DOMAIN_CREATE_A] = FUNCTION(create_a),
    [NVTX_DOMAIN_CREATE_W] = FUNCTION(create_w),
    [NVTX_DOMAIN_DESTROY] = FUNCTION(destroy),
    [NVTX_INITIALIZE] = FUNCTION(initialize),
};

/* For NVTX calls that bypass NVTX: PyTorch without CUDA, see agent/torch_nvtx.py. */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int profkit_nvtx_push(const char *text) { return threads_ready() ? push_a(text) : NO_RANGE; }
EXPORTED int profkit_nvtx_pop(void) { return threads_ready() ? pop_default() : NO_RANGE; }
EXPORTED uint64_t profkit_nvtx_start(const char *text) { return threads_ready() ? start_a(text) : 0; }

EXPORTED void profkit_nvtx_mark(const char *text)
{
    if (threads_ready())
        mark_a(text);
}

EXPORTED void profkit_nvtx_end(uint64_t id)
{
    if (threads_ready())
        end(id);
}

EXPORTED void profkit_nvtx_listen(const struct range_listener *to)
{
    atomic_store_explicit(&listener, to, memory_order_release);
}

EXPORTED bool profkit_nvtx_watch(const char *name, const char *domain, bool each)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_watching);
    if (!watch_possible || !threads_ready())
        return false;
    const struct domain *found = domain != NULL && domain[0] != '\0' ? names_domain(domain) : NULL;
    struct name *known = names_intern(name);
    if (known == NULL || (domain != NULL && domain[0] != '\0' && found == NULL))
        return false;
    watch_each = each;
    watched_domain = domain == NULL ? ANY_DOMAIN : domain_id(found);
    atomic_store_explicit(&watched_name, known, memory_order_release);
    return true;
}

static void install(const struct nvtx_callbacks_table *callbacks, int module, const nvtx_function *functions,
                    unsigned count)
{
    nvtx_function **table = NULL;
    unsigned size = 0;
    if (!callbacks->get_module_function_table(module, &table, &size) || table == NULL)
        return;
    for (unsigned id = 1; id < count && id < size; id++)
        if (functions[id] != NULL && table[id] != NULL)
            *table[id] = functions[id];
}

/* Every library with NVTX calls this at its first NVTX call, through the library in NVTX_INJECTION64_PATH. */
EXPORTED int InitializeInjectionNvtx2(nvtx_get_export_table get)
{
    if (!threads_ready())
        return 0; /* NVTX then runs without a tool */
    const struct nvtx_version_table *version = get(NVTX_TABLE_VERSION);
    const struct nvtx_callbacks_table *callbacks = get(NVTX_TABLE_CALLBACKS);
    if (version != NULL && version->struct_size >= sizeof *version)
        version->set_injection_version(3);
    if (callbacks == NULL || callbacks->struct_size < sizeof *callbacks)
        return 1;
    const char *xla = getenv("PROFKIT_NVTX_XLA");
    keep_xla = xla != NULL && xla[0] == '1';
    install(callbacks, NVTX_MODULE_CORE, core, NVTX_CORE_SIZE);
    install(callbacks, NVTX_MODULE_CORE2, core2, NVTX_CORE2_SIZE);
    return 1;
}
