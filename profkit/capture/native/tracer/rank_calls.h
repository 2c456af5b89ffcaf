/* Calls that wait for other ranks and that no tracer sees: methods of mpi4py, which are Cython's functions.
 *
 * A look finds the thread in the line of a Python function that loads such a method, and not in a function that is called there:
 * then it is in the method. What a name means is only asked where mpi4py is there.
 */
#ifndef PROFKIT_RANK_CALLS_H
#define PROFKIT_RANK_CALLS_H

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

/* A code object is seen for the first time. */
void rank_calls_meet(PyObject *code);

/* Look whether mpi4py is there, which a sampled process may import unseen. */
void rank_calls_look(void);

/* Whether any that was seen has the name of such a method. Needs no GIL. */
bool rank_calls_possible(void);

/* The kind of pause (waits.h) of the method whose line a place in a code is in, else PAUSE_NONE; leaves no exception. */
int rank_calls_at(PyObject *code, int64_t instruction);

#endif
