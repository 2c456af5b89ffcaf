#include "paths.h"

#include <stdlib.h>

#include "layout.h"

#define FIRST_PATH_SLOTS 64

static size_t slot_of(uint64_t key, size_t mask) { return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask; }

static struct path_slot *slot_for(const struct paths *paths, uint64_t key) {
    size_t i = slot_of(key, paths->mask);
    while (paths->slots[i].key && paths->slots[i].key != key)
        i = (i + 1) & paths->mask;
    return &paths->slots[i];
}

static bool more_slots(struct paths *paths) {
    if (paths->slots && 2 * ((size_t)paths->n + 1) <= paths->mask + 1)
        return true;
    struct paths grown = *paths;
    grown.mask = paths->slots ? 2 * (paths->mask + 1) - 1 : FIRST_PATH_SLOTS - 1;
    grown.slots = calloc(grown.mask + 1, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; paths->slots && i <= paths->mask; i++)
        if (paths->slots[i].key)
            *slot_for(&grown, paths->slots[i].key) = paths->slots[i];
    free(paths->slots);
    *paths = grown;
    return true;
}

bool paths_start(struct table *table) {
    struct path *base = table_take(table, sizeof *base);
    if (!base)
        return false;
    /* Tables in ordinary memory are read by a snapshot, which has no paths. */
    base->takes_all = !table->mapped;
    /* An entry that readers skip, which keeps the block of entries contiguous. */
    atomic_store_explicit(&base->kind, ENTRY_PATH, memory_order_release);
    table->top->path = base;
    return true;
}

static struct path *add(struct table *table, struct path *around, uint32_t called, uint64_t key) {
    struct paths *paths = &table->paths;
    struct path *path = more_slots(paths) ? table_take(table, sizeof *path) : NULL;
    if (!path)
        return NULL;
    path->number = ++paths->n;
    path->parent_number = around->number;
    path->called = called;
    path->takes_all = called == 0;
    if (paths->last)
        paths->last->next = path;
    else
        paths->first = path;
    paths->last = path;
    *slot_for(paths, key) = (struct path_slot){key, path};
    atomic_store_explicit(&path->kind, ENTRY_PATH, memory_order_release);
    return path;
}

static struct path *find_path(const struct paths *paths, uint64_t key) {
    return paths->slots ? slot_for(paths, key)->path : NULL;
}

/* Return the path for all calls below `around` without their own; `around` itself without memory. */
static struct path *others_of(struct table *table, struct path *around) {
    if (around->takes_all)
        return around;
    uint64_t key = (uint64_t)around->number << 32 | UINT32_MAX; /* the number of no function */
    struct path *path = find_path(&table->paths, key);
    if (!path)
        path = add(table, around, 0, key);
    return path ? path : around;
}

struct path *paths_find(struct table *table, struct path *around, struct function *function) {
    if (around->takes_all)
        return around;
    uint64_t key = (uint64_t)around->number << 32 | function->number;
    struct path *path = find_path(&table->paths, key);
    if (!path && table->paths.n < MOST_PATHS)
        path = add(table, around, function->number, key);
    if (!path)
        path = others_of(table, around);
    return path;
}

bool paths_add(struct table *table, const struct table *from, struct function *const *places) {
    size_t n = from->paths.n;
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
    free(table->paths.slots);
    table->paths = (struct paths){0};
}
