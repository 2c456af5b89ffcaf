#include "range_events.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "../nvtx/listener.h"
#include "agent.h"
#include "clock.h"
#include "ranges.h"
#include "threads.h"
#include "tiers.h"
#include "windows.h"

/* Return the innermost function that did not open the range for its caller, as context managers do. */
static struct function *opener_of(const struct table *table) {
    const struct call *call = table->top;
    while (call > table->stack && call->function->passes_on)
        call--;
    return call->function;
}

/* In a sampled thread, samples are charged instead. */
static void charge_until(struct table *table, int64_t now) {
    if (tiers_now() == TIER_EXACT)
        ranges_charge(table, table->top->function, now);
    else
        table->charged_until = now;
}

static void range_opens(struct table *table, uint32_t domain, uint32_t name) {
    int64_t now = table_time(table, clock_ticks());
    if (table->context)
        charge_until(table, now);
    struct ranges *ranges = ranges_of(table);
    if (!ranges)
        return;
    if (ranges->n_open == MOST_OPEN_RANGES) {
        ranges->deeper++;
        return;
    }
    struct context *context = ranges_inside(table, table->context, domain, name, opener_of(table));
    ranges->open[ranges->n_open++] = (struct open_range){.context = context, .domain = domain};
    if (context && context != table->context)
        context->count++;
    table->context = context;
    table->charged_until = now;
}

/* Each domain has its own stack: the last range of the domain ends, not always the last of all. */
static void range_ends(struct table *table, uint32_t domain) {
    struct ranges *ranges = table->ranges;
    if (!ranges)
        return;
    if (ranges->deeper > 0) {
        ranges->deeper--;
        return;
    }
    size_t at = ranges->n_open;
    while (at > 0 && ranges->open[at - 1].domain != domain)
        at--;
    if (at == 0)
        return; /* it began before the tracer, or never */
    if (table->context)
        charge_until(table, table_time(table, clock_ticks()));
    struct context *around = at > 1 ? ranges->open[at - 2].context : NULL;
    for (size_t i = at; i < ranges->n_open; i++) {
        struct open_range *inside = &ranges->open[i];
        struct context *old = inside->context;
        if (old)
            around = ranges_inside(table, around, old->domain, old->name, old->opener);
        ranges->open[i - 1] = (struct open_range){.context = around, .domain = inside->domain};
    }
    ranges->n_open--;
    table->context = around;
}

/* The current thread state, without a check; not in the limited API. */
typedef PyThreadState *(*current_function)(void);
static current_function current;
static PyInterpreterState *interpreter;

static PyInterpreterState *interpreter_of(PyThreadState *state) {
#if PY_VERSION_HEX < 0x03090000
    return state->interp;
#else
    return PyThreadState_GetInterpreter(state);
#endif
}

static void find_current(void) {
    current = (current_function)dlsym(RTLD_DEFAULT, "PyThreadState_GetUnchecked");
    if (!current)
        current = (current_function)dlsym(RTLD_DEFAULT, "_PyThreadState_UncheckedGet"); /* before 3.13 */
    interpreter = PyInterpreterState_Get();
}

/* Whether the thread holds the GIL of the interpreter that is traced. PyGILState_Check() is always true once there was
 * another interpreter. */
static bool holds_gil(void) {
    PyThreadState *own = PyGILState_GetThisThreadState();
    return current && own && current() == own && interpreter_of(own) == interpreter;
}

static atomic_bool paused;

void range_events_pause(bool value) { atomic_store(&paused, value); }

/* A thread without traced Python has nothing to charge. */
static void on_push(uint32_t domain, uint32_t name) {
    struct table *table = kernel_last_table;
    if (atomic_load_explicit(&paused, memory_order_relaxed))
        return;
#ifndef PROFKIT_FREE_THREADED
    if (!table && tiers_now() == TIER_SAMPLED && holds_gil())
        table = threads_table_here(); /* it began while the process was sampled */
#endif
    if (!table)
        return;
    pthread_mutex_lock(&table->lock);
    if (table->owner)
        range_opens(table, domain, name);
    pthread_mutex_unlock(&table->lock);
}

static void on_pop(uint32_t domain) {
    struct table *table = kernel_last_table;
    if (!table || atomic_load_explicit(&paused, memory_order_relaxed))
        return;
    pthread_mutex_lock(&table->lock);
    if (table->owner)
        range_ends(table, domain);
    pthread_mutex_unlock(&table->lock);
}

/* What a thread without the GIL has reported and the agent has not yet read. */
enum report { NOTHING = 0, BEGAN = 1, ENDED = 2 };
static atomic_int reported;

static void on_watched(bool begins) {
    if (holds_gil()) {
        agent_range(begins);
        return;
    }
    /* Waiting for the GIL could deadlock: its holder may wait for a lock of this thread. */
    atomic_store(&reported, begins ? BEGAN : ENDED);
    windows_ring();
}

/* The thread has no Python state any more. */
static void on_left(void) {
    atomic_store(&reported, ENDED);
    windows_ring();
}

bool range_events_reported(bool *begins) {
    int report = atomic_exchange(&reported, NOTHING);
    *begins = report == BEGAN;
    return report != NOTHING;
}

static const struct range_listener listener = {sizeof listener, on_push, on_pop, on_watched, on_left};
static nvtx_watch_function nvtx_watch;

bool range_events_watch(const char *name, const char *domain, bool each) {
    return nvtx_watch && nvtx_watch(name, domain, each);
}

bool range_events_follow(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    find_current();
    nvtx_listen_function listen = (nvtx_listen_function)dlsym(library, NVTX_LISTEN_NAME);
    if (listen)
        listen(&listener);
    nvtx_watch = (nvtx_watch_function)dlsym(library, NVTX_WATCH_NAME);
    return listen != NULL; /* the library stays loaded, as when NVTX loads it */
}

void range_events_close_all(struct table *table, int64_t now) {
    if (!table->ranges)
        return;
    pthread_mutex_lock(&table->lock);
    if (table->context && now > table->charged_until)
        ranges_charge(table, table->top->function, now);
    if (tiers_now() == tiers_wanted()) { /* else samples are charged to them, or calls again */
        table->context = NULL;
        table->ranges->n_open = table->ranges->deeper = 0;
    }
    pthread_mutex_unlock(&table->lock);
}
