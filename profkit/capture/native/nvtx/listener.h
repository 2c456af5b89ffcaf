/* What the collector reports to another library of the process about pushed ranges, while the program runs.
 *
 * That other library is profkit's tracer, which charges the time of functions to the ranges that are open. It finds
 * `profkit_nvtx_listen` with dlsym() in this library, which both it and NVTX load by the same path.
 */
#ifndef PROFKIT_NVTX_LISTENER_H
#define PROFKIT_NVTX_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The listener's own record; both are called in the thread that pushes or pops, with or without the GIL. */
struct range_listener {
    size_t struct_size;
    /* Just before a range begins. `name` is the number of its name in the definitions, the numbers in the name
     * replaced by `{n}`; 0 for none. `domain` is 0 for the default one. */
    void (*pushed)(uint32_t domain, uint32_t name);
    /* Just after one ended. */
    void (*popped)(uint32_t domain);
    /* The outermost range of a thread that profkit_nvtx_watch() named begins, or has just ended. */
    void (*watched)(bool begins);
};

#define NVTX_LISTEN_NAME "profkit_nvtx_listen"

/* Set the listener, which must live as long as the process. */
typedef void (*nvtx_listen_function)(const struct range_listener *listener);

#define NVTX_WATCH_NAME "profkit_nvtx_watch"

/* Have ranges of this name reported; of the default domain for an empty `domain`, of any for NULL. */
typedef bool (*nvtx_watch_function)(const char *name, const char *domain);

#endif
