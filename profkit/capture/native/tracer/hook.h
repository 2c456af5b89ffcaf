/* How events come to a collector: hook_profile.c up to Python 3.11, hook_monitoring.c from 3.12 on. */
#ifndef PROFKIT_HOOK_H
#define PROFKIT_HOOK_H

#include "collector.h"

/* Once a process, when the module is imported. Returns -1 with an exception set on failure. */
int hook_start(void);

/* Begin or end to receive events; -1 with an exception set on failure. The collector is not, or is, enabled. */
int hook_enable(struct collector *collector);
int hook_disable(struct collector *collector);

/* See whether another profiler has taken the collector's place, and if so close the calls that are open, at the time
 * of the last event. From any thread. */
void hook_look(struct collector *collector);

/* Begin or end to trace with this collector what runs in threads that have no other: those that `threading` has not started, up
 * to Python 3.11. From 3.12 on there is nothing to do. */
void hook_follow_others(struct collector *collector, bool on);

/* What it costs to have events, and for how long. */
struct hook_traits {
    double slows;         /* part by which byte code of traced frames takes longer, without the events */
    double interpreter_part; /* of what the events of a call cost on warm caches: it makes an object of the frame, and a call */
    int64_t warms_ns;     /* before calls are counted in a burst (tiers.h), */
    int64_t burst_ns;     /* and meanwhile, */
    bool ends_bursts;     /* which the first event after that time ends; otherwise it lasts until the sampler gets the GIL */
    int64_t first_gap_ns, gap_ns; /* mean time between two: at first, and later */
};
extern const struct hook_traits hook_traits;

/* Have the beginnings of calls counted by tiers_count() in all threads that no profiler has, or no longer; false where that is not
 * possible. */
bool hook_burst(bool on);

/* There are no more of them: let go of what was taken for the first. */
void hook_burst_over(void);

/* Have the main thread call a function at its next Python instruction. From any thread, without the GIL. False if that is not
 * possible. */
bool hook_ask_main(int (*function)(void *));

/* Have the beginnings of calls in Python counted by seldom_call() in all threads, but for functions that this has refused, or no
 * longer; false where that is not possible. */
bool hook_count(bool on);

/* The process is watched no longer: let go of what was taken for that. */
void hook_count_over(void);

/* End to receive events from whichever thread, and leave the open calls of other threads as they are. */
int hook_detach(struct collector *collector);

/* Trace a thread of which nothing is open, from any thread, with the calls that are in progress in it; of the calling one the
 * `skip` innermost are the agent's. The collector is enabled. Nothing is done where another profiler has the thread.
 * `frame` is its innermost. */
bool hook_adopt(struct collector *collector, unsigned long ident, pid_t native, PyObject *frame, size_t skip);

/* End to receive events of all its threads, from any thread, after closing the calls that are open. */
int hook_suspend(struct collector *collector);

#endif
