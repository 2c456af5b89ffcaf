/* Looks: what the process's threads do, seen without the GIL while they run, and charging their time to stacks.
 * Times are in ns. One thread looks (sampler.c) and calls these functions with `looks_lock` held, unless stated
 * otherwise; it has the descriptors of /proc. Another books what was seen (booking.h). */
#pragma once

#include "python_api.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"
#include "stacks.h"
#include "table.h"
#include "waits.h"

enum { MOST_SLOTS = 2048 };

struct seen_thread {
    struct seen_thread *next; /* of ended threads */
    uintptr_t state;
    unsigned long ident;
    pid_t native;
    struct kernel_file schedstat, stat, call;
    int cpu;                 /* its last known CPU, or -1 */
    unsigned missed;         /* failed looks in a row, as it kept running */
    struct table *table;     /* retained; NULL until something is booked */
    struct stack stack;
    int64_t at, run, wait;   /* counters at the last look */
    int64_t stood, still_since; /* when it was last, and first, found not to have run */
    bool running;            /* at the last look */
    enum pause_kind what;    /* else what it waited for */
    bool ran;                /* between the last two looks */
    bool there, listed;      /* looked at already; in the last list */
    int32_t charge, spot;    /* indices for its last stack and the place in it, -1 for none */
    unsigned still, skip;
    bool moves;              /* set while time that ran byte code is charged */
    int64_t pending_run, pending_blocked; /* without a stack so far */
    int64_t stopped;         /* uncharged ns for which the process was stopped */
};

/* The part of a charge spent at one place of its innermost frame. */
struct spot {
    struct spot *next;
    int64_t instruction, ns, n;
};

/* The time charged to one stack of one thread since the last booking. */
struct charge {
    struct seen_thread *thread;
    const struct table *table; /* the thread's at the look, and the ranges that were open in it */
    struct context *context;
    const void *leaf; /* the definition of a running C function, or NULL */
    int64_t place;    /* in its innermost code, if that may call what waits for other ranks; else -1 */
    uint64_t hash;
    enum pause_kind what; /* what it waited for; with PAUSE_HELD_GIL, `blocked` is others' waiting */
    const uintptr_t *codes; /* innermost first */
    uint32_t n;
    bool certain; /* as in the stack, like `freed` */
    uint64_t freed;
    int64_t run, wait, blocked, samples;
    double squares;
    struct spot *spots;
};

/* All that looks have seen since the last booking, or that is being booked. */
struct seen {
    struct charge *charges;
    uintptr_t *codes;
    struct spot *spots;
    uint32_t n_charges, n_codes, n_spots;
    int32_t slots[MOST_SLOTS];
};

/* Held during a look and while what was seen is taken, never while Python runs or the GIL is waited for. */
extern pthread_mutex_t looks_lock;

/* Allocate, once per process, without the lock; false without memory. */
bool looks_make_room(void);

/* Find threads from this one's state, which stays and is not looked at; without the lock. */
void looks_start(PyThreadState *state, pid_t number);

void looks_list(int64_t now);

/* Look at the thread of this turn and see which others run; return whether any ran. In the exact tier, watch all;
 * `due`: check the budget. */
bool looks_at_all(struct seen_thread *turn, bool *due);

/* Return the next thread to look at and its CPU (-1: unknown); running threads take turns. NULL if none runs. */
struct seen_thread *looks_next(const struct seen_thread *last, int *cpu);

/* Whether this is the main thread and was running at its last look. */
bool looks_main_runs(const struct seen_thread *seen);

/* Note for how long the process was stopped since the last look, or 0. */
void looks_stopped(int64_t ns);

void looks_end(void);

/* Begin charging, while the booking thread holds the GIL: threads that stand still get their present stack. */
void looks_begin_charging(void);

bool looks_have_charges(void);

/* Charge threads that stand still up to now: those that have stood long, or all. */
void looks_charge_long(void);
void looks_charge_all(void);

/* Close the threads' files, as no look follows. */
void looks_let_go(void);

/* Take what was seen and the ended threads; looks go on with an empty set. Takes the lock. */
struct seen *looks_take(struct seen_thread **ended);

/* Release what was booked, without the lock. */
void looks_empty(struct seen *taken);
void looks_forget_thread(struct seen_thread *ended);

/* Set the table for a thread's time, which it retains. Takes the lock. */
void looks_set_table(struct seen_thread *seen, struct table *table);

/* Forget all threads, without the lock, as nobody looks. */
void looks_forget_all(void);

/* Forget the parent's threads, in a forked child: close their descriptors, if it `inherited` them. They may be half
 * written, as the thread that looks may have been at it. */
void looks_forget(bool inherited);

/* Note where a C function is called, so that looks find threads there in it; with the GIL instead of the lock. */
void looks_saw_call(uintptr_t code, int64_t instruction, const void *key);
