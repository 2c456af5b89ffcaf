/* The process's files, written through shared mappings, so they survive however the process ends. No descriptor is
 * kept: programs close unknown descriptors, and writing to a reused number would damage the target's data. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "files.h"
#include "reserve.h"

/* Bytes of events per process, unless PROFKIT_NVTX_BYTES is set: 33 million events. */
#define DEFAULT_LIMIT (1ull << 30)

enum { PATH_ROOM = 4096, COMMAND_ROOM = 4096 };

static char spool[PATH_ROOM];
static char event_path[PATH_ROOM + 128];
static char definition_path[PATH_ROOM + 136];
static uint64_t limit_bytes = DEFAULT_LIMIT;

static struct event_header *header; /* NULL until the first event */
static uint64_t event_end;
static char *block; /* of definitions, mapped */
static size_t block_used;
static uint64_t definition_end;
static uint64_t retry_open_ns;
static uint32_t forked_from;

/* Counts made before there was a header. */
static _Atomic uint64_t lost_before, folded_before;
static _Atomic(struct event_header *) counters;

uint32_t collector_generation = 1;
pthread_mutex_t collector_lock = PTHREAD_MUTEX_INITIALIZER;

bool files_configure(void)
{
    const char *directory = getenv("PROFKIT_SPOOL");
    if (directory == NULL || directory[0] != '/' || strlen(directory) >= sizeof spool)
        return false;
    strcpy(spool, directory);
    const char *limit = getenv("PROFKIT_NVTX_BYTES");
    if (limit != NULL && limit[0] >= '0' && limit[0] <= '9')
        limit_bytes = strtoull(limit, NULL, 10);
    return true;
}

static void *map_more(const char *path, int flags, uint64_t offset, size_t bytes)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return NULL;
    void *memory = map_reserved(fd, offset, bytes);
    close(fd);
    if (memory == NULL)
        errno = ENOSPC;
    return memory;
}

static void unmap(void *memory, size_t bytes)
{
    size_t before = beyond_page((uintptr_t)memory);
    if (memory != NULL)
        munmap((char *)memory - before, before + bytes);
}

static void define_command(void)
{
    char text[COMMAND_ROOM];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t bytes = read(fd, text, sizeof text);
    close(fd);
    if (bytes > 0)
        files_define(DEFINITION_COMMAND, 0, 0, text, (size_t)bytes);
}

bool files_are_open(void) { return header != NULL; }

bool files_open(void)
{
    uint64_t now = now_ns();
    if (now < retry_open_ns)
        return false;
    retry_open_ns = now + RETRY_NS;
    struct utsname system;
    if (uname(&system) != 0)
        return false;
    struct event_header *page = NULL;
    uint64_t micros = clock_ns(CLOCK_REALTIME) / 1000;
    for (int attempt = 0; attempt < 16 && page == NULL; attempt++) {
        int wrote = snprintf(event_path, sizeof event_path, "%s/%s-%ld-%llu.nvtx", spool, system.nodename,
                             (long)getpid(), (unsigned long long)(micros + (uint64_t)attempt));
        if (wrote < 0 || (size_t)wrote >= sizeof event_path)
            return false;
        page = map_more(event_path, O_CREAT | O_EXCL, 0, HEADER_BYTES);
        if (page == NULL && errno != EEXIST) {
            if (errno == ENOSPC) /* an empty file would be read as damaged */
                unlink(event_path);
            return false;
        }
    }
    if (page == NULL)
        return false;
    snprintf(definition_path, sizeof definition_path, "%sdefs", event_path);
    page->version = LAYOUT_VERSION;
    page->header_bytes = HEADER_BYTES;
    page->record_bytes = sizeof(struct record);
    page->pid = (uint32_t)getpid();
    page->ppid = (uint32_t)getppid();
    page->fork_parent = forked_from;
    page->generation = collector_generation & 0xFFFF;
    page->monotonic_ns = now_ns();
    page->realtime_ns = clock_ns(CLOCK_REALTIME);
    atomic_store(&page->bytes, HEADER_BYTES);
    memcpy(page->magic, EVENT_MAGIC, sizeof page->magic);
    header = page;
    event_end = HEADER_BYTES;
    atomic_store(&counters, page);
    atomic_fetch_add(&page->lost, atomic_exchange(&lost_before, 0));
    atomic_fetch_add(&page->folded, atomic_exchange(&folded_before, 0));
    define_command();
    return true;
}

bool files_chunk(size_t bytes, struct chunk *chunk)
{
    if (event_end + bytes > limit_bytes)
        return false;
    void *memory = map_more(event_path, 0, event_end, bytes);
    if (memory == NULL)
        return false;
    *chunk = (struct chunk){memory, bytes, event_end};
    event_end += bytes;
    atomic_store(&header->bytes, event_end);
    return true;
}

void files_drop_chunk(const struct chunk *chunk)
{
    unmap(chunk->begin, chunk->bytes);
}

bool files_define(enum definition_kind kind, uint32_t id, uint32_t extra, const char *text, size_t bytes)
{
    if (header == NULL)
        return false;
    size_t needed = (sizeof(struct definition) + bytes + 7) & ~(size_t)7;
    if (block == NULL || block_used + needed > DEFINITION_BLOCK) {
        char *more = map_more(definition_path, O_CREAT, definition_end, DEFINITION_BLOCK);
        if (more == NULL)
            return false;
        unmap(block, DEFINITION_BLOCK);
        block = more;
        block_used = 0;
        if (definition_end == 0) {
            memcpy(block, DEFINITION_MAGIC, 8);
            block_used = 8;
        }
        definition_end += DEFINITION_BLOCK;
    }
    struct definition *place = (struct definition *)(block + block_used);
    memcpy(place + 1, text, bytes);
    place->bytes = (uint32_t)bytes;
    place->id = id;
    place->extra = extra;
    atomic_store_explicit(&place->kind, kind, memory_order_release);
    block_used += needed;
    return true;
}

void files_count_lost(void)
{
    struct event_header *page = atomic_load(&counters);
    atomic_fetch_add(page != NULL ? &page->lost : &lost_before, 1);
}

void files_count_folded(void)
{
    struct event_header *page = atomic_load(&counters);
    atomic_fetch_add(page != NULL ? &page->folded : &folded_before, 1);
}

/* In a forked child, leave the files to the parent. */
void files_forget(uint32_t fork_parent)
{
    unmap(header, HEADER_BYTES);
    unmap(block, DEFINITION_BLOCK);
    header = NULL;
    block = NULL;
    block_used = 0;
    event_end = definition_end = retry_open_ns = 0;
    forked_from = fork_parent;
    atomic_store(&counters, NULL);
    atomic_store(&lost_before, 0);
    atomic_store(&folded_before, 0);
}
