/* What the tracer has of one thread: functions, callers and open calls. tables.h declares what is done with it, the
 * hot path is in calls.h.
 *
 * Functions and edges are in blocks of the store: they do not move, live as long as the table, and, if the store is
 * a file, survive a kill (layout.c). Times are in ticks of clock.h, those of calls and ranges without the tracer's
 * own (table_time()); waiting is in ns. Everything but `ended` and `references` needs the GIL. */
#pragma once

#include "python_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"
#include "slots.h"

struct chunk;
struct context;
struct function;
struct line;
struct slice;
struct name;
struct path;
struct pause;
struct ranges;

/* Calls of one function by another. A function's values are sums over its edges, except `total` and `recursive`.
 * Also a row of a context (ranges.h). */
struct edge {
    _Atomic uint32_t kind; /* an entry_kind, stored last */
    uint32_t caller;       /* number of the function or context */
    uint32_t called;
    struct function *callee;
    int64_t calls, own;
    int64_t open; /* calls that have not returned */
    int64_t total, recursive;
    int64_t wait, cumulative_wait;
    int64_t blocked, cumulative_blocked;
    int64_t seen;          /* calls in bursts, see tiers.h */
    double seen_squares;   /* sum of the squares of each burst's count */
    int64_t samples;       /* samples in the function itself */
    double squares;        /* sum of the squares of their weights, ns */
    int64_t sampled;       /* their part of `own` */
    int64_t counted;       /* calls counted while sampled, see seldom.h */
    int64_t seen_before;   /* `seen` at the end of the last burst */
    struct edge *next_seen; /* next edge seen in this burst */
    struct edge *next;    /* of the same caller, by first call */
    const struct path *around; /* from which the last call was made */
    struct path *path;         /* of that call */
};

struct function {
    _Atomic uint32_t kind;
    uint32_t number;  /* its place in the table's order; the base has 0 */
    uint32_t name_id; /* 0 for the base */
    bool passes_on;   /* opens ranges for its caller: a C function, or part of a range library */
    const void *last_key; /* of the last callee found, as most calls repeat it; NULL if none */
    struct edge *last;
    int64_t open, recursive, total;
    int64_t cumulative_wait, cumulative_blocked;
    int64_t sampled; /* the part of `total` from samples */
    int64_t cut;     /* calls counted because they were open at a change of tier */
    int64_t counted_recursive; /* recursive part of `counted` of all its edges */
    int64_t again;   /* cut calls not seen open since */
    struct slots callees; /* edges by code object, or PyMethodDef of a C function */
    struct name *name;
    struct edge *first_callee, *last_callee;
    struct function *next;   /* of the table, by first call */
    struct context *context; /* of the last row found */
    struct edge *row;
    struct path *path;       /* of the outermost open call, if any */
    struct pause *pauses;
    struct line *lines;
};

struct call {
    struct edge *edge;
    int64_t start;    /* ticks */
    int64_t children; /* ticks in its callees that have returned */
    int64_t wait_at_start, blocked_at_start;
    struct path *path; /* its own */
    const void *key;   /* what is called; the frame keeps it alive */
    struct function *function;
};

/* See paths.h. */
struct paths {
    struct slots known; /* by parent and function */
    struct path *first, *last;
};

enum { THREAD_NAME_ROOM = 60 };

struct table {
    uint32_t number;   /* in the process, from 1 */
    unsigned generation;
    struct call *top;  /* the innermost open call, or the base */
    struct call *stack; /* first the base: what runs outside all traced calls */
    int64_t last;      /* ticks at the last event */
    int64_t wait, blocked; /* all that was charged so far */
    struct context *context; /* the open ranges, or NULL; see ranges.h */
    int64_t charged_until;   /* ticks up to which they are charged */
    struct reading read; /* the last reading, if read_before */
    int64_t uncharged_wait, uncharged_blocked;
    int64_t long_gap; /* ticks after which the kernel is asked */
    int64_t taken; /* ticks of the tracer itself, excluded from call times */
    int64_t lost; /* events lost without memory */
    uint64_t born, folded; /* first epoch that counts it, and first that does not; 0 for none */
    pid_t native;
    uint32_t n_folded; /* threads in this sum, 0 for a thread's own table */
    bool read_before, unmeasured;
    atomic_bool ended;
    char name[THREAD_NAME_ROOM]; /* empty if unknown */

    unsigned name_tries;
    bool followed; /* its end will be noticed */
    bool mapped;
    struct call *limit;
    int64_t due; /* ticks at which the kernel is asked anyway */
    int64_t fine_until; /* ticks */
    int64_t taken_before, wait_before; /* at the last tiers_look() */
    unsigned long long owner; /* serial number of the collector */
    int64_t stays_open; /* start of the calls that are left open when tracing ends; 0 for none */
    struct function *base, *last_function;
    struct edge *first_seen; /* in this burst */
    struct slice *slices; /* the newest; see slices.h */
    struct slots functions; /* by name: some edge to the function */
    uint32_t n_functions; /* without the base */
    struct chunk *_Atomic arena;
    struct paths paths;
    struct ranges *ranges;   /* NULL before the first */
    pthread_mutex_t lock;    /* of the ranges, which are reported without the GIL */
    unsigned long ident;
    atomic_int references;
    struct table *next_of_thread;
};

/* The owner of tables that no collector made. */
#define TABLE_OF_SAMPLES UINT64_MAX

/* Convert a clock time to the time of the thread's calls, which stands still while the tracer works. */
static inline int64_t table_time(const struct table *table, int64_t now) { return now - table->taken; }

/* Whether the table's thread has ended, or was left behind by a fork. */
static inline bool table_ended(const struct table *table) {
    return table->generation != kernel_generation || atomic_load(&table->ended);
}

static inline struct edge *edges_find(const struct slots *edges, const void *key) {
    return slots_find(edges, (uintptr_t)key);
}

static inline void edges_put(struct slots *edges, const void *key, struct edge *edge) {
    slots_put(edges, (uintptr_t)key, edge);
}
