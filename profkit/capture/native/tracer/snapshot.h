/* A copy of a table at one instant, made without running Python and later turned into Python objects. */
#ifndef PROFKIT_SNAPSHOT_H
#define PROFKIT_SNAPSHOT_H

#include "tables.h"

struct snapshot;

/* Copy a table; `own_thread` says whether it is the caller's. NULL without memory. */
struct snapshot *snapshot_take(struct table *table, bool own_thread, bool ended);

/* `(native id, ident, ended, measured, lost, entries, open calls)`: a new reference, or NULL with an exception. */
PyObject *snapshot_as_tuple(const struct snapshot *snapshot, double seconds_per_tick);

void snapshot_free(struct snapshot *snapshot);

#endif
