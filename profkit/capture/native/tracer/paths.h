/* Calling contexts of a thread: by what chain of callers a function was called, as a tree.
 *
 * A call of a function that is open already is booked where the outermost one is, so that recursion and the nesting of imports
 * neither deepen the tree nor multiply it (as in G. Ammons, T. Ball, J. R. Larus, "Exploiting Hardware Performance
 * Counters with Flow and Context Sensitive Profiling", 1997). What a path holds is of itself alone; what is called from it has
 * paths of its own. Sums by function and by edge do not depend on this tree.
 */
#ifndef PROFKIT_PATHS_H
#define PROFKIT_PATHS_H

#include "tables.h"

/* Paths of a thread. Where there are more, calls are booked with the path around them, under one that stands for all. */
enum { MOST_PATHS = 150000 };

struct path {
    _Atomic uint32_t kind;  /* an entry_kind, stored last */
    uint32_t number;        /* its place in the table's order, from 1 on; the base has none */
    uint32_t parent_number; /* 0 for the base */
    uint32_t called;        /* number of the function, 0 for whatever found no room */
    int64_t calls, own;
    int64_t wait, blocked;
    struct path *next;      /* of the table, in the order in which they were made */
    bool takes_all;         /* stands for all that is called from it */
};

struct path_slot {
    uint64_t key; /* parent and function, 0 where it is empty */
    struct path *path;
};

/* Make the base of a table's paths; false when memory is exhausted. */
bool paths_start(struct table *table);

/* Find or make the path of a function that is called from another path. */
struct path *paths_find(struct table *table, struct path *around, struct function *function);

/* Add the paths of another table, of whose functions `places` has the counterparts by number; false where memory is
 * exhausted. */
bool paths_add(struct table *table, const struct table *from, struct function *const *places);

/* Free what the arena does not hold. */
void paths_free(struct table *table);

/* The path of a call that begins; to be called before the function is counted as open. */
static inline struct path *path_of(struct table *table, struct path *around, struct edge *edge) {
    struct function *function = edge->callee;
    if (UNLIKELY(function->open > 0))
        return function->path;
    if (UNLIKELY(edge->around != around)) {
        edge->path = paths_find(table, around, function);
        edge->around = around;
    }
    return function->path = edge->path;
}

#endif
