#include "table.h" /* first: it configures the system headers */

#include "arena.h"

#include <stdlib.h>

#include "store.h"

/* The size for a thread of few functions, and the largest to which it doubles. */
#define FIRST_CHUNK 2000
#define LARGEST_CHUNK 64000

/* `used` exceeds `size` once a request did not fit. */
struct chunk {
    struct chunk *next;
    void *entries;
    atomic_size_t used;
    size_t size;
};

static size_t next_chunk_size(const struct chunk *last) {
    size_t size = last ? 2 * last->size : FIRST_CHUNK;
    return size > LARGEST_CHUNK ? LARGEST_CHUNK : size;
}

void *arena_take(struct table *table, size_t size) {
    struct chunk *chunk = atomic_load(&table->arena);
    size = (size + 15) & ~(size_t)15;
    for (;;) {
        size_t used = chunk ? atomic_fetch_add(&chunk->used, size) : 0;
        if (chunk && used <= chunk->size && chunk->size - used >= size)
            return (char *)chunk->entries + used;
        struct chunk *new = malloc(sizeof *new);
        void *entries = new ? store_content(next_chunk_size(chunk), BLOCK_ENTRIES, table->number) : NULL;
        if (!entries) {
            free(new);
            return NULL;
        }
        new->next = chunk;
        new->entries = entries;
        new->size = store_room(entries);
        atomic_init(&new->used, size);
        if (atomic_compare_exchange_strong(&table->arena, &chunk, new))
            return entries;
        /* Another thread has added one, and `chunk` is that now. */
        store_give(entries);
        free(new);
    }
}

void arena_free(struct table *table, bool stay) {
    for (struct chunk *chunk = atomic_load(&table->arena), *next; chunk; chunk = next) {
        next = chunk->next;
        if (!stay)
            store_give(chunk->entries);
        free(chunk);
    }
    atomic_store(&table->arena, NULL);
}
