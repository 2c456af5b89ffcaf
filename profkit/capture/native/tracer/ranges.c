#include "ranges.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "../nvtx/listener.h"
#include "agent.h"
#include "arena.h"
#include "clock.h"
#include "entries.h"
#include "threads.h"
#include "tiers.h"
#include "windows.h"

static struct context *new_context(struct table *table, struct context *parent, uint32_t domain, uint32_t name,
                                   struct function *opener) {
    struct ranges *ranges = table->ranges;
    struct context *context = ranges->n_contexts < MOST_CONTEXTS ? arena_take(table, sizeof *context) : NULL;
    if (!context)
        return NULL;
    struct context **siblings = parent ? &parent->first_child : &ranges->first_root;
    context->parent = parent;
    context->parent_number = parent ? parent->number : 0;
    context->opener_number = opener->number;
    context->domain = domain;
    context->name = name;
    context->opener = opener;
    context->number = (uint32_t)++ranges->n_contexts;
    context->sibling = *siblings;
    *siblings = context;
    if (ranges->last)
        ranges->last->next = context;
    else
        ranges->first = context;
    ranges->last = context;
    atomic_store_explicit(&context->kind, ENTRY_CONTEXT, memory_order_release);
    return context;
}

/* Find or make the context inside `parent`; return the parent if there is no room. */
static struct context *context_inside(struct table *table, struct context *parent, uint32_t domain, uint32_t name,
                                      struct function *opener) {
    struct context *context = parent ? parent->first_child : table->ranges->first_root;
    while (context && !(context->name == name && context->domain == domain && context->opener == opener))
        context = context->sibling;
    if (!context)
        context = new_context(table, parent, domain, name, opener);
    return context ? context : parent;
}

static struct edge *add_row(struct table *table, struct slots *rows, uint32_t context, struct function *function) {
    if (!slots_reserve(rows))
        return NULL;
    struct edge *row = arena_take(table, sizeof *row);
    if (!row)
        return NULL;
    row->caller = context;
    row->called = function->number;
    row->callee = function;
    atomic_store_explicit(&row->kind, ENTRY_ROW, memory_order_release);
    edges_put(rows, function, row);
    return row;
}

struct edge *ranges_row(struct table *table, struct function *function) {
    struct context *context = table->context;
    struct edge *row = edges_find(&context->rows, function);
    if (!row) {
        row = add_row(table, &context->rows, context->number, function);
        if (!row)
            return NULL;
        if (context->last_row)
            context->last_row->next = row;
        else
            context->first_row = row;
        context->last_row = row;
    }
    function->context = context;
    function->row = row;
    return row;
}

static struct ranges *ranges_of(struct table *table) {
    if (!table->ranges)
        table->ranges = calloc(1, sizeof *table->ranges);
    return table->ranges;
}

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

void ranges_sampled(struct table *table, struct context *context, struct function *function, int64_t own, int64_t wait,
                    int64_t blocked) {
    pthread_mutex_lock(&table->lock);
    struct context *open = table->context;
    table->context = context;
    struct edge *row = ranges_row_of(table, function);
    if (row) {
        row->own += own;
        row->wait += wait;
        row->blocked += blocked;
    }
    table->context = open;
    pthread_mutex_unlock(&table->lock);
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
    struct context *context = context_inside(table, table->context, domain, name, opener_of(table));
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
            around = context_inside(table, around, old->domain, old->name, old->opener);
        ranges->open[i - 1] = (struct open_range){.context = around, .domain = inside->domain};
    }
    ranges->n_open--;
    table->context = around;
}

static atomic_bool paused;

void ranges_pause(bool value) { atomic_store(&paused, value); }

/* A thread without traced Python has nothing to charge. */
static void on_push(uint32_t domain, uint32_t name) {
    struct table *table = kernel_last_table;
    if (atomic_load_explicit(&paused, memory_order_relaxed))
        return;
#ifndef PROFKIT_FREE_THREADED
    if (!table && tiers_now() == TIER_SAMPLED && PyGILState_Check())
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
    if (PyGILState_Check()) {
        agent_range(begins);
        return;
    }
    /* Waiting for the GIL could deadlock: its holder may wait for a lock of this thread. */
    atomic_store(&reported, begins ? BEGAN : ENDED);
    windows_ring();
}

bool ranges_reported(bool *begins) {
    int report = atomic_exchange(&reported, NOTHING);
    *begins = report == BEGAN;
    return report != NOTHING;
}

static const struct range_listener listener = {sizeof listener, on_push, on_pop, on_watched};
static nvtx_watch_function nvtx_watch;

bool ranges_watch(const char *name, const char *domain) { return nvtx_watch && nvtx_watch(name, domain); }

bool ranges_follow(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    nvtx_listen_function listen = (nvtx_listen_function)dlsym(library, NVTX_LISTEN_NAME);
    if (listen)
        listen(&listener);
    nvtx_watch = (nvtx_watch_function)dlsym(library, NVTX_WATCH_NAME);
    return listen != NULL; /* the library stays loaded, as when NVTX loads it */
}

void ranges_close_all(struct table *table, int64_t now) {
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

bool ranges_add(struct table *table, const struct table *from, struct function *const *places) {
    size_t n = from->ranges ? from->ranges->n_contexts : 0;
    struct context **contexts = n && ranges_of(table) ? calloc(n + 1, sizeof *contexts) : NULL;
    bool done = contexts || !n;
    for (const struct context *old = n && done ? from->ranges->first : NULL; old; old = old->next) {
        struct context *parent = contexts[old->parent_number];
        struct context *context =
            context_inside(table, parent, old->domain, old->name, places[old->opener_number]);
        contexts[old->number] = table->context = context;
        if (!context)
            continue; /* no room for even the outermost context */
        if (context != parent)
            context->count += old->count;
        for (const struct edge *row = old->first_row; row; row = row->next) {
            struct edge *here = ranges_row_of(table, places[row->called]);
            if (!here) {
                done = false;
                continue;
            }
            here->calls += row->calls;
            here->own += row->own;
            here->wait += row->wait;
            here->blocked += row->blocked;
        }
    }
    table->context = NULL;
    free(contexts);
    return done;
}

void ranges_free(struct table *table) {
    for (struct context *context = table->ranges ? table->ranges->first : NULL; context; context = context->next)
        free(context->rows.slots);
    free(table->ranges);
    table->ranges = NULL;
    table->context = NULL;
}
