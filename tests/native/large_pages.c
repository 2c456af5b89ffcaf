/* Pages of 64 KiB, as Linux has on some ARM servers: to be loaded before what maps files there. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 65536ul
#define WHOLE(bytes) (((bytes) + PAGE - 1) / PAGE * PAGE)

static int refused(const void *at) {
    errno = EINVAL;
    return (uintptr_t)at % PAGE != 0;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (refused(at) || offset % (off_t)PAGE != 0)
        return MAP_FAILED;
    if (at == NULL) {
        const int empty = MAP_PRIVATE | MAP_ANONYMOUS;
        at = (void *)WHOLE((uintptr_t)syscall(SYS_mmap, NULL, WHOLE(bytes) + PAGE, PROT_NONE, empty, -1, 0L));
        flags |= MAP_FIXED;
    }
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return mmap(at, bytes, protection, flags, fd, offset);
}

int munmap(void *at, size_t bytes) { return refused(at) ? -1 : (int)syscall(SYS_munmap, at, WHOLE(bytes)); }

int msync(void *at, size_t bytes, int flags) { return refused(at) ? -1 : (int)syscall(SYS_msync, at, bytes, flags); }

int getpagesize(void) { return (int)PAGE; }
