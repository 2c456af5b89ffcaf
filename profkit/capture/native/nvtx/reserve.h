#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
