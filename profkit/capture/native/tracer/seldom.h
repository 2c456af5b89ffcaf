/* Calls that are counted one by one while a process is sampled: of functions in Python that are called seldom.
 *
 * From Python 3.12 on an event can be had for single functions, and one that is had for no other costs them nothing. So each
 * function is counted from its first call on, until it has been called more often than what follows allows; from then on its calls are those of
 * bursts (tiers.h), as if none had been counted, and it stays so for the life of the process. What is allowed goes by the CPU
 * time of the process and by what a call costs, so that two repeats of a program count the same functions: for one function,
 * and for all that are counted together. Calls are counted where they begin, and their time is that of samples. The GIL is
 * held in all of this.
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
