/* A process's files of events (`.nvtx`) and definitions (`.nvtxdefs`), read by profkit/formats/nvtx_log.py. They are
 * little-endian, only grow, and are zero where unwritten. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the files are little-endian, and so must the machine be"
#endif

#define EVENT_MAGIC "PFKNVTXE"
#define DEFINITION_MAGIC "PFKNVTXD"

enum { LAYOUT_VERSION = 1, HEADER_BYTES = 4096, DEFINITION_BLOCK = 1 << 16 };

struct event_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t record_bytes;
    uint32_t pid;
    uint32_t ppid;
    uint32_t fork_parent; /* the parent, if forked with the library loaded, else 0 */
    uint32_t generation;  /* upper 16 bits of the ids of start/end ranges */
    uint32_t reserved;
    uint64_t monotonic_ns; /* both clocks at one moment; events use CLOCK_MONOTONIC */
    uint64_t realtime_ns;
    _Atomic uint64_t lost;   /* events without room */
    _Atomic uint64_t folded; /* events with a name beyond the cap, its numbers replaced */
    _Atomic uint64_t bytes;  /* given to chunks so far, including this page */
};

enum record_kind {
    RECORD_NONE = 0,    /* not written, or incomplete */
    RECORD_SEGMENT = 1, /* records of thread `payload`, the `string`-th of this process, follow */
    RECORD_MARK = 2,
    RECORD_PUSH = 3,
    RECORD_POP = 4,
    RECORD_START = 5,
    RECORD_END = 6, /* payload: generation << 48 | file offset of the RECORD_START */
    RECORD_GAP = 7  /* payload: events that this thread lost before */
};

struct record {
    uint64_t time_ns;
    _Atomic uint64_t head; /* kind u8, payload type u8, domain u16, string u32; stored last */
    uint32_t category;
    uint32_t color; /* ARGB, 0 for none */
    uint64_t payload;
};

_Static_assert(sizeof(struct event_header) <= HEADER_BYTES, "the header is one page");
_Static_assert(sizeof(struct record) == 32, "a record is half a cache line");

enum definition_kind {
    DEFINITION_STRING = 1,   /* id: its number; 0 for no string */
    DEFINITION_DOMAIN = 2,   /* id: its number; 0 for the default domain */
    DEFINITION_CATEGORY = 3, /* id: category, extra: domain */
    DEFINITION_THREAD = 4,   /* id: system thread id */
    DEFINITION_COMMAND = 5   /* the command line, arguments separated by NUL */
};

/* Definitions follow each other at multiples of 8 bytes and never cross a multiple of DEFINITION_BLOCK; the first
 * block starts with DEFINITION_MAGIC, and a `kind` of 0 ends a block. */
struct definition {
    _Atomic uint32_t kind; /* stored last */
    uint32_t bytes;        /* of the UTF-8 text that follows */
    uint32_t id;
    uint32_t extra;
};
