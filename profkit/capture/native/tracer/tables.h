/* What is known of one thread: functions, who called them, and the calls that are open.
 *
 * The hot path is in calls.h. Functions and edges live in blocks of the store: they never move and never go before the
 * table does, so that a pointer to one is good for as long as the table is. Where the store is a file, it is what a reader
 * has of a process that was killed: whatever is needed for that has its place in layout.c. Times are in ticks of
 * clock.h, those of calls and ranges without what the tracer took (table_time()), waiting in nanoseconds. Everything but `ended` and `references` is read and written with the GIL held.
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
struct line;
struct slice;
struct name;
struct path;
struct path_slot;
struct pause;
struct ranges;

/* Calls of one function by one other. A function's own numbers are the sums over these, but for `total` and
 * `recursive`, which count recursion by whatever way. As a row of a context (ranges.h): what ran in it. */
struct edge {
    _Atomic uint32_t kind; /* an entry_kind, stored last */
    uint32_t caller;       /* number of the function, or of the context */
    uint32_t called;
    struct function *callee;
    int64_t calls, own;
    int64_t open; /* calls by this way that have not returned */
    int64_t total, recursive;
    int64_t wait, cumulative_wait;
    int64_t blocked, cumulative_blocked;
    int64_t seen;          /* calls in bursts, see tiers.h, */
    double seen_squares;   /* and the sum of the squares of what each burst saw */
    int64_t samples;       /* of the sampler in the function itself, */
    double squares;        /* the sum of the squares of what each stands for, ns, */
    int64_t sampled;       /* and their part of `own` */
    int64_t counted;       /* calls while the process was sampled, see seldom.h */
    int64_t seen_before;   /* at the end of the last burst, */
    struct edge *next_seen; /* and the next that this burst has seen */
    struct edge *next;    /* of the same caller, in order of first call */
    const struct path *around; /* by which the last call of this way was made, */
    struct path *path;         /* and its path */
};

struct slot {
    const void *key; /* NULL where it is empty */
    struct edge *edge;
};

/* Open addressing with the pointers' own values; `mask` is one less than the size, a power of two. */
struct edges {
    struct slot *slots;
    size_t mask, used;
};

struct function {
    _Atomic uint32_t kind;
    uint32_t number;  /* its place in the table's order, the table's base being 0 */
    uint32_t name_id; /* 0 for the base */
    bool passes_on;   /* opens ranges for its caller: a C function, or part of a library for ranges */
    const void *last_key; /* of the last callee looked up: most calls repeat it; NULL where there is none, */
    struct edge *last;    /* and its edge */
    int64_t open, recursive, total;
    int64_t cumulative_wait, cumulative_blocked;
    int64_t sampled; /* the part of `total` that samples were in */
    int64_t cut;     /* calls that were open when the tier changed, and counted then, */
    int64_t counted_recursive; /* of `counted` of all its edges */
    int64_t again;   /* of those that were cut, so many have not been seen to be open since */
    struct edges callees; /* by what is called: a code object, or the PyMethodDef of a C function */
    struct name *name;
    struct edge *first_callee, *last_callee;
    struct function *next;   /* of the table, in order of first call */
    struct context *context; /* where its row was looked up last, */
    struct edge *row;        /* and that row */
    struct path *path;       /* of the outermost open call, while there is one */
    struct pause *pauses;    /* see waits.h */
    struct line *lines;      /* see lines.h */
};

/* A call that has not returned. */
struct call {
    struct edge *edge;
    int64_t start;    /* ticks */
    int64_t children; /* ticks spent in calls made by it that have returned */
    int64_t wait_at_start, blocked_at_start;
    struct path *path; /* by which it was called */
    const void *key;   /* what is called; the frame keeps it alive */
    struct function *function;
};

/* See paths.h. Open addressing, like edges; `mask` is one less than the size. */
struct paths {
    struct path_slot *slots;
    size_t mask;
    uint32_t n;
    struct path *first, *last;
};

enum { THREAD_NAME_ROOM = 60 };

struct table {
    uint32_t number;   /* of the process's, from 1 on */
    unsigned generation;
    struct call *top;  /* the innermost open call; the base where there is none */
    struct call *stack; /* its first is the base: what runs outside every traced call */
    int64_t last;      /* ticks at the thread's last event */
    int64_t wait, blocked; /* all that was charged so far */
    struct context *context; /* the ranges that are open, NULL where there are none; see ranges.h */
    int64_t charged_until;   /* ticks up to which their functions have been charged */
    struct reading read; /* the last, where read_before */
    int64_t uncharged_wait, uncharged_blocked;
    int64_t long_gap; /* ticks after which the kernel is asked */
    int64_t taken; /* ticks that the tracer took: the times of calls are without them */
    int64_t lost; /* events that memory did not suffice for */
    uint64_t born, folded; /* epochs of the store: from, and before, which it counts; 0 for always */
    pid_t native;
    uint32_t n_folded; /* threads that it is the sum of, 0 for a thread itself */
    bool read_before, unmeasured;
    atomic_bool ended;
    char name[THREAD_NAME_ROOM]; /* NUL where it is not known */

    unsigned name_tries;
    bool followed; /* its end will be noticed, since it was made or first used in its own thread */
    bool mapped;
    struct call *limit;
    int64_t due; /* ticks when the kernel is asked in any case */
    int64_t fine_until; /* ticks */
    int64_t taken_before, wait_before; /* at the last look of tiers_look() */
    unsigned long long owner; /* serial number of the collector */
    struct function *base, *last_function;
    struct edge *first_seen; /* in this burst */
    struct slice *slices; /* the newest; see slices.h */
    struct edges functions; /* by name; each slot is some edge to the function */
    uint32_t n_functions, n_edges; /* the base and its edges not counted in n_functions, counted in n_edges */
    struct chunk *arena;
    struct paths paths;
    struct ranges *ranges;   /* NULL until the first */
    pthread_mutex_t lock;    /* of the ranges: they are reported without the GIL */
    unsigned long ident;
    atomic_int references;
    struct table *next_of_thread;
};

/* A new table for a thread, with one reference; NULL when memory is exhausted. Another thread than the calling one has to be
 * followed when it first uses it. */
struct table *table_new(unsigned long long owner, pid_t native, unsigned long ident);

/* The calling thread uses a table that may have been made for it; false if that was for another thread, which has ended. */
bool table_follow(struct table *table);

/* One that is no thread's; a reader does not see it before table_publish(). */
struct table *table_new_sum(void);
void table_publish(struct table *table);

void table_retain(struct table *table);

/* Needs no GIL; the last reference frees what is left after table_clear(). */
void table_release(struct table *table);

/* Forget everything and let go of the names; the GIL is held. */
void table_clear(struct table *table);

/* The owner of a table that no collector has made. */
#define TABLE_OF_SAMPLES UINT64_MAX

/* Find or make the edge from a function for something that it has not been seen to call; NULL when memory is
 * exhausted. `object` and `self` say what is called, as labels.h explains. Leaves a pending exception alone. */
struct edge *table_add_edge(struct table *table, struct function *caller, const void *key, PyObject *object,
                            PyObject *self);

/* The same for a function's name, where there is no edge to it yet. */
struct edge *table_named_edge(struct table *table, struct function *caller, struct name *name);

/* The same by the key of a name that is known, where no edge has that key; NULL where there is no such name either. */
struct edge *table_known_edge(struct table *table, struct function *caller, const void *key);

/* Add a row for a function to the context of a number; NULL when memory is exhausted. */
struct edge *table_add_row(struct table *table, struct edges *rows, uint32_t context, struct function *function);

/* Zeroed memory that lives as long as the table's functions; NULL when memory is exhausted. */
void *table_take(struct table *table, size_t size);

/* Make room for one more open call. */
bool table_grow_stack(struct table *table);

/* The innermost open call of this, or NULL. */
struct call *table_open_call(struct table *table, const void *key);

/* The time of its thread's calls, which stands still while the tracer works, at a time of the clock. */
static inline int64_t table_time(const struct table *table, int64_t now) { return now - table->taken; }

/* Whether the thread of a table is gone, by its own end or by a fork that left it behind. */
static inline bool table_ended(const struct table *table) {
    return table->generation != kernel_generation || atomic_load(&table->ended);
}

static inline size_t edges_slot(const void *key, size_t mask) {
    /* Addresses differ least in the low four bits; Fibonacci's multiplier spreads the rest. */
    return (size_t)((((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
}

static inline struct edge *edges_find(const struct edges *edges, const void *key) {
    if (!edges->slots)
        return NULL;
    for (size_t i = edges_slot(key, edges->mask);; i = (i + 1) & edges->mask) {
        const struct slot *slot = &edges->slots[i];
        if (slot->key == key || !slot->key)
            return slot->edge;
    }
}

#endif
