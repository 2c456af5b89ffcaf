/*
 * profkit's NVTX collector: the library that NVTX_INJECTION64_PATH names. Every library of a process that
 * contains NVTX calls `InitializeInjectionNvtx2` at its first NVTX call; from then on ranges, marks and names
 * arrive in callbacks.c, and are in the files of PROFKIT_SPOOL when the callback returns.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "collector.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool ready;

static void prepare(void)
{
    ready = files_configure() && threads_start();
}

/* Get ready at the first call; false where there is nowhere to write. */
bool collector_ready(void)
{
    pthread_once(&once, prepare);
    return ready;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_get_export_table get)
{
    if (!collector_ready())
        return 0; /* NVTX then runs as without a tool */
    callbacks_install(get);
    return 1;
}
