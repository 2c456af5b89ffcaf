/* What tables hold at one instant, as Python objects. */
#ifndef PROFKIT_SNAPSHOT_H
#define PROFKIT_SNAPSHOT_H

#include "tables.h"

/* A list of `(native id, ident, ended, measured, lost, entries, open calls, contexts)`, one for each table: a new
 * reference, or NULL with an exception. Collector.getstats() has the details. */
PyObject *snapshot_of(struct table *const *tables, size_t n);

#endif
