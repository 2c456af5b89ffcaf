/* What is known of one thread: functions, who called them, and the calls that are open.
 *
 * The hot path is in calls.h. Functions and edges live in an arena: they never move and never go before the
 * table does, so that a pointer to one is good for as long as the table is. Times are in ticks of clock.h,
 * waiting in nanoseconds. Everything but `ended` and `references` is read and written with the GIL held.
 */
#ifndef PROFKIT_TABLES_H
#define PROFKIT_TABLES_H

#include "python_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"

struct chunk;
struct context;
struct function;
struct ranges;

/* Calls of one function by one other. A function's own numbers are the sums over these, but for `total` and
 * `recursive`, which count recursion by whatever way. */
struct edge {
    const void *key; /* the callee's, here so that finding it takes one look */
    struct function *callee;
    struct edge *next; /* of the same caller, in order of first call */
    int64_t calls, recursive;
    int64_t open; /* calls by this way that have not returned */
    int64_t total, own;
    int64_t wait, cumulative_wait;
    int64_t blocked, cumulative_blocked;
};

/* Open addressing with the pointers' own values; `mask` is one less than the size, a power of two. */
struct edges {
    struct edge **slots;
    size_t mask, used;
};

struct function {
    const void *key;  /* a code object, or the PyMethodDef of a C function */
    PyObject *label;  /* the code object, or cProfile's name of a C function; owned */
    struct edge *last; /* the last callee looked up: most calls repeat it; never NULL */
    struct edges callees;
    struct edge *first_callee, *last_callee;
    struct function *next; /* of the table, in order of first call */
    size_t number;         /* its place in that order, the table's base being 0 */
    bool passes_on;        /* opens ranges for its caller: a C function, or part of a library for ranges */
    struct context *context; /* where its row was looked up last, */
    struct edge *row;        /* and that row */
    int64_t recursive, open;
    int64_t total;
    int64_t cumulative_wait, cumulative_blocked;
};

/* A call that has not returned. */
struct call {
    struct function *function;
    struct edge *edge;
    int64_t start;    /* ticks */
    int64_t children; /* ticks spent in calls made by it that have returned */
    int64_t wait_at_start, blocked_at_start;
};

struct table {
    struct call *top; /* the innermost open call; the base where there is none */
    struct call *limit;
    int64_t last; /* ticks at the thread's last event */
    int64_t long_gap; /* ticks after which the kernel is asked */
    int64_t due; /* ticks when it is asked in any case */
    int64_t wait, blocked; /* all that was charged so far */
    unsigned long long owner; /* serial number of the collector */

    struct call *stack; /* its first is the base: what runs outside every traced call */
    struct function *base, *last_function;
    struct edges functions; /* by key; each slot is some edge to the function */
    size_t n_functions, n_edges; /* the base and its edges not counted in n_functions, counted in n_edges */
    struct chunk *arena;
    int64_t lost; /* events that memory did not suffice for */

    struct reading read; /* the last, where read_before */
    bool read_before, unmeasured;
    int64_t uncharged_wait, uncharged_blocked;
    int64_t fine_until; /* ticks */

    struct context *context; /* the ranges that are open, NULL where there are none; see ranges.h */
    int64_t charged_until;   /* ticks up to which their functions have been charged */
    struct ranges *ranges;   /* NULL until the first */
    pthread_mutex_t lock;    /* of the ranges: they are reported without the GIL */

    pid_t native;
    unsigned long ident;
    unsigned generation;
    atomic_bool ended;
    atomic_int references;
    struct table *next_of_thread;
};

/* A new table for the calling thread, with one reference; NULL when memory is exhausted. */
struct table *table_new(unsigned long long owner);
void table_retain(struct table *table);

/* Needs no GIL; the last reference frees what is left after table_clear(). */
void table_release(struct table *table);

/* Forget everything and let go of the labels; the GIL is held. */
void table_clear(struct table *table);

/* Find or make the edge from a function to one that the caller has not been seen to call; NULL when memory is
 * exhausted. `object` and `self` say what is called, as labels.h explains. Leaves a pending exception alone. */
struct edge *table_add_edge(struct table *table, struct function *caller, const void *key, PyObject *object,
                            PyObject *self);

/* Add a row for a function to a set of rows by function; NULL when memory is exhausted. */
struct edge *table_add_row(struct table *table, struct edges *rows, struct function *function);

/* Zeroed memory that lives as long as the table's functions; NULL when memory is exhausted. */
void *table_take(struct table *table, size_t size);

/* Make room for one more open call. */
bool table_grow_stack(struct table *table);

/* The open function with this key, or NULL. */
struct function *table_open_function(struct table *table, const void *key);

static inline size_t edges_slot(const void *key, size_t mask) {
    /* Addresses differ least in the low four bits; Fibonacci's multiplier spreads the rest. */
    return (size_t)((((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
}

static inline struct edge *edges_find(const struct edges *edges, const void *key) {
    if (!edges->slots)
        return NULL;
    for (size_t i = edges_slot(key, edges->mask);; i = (i + 1) & edges->mask) {
        struct edge *edge = edges->slots[i];
        if (!edge || edge->key == key)
            return edge;
    }
}

#endif
