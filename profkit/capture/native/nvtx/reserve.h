#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Allocate `bytes` at the end of a file to be mapped: a store into a hole would be a SIGBUS when the disk is full. False
 * with errno if impossible. */
static inline bool reserve(int fd, uint64_t offset, size_t bytes) {
    struct rlimit most;
    /* Writing past this limit would send SIGXFSZ to the target. */
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && offset + bytes > most.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    int error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    if (error == 0)
        return true;
    if (error != EOPNOTSUPP && error != EINVAL) {
        errno = error;
        return false;
    }
    static const char zeros[4096];
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < sizeof zeros ? bytes - done : sizeof zeros;
        ssize_t wrote = pwrite(fd, zeros, part, (off_t)(offset + done));
        if (wrote <= 0)
            return false;
        done += (size_t)wrote;
    }
    return true;
}

/* Bytes by which a place is beyond the beginning of its page: pages have 4 to 64 KiB. */
static inline size_t beyond_page(uint64_t place) { return place % (uint64_t)getpagesize(); }

/* Allocate bytes at the end of a file and map them; NULL with errno if impossible. They are as far beyond the beginning of
 * a page of memory as of the file: what is before them is mapped, too. */
static inline void *map_reserved(int fd, uint64_t offset, size_t bytes) {
    size_t before = beyond_page(offset);
    if (!reserve(fd, offset, bytes))
        return NULL;
    char *memory = mmap(NULL, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - before));
    return memory == MAP_FAILED ? NULL : memory + before;
}
