/* Calls in progress when tracing begins are recorded as if they began then. */
#ifndef PROFKIT_FRAMES_H
#define PROFKIT_FRAMES_H

#include "python_api.h"

struct table;

/* Begin the calls of a frame (or NULL) and its callers, outermost first, except the `skip` innermost, in a table
 * without open calls. Runs no Python code, so the thread stays where it is. */
void frames_begin(struct table *table, PyObject *frame, size_t skip);

#endif
