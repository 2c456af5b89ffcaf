/* The memory of the tables: a file of the spool that is mapped shared, so that however the process ends the file has
 * what was stored; or, where no file was opened, ordinary memory.
 *
 * The file is a header page and extents behind it. Each extent is a mapping of its own, as no descriptor is kept; it
 * begins with its size and its address in this process, by which a reader follows the pointers in it. Behind that are blocks,
 * each with its size, what it holds, and the number of the table that it belongs to. A size of 0 ends an extent.
 * `profkit/capture/mapped_tables.py` reads it; layout.h asserts what it relies on.
 */
#ifndef PROFKIT_STORE_H
#define PROFKIT_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tiers.h"

#define STORE_MAGIC "PFKCALLS"
enum { STORE_VERSION = 7, STORE_HEADER_BYTES = 4096, STORE_PREFIX_ROOM = 4096 };

enum block_kind {
    BLOCK_FREE = 0,
    BLOCK_TABLE = 1,   /* a `struct table` */
    BLOCK_ENTRIES = 2, /* of one table: functions, edges, contexts, rows, paths, pauses, lines, slices */
    BLOCK_STACK = 3,   /* open calls of one table */
    BLOCK_NAMES = 4,   /* files and functions */
    BLOCK_RECORD = 5   /* a record of the agent's that could not be written elsewhere */
};

struct store_header {
    char magic[8]; /* stored last */
    uint32_t version, header_bytes;
    uint32_t table_bytes, call_bytes, function_bytes, edge_bytes, context_bytes, path_bytes;
    uint32_t pid;
    uint32_t clock_is_counter;
    _Atomic uint32_t clock_turn; /* odd while the two below it are being stored */
    int64_t began_ticks, began_ns;
    int64_t latest_ticks, latest_ns;
    double first_ns_per_tick;
    _Atomic uint64_t epoch;  /* see tables_fold() */
    _Atomic uint64_t missed; /* blocks for which there was no room */
    struct tier_store tiers;
};

struct extent {
    uint64_t bytes; /* with this */
    uint64_t address;
};

struct block {
    uint32_t bytes; /* with this */
    _Atomic uint32_t kind; /* stored when what is in it can be read */
    uint32_t owner;
    uint32_t mapped;
    char content[];
};

/* NULL where tables are in ordinary memory. */
extern struct store_header *store_header;

/* Keep the tables that are made from now on in a new file. `descriptor` is one of the same file that the process keeps,
 * or -1: it is used where the path can no longer be opened. Functions of files whose name begins with `prefix` are marked as
 * the agent's. False where that is impossible, with errno. */
bool store_open(const char *path, int descriptor, const char *prefix);

/* The process ends: have a network file system write what was stored, since another machine may read it at once. Elsewhere
 * every reader sees it as it is. */
void store_sync(void);

/* In a forked child: the file is the parent's, and so are all tables in it. */
void store_forget(void);

/* Whether a file name is the agent's. */
bool store_is_own(const char *file, size_t bytes);

/* Take the calling thread's clocks as a pair, of which `ns` was read just now. */
void store_clock(int64_t ns);

/* A block with room for `bytes`, zeroed, its kind not stored yet; NULL where there is no room. Needs no GIL. */
struct block *store_take(size_t bytes, uint32_t owner);

/* The same for content of `kind`, which can be read from the beginning. */
void *store_content(size_t bytes, enum block_kind kind, uint32_t owner);

static inline void store_publish(struct block *block, enum block_kind kind) {
    atomic_store_explicit(&block->kind, kind, memory_order_release);
}

/* Give back a block by its content, which may be NULL. */
void store_give(void *content);

static inline struct block *store_block_of(void *content) {
    return (struct block *)((char *)content - offsetof(struct block, content));
}

static inline size_t store_room(void *content) {
    return store_block_of(content)->bytes - offsetof(struct block, content);
}

#endif
