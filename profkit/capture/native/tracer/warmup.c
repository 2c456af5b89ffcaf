/* Entries stay where they are as long as their table lives, so their sums are put back where they were. */
#include "warmup.h"

#include "table.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "ranges.h"

/* The sums of one table: for each entry a struct saved, and so many bytes. */
struct memory {
    struct memory *next;
    uint32_t table; /* its number, as its memory may be another's by now */
    size_t used, room;
    char *saved;
};

struct saved {
    char *sums;
    size_t bytes;
};

/* Do something with the sums of an entry; false without memory. */
typedef bool (*sums_function)(char *sums, size_t bytes, struct memory *memory);

/* Fields of an entry that follow each other: where they begin, and their bytes. */
#define SUMS(entry, first, last)                                                                                      \
    (char *)&(entry)->first, (size_t)((char *)(&(entry)->last + 1) - (char *)&(entry)->first)

static bool each_edge(struct edge *edge, sums_function function, struct memory *memory) {
    bool done = true;
    for (; edge && done; edge = edge->next)
        done = function(SUMS(edge, calls, cumulative_blocked), memory);
    return done;
}

static bool each_entry(struct table *table, sums_function function, struct memory *memory) {
    bool done = true;
    for (struct function *caller = table->base; caller && done; caller = caller->next)
        done = function(SUMS(caller, recursive, cumulative_blocked), memory) &&
               each_edge(caller->first_callee, function, memory);
    for (struct path *path = table->paths.first; path && done; path = path->next)
        done = function(SUMS(path, calls, blocked), memory);
    struct context *context = table->ranges ? table->ranges->first : NULL;
    for (; context && done; context = context->next)
        done = function(SUMS(context, count, count), memory) && each_edge(context->first_row, function, memory);
    return done;
}

static bool save(char *sums, size_t bytes, struct memory *memory) {
    struct saved saved = {sums, bytes};
    size_t needed = memory->used + sizeof saved + bytes;
    if (needed > memory->room) {
        char *grown = realloc(memory->saved, 2 * needed);
        if (!grown)
            return false;
        memory->saved = grown;
        memory->room = 2 * needed;
    }
    memcpy(memory->saved + memory->used, &saved, sizeof saved);
    memcpy(memory->saved + memory->used + sizeof saved, sums, bytes);
    memory->used = needed;
    return true;
}

static bool empty(char *sums, size_t bytes, struct memory *Py_UNUSED(memory)) {
    memset(sums, 0, bytes);
    return true;
}

struct memory *memory_of(struct table *const *tables, size_t n) {
    struct memory *all = NULL;
    for (size_t i = 0; i < n; i++) {
        struct memory *memory = calloc(1, sizeof *memory);
        if (memory) {
            *memory = (struct memory){.next = all, .table = tables[i]->number};
            all = memory;
        }
        if (!memory || !each_entry(tables[i], save, memory)) {
            memory_free(all);
            return NULL;
        }
    }
    return all;
}

void memory_restore(const struct memory *memory, struct table *table) {
    struct saved saved;
    each_entry(table, empty, NULL);
    while (memory && memory->table != table->number)
        memory = memory->next;
    for (size_t at = 0; memory && at < memory->used; at += sizeof saved + saved.bytes) {
        memcpy(&saved, memory->saved + at, sizeof saved);
        memcpy(saved.sums, memory->saved + at + sizeof saved, saved.bytes);
    }
}

void memory_free(struct memory *memory) {
    for (struct memory *next; memory; memory = next) {
        next = memory->next;
        free(memory->saved);
        free(memory);
    }
}
