/* The memory of the tables: a file of the spool, mapped shared so that it survives however the process ends; or
 * ordinary memory if no file was opened.
 *
 * The file is a header page and extents. Each extent is its own mapping, as no descriptor is kept, and begins with
 * its size and address, by which readers follow pointers. Blocks follow, with size, kind and table number; a size of
 * 0 ends an extent. `profkit/capture/mapped_file.py` reads the file; layout.c asserts the offsets. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_MAGIC "PFKCALLS"
enum { STORE_VERSION = 7, STORE_HEADER_BYTES = 4096, STORE_PREFIX_ROOM = 4096 };

enum block_kind {
    BLOCK_FREE = 0,
    BLOCK_TABLE = 1,
    BLOCK_ENTRIES = 2, /* of one table: functions, edges, contexts, rows, paths, pauses, lines, slices */
    BLOCK_STACK = 3,   /* open calls of one table */
    BLOCK_NAMES = 4,   /* files and functions */
    BLOCK_RECORD = 5   /* an agent's record that could not be written elsewhere */
};

/* Changes of tier (tiers.h) per process at most, including the first tier. */
enum { MOST_TIERS = 8 };

/* The tiers of a process in the store's header. Times are in ns. */
struct tier_store {
    int64_t n;
    struct {
        int64_t at_ns; /* CLOCK_MONOTONIC */
        int64_t tier;
    } spans[MOST_TIERS];
    int64_t sampled_ns; /* run time of all threads in the sampled tier, up to the last booking */
    int64_t unused;
    int64_t bursts, burst_ns; /* `burst_ns` is the program's run time in bursts, without events */
    int64_t unused_either;
    double effect_ns, least_ns, most_ns; /* effect on the wall so far, with a 95 % interval */
    double slowed;      /* largest relative excess of `burst_ns` */
    int64_t counted;    /* whether all seldom calls were counted in the sampled tier, see seldom.h */
};

struct store_header {
    char magic[8]; /* stored last */
    uint32_t version, header_bytes;
    uint32_t table_bytes, call_bytes, function_bytes, edge_bytes, context_bytes, path_bytes;
    uint32_t thread; /* that opened the file: readers put it first */
    uint32_t clock_is_counter;
    _Atomic uint32_t clock_turn; /* odd while the next two pairs are being stored */
    int64_t began_ticks, began_ns;
    int64_t latest_ticks, latest_ns;
    double first_ns_per_tick;
    _Atomic uint64_t epoch;  /* see fold.h */
    _Atomic uint64_t missed; /* blocks without room */
    struct tier_store tiers;
    _Atomic int64_t lost_forks; /* forked processes that could keep nothing */
};

struct extent {
    uint64_t bytes; /* including this struct */
    uint64_t address;
};

struct block {
    uint32_t bytes; /* including this struct */
    _Atomic uint32_t kind; /* stored when the content is readable */
    uint32_t owner;
    uint32_t mapped;
    char content[];
};

/* NULL if the tables are in ordinary memory. */
extern struct store_header *store_header;

/* Keep new tables in a new file; `descriptor` (or -1) is used if the path can no longer be opened. Functions in files
 * named with `prefix` are the agent's. `describe` fills in the sizes of structures (layout.h). False with errno if
 * impossible. */
bool store_open(const char *path, int descriptor, const char *prefix, void (*describe)(struct store_header *header));

/* At the end, make a network file system write the data, which another machine may read at once. */
void store_sync(void);

/* In a forked child, leave the file and its tables to the parent. */
void store_forget(void);

/* Note in the parent's file, which stays mapped, that nothing of this forked process, and of those that told it so,
 * could be kept. */
void store_tell_parent(void);

/* Let go of the file, before store_forget(). Its addresses stay readable and writable, all zero, as pointers into it
 * may be left in threads. */
void store_close(void);

bool store_is_own(const char *file, size_t bytes);

/* Store the calling thread's clocks as a pair; `ns` was read just now. */
void store_clock(int64_t ns);

/* Take a zeroed block for `bytes` without a kind; NULL without room. Needs no GIL. */
struct block *store_take(size_t bytes, uint32_t owner);

/* The same with a kind, so readable from the start; return its content. */
void *store_content(size_t bytes, enum block_kind kind, uint32_t owner);

static inline void store_publish(struct block *block, enum block_kind kind) {
    atomic_store_explicit(&block->kind, kind, memory_order_release);
}

void store_give(void *content);

static inline struct block *store_block_of(void *content) {
    return (struct block *)((char *)content - offsetof(struct block, content));
}

static inline size_t store_room(void *content) {
    return store_block_of(content)->bytes - offsetof(struct block, content);
}
