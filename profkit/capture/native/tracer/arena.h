/* Memory for the entries of a table: chunks of the store, in which they stay where they are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct table;

/* Take zeroed memory that lives as long as the functions; NULL without memory. Needs no GIL: NVTX ranges are reported
 * without, while another thread may book something of this one. */
void *arena_take(struct table *table, size_t size);

/* Forget all entries; in the store they remain if they `stay`. */
void arena_free(struct table *table, bool stay);
