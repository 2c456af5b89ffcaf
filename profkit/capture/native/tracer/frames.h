/* Calls that are in progress when tracing begins: as if they had begun at that moment. */
#ifndef PROFKIT_FRAMES_H
#define PROFKIT_FRAMES_H

#include "python_api.h"

struct table;

/* Begin the calls of a frame, which may be NULL, and of those around it, outermost first, in a table without open calls; the
 * `skip` innermost are the agent's. No Python code runs meanwhile, so that the thread stays where it is. */
void frames_begin(struct table *table, PyObject *frame, size_t skip);

#endif
