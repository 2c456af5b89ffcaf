/* A table at one instant, copied without running any Python, and turned into Python objects afterwards. */
#ifndef PROFKIT_SNAPSHOT_H
#define PROFKIT_SNAPSHOT_H

#include "tables.h"

struct snapshot;

/* Copy a table; `own_thread` is whether it is the caller's. NULL when memory is exhausted. */
struct snapshot *snapshot_take(struct table *table, bool own_thread, bool ended);

/* `(native id, ident, ended, measured, lost, entries, open calls)`; a new reference, or NULL with an exception. */
PyObject *snapshot_as_tuple(const struct snapshot *snapshot, double seconds_per_tick);

void snapshot_free(struct snapshot *snapshot);

#endif
