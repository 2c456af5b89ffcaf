/* How a collector gets events: hook_profile.c up to Python 3.11, hook_monitoring.c from 3.12 on, else, and for what these
 * leave out, hook_none.c. These call the rest of the tracer, so this header includes nothing of it. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct collector;

/* Prepare, once per process; -1 with an exception on failure. */
int hook_start(void);

/* Begin or stop receiving events; -1 with an exception on failure. */
int hook_enable(struct collector *collector);
int hook_disable(struct collector *collector);

/* If another profiler has replaced the collector, close open calls at the last event's time. From any thread. */
void hook_look(struct collector *collector);

/* Begin or stop tracing threads not started by `threading` (up to Python 3.11; later there is nothing to do). */
void hook_follow_others(struct collector *collector, bool on);

/* Never trace the calling thread, which is the tracer's own (up to Python 3.11; later there is nothing to do). */
void hook_leave_thread(void);

/* What events cost, and how bursts are timed. */
struct hook_traits {
    double slows;         /* relative slowdown of byte code in traced frames, without events */
    double interpreter_part; /* part of an event's warm cost spent by the interpreter (a frame object, a call) */
    int64_t warms_ns;     /* run time before a burst counts calls (tiers.h) */
    int64_t burst_ns;     /* run time in which it counts */
    bool ends_bursts;     /* the first event after that time ends a burst; otherwise the sampler does, with the GIL */
    int64_t first_gap_ns, gap_ns; /* mean time between bursts, at first and later */
};
extern const struct hook_traits hook_traits;

/* Start or stop counting call beginnings by bursts_count() in threads without a profiler; false if impossible. */
bool hook_burst(bool on);

/* Release what bursts have taken. */
void hook_burst_over(void);

/* A function that the interpreter calls later, as those of Py_AddPendingCall(). */
typedef int (*deferred)(void *nothing);

/* Have the main thread call a function at its next Python instruction; from any thread, without GIL; false if
 * impossible. */
bool hook_ask_main(deferred function);

/* The same in the calling thread, which returns from a fork, when os.fork() has returned: from Python 3.12 on it warns of
 * threads, in some versions after all hooks of the fork. */
bool hook_after_fork(deferred function);

/* Start or stop counting Python calls by seldom_call(), except for functions that it refused; false if impossible: a
 * profile function, up to Python 3.11, applies to everything that a thread runs. */
bool hook_count(bool on);

void hook_count_over(void);

/* Which calls in progress are recorded: not the `skip` innermost, and of the others the `most` innermost, all for
 * SIZE_MAX. With such a limit, they stay open when tracing ends. */
struct adopted {
    size_t skip, most;
};
static const struct adopted all_of_them = {0, SIZE_MAX};

/* Trace a thread without open calls, from any thread, with calls in progress from `frame`, its innermost: of the calling
 * thread those that `which` says, of others all. Do nothing if another profiler has the thread. */
bool hook_adopt(struct collector *collector, unsigned long ident, pid_t native, PyObject *frame, struct adopted which);

/* Close open calls and stop receiving events of all threads, from any thread. */
int hook_suspend(struct collector *collector);
