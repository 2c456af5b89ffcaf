#include "table.h" /* first: it configures the system headers */

#include "arena.h"

#include <stdlib.h>

#include "store.h"

/* The size for a thread of few functions, and the largest to which it doubles. */
#define FIRST_CHUNK 2000
#define LARGEST_CHUNK 64000

struct chunk {
    struct chunk *next;
    void *entries;
    size_t used, size;
};

static size_t next_chunk_size(const struct chunk *last) {
    size_t size = last ? 2 * last->size : FIRST_CHUNK;
    return size > LARGEST_CHUNK ? LARGEST_CHUNK : size;
}

void *arena_take(struct table *table, size_t size) {
    struct chunk *chunk = table->arena;
    size = (size + 15) & ~(size_t)15;
    if (!chunk || chunk->size - chunk->used < size) {
        struct chunk *new = malloc(sizeof *new);
        void *entries = new ? store_content(next_chunk_size(chunk), BLOCK_ENTRIES, table->number) : NULL;
        if (!entries) {
            free(new);
            return NULL;
        }
        *new = (struct chunk){.next = chunk, .entries = entries, .used = 0, .size = store_room(entries)};
        table->arena = chunk = new;
    }
    void *place = (char *)chunk->entries + chunk->used;
    chunk->used += size;
    return place;
}

void arena_free(struct table *table, bool stay) {
    for (struct chunk *chunk = table->arena, *next; chunk; chunk = next) {
        next = chunk->next;
        if (!stay)
            store_give(chunk->entries);
        free(chunk);
    }
    table->arena = NULL;
}
