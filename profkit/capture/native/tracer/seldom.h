/* Exact call counts of functions in Python that are called seldom, while the process is sampled. From Python 3.12 on.
 *
 * Each function is counted from its first call. Once it has been called more often than its allowance, its events are switched off for
 * good, which makes it free, and its calls are estimated from bursts (tiers.h). The allowance grows with the CPU time of the program and
 * depends on the cost of a call, so that two repeats of a program count the same functions. Calls are counted where they begin; their
 * time comes from samples. The GIL is held in all of this.
 */
#ifndef PROFKIT_SELDOM_H
#define PROFKIT_SELDOM_H

#include "python_api.h"

#include <stdbool.h>

/* A process begins, and may spend a share of the time on being captured. */
void seldom_begin(double share);

/* Calls are counted from now on, or no longer; false where they are not to be. */
bool seldom_count(bool on);

/* Whether they are, and none was missed since they were to be. */
bool seldom_counts(void);

/* It was not possible to have all of them: what was counted is a part only. */
void seldom_missed(void);

/* The calling thread begins to run this; false where it is to be counted no longer. */
bool seldom_call(PyObject *code);

/* In the sampled tier, once in a while: see what is allowed by now. */
void seldom_look(void);

#endif
