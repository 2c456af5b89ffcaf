/*
 * NVTX in a library of a process that is otherwise Python's, as NCCL or a data loader is: `start_named` starts a
 * thread that Python knows nothing of, names it, and keeps it; `create_domain` tells whether a domain was given.
 */
#define _GNU_SOURCE
#include "nvtx_client.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int ready;

static void *named(void *name)
{
    nv_thread((uint32_t)syscall(SYS_gettid), name);
    ready = 1;
    for (;;)
        pause();
    return NULL;
}

int start_named(const char *name)
{
    pthread_t thread;
    if (client_load() != 1 || pthread_create(&thread, NULL, named, (void *)name) != 0)
        return -1;
    while (!ready)
        usleep(1000);
    return 0;
}

int create_domain(const char *name)
{
    void *domain = client_load() == 1 ? nv_domain(name) : NULL;
    if (domain == NULL)
        return 0;
    event_t event = event_registered(nv_register(domain, "in the domain"));
    nv_domain_push(domain, &event);
    nv_domain_pop(domain);
    return 1;
}
