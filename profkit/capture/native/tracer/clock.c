#define _GNU_SOURCE 1
#include "clock.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Length of the first measurement of the counter's rate. Reading two clocks together is exact to 50 ns: one part in
 * 4000. */
#define CALIBRATION_NS 200000

/* A larger change of the rate means that the machine was suspended or migrated: the first rate is then better. */
#define RATE_TOLERANCE 0.01

bool clock_is_counter = false;

struct instant {
    int64_t ticks, ns;
};

static struct instant began;
static bool calibrated = false;
static double first_ns_per_tick = 1.0;

#ifdef __x86_64__
/* The kernel uses the counter only if it is constant, never stops and agrees between processors. */
static bool kernel_keeps_time_with_counter(void) {
    char name[16] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, name, sizeof name - 1);
    close(fd);
    return size >= 4 && strncmp(name, "tsc\n", 4) == 0;
}
#endif

/* Read both clocks at once; the fastest of three tries was hardly interrupted. */
static struct instant both_clocks(void) {
    struct instant best = {0, 0};
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t before = clock_ticks();
        int64_t ns = clock_monotonic_ns();
        int64_t after = clock_ticks();
        if (after - before < least) {
            least = after - before;
            best = (struct instant){before + (after - before) / 2, ns};
        }
    }
    return best;
}

void clock_start(void) {
#ifdef __x86_64__
    if (clock_is_counter || !kernel_keeps_time_with_counter())
        return;
    clock_is_counter = true;
    began = both_clocks();
#endif
}

void clock_calibrate(void) {
#ifdef __x86_64__
    if (calibrated || !clock_is_counter)
        return;
    calibrated = true;
    while (clock_monotonic_ns() - began.ns < CALIBRATION_NS)
        continue;
    struct instant now = both_clocks();
    if (now.ticks <= began.ticks) {
        clock_is_counter = false;
        return;
    }
    first_ns_per_tick = (double)(now.ns - began.ns) / (double)(now.ticks - began.ticks);
#endif
}

void clock_describe(int64_t *ticks, int64_t *ns, double *ns_per_tick) {
    *ticks = began.ticks;
    *ns = began.ns;
    *ns_per_tick = first_ns_per_tick;
}

int64_t clock_ticks_in(int64_t ns) { return (int64_t)((double)ns / first_ns_per_tick); }

int64_t clock_ns_in(int64_t ticks) { return (int64_t)((double)ticks * first_ns_per_tick); }

double clock_seconds_per_tick(void) {
    if (!clock_is_counter)
        return 1e-9;
    struct instant now = both_clocks();
    double rate = (double)(now.ns - began.ns) / (double)(now.ticks - began.ticks);
    if (!(fabs(rate / first_ns_per_tick - 1.0) < RATE_TOLERANCE))
        rate = first_ns_per_tick;
    return rate * 1e-9;
}
