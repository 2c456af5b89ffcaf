#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "layout.h"

/* Longest text of a name, in bytes; longer ones are truncated. */
enum { MOST_TEXT = 4000 };

/* Wait before a failure (e.g. a full disk) is retried, ns: short enough to continue soon, too long to cost a system
 * call per event. */
#define RETRY_NS 100000000ull

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

/* Held everywhere but on the hot path, and across a fork. */
extern pthread_mutex_t collector_lock;

/* The generation: 1, plus 1 per fork. Written in a child while it has one thread. */
extern uint32_t collector_generation;

/* files.c: the lock is held, except for the counters */

struct chunk {
    struct record *begin;
    size_t bytes;
    uint64_t offset; /* of `begin` in the event file */
};

bool files_configure(void);
bool files_are_open(void);
bool files_open(void); /* once; later by names_open_files() */
bool files_chunk(size_t bytes, struct chunk *chunk); /* of open files */
void files_drop_chunk(const struct chunk *chunk);
bool files_define(enum definition_kind kind, uint32_t id, uint32_t extra, const char *text, size_t bytes);
void files_count_lost(void);
void files_count_folded(void);
void files_forget(uint32_t fork_parent);

/* names.c */

struct name {
    uint64_t hash;
    uint32_t id;
    uint32_t bytes;
    _Atomic uint32_t generation; /* in which its definition was last written */
    _Atomic(struct name *) pattern; /* the name with `{n}` for its numbers; NULL until needed */
    char text[];
};

struct domain {
    uint16_t id;
};

struct name *names_intern(const char *text);
struct name *names_intern_wide(const wchar_t *text);
uint32_t names_use(struct name *name);
struct name *names_pattern(struct name *name);
struct domain *names_domain(const char *text);
void names_define(enum definition_kind kind, uint32_t id, uint32_t extra, const char *text);
bool names_open_files(void);
size_t names_narrow(const wchar_t *wide, char *text, size_t room);

/* threads.c */

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
