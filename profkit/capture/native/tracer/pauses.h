/* What a thread waits for, or spends time on beside its program, summed per function: kinds of pauses, and their
 * sums. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct function;
struct table;

/* The numbers match profkit/model/pauses.py. */
enum pause_kind {
    PAUSE_NONE = 0,
    PAUSE_GIL = 1,
    PAUSE_LOCK = 2,     /* another lock, a condition, the end of a thread */
    PAUSE_CHILD = 3,
    PAUSE_PIPE = 4,
    PAUSE_SOCKET = 5,
    PAUSE_FILE = 6,
    PAUSE_DISK = 7,     /* an uninterruptible wait: storage, a page being read */
    PAUSE_SLEEP = 8,
    PAUSE_POLL = 9,     /* several kinds of descriptors, or epoll */
    PAUSE_DEVICE = 10,  /* a terminal, a GPU */
    PAUSE_OTHER = 11,
    PAUSE_HELD_GIL = 12, /* held the GIL while others waited for it */
    PAUSE_GC_0 = 13,     /* garbage collections by generation */
    PAUSE_GC_1 = 14,
    PAUSE_GC_2 = 15,
    PAUSE_STOPPED = 16,  /* the whole process stood still: stopped, frozen, or its machine was */
    PAUSE_WRITE = 17,    /* a file being written, or what was written reaching storage */
    /* From here on: in a call that waits for other ranks, on a CPU or off it, by method; see rank_calls.c. */
    PAUSE_RANKS = 18,
    PAUSE_KINDS = 54
};

/* One kind of pause of one function: ns, and number of looks or collections. */
struct pause {
    _Atomic uint32_t kind;
    uint32_t called;
    uint32_t what, unused;
    int64_t ns, n;
    struct pause *next;
};

void pause_add(struct table *table, struct function *function, enum pause_kind what, int64_t ns, int64_t n);
