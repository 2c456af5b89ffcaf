/* Keeping what the tracer adds within a budget, and out of the times.
 *
 * What an event costs is measured before the target runs (`agent/native.py`) and taken out of the times of calls as they are
 * made: a thread's calls are timed by a clock that stands still while the tracer works. While all that is taken out is above
 * the budget, functions that are called very often and take little themselves are throttled: their events are disabled
 * (from Python 3.12 on) or left at once. Their calls so far stay, and later ones are part of their callers.
 *
 * Up to Python 3.11 the interpreter looks for a tracer at every instruction of a frame that is traced, and makes an object of the
 * frame for its events: most of what tracing costs. So functions without a call in their code are quiet: their calls are booked,
 * and nothing is traced in their frames (hook_profile.c). Above the budget those that are called very often become quiet too
 * when they have called no function in C but throttled ones.
 *
 * The GIL is held in all of this.
 */
#ifndef PROFKIT_THROTTLE_H
#define PROFKIT_THROTTLE_H

#include "tables.h"

/* Ticks that the two events of a call add: before its begin and after its end, which is the caller's time, and between; and
 * that one of them adds which is left at once. */
struct probe {
    int64_t outside, inside, left;
};

/* Of functions in Python, of those that are quiet, and of functions in C. */
extern struct probe throttle_python, throttle_quiet, throttle_c;

/* Ticks of the event of a call from Python that begins none: of a function in Python (from Python 3.12 on). */
extern int64_t throttle_site;

/* When the budget is looked at next, in ticks; never where there is none. */
extern int64_t throttle_due;

/* Whether the tracer is above its budget: events that say nothing new may be disabled. */
extern bool throttle_pressed;

/* What events cost, in seconds. */
struct probe_costs {
    double python_outside, python_inside, python_left, c_outside, c_inside, c_left, site, quiet_outside, quiet_inside;
};

/* Begin to take out what events cost. */
void throttle_measured(const struct probe_costs *costs);

/* Begin to keep within a share of the time, 0 for no budget. In a forked child, what its parent has throttled stays so. */
void throttle_begin(double share);

/* A quiet function has run, or waited for something else than a CPU, for so many ns without an event: what it calls in C is looked
 * at again where that may be why. */
void throttle_quiet_ran(struct name *name, int64_t ran);

/* See whether the tracer is within its budget, and throttle what makes it exceed that in this thread. */
void throttle_look(struct table *table);


/* Whether the event of a call from a place of the code that brings nothing may be disabled there: `what` is called time after
 * time, and nothing else. */
bool throttle_site_repeats(const void *code, long offset, const void *what);

enum { KEYS_ROOM = 65536, KEYS_MOST = 16384 };

/* Code objects, and definitions of C functions. */
struct keys {
    const void *slots[KEYS_ROOM];
    unsigned n;
};

/* Those whose events are left; and code objects in whose frames nothing is traced. */
extern struct keys throttle_left, throttle_silent;

/* Have a key in or not. False where there is no room. */
bool keys_add(struct keys *keys, const void *key);
void keys_remove(struct keys *keys, const void *key);
void keys_clear(struct keys *keys);

static inline size_t keys_slot(const void *key) {
    return (size_t)((((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (KEYS_ROOM - 1);
}

static inline bool keys_have(const struct keys *keys, const void *key) {
    if (LIKELY(keys->n == 0))
        return false;
    for (size_t i = keys_slot(key); keys->slots[i]; i = (i + 1) & (KEYS_ROOM - 1))
        if (keys->slots[i] == key)
            return true;
    return false;
}

/* Whether the events of a code object, or of the definition of a C function, are to be left. */
static inline bool throttle_has(const void *key) { return keys_have(&throttle_left, key); }

#endif
