/* Forks, and a process that goes on without the tracer: all that is the parent's, or is not to be touched again, is
 * forgotten. */
#pragma once

#include "python_api.h"

#include <stdbool.h>

/* Register for the end of threads and for forks, once per process; false if the system refuses. */
bool forks_start(void);

/* Let go of the tables' file and all descriptors, with the GIL. If no thread is in an event (`idle`), memory is freed
 * too; else it stays, since they refer to it. */
void forks_let_go(bool idle);
