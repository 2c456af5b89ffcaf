#include "forks.h"

#include <pthread.h>

#include "agent.h"
#include "bursts.h"
#include "kept.h"
#include "kernel.h"
#include "sampler.h"
#include "store.h"
#include "table.h"
#include "threads.h"
#include "tiers.h"

static void forget_tables(void) {
    kernel_generation++;
    agent_forget();
    store_forget();
    kept_forget();
}

/* The table and those behind it without those in a file. */
static struct table *in_memory(struct table *table) {
    struct table *first = NULL, **last = &first;
    for (; table; table = table->next_of_thread)
        if (!table->mapped) {
            *last = table;
            last = &table->next_of_thread;
        }
    *last = NULL;
    return first;
}

void forks_let_go(bool idle) {
    kernel_last_table = NULL; /* other threads' are recognised by their owner */
    kernel_close_all(idle ? in_memory : NULL);
    if (idle) {
        kept_leave();
        store_close();
    }
    forget_tables();
}

/* Runs in a forked child's only thread. The descriptor and the tables in a file are the parent's. */
static void in_forked_child(void) {
    bool in_file = store_header != NULL;
    forget_tables();
    tiers_forget();
    bursts_forget();
    sampler_forget();
    struct table **tables = kernel_forget_others();
    if (in_file)
        kernel_last_table = NULL;
    if (!tables)
        return;
    if (in_file)
        *tables = NULL;
    for (struct table *table = *tables; table; table = table->next_of_thread) {
        table->generation = kernel_generation;
        table->native = kernel_thread_id();
        table->read_before = false;
    }
}

bool forks_start(void) {
    static bool started = false;
    if (!started)
        started = kernel_start(threads_ended) && pthread_atfork(NULL, NULL, in_forked_child) == 0;
    return started;
}
