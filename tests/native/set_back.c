/* To be preloaded: each time that the time of day is read, it has been set back by a minute. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static atomic_int times;
    int status = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME)
        time->tv_sec -= 60 * atomic_fetch_add(&times, 1);
    return status;
}
