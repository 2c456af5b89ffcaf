/* Which part of a run is captured, as all its processes on one machine see it: a page of the spool that they share.
 *
 * One process opens and closes a window, and the others are woken; what asks for that is the agent's business. Each window that
 * was opened is an entry, as is each name that the program gave to a part of itself. An entry's time of beginning is stored
 * last. `profkit/capture/captured_windows.py` reads the file.
 */
#ifndef PROFKIT_WINDOWS_H
#define PROFKIT_WINDOWS_H

#include "python_api.h"

/* Add the functions and the type of this file to the module; -1 with an exception on failure. */
int windows_add_to(PyObject *module);

/* Wake the agents of all processes. From any thread. */
void windows_ring(void);

#endif
