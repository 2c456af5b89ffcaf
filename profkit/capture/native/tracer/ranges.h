/* Which functions run inside which NVTX ranges: exact sums by the ranges that are open in a thread.
 *
 * While ranges are open, the time between two events of the thread (a call's begin or end, a range's) is charged to
 * the function that was running and to the ranges around it at once. So what all functions have inside a range adds up to the
 * range's own time. Where no range is open this costs one comparison an event.
 *
 * A context is a stack of open ranges, by their names and by the function that opened each; contexts form a tree. Ranges
 * are reported by the collector in ../nvtx, in the thread itself but perhaps without the GIL: the lock is for another
 * thread that reads contexts meanwhile.
 */
#ifndef PROFKIT_RANGES_H
#define PROFKIT_RANGES_H

#include "tables.h"

/* Open ranges of a thread that are kept apart; those further inside are charged to the last of them. */
#define MOST_OPEN_RANGES 64

/* Contexts of a thread, for programs whose names of ranges never repeat; what is opened later is charged to the
 * ranges around it. */
#define MOST_CONTEXTS 2000

struct context {
    _Atomic uint32_t kind;          /* an entry_kind, stored last */
    uint32_t number;                /* its place in the table's order, from 1 on */
    uint32_t parent_number;         /* 0 where it has none */
    uint32_t opener_number;         /* of the function */
    uint32_t domain, name;          /* numbers of the collector */
    int64_t count;                  /* ranges that began */
    struct context *parent;
    struct context *next;           /* of the table, in order of first use */
    struct context *first_child, *sibling; /* most recently made first */
    struct function *opener;        /* the base of the table if no function did */
    struct edges rows;              /* by function: `calls`, `own`, `wait`, `blocked` in this context */
    struct edge *first_row, *last_row;
    size_t n_rows;
};

struct open_range {
    struct context *context; /* NULL where there was no room for one */
    uint32_t domain;
};

struct ranges {
    struct context *first, *last, *first_root;
    size_t n_contexts, n_rows;
    size_t n_open;
    size_t deeper; /* open ones beyond the last */
    struct open_range open[MOST_OPEN_RANGES];
};

/* Load the collector at this path and have it report ranges to the tracer; false if that is impossible. */
bool ranges_follow(const char *path);

/* The row of a function in the innermost context of its table; NULL when memory is exhausted. */
struct edge *ranges_row(struct table *table, struct function *function);

/* Tracing ends: close all ranges, after charging what ran until `now`. */
void ranges_close_all(struct table *table, int64_t now);

/* Whether ranges that begin now belong to no table: nothing is traced. */
void ranges_pause(bool paused);

/* Have the range of this name, of any domain for NULL, reported by agent_range(); false where the collector cannot. */
bool ranges_watch(const char *name, const char *domain);

/* Whether the last of those reports came without the GIL: what it reported, and no more until the next. */
bool ranges_reported(bool *begins);

/* Add the contexts of another table, of whose functions `places` has the counterparts by number; false where memory is
 * exhausted. */
bool ranges_add(struct table *table, const struct table *from, struct function *const *places);

/* Free what the arena does not hold. */
void ranges_free(struct table *table);

static inline struct edge *ranges_row_of(struct table *table, struct function *function) {
    return LIKELY(function->context == table->context) ? function->row : ranges_row(table, function);
}

/* `function` ran until now, by the time of the table (table_time()), as it is meant below. */
static inline void ranges_charge(struct table *table, struct function *function, int64_t now) {
    struct edge *row = ranges_row_of(table, function);
    if (LIKELY(row != NULL))
        row->own += now - table->charged_until;
    table->charged_until = now;
}

/* A sample was in a function while these ranges were open: ticks of its time, and ns of it that were waited. */
void ranges_sampled(struct table *table, struct context *context, struct function *function, int64_t own, int64_t wait,
                    int64_t blocked);

/* A call begins, with `caller` having run until now. */
static inline void ranges_call(struct table *table, struct function *caller, struct function *callee, int64_t now) {
    ranges_charge(table, caller, now);
    struct edge *row = ranges_row_of(table, callee);
    if (LIKELY(row != NULL))
        row->calls++;
}

/* Waiting is charged to a function. */
static inline void ranges_wait(struct table *table, struct function *function, int64_t wait, int64_t blocked) {
    struct edge *row = ranges_row_of(table, function);
    if (LIKELY(row != NULL)) {
        row->wait += wait;
        row->blocked += blocked;
    }
}

#endif
