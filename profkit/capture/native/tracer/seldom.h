/* Exact call counts of seldom called Python functions in a sampled process, from Python 3.12 on. The GIL is held.
 *
 * When a function exceeds its allowance, its events are switched off for good, which makes it free, and its calls
 * are estimated from bursts (tiers.h). The allowance depends on the program's CPU time and the cost of a call, so
 * repeats count the same functions. */
#pragma once

#include "python_api.h"

#include <stdbool.h>

void seldom_begin(double share);

/* Start or stop counting; false if not to be counted. */
bool seldom_count(bool on);

/* Whether calls are counted, and none was missed. */
bool seldom_counts(void);

/* Count a call of `code` that begins in this thread; false to stop counting it. */
bool seldom_call(PyObject *code);

/* Update the allowances, once in a while in the sampled tier. */
void seldom_look(void);
