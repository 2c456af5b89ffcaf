/* Tables as they were at some moment, to which they can be put back: what a warm-up adds is thrown away. */
#ifndef PROFKIT_WARMUP_H
#define PROFKIT_WARMUP_H

#include <stdbool.h>
#include <stddef.h>

struct memory;
struct table;

/* Remember what some tables hold; NULL when memory is exhausted. No call is open in them. */
struct memory *memory_of(struct table *const *tables, size_t n);

/* Put a table back, or make it empty if it is not remembered. No call is open in it. */
void memory_restore(const struct memory *memory, struct table *table);

void memory_free(struct memory *memory);

#endif
