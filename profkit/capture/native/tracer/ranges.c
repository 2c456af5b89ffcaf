#include "ranges.h"

#include <stdlib.h>

#include "arena.h"
#include "entries.h"

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

struct context *ranges_inside(struct table *table, struct context *parent, uint32_t domain, uint32_t name,
                              struct function *opener) {
    struct context *context = parent ? parent->first_child : table->ranges->first_root;
    while (context && !(context->name == name && context->domain == domain && context->opener == opener))
        context = context->sibling;
    if (!context)
        context = new_context(table, parent, domain, name, opener);
    return context ? context : parent;
}

static struct edge *add_row(struct table *table, struct slots *rows, uint32_t context,
                            struct function *function) {
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

struct ranges *ranges_of(struct table *table) {
    if (!table->ranges)
        table->ranges = calloc(1, sizeof *table->ranges);
    return table->ranges;
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

bool ranges_add(struct table *table, const struct table *from, struct function *const *places) {
    size_t n = from->ranges ? from->ranges->n_contexts : 0;
    struct context **contexts = n && ranges_of(table) ? calloc(n + 1, sizeof *contexts) : NULL;
    bool done = contexts || !n;
    for (const struct context *old = n && done ? from->ranges->first : NULL; old; old = old->next) {
        struct context *parent = contexts[old->parent_number];
        struct context *context =
            ranges_inside(table, parent, old->domain, old->name, places[old->opener_number]);
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
