/* Keeping what the tracer adds within a budget, and out of the times.
 *
 * What an event costs is measured before the target runs (`agent/native.py`) and taken out of the times of calls as they are
 * made: a thread's calls are timed by a clock that stands still while the tracer works. While all that is taken out is above
 * the budget, functions that are called very often and take little themselves are throttled: their events are disabled
 * (from Python 3.12 on) or left at once. Their calls so far stay, and later ones are part of their callers.
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

/* Of functions in Python and in C. */
extern struct probe throttle_python, throttle_c;

/* Ticks of the event of a call from Python that begins none: of a function in Python (from Python 3.12 on). */
extern int64_t throttle_site;

/* When the budget is looked at next, in ticks; never where there is none. */
extern int64_t throttle_due;

/* Whether the tracer is above its budget: events that say nothing new may be disabled. */
extern bool throttle_pressed;

/* What events cost, in seconds. */
struct probe_costs {
    double python_outside, python_inside, python_left, c_outside, c_inside, c_left, site;
};

/* Begin to take out what events cost. */
void throttle_measured(const struct probe_costs *costs);

/* Begin to keep within a share of the time, 0 for no budget. In a forked child, what its parent has throttled stays so. */
void throttle_begin(double share);

/* See whether the tracer is within its budget, and throttle what makes it exceed that in this thread. */
void throttle_look(struct table *table);

/* Begin or end to leave the events of a key. False where there is no room. */
bool throttle_add(const void *key);
void throttle_remove(const void *key);

/* Whether the event of a call from a place of the code that brings nothing may be disabled there: `what` is called time after
 * time, and nothing else. */
bool throttle_site_repeats(const void *code, long offset, const void *what);

enum { THROTTLE_ROOM = 8192, THROTTLE_MOST = 2048 };

extern const void *throttle_keys[THROTTLE_ROOM];
extern unsigned throttle_n_keys;

static inline size_t throttle_slot(const void *key) {
    return (size_t)((((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (THROTTLE_ROOM - 1);
}

/* Whether the events of a code object, or of the definition of a C function, are to be left. */
static inline bool throttle_has(const void *key) {
    if (LIKELY(throttle_n_keys == 0))
        return false;
    for (size_t i = throttle_slot(key); throttle_keys[i]; i = (i + 1) & (THROTTLE_ROOM - 1))
        if (throttle_keys[i] == key)
            return true;
    return false;
}

#endif
