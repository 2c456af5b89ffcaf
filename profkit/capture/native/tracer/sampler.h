/* Two threads of the tracer's: one looks where all others are, one takes the GIL and adds what was seen to the tables.
 *
 * In the exact tier it looks a hundred times a second whether threads run byte code, which is slower where it is traced.
 *
 * In the sampled tier, at each look a thread's CPU time, its time in the run queue and its time off the CPU since the look before are charged to a
 * stack; so all that is charged adds up to what the kernel has counted. Looks come at random times, about a thousand a second
 * or as many as take a hundredth of the process's pace (tiers.h), and need no GIL. About twenty times a second the thread takes the GIL,
 * adds what it has seen to the tables, and may begin a burst. It has the agent change the tier.
 */
#ifndef PROFKIT_SAMPLER_H
#define PROFKIT_SAMPLER_H

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Begin; `change` is called with the GIL when tiers_wanted() is another tier. False with no exception where stacks cannot be read or
 * no thread can be started. The GIL is held, and the caller is a function in Python that another one has called. */
bool sampler_start(PyObject *change);

/* There is something to do: the tier is to change. */
void sampler_wake(void);

/* Whether the calling thread is the one that does so: what it runs is the agent's. */
bool sampler_is_here(void);

/* Add what was seen to the tables and end the thread; lets go of the GIL meanwhile. */
void sampler_stop(void);

/* The same before a fork. */
void sampler_pause(void);

/* Begin again, if it was ended for a fork, as soon as the main thread runs Python. */
void sampler_resume(void);

/* In a forked child: the thread is the parent's. */
void sampler_forget(void);

/* The CPU time of both threads, and of those before them in this process, ns. */
int64_t sampler_used(void);

/* The threads' numbers, 0 where there is none. */
void sampler_threads(pid_t numbers[2]);

#endif
