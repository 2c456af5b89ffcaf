/* Which part of a run is captured: a page of the spool shared by all processes on a machine. One process opens and
 * closes a window and wakes the others; the agent decides when. Each window, and each named part of the program, is
 * an entry, whose begin time is stored last. `profkit/capture/captured_windows.py` reads the file. */
#ifndef PROFKIT_WINDOWS_H
#define PROFKIT_WINDOWS_H

#include "python_api.h"

/* Add this file's functions and type to the module; -1 with an exception on failure. */
int windows_add_to(PyObject *module);

/* Wake the agents of all processes, from any thread. */
void windows_ring(void);

#endif
