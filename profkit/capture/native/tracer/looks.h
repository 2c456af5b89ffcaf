/* Looks: what the threads of the process do, seen without the GIL and while they run, and what of their time is charged to which
 * of their stacks. Times are nanoseconds.
 *
 * One thread looks (sampler.c), another takes what was seen and adds it to the tables (booking.h). All here is called by the
 * first, in whose table of descriptors the files of /proc are, and with `looks_lock` held, but where it is said otherwise.
 */
#ifndef PROFKIT_LOOKS_H
#define PROFKIT_LOOKS_H

#include "python_api.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"
#include "stacks.h"
#include "tables.h"
#include "waits.h"

enum { MOST_SLOTS = 2048 };

/* A thread that is seen. */
struct seen_thread {
    struct seen_thread *next; /* of those that have ended */
    uintptr_t state;
    unsigned long ident;
    pid_t native;
    struct kernel_file schedstat, stat, call;
    int cpu;                 /* that it was on when that was last asked; -1 for not known */
    unsigned missed;         /* looks in a row at which it went on meanwhile */
    struct table *table;     /* retained; NULL until something is booked */
    struct stack stack;
    int64_t at, run, wait;   /* the counters at the last look */
    int64_t stood, still_since; /* when it was last found not to have run since then, and when first */
    bool running;            /* at the last look, */
    enum pause_kind what;    /* or what it waited for */
    bool ran;                /* since the look before that */
    bool there, listed;      /* it has been looked at; it was in the last list */
    int32_t charge;          /* what its stack at the last look was charged with, -1 for none */
    unsigned still, skip;
    bool moves;              /* set while it is charged with time in which it ran byte code */
    int64_t pending_run, pending_blocked; /* without a stack so far */
    int64_t stopped;         /* ns for which the process was stopped, that are charged with nothing yet */
};


/* What of a charge its innermost frame was at one place for. */
struct spot {
    struct spot *next; /* of the same charge */
    int64_t instruction, ns, n;
};

/* What one stack of one thread was charged with since the last booking. */
struct charge {
    struct seen_thread *thread;
    struct context *context;
    const void *leaf; /* the definition of a C function that was running, NULL for none */
    int64_t place;    /* in its innermost code, where that may call what waits for other ranks; else -1 */
    uint64_t hash;
    enum pause_kind what; /* it waited for; or PAUSE_HELD_GIL, of which `blocked` is what others waited */
    const uintptr_t *codes; /* innermost first */
    uint32_t n;
    bool certain; /* as of the stack */
    int64_t run, wait, blocked, samples;
    double squares;
    struct spot *spots, *spot; /* all of them, and the one of the last look; NULL for none */
};

/* What looks have seen since the last booking, and what is being booked. */
struct seen {
    struct charge *charges;
    uintptr_t *codes;
    struct spot *spots;
    uint32_t n_charges, n_codes, n_spots;
    int32_t slots[MOST_SLOTS];
};

/* Held for a look and while what was seen is taken, and never while Python runs or the GIL is waited for. */
extern pthread_mutex_t looks_lock;

/* Once a process; false where memory is exhausted. Without the lock. */
bool looks_make_room(void);

/* The threads are found beside the state of this one, which stays and is not looked at. Without the lock. */
void looks_start(PyThreadState *state, pid_t number);

/* See which threads there are, where it is time for that. */
void looks_list(int64_t now);

/* Look at the thread whose turn it is, and see which others run; whether any has. In the exact tier all are watched, and `due` says
 * whether the budget is to be looked at. */
bool looks_at_all(struct seen_thread *turn, bool *due);

/* The thread that is looked at next, and its CPU, -1 where that is not known: those that run take turns. NULL where none runs. */
struct seen_thread *looks_next(const struct seen_thread *last, int *cpu);

/* Whether this is the main thread, and it was running at its last look. */
bool looks_main_runs(const struct seen_thread *seen);

/* Since the last look the process was stopped for so long, 0 for not. */
void looks_stopped(int64_t ns);

/* The last time: what is pending is charged to where the threads are. */
void looks_end(void);

/* From here on threads are charged. Another thread holds the GIL: what stands still now may do so for long, and is where it is. */
void looks_begin_charging(void);

bool looks_have_charges(void);

/* Threads that stand still are charged up to now: those that have stood for long, or all. */
void looks_charge_long(void);
void looks_charge_all(void);

/* No look comes any more: close what is open of threads. */
void looks_let_go(void);

/* Take what was seen, and the threads that have ended. Looks go on with another set, which is empty. Takes the lock. */
struct seen *looks_take(struct seen_thread **ended);

/* What was taken has been booked. Without the lock, both. */
void looks_empty(struct seen *taken);
void looks_forget_thread(struct seen_thread *ended);

/* The table that a thread's time is booked in; it keeps it. Takes the lock. */
void looks_set_table(struct seen_thread *seen, struct table *table);

/* No thread is seen any more. Without the lock, as none looks. */
void looks_forget_all(void);

/* In a forked child: the threads are the parent's. */
void looks_forget(void);

/* A call of a C function at a place in a code: looks that find a thread there find it in that function. With the GIL instead. */
void looks_saw_call(uintptr_t code, int64_t instruction, const void *key);

#endif
