/* The two tiers in which a process is seen, and the effect of capture on the wall. The GIL is held unless stated
 * otherwise.
 *
 * *Exact*: each call is an event. *Sampled*: stacks are sampled without a hook (sampler.h), and calls are counted in
 * bursts at random times (bursts.h; M. Hirzel, T. Chilimbi, "Bursty Tracing", 2001). A process begins exact, is
 * sampled when events exceed the budget, and is exact again when bursts show that events would stay far within it:
 * mostly, after imports. Changes are few, so that repeats see the same. The budget is a share of the *pace*: wall
 * time while no thread queues for a CPU, and the program's CPU time while threads queue, as capture then takes CPU
 * time from others.
 *
 * The cost of an event is measured before the target runs (`agent/native.py`) and subtracted from call times: a
 * lower bound, for warm caches. Up to Python 3.11, traced frames also run more slowly. The effect is estimated from
 * both. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

struct tier_store;

enum tier { TIER_EXACT = 1, TIER_SAMPLED = 2 };

/* Cost of an event in a program relative to warm caches: 1.2 to 2.1 (benchmarks/overhead, on 3.11 and 3.12). */
#define COLD 1.6

/* Least part of its run time that a traced program takes itself. */
#define OWN_LEAST 0.1

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

/* Costs of events, in seconds. */
struct probe_costs {
    double python_outside, python_inside, c_outside, c_inside, site;
};

void tiers_measured(const struct probe_costs *costs);

/* Begin in the exact tier, with a share of the time as the budget (0: no limit). */
void tiers_begin(double share);

/* Return the tiers in the store's header; NULL without a file. */
struct tier_store *tiers_stored(void);

/* The present tier, and the wanted one, to which the sampler changes. */
enum tier tiers_now(void);
enum tier tiers_wanted(void);
void tiers_want(enum tier tier);

/* Enter another tier; false if impossible, and it stays. The caller tells bursts.h and seldom.h. */
bool tiers_enter(enum tier tier);

void tiers_look(void);

/* Note that a thread ran for `ns`, in byte code (`moves`) or C, in the exact tier; true if tiers_look() is due. No
 * GIL. */
bool tiers_ran(int64_t ns, bool moves);

/* Note that samples were booked, in which threads queued for so many ns. */
void tiers_sampled(int64_t queued);

/* Return the CPU time of the process without the agent's threads, ns. Needs no GIL. */
int64_t tiers_program_ran(void);

/* Return the pace per wall time, and the pace so far, ns. Need no GIL. */
double tiers_pace(void);
double tiers_paced(void);

void tiers_held_gil(int64_t ns);

/* Add ticks to the effect: a likely number, and the least and the most that it may be. */
void tiers_add_effect(double likely, double at_least, double at_most);

/* Whether all calls could be traced within the budget, if that would have added so many ticks to so many that ran. */
bool tiers_fits(double added, double ran);

/* Add ticks that counting seldom calls has taken to the effect. */
void tiers_counted(int64_t ticks);

/* In a forked child, begin in the exact tier again. */
void tiers_forget(void);
