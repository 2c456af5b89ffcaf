/* profkit's NVTX collector, the library in NVTX_INJECTION64_PATH. Every library with NVTX calls
 * `InitializeInjectionNvtx2` at its first NVTX call; later calls arrive in callbacks.c. */
#define _GNU_SOURCE
#include <pthread.h>

#include "collector.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool ready;

static void prepare(void)
{
    ready = files_configure() && threads_start();
}

bool collector_ready(void)
{
    pthread_once(&once, prepare);
    return ready;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_get_export_table get)
{
    if (!collector_ready())
        return 0; /* NVTX then runs without a tool */
    callbacks_install(get);
    return 1;
}
