/* Tables, and what is in them: functions by name, edges by caller, open calls. Functions that allocate return NULL or
 * false without memory. The GIL is held unless stated otherwise. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "table.h"

/* Make a table with one reference, as yet of no thread (threads.h); readers see it after table_publish(). */
struct table *table_new(void);

/* The same for a sum. */
struct table *table_new_sum(void);
void table_publish(struct table *table);

void table_retain(struct table *table);

/* Needs no GIL; the last reference frees what table_clear() left. */
void table_release(struct table *table);

/* Forget everything and release the names, with the GIL. */
void table_clear(struct table *table);

/* The same before store_close(), which leaves the table as it is in the file. */
void table_leave(struct table *table);

/* Find or make the edge for a callee that is new to the caller; `object` and `self` as in labels.h. Leaves a pending
 * exception alone. */
struct edge *table_add_edge(struct table *table, struct function *caller, const void *key, PyObject *object,
                            PyObject *self);

/* The same by a function's name. */
struct edge *table_named_edge(struct table *table, struct function *caller, struct name *name);

/* The same by the key of a known name, if no edge has the key; NULL also without such a name. */
struct edge *table_known_edge(struct table *table, struct function *caller, const void *key);

bool table_grow_stack(struct table *table);

/* Return the function of a known key that the thread has called, or NULL. */
struct function *table_function(const struct table *table, const void *key);

/* Return the innermost open call with this key, or NULL. */
struct call *table_open_call(struct table *table, const void *key);
