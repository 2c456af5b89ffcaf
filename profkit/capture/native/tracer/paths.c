#include "paths.h"

#include <stdlib.h>

#include "arena.h"
#include "entries.h"

bool paths_start(struct table *table) {
    struct path *base = arena_take(table, sizeof *base);
    if (!base)
        return false;
    /* An entry that readers skip, which keeps the block of entries contiguous. */
    atomic_store_explicit(&base->kind, ENTRY_PATH, memory_order_release);
    table->top->path = base;
    return true;
}

static struct path *add_path(struct table *table, struct path *around, uint32_t called, uint64_t key) {
    struct paths *paths = &table->paths;
    struct path *path = slots_reserve(&paths->known) ? arena_take(table, sizeof *path) : NULL;
    if (!path)
        return NULL;
    path->number = (uint32_t)paths->known.used + 1;
    path->parent_number = around->number;
    path->called = called;
    path->takes_all = called == 0;
    if (paths->last)
        paths->last->next = path;
    else
        paths->first = path;
    paths->last = path;
    slots_put(&paths->known, key, path);
    atomic_store_explicit(&path->kind, ENTRY_PATH, memory_order_release);
    return path;
}

/* Return the path for all calls below `around` without their own; `around` itself without memory. */
static struct path *others_of(struct table *table, struct path *around) {
    if (around->takes_all)
        return around;
    uint64_t key = (uint64_t)around->number << 32 | UINT32_MAX; /* the number of no function */
    struct path *path = slots_find(&table->paths.known, key);
    if (!path)
        path = add_path(table, around, 0, key);
    return path ? path : around;
}

struct path *paths_find(struct table *table, struct path *around, struct function *function) {
    if (around->takes_all)
        return around;
    uint64_t key = (uint64_t)around->number << 32 | function->number;
    struct path *path = slots_find(&table->paths.known, key);
    if (!path && table->paths.known.used < MOST_PATHS)
        path = add_path(table, around, function->number, key);
    if (!path)
        path = others_of(table, around);
    return path;
}

bool paths_add(struct table *table, const struct table *from, struct function *const *places) {
    size_t n = from->paths.known.used;
    struct path **here = n ? calloc(n + 1, sizeof *here) : NULL;
    if (!here)
        return n == 0;
    here[0] = table->stack->path;
    for (const struct path *path = from->paths.first; path; path = path->next) {
        struct path *around = here[path->parent_number];
        struct path *to = path->called ? paths_find(table, around, places[path->called]) : others_of(table, around);
        here[path->number] = to;
        to->calls += path->calls;
        to->own += path->own;
        to->wait += path->wait;
        to->blocked += path->blocked;
    }
    free(here);
    return true;
}

void paths_free(struct table *table) {
    free(table->paths.known.slots);
    table->paths = (struct paths){0};
}
