/* Bursts, in which a sampled process counts its calls (tiers.h). The GIL is held unless stated otherwise. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

struct edge;
struct table;

/* Ticks from which a burst counts calls: before, threads have waited for the GIL and caches are cold. */
extern int64_t bursts_from;

/* Ticks at which a burst ends if the program runs throughout; 0 outside, BURST_IS_OVER after an event ended it. */
extern int64_t bursts_until;
#define BURST_IS_OVER ((int64_t)-1)

/* Handle an event after `bursts_until`: end the burst (true) if the program has run long enough, or extend it. */
bool bursts_over(int64_t now);

/* Ticks that counting has taken in this burst. */
extern int64_t bursts_taken;

/* No burst is on, nor was one: the process begins, in a forked child too, or its tier has changed. */
void bursts_forget(void);

/* Plan the first burst of the sampled tier. */
void bursts_plan(void);

/* Note that a look found a thread that ran for `ns`, and whether surely in byte code, in the sampled tier. */
void bursts_ran_in(bool byte_code, int64_t ns);

/* Ask the main thread, which a look has just found running, to begin a burst if due. Without the GIL. */
void bursts_ask(void);

/* Begin a burst if the main thread has not. End one, and check whether exact tracing fits the budget. */
void bursts_begin(void);
void bursts_end(void);

/* Return the remaining ns of a burst that no event ends: 0 to end it, INT64_MAX outside a burst. Without the GIL. */
int64_t bursts_left(void);

/* Count a call that begins in a burst; arguments as in table_add_edge(), `caller` is the calling code or 0. */
void bursts_count(uintptr_t caller, const void *key, PyObject *object, PyObject *self);

/* Return the edge of such a call and the calling thread's table; NULL without memory. Leaves an exception alone. */
struct edge *bursts_edge(uintptr_t caller, const void *key, PyObject *object, PyObject *self, struct table **table);
