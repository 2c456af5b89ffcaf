/* The tracer's two threads: one looks at all others, one takes the GIL and adds what was seen to the tables.
 *
 * In the exact tier, looks check a hundred times a second whether threads run byte code, which tracing may slow
 * down. In the sampled tier, each look charges a thread's time since the last one (CPU, run queue, off the CPU) to a
 * stack, so charges add up to the kernel's counters. Looks come at random times without the GIL, up to a thousand a
 * second within a hundredth of the process's pace (tiers.h); bookings about twenty times a second. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tiers.h"

/* Start; `change` is called with the GIL when tiers_wanted() differs. False without an exception if impossible.
 * Called with the GIL by a Python function that another one has called. */
bool sampler_start(PyObject *change);

/* Start to follow windows instead: call `follow`, which returns the seconds until the clock changes them, when they
 * may have changed. False without an exception if impossible. */
bool sampler_follow(PyObject *follow);

/* Enter a tier, with the GIL, in the function `change`: what was seen of the old one is booked. False if impossible. */
bool sampler_enter(enum tier tier);

/* Book what was seen and end the threads; releases the GIL meanwhile. */
void sampler_stop(void);

/* The same before a fork. */
void sampler_pause(void);

/* Restart after a fork, as soon as its thread, or else the main thread, runs Python. */
void sampler_resume(void);

/* Forget the parent's threads, in a forked child. */
void sampler_forget(void);

/* Get the threads' native ids, 0 without a thread. */
void sampler_threads(pid_t numbers[2]);
