/* Functions inside NVTX ranges: exact sums by the ranges open in a thread.
 *
 * While ranges are open, the time between two events of the thread (of calls or ranges) is charged to the running
 * function and the ranges around it, so functions inside a range add up to its time. Without open ranges this costs
 * one comparison per event.
 *
 * A context is a stack of open ranges, by name and opening function; contexts form a tree. Ranges are reported in
 * their thread, perhaps without the GIL: the lock protects contexts from other threads that read them. */
#pragma once

#include "table.h"

/* Open ranges kept apart per thread; deeper ones are charged to the last of them. */
#define MOST_OPEN_RANGES 64

/* Contexts per thread, as some programs never repeat a name; later ranges are charged to those around them. */
#define MOST_CONTEXTS 2000

struct context {
    _Atomic uint32_t kind;
    uint32_t number;                /* its place in the table's order, from 1 */
    uint32_t parent_number;         /* 0 without a parent */
    uint32_t opener_number;         /* of the function */
    uint32_t domain, name;          /* the collector's numbers */
    int64_t count;                  /* ranges begun */
    struct context *parent;
    struct context *next;           /* of the table, by first use */
    struct context *first_child, *sibling; /* newest first */
    struct function *opener;        /* the table's base if no function opened it */
    struct slots rows;              /* by function: `calls`, `own`, `wait`, `blocked` in this context */
    struct edge *first_row, *last_row;
};

struct open_range {
    struct context *context; /* NULL without room */
    uint32_t domain;
};

struct ranges {
    struct context *first, *last, *first_root;
    size_t n_contexts;
    size_t n_open;
    size_t deeper; /* open ranges beyond the last */
    struct open_range open[MOST_OPEN_RANGES];
};

/* Return a table's ranges, made at its first one; NULL without memory. */
struct ranges *ranges_of(struct table *table);

/* Find or make the context inside `parent`; return the parent if there is no room. */
struct context *ranges_inside(struct table *table, struct context *parent, uint32_t domain, uint32_t name,
                              struct function *opener);

struct edge *ranges_row(struct table *table, struct function *function);

/* Add another table's contexts; `places` maps its function numbers to this table's functions. False without memory. */
bool ranges_add(struct table *table, const struct table *from, struct function *const *places);

void ranges_free(struct table *table);

static inline struct edge *ranges_row_of(struct table *table, struct function *function) {
    return LIKELY(function->context == table->context) ? function->row : ranges_row(table, function);
}

/* Charge the time until now, by table_time(), to `function`. */
static inline void ranges_charge(struct table *table, struct function *function, int64_t now) {
    struct edge *row = ranges_row_of(table, function);
    if (LIKELY(row != NULL))
        row->own += now - table->charged_until;
    table->charged_until = now;
}

/* Charge a sample in a function to these ranges: ticks of its time, and the ns of it that were waited. */
void ranges_sampled(struct table *table, struct context *context, struct function *function, int64_t own, int64_t wait,
                    int64_t blocked);

/* A call begins; `caller` ran until now. */
static inline void ranges_call(struct table *table, struct function *caller, struct function *callee, int64_t now) {
    ranges_charge(table, caller, now);
    struct edge *row = ranges_row_of(table, callee);
    if (LIKELY(row != NULL))
        row->calls++;
}

static inline void ranges_wait(struct table *table, struct function *function, int64_t wait, int64_t blocked) {
    struct edge *row = ranges_row_of(table, function);
    if (LIKELY(row != NULL)) {
        row->wait += wait;
        row->blocked += blocked;
    }
}
