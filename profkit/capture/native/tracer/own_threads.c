#include "python_api.h" /* first: it configures the system headers */
#include "own_threads.h"

#include <stddef.h>

#include "kernel.h"

struct own_threads own_threads;

int64_t own_threads_used(void) {
    int64_t used = own_threads.used_by_ended, ns;
    if (own_threads.looker && kernel_cpu_time(own_threads.looker, &ns))
        used += ns;
    if (own_threads.booker && kernel_cpu_time(own_threads.booker, &ns))
        used += ns;
    return used;
}

void own_threads_wake(void) {
    if (own_threads.wake)
        own_threads.wake();
}
