/* The two tiers in which a process is seen, and what capture adds to the wall.
 *
 * *Exact*: each call is an event. *Sampled*: there is no hook; stacks are sampled (sampler.h), and calls are counted in bursts
 * at random times (bursty tracing: M. Hirzel, T. Chilimbi, "Bursty Tracing", 2001). A process begins exact. When what the
 * events add exceeds the budget it is sampled, and exact again when bursts say that this would stay far within the
 * budget: after the imports of most programs. It changes a few times at most, so that two repeats see the same.
 *
 * The cost of capture is limited per second of the *pace* of the process: wall time while no thread queues for a CPU, and the CPU time of
 * the program where its threads queue, since there capture takes CPU time from others.
 *
 * What an event costs is measured before the target runs (`agent/native.py`) and taken out of the times of calls as they are
 * made. That is a lower bound, on warm caches; up to Python 3.11 the interpreter also runs frames more slowly that are
 * traced. The effect on the wall is estimated from both. The GIL is held in all of this.
 */
#ifndef PROFKIT_TIERS_H
#define PROFKIT_TIERS_H

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

#include "tables.h"

enum tier { TIER_EXACT = 1, TIER_SAMPLED = 2 };

/* Changes of the tier that a process makes at most, with its begin. */
enum { MOST_TIERS = 8 };

/* What a reader has of the tiers of a process, in the store's header. Times are ns. */
struct tier_store {
    int64_t n;
    struct {
        int64_t at_ns; /* CLOCK_MONOTONIC */
        int64_t tier;
    } spans[MOST_TIERS];
    int64_t sampled_ns; /* that the program ran in the sampled tier, all its threads, up to the last booking */
    int64_t samples;
    int64_t bursts, burst_ns; /* the latter is what the program ran in them, without what events took */
    int64_t seen;       /* calls in bursts */
    double effect_ns, least_ns, most_ns; /* on the wall so far, with an interval of 95 % */
    double slowed;      /* most by which `burst_ns` may be too long, as a part of it */
    int64_t counted;    /* whether all calls of functions that are called seldom were counted meanwhile, see seldom.h */
};

/* What an event costs in a program over what it costs on warm caches: 1.2 to 2.1 (benchmarks/overhead, on 3.11 and 3.12). */
#define COLD 1.6

/* Ticks that the two events of a call add: before its begin and after its end, which is the caller's time, and between. */
struct probe {
    int64_t outside, inside;
};

/* Of functions in Python, and of functions in C. */
extern struct probe tiers_python, tiers_c;

/* Ticks of the event of a call from Python that begins none: of a function in Python (from Python 3.12 on). */
extern int64_t tiers_site;

/* When the budget is looked at next, in ticks; never where there is none. */
extern int64_t tiers_due;

/* From when on calls are counted in a burst, in ticks: the threads have just waited for the GIL, and their caches are cold. */
extern int64_t tiers_burst_from;

/* When a burst ends, in ticks, if the program runs all the while; 0 outside of one, BURST_IS_OVER where an event has ended it. */
extern int64_t tiers_burst_until;
#define BURST_IS_OVER ((int64_t)-1)

/* An event comes after `tiers_burst_until`. True if the program has run for the length of a burst, which is over then; otherwise the
 * burst is extended. */
bool tiers_burst_over(int64_t now);

/* Ticks that counting has taken in this burst. */
extern int64_t tiers_burst_taken;

/* What events cost, in seconds. */
struct probe_costs {
    double python_outside, python_inside, c_outside, c_inside, site;
};

/* Begin to take out what events cost. */
void tiers_measured(const struct probe_costs *costs);

/* A process begins, in the exact tier, and may spend a share of the time on it: 0 for no limit. */
void tiers_begin(double share);

/* The tier of the process, and the one that it should change to, which the sampler sees to. */
enum tier tiers_now(void);
enum tier tiers_wanted(void);
void tiers_want(enum tier tier);

/* The process has changed; false where that is not possible, and it stays. */
bool tiers_enter(enum tier tier);

/* In the exact tier, see whether the tracer is within its budget. */
void tiers_look(void);

/* In the exact tier the sampler has seen a thread that ran for so many ns: in byte code (`moves`), or in C. Needs no GIL; whether
 * tiers_look() is due because of it. */
bool tiers_ran(int64_t ns, bool moves);

/* In the sampled tier a look has found a thread that ran for so many ns, surely in byte code or not. */
void tiers_ran_in(bool byte_code, int64_t ns);

/* What was booked of samples. */
struct booked;
void tiers_sampled(const struct booked *booked);

/* The CPU time of the process without the agent's threads, ns. Needs no GIL. */
int64_t tiers_program_ran(void);

/* The pace of the process, as a part of the time. Needs no GIL. */
double tiers_pace(void);

/* The sampler has held the GIL for so long. */
void tiers_held_gil(int64_t ns);

/* If a burst is due, have the main thread begin it; a look has just found that thread running. Without the GIL. */
void tiers_ask_for_burst(void);

/* Begin one with the GIL, if the main thread has not. End one, and see whether all calls could be traced within the
 * budget. */
void tiers_begin_burst(void);
void tiers_end_burst(void);

/* For how long a burst that no event ends still has to last, ns; 0 where it is to be ended, and INT64_MAX outside of one. Without
 * the GIL. */
int64_t tiers_burst_left(void);

/* In a burst, a call begins: of `key`, an object and self as in table_add_edge(), by the code at `caller` (0 where that is
 * unknown). */
void tiers_count(uintptr_t caller, const void *key, PyObject *object, PyObject *self);

/* The edge of such a call, and the table of the calling thread; NULL where memory is exhausted. Leaves an exception alone. */
struct edge *tiers_edge(uintptr_t caller, const void *key, PyObject *object, PyObject *self, struct table **table);

/* Ticks that counting calls of functions that are called seldom has taken, which are not yet in the effect. */
void tiers_counted(int64_t ticks);

/* In a forked child: no burst is on. */
void tiers_forget(void);

#endif
