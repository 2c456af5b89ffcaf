/* What a thread waits for, by the system call that it is in, and what others wait for because of it.
 *
 * Sums are kept by function (struct pause), of what the sampler's looks have found. The GIL is a futex inside of `_PyRuntime`: its
 * address says which one, in every version of CPython. Who holds the GIL stands a few words before that, see waits_learn().
 */
#ifndef PROFKIT_WAITS_H
#define PROFKIT_WAITS_H

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"

struct function;
struct table;

/* The numbers are those of profkit/model/pauses.py. */
enum pause_kind {
    PAUSE_NONE = 0,
    PAUSE_GIL = 1,      /* the interpreter's lock */
    PAUSE_LOCK = 2,     /* another lock, a condition, the end of a thread */
    PAUSE_CHILD = 3,    /* a child process */
    PAUSE_PIPE = 4,
    PAUSE_SOCKET = 5,
    PAUSE_FILE = 6,
    PAUSE_DISK = 7,     /* a wait that no signal ends: storage, a page that is read */
    PAUSE_SLEEP = 8,
    PAUSE_POLL = 9,     /* several descriptors of different kinds, or epoll */
    PAUSE_DEVICE = 10,  /* a terminal, a GPU */
    PAUSE_OTHER = 11,
    PAUSE_HELD_GIL = 12, /* it had the GIL, for which others waited */
    PAUSE_GC_0 = 13,     /* garbage collections by generation */
    PAUSE_GC_1 = 14,
    PAUSE_GC_2 = 15,
    PAUSE_STOPPED = 16,  /* the whole process stood still: stopped by a signal, frozen, or the machine was */
    /* Those behind it: in a call that waits for other ranks, on a CPU and off it, by the method; see rank_calls.c. */
    PAUSE_RANKS = 17,
    PAUSE_KINDS = 53
};

/* One kind of one function: nanoseconds, and in how many looks or collections. */
struct pause {
    _Atomic uint32_t kind; /* an entry_kind, stored last */
    uint32_t called;       /* number of the function */
    uint32_t what, unused;
    int64_t ns, n;
    struct pause *next;    /* of the same function */
};

/* Add to the sums of a function of a table. Like all of a table, with the GIL. */
void pause_add(struct table *table, struct function *function, enum pause_kind what, int64_t ns, int64_t n);

/* What a thread of this process waits for now, by files as in kernel.h; PAUSE_NONE where it runs, queues, or that is not known. */
enum pause_kind waits_for(pid_t thread, struct kernel_file *call, struct kernel_file *stat);

/* Learn where the interpreter keeps who has the GIL, once a thread was seen to wait for it. The calling thread has it, and `mine` is
 * its state. */
void waits_learn(uintptr_t mine);

/* Whether that is to be learnt. */
bool waits_unlearnt(void);

/* The state of the thread that has the GIL; 0 for none, or where that is not known. */
uintptr_t waits_holder(void);

/* Have the garbage collector, whose list of callbacks this is, say when it begins and ends; false, without an exception, where
 * that is not possible. With the GIL. */
bool waits_watch_collections(PyObject *callbacks);

#endif
