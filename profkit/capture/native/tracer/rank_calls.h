/* Calls that wait for other ranks and make no events: methods of mpi4py, which are Cython functions. A thread in a
 * line of Python that loads such a method, and in no function called there, is in the method. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

/* Visit all code that was met before: names_each_code(). */
typedef void (*each_code)(void (*visit)(PyObject *code));

/* Code is named for the first time. */
void rank_calls_meet(PyObject *code, const char *file, each_code each);

/* Check whether mpi4py is imported, which a sampled process may do unseen. */
void rank_calls_look(each_code each);

/* Whether any code seen has the name of such a method. Needs no GIL. */
bool rank_calls_possible(void);

/* Return the kind of pause (pauses.h) of the method in the line of a place, or PAUSE_NONE; leaves no exception. */
int rank_calls_at(PyObject *code, int64_t instruction);
