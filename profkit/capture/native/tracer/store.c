#define _GNU_SOURCE 1
#include "python_api.h" /* first: it configures the system headers */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../nvtx/reserve.h"
#include "clock.h"
#include "kernel.h"

/* Sizes of extents: the first suffices for a small process; they double. */
#define FIRST_EXTENT ((size_t)1 << 15)
#define LARGEST_EXTENT ((size_t)1 << 22)
#define LEAST_EXTENT ((size_t)1 << 12)

/* Block sizes are powers of two, so that a freed block fits another table. */
#define LEAST_BLOCK 9
#define LARGEST_BLOCK 31

struct store_header *store_header = NULL;

static char *file_path;
static int kept_descriptor = -1;
static dev_t device;
static ino_t inode;
static char own_prefix[STORE_PREFIX_ROOM];
static size_t own_prefix_bytes;

static pthread_mutex_t store_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t file_end;
static size_t next_extent;
static char *extent_next, *extent_end; /* rest of the last extent */
static bool on_network;
static struct mapped {
    struct mapped *next;
    void *memory;
    size_t bytes;
} *all_mapped;
static struct block *given_back[LARGEST_BLOCK + 1]; /* linked by the first word of their content */

/* Whether a descriptor is our file's: by now a path may lead elsewhere, and a number belong to another file. */
static bool is_ours(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

/* NFS, SMB, CIFS, Lustre, GPFS, Ceph, BeeGFS, AFS, 9P, and FUSE, which can be any. */
static bool is_network(long type) {
    static const unsigned long types[] = {0x6969,     0xFE534D42, 0xFF534D42, 0x0BD00BD0, 0x47504653,
                                          0x00C36400, 0x19830326, 0x5346414F, 0x01021997, 0x65735546};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (((unsigned long)type & 0xFFFFFFFF) == types[i])
            return true;
    return false;
}

static void *map_at_end(int fd, size_t bytes) {
    size_t before = beyond_page(file_end);
    char *memory = map_reserved(fd, file_end, bytes);
    struct mapped *mapped = memory ? malloc(sizeof *mapped) : NULL;
    if (mapped) {
        *mapped = (struct mapped){all_mapped, memory - before, before + bytes};
        all_mapped = mapped;
    }
    return memory;
}

void store_sync(void) {
    for (const struct mapped *mapped = on_network ? all_mapped : NULL; mapped; mapped = mapped->next)
        msync(mapped->memory, mapped->bytes, MS_SYNC);
}

static void *map_more(size_t bytes) {
    void *memory = NULL;
    int fd = open(file_path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        if (is_ours(fd))
            memory = map_at_end(fd, bytes);
        close(fd);
    }
    if (!memory && kept_descriptor >= 0 && is_ours(kept_descriptor))
        memory = map_at_end(kept_descriptor, bytes);
    if (memory)
        file_end += bytes;
    return memory;
}

static bool open_file(const char *path) {
    struct stat status;
    struct statfs system;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    on_network = fstatfs(fd, &system) == 0 && is_network(system.f_type);
    bool done = fstat(fd, &status) == 0 && status.st_size == 0;
    device = status.st_dev;
    inode = status.st_ino;
    file_end = 0;
    struct store_header *page = done ? map_at_end(fd, STORE_HEADER_BYTES) : NULL;
    int error = errno;
    if (!page && done && ftruncate(fd, 0) != 0)
        error = errno;
    close(fd);
    errno = error;
    store_header = page;
    return page != NULL;
}

bool store_open(const char *path, int descriptor, const char *prefix, void (*describe)(struct store_header *header)) {
    char *copy = strdup(path);
    if (!copy || strlen(prefix) >= sizeof own_prefix || sizeof(void *) != 8) {
        free(copy);
        errno = ENOMEM;
        return false;
    }
    if (!open_file(copy)) {
        free(copy);
        return false;
    }
    free(file_path);
    file_path = copy;
    kept_descriptor = descriptor;
    strcpy(own_prefix, prefix);
    own_prefix_bytes = strlen(prefix);
    file_end = STORE_HEADER_BYTES;
    next_extent = FIRST_EXTENT;
    store_header->version = STORE_VERSION;
    store_header->header_bytes = STORE_HEADER_BYTES;
    describe(store_header);
    store_header->thread = (uint32_t)kernel_thread_id();
    store_header->clock_is_counter = clock_is_counter;
    clock_describe(&store_header->began_ticks, &store_header->began_ns, &store_header->first_ns_per_tick);
    memcpy(store_header->magic, STORE_MAGIC, sizeof store_header->magic);
    store_clock(clock_monotonic_ns());
    return true;
}

static struct store_header *parents;

void store_tell_parent(void) {
    if (parents)
        atomic_fetch_add(&parents->lost_forks, 1 + (store_header ? store_header->lost_forks : 0));
}

void store_forget(void) {
    /* The mappings stay: unused pointers into them may be left. */
    pthread_mutex_init(&store_lock, NULL); /* another thread of the parent may have held it */
    parents = store_header;
    store_header = NULL;
    kept_descriptor = -1;
    all_mapped = NULL;
    extent_next = extent_end = NULL;
    memset(given_back, 0, sizeof given_back);
}

void store_close(void) {
    for (struct mapped *mapped = all_mapped, *next; mapped; mapped = next) {
        next = mapped->next;
        mmap(mapped->memory, mapped->bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        free(mapped);
    }
    all_mapped = NULL;
}

bool store_is_own(const char *file, size_t bytes) {
    return own_prefix_bytes && bytes >= own_prefix_bytes && memcmp(file, own_prefix, own_prefix_bytes) == 0;
}

void store_clock(int64_t ns) {
    struct store_header *page = store_header;
    if (!page)
        return;
    int64_t ticks = clock_ticks();
    atomic_fetch_add(&page->clock_turn, 1);
    page->latest_ticks = ticks;
    page->latest_ns = ns;
    atomic_fetch_add(&page->clock_turn, 1);
}

static bool add_extent(size_t needed) {
    size_t bytes = next_extent;
    while (bytes < needed + sizeof(struct extent))
        bytes *= 2;
    struct extent *extent = map_more(bytes);
    while (!extent && bytes / 2 >= LEAST_EXTENT && bytes / 2 >= needed + sizeof *extent)
        extent = map_more(bytes /= 2); /* little space is left */
    if (!extent)
        return false;
    extent->address = (uint64_t)(uintptr_t)extent;
    extent->bytes = bytes;
    extent_next = (char *)(extent + 1);
    extent_end = (char *)extent + bytes;
    if (next_extent < LARGEST_EXTENT)
        next_extent *= 2;
    return true;
}

static struct block *take_mapped(unsigned power) {
    size_t bytes = (size_t)1 << power;
    struct block *block = given_back[power];
    if (block) {
        memcpy(&given_back[power], block->content, sizeof block);
        memset(block->content, 0, bytes - sizeof *block);
        return block;
    }
    if ((size_t)(extent_end - extent_next) < bytes && !add_extent(bytes))
        return NULL;
    block = (struct block *)extent_next;
    extent_next += bytes;
    block->mapped = 1;
    block->bytes = (uint32_t)bytes;
    return block;
}

struct block *store_take(size_t bytes, uint32_t owner) {
    struct block *block;
    bytes += sizeof *block;
    if (bytes >= (size_t)1 << LARGEST_BLOCK)
        return NULL;
    if (!store_header) {
        block = calloc(1, bytes);
        if (block)
            block->bytes = (uint32_t)bytes;
    } else {
        unsigned power = LEAST_BLOCK;
        while ((size_t)1 << power < bytes)
            power++;
        pthread_mutex_lock(&store_lock);
        block = take_mapped(power);
        pthread_mutex_unlock(&store_lock);
        if (!block)
            atomic_fetch_add(&store_header->missed, 1);
    }
    if (block)
        block->owner = owner;
    return block;
}

void *store_content(size_t bytes, enum block_kind kind, uint32_t owner) {
    struct block *block = store_take(bytes, owner);
    if (!block)
        return NULL;
    store_publish(block, kind);
    return block->content;
}

void store_give(void *content) {
    if (!content)
        return;
    struct block *block = store_block_of(content);
    if (!block->mapped) {
        free(block);
        return;
    }
    unsigned power = LEAST_BLOCK;
    while ((size_t)1 << power < block->bytes)
        power++;
    store_publish(block, BLOCK_FREE);
    pthread_mutex_lock(&store_lock);
    memcpy(block->content, &given_back[power], sizeof block);
    given_back[power] = block;
    pthread_mutex_unlock(&store_lock);
}
