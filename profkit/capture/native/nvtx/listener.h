/* Reports of pushed ranges to profkit's tracer, which finds `profkit_nvtx_listen` by dlsym() in this library: it and
 * NVTX load it by the same path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The listener's functions, called in the thread that pushes or pops, with or without the GIL. */
struct range_listener {
    size_t struct_size;
    /* Just before a range begins. `name` is its number in the definitions, after numbers in it became `{n}`; 0 for
     * none. */
    void (*pushed)(uint32_t domain, uint32_t name);
    void (*popped)(uint32_t domain);
    /* The outermost range named by profkit_nvtx_watch() in a thread begins, or has just ended. */
    void (*watched)(bool begins);
    /* It did not end, but the thread in which it was pushed does, and can run no Python any more. */
    void (*left)(void);
};

#define NVTX_LISTEN_NAME "profkit_nvtx_listen"

/* Set the listener, which must live as long as the process. */
typedef void (*nvtx_listen_function)(const struct range_listener *listener);

#define NVTX_WATCH_NAME "profkit_nvtx_watch"

/* Report ranges of this name, in the default domain for an empty `domain`, in any for NULL: each, or only those that
 * begin while none is open in any thread. */
typedef bool (*nvtx_watch_function)(const char *name, const char *domain, bool each);
