/* Calling contexts of a thread: a tree of functions by their chain of callers, with self values.
 *
 * A call of an open function is booked at its outermost call, so recursion and nested imports neither deepen nor
 * multiply the tree (G. Ammons, T. Ball, J. R. Larus, "Exploiting Hardware Performance Counters with Flow and
 * Context Sensitive Profiling", 1997). Sums per function and edge do not depend on it. */
#pragma once

#include "table.h"

/* Paths per thread; calls beyond are booked under a path that stands for all callees of the path around them. */
enum { MOST_PATHS = 150000 };

struct path {
    _Atomic uint32_t kind;
    uint32_t number;        /* its place in the table's order, from 1; none for the base */
    uint32_t parent_number; /* 0 for the base */
    uint32_t called;        /* number of the function, 0 for all that had no room */
    int64_t calls, own;
    int64_t wait, blocked;
    struct path *next;      /* of the table, in order of creation */
    bool takes_all;         /* stands for all callees */
};

bool paths_start(struct table *table);

struct path *paths_find(struct table *table, struct path *around, struct function *function);

/* Add another table's paths; `places` maps its function numbers to this table's functions. False without memory. */
bool paths_add(struct table *table, const struct table *from, struct function *const *places);

void paths_free(struct table *table);

/* Return the path of a beginning call; call this before the function counts as open. */
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
