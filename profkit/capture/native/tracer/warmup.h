/* Saved states of tables, to which they are restored to discard a warm-up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct memory;
struct table;

/* Save some tables without open calls; NULL without memory. */
struct memory *memory_of(struct table *const *tables, size_t n);

/* Restore a table without open calls, or empty it if it was not saved. */
void memory_restore(const struct memory *memory, struct table *table);

void memory_free(struct memory *memory);
