/* The tracer's own threads (sampler.h), as far as what is below them asks: the CPU time that they use, which is not
 * the program's, and how they are woken. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

extern struct own_threads {
    pid_t booker, looker;  /* native ids, 0 without a thread */
    int64_t used_by_ended; /* CPU time of earlier ones, ns */
    void (*wake)(void);    /* NULL before the first */
} own_threads;

/* Return the CPU time of both threads and earlier ones of this process, ns. */
int64_t own_threads_used(void);

/* Have them see what has changed, if there are any. */
void own_threads_wake(void);
