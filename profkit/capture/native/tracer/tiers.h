/* The two tiers in which a process is seen, and the effect of capture on the wall. The GIL is held unless stated
 * otherwise.
 *
 * *Exact*: each call is an event. *Sampled*: stacks are sampled without a hook (sampler.h), and calls are counted in
 * bursts at random times (M. Hirzel, T. Chilimbi, "Bursty Tracing", 2001). A process begins exact, is sampled when
 * events exceed the budget, and is exact again when bursts show that events would stay far within it: mostly, after
 * imports. Changes are few, so that repeats see the same. The budget is a share of the *pace*: wall time while no
 * thread queues for a CPU, and the program's CPU time while threads queue, as capture then takes CPU time from
 * others.
 *
 * The cost of an event is measured before the target runs (`agent/native.py`) and subtracted from call times: a
 * lower bound, for warm caches. Up to Python 3.11, traced frames also run more slowly. The effect is estimated from
 * both. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

struct edge;
struct table;

enum tier { TIER_EXACT = 1, TIER_SAMPLED = 2 };

/* Cost of an event in a program relative to warm caches: 1.2 to 2.1 (benchmarks/overhead, on 3.11 and 3.12). */
#define COLD 1.6

/* Ticks that a call's two events add outside the call, in the caller's time, and inside it. */
struct probe {
    int64_t outside, inside;
};

/* For Python functions, and for C functions. */
extern struct probe tiers_python, tiers_c;

/* Ticks of the event at the call site of a Python function, which begins no call (from Python 3.12 on). */
extern int64_t tiers_site;

/* Time of the next budget check, in ticks; never without a budget. */
extern int64_t tiers_due;

/* Ticks from which a burst counts calls: before, threads have waited for the GIL and caches are cold. */
extern int64_t tiers_burst_from;

/* Ticks at which a burst ends if the program runs throughout; 0 outside, BURST_IS_OVER after an event ended it. */
extern int64_t tiers_burst_until;
#define BURST_IS_OVER ((int64_t)-1)

/* Handle an event after `tiers_burst_until`: end the burst (true) if the program has run long enough, or extend it. */
bool tiers_burst_over(int64_t now);

/* Ticks that counting has taken in this burst. */
extern int64_t tiers_burst_taken;

/* Costs of events, in seconds. */
struct probe_costs {
    double python_outside, python_inside, c_outside, c_inside, site;
};

void tiers_measured(const struct probe_costs *costs);

/* Begin in the exact tier, with a share of the time as the budget (0: no limit). */
void tiers_begin(double share);

/* The present tier, and the wanted one, to which the sampler changes. */
enum tier tiers_now(void);
enum tier tiers_wanted(void);
void tiers_want(enum tier tier);

/* Enter a tier; false if impossible, and it stays. */
bool tiers_enter(enum tier tier);

void tiers_look(void);

/* Note that a thread ran for `ns`, in byte code (`moves`) or C, in the exact tier; true if tiers_look() is due. No
 * GIL. */
bool tiers_ran(int64_t ns, bool moves);

/* Note that a look found a thread that ran for `ns`, and whether surely in byte code, in the sampled tier. */
void tiers_ran_in(bool byte_code, int64_t ns);

/* Note that samples were booked, in which threads queued for so many ns. */
void tiers_sampled(int64_t queued);

/* Return the CPU time of the process without the agent's threads, ns. Needs no GIL. */
int64_t tiers_program_ran(void);

/* Return the pace per wall time. Needs no GIL. */
double tiers_pace(void);

void tiers_held_gil(int64_t ns);

/* Ask the main thread, which a look has just found running, to begin a burst if due. Without the GIL. */
void tiers_ask_for_burst(void);

/* Begin a burst if the main thread has not. End one, and check whether exact tracing fits the budget. */
void tiers_begin_burst(void);
void tiers_end_burst(void);

/* Return the remaining ns of a burst that no event ends: 0 to end it, INT64_MAX outside a burst. Without the GIL. */
int64_t tiers_burst_left(void);

/* Count a call that begins in a burst; arguments as in table_add_edge(), `caller` is the calling code or 0. */
void tiers_count(uintptr_t caller, const void *key, PyObject *object, PyObject *self);

/* Return the edge of such a call and the calling thread's table; NULL without memory. Leaves an exception alone. */
struct edge *tiers_edge(uintptr_t caller, const void *key, PyObject *object, PyObject *self, struct table **table);

/* Add ticks that counting seldom calls has taken to the effect. */
void tiers_counted(int64_t ticks);

/* In a forked child, no burst is on. */
void tiers_forget(void);
