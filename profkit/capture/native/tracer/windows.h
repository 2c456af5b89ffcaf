/* Which part of a run is captured: a page of the spool shared by all processes on a machine. One process opens and
 * closes a window and wakes the others; the agent decides when. Each window, and each named part of the program, is
 * an entry, whose begin time is stored last. `profkit/capture/captured_windows.py` reads the file. */
#pragma once

#include "python_api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Add this file's functions to the module; -1 with an exception on failure. */
int windows_add_to(PyObject *module);

/* Wake the agents of all processes, from any thread. */
void windows_ring(void);

/* Wait until the phase changes, until a time, ns, or until `stopped` is set, of which windows_end_wait() tells. Return
 * whether to go on. Without the GIL. */
bool windows_wait(const atomic_bool *stopped, int64_t until);
void windows_end_wait(void);
