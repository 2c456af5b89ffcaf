#pragma once

#include "files.h"

struct thread {
    struct record *next, *end; /* room for records */
    struct chunk chunk;
    uint32_t serial;
    int32_t *depth; /* open push/pop ranges per domain */
    unsigned depths;
    uint64_t lost;
    uint64_t retry_ns;
    size_t chunk_bytes; /* of the next chunk */
    struct thread *before, *after;
};

extern _Thread_local struct thread *thread_self;

/* Whether there is a spool and the ends of threads are seen; started at the first call. */
bool threads_ready(void);
struct record *threads_slow_slot(void);
int32_t *threads_depth(uint16_t domain);

/* Return the place of the calling thread's next record, or NULL without room. */
static inline struct record *threads_slot(void)
{
    struct thread *self = thread_self;
    if (__builtin_expect(self != NULL && self->next < self->end, 1))
        return self->next++;
    return threads_slow_slot();
}
