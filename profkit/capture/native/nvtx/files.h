/* The files of the calling process. The lock is held, except for the counters. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "layout.h"

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

struct chunk {
    struct record *begin;
    size_t bytes;
    uint64_t offset; /* of `begin` in the event file */
};

bool files_configure(void);
bool files_are_open(void);
bool files_open(void); /* only while they are not open; others call names_open_files() */
bool files_chunk(size_t bytes, struct chunk *chunk); /* only while they are open */
void files_drop_chunk(const struct chunk *chunk);
bool files_define(enum definition_kind kind, uint32_t id, uint32_t extra, const char *text, size_t bytes);
void files_count_lost(void);
void files_count_folded(void);
void files_forget(uint32_t fork_parent);
