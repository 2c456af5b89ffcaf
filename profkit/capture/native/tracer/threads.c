#include "threads.h"

#include <pthread.h>

#include "fold.h"
#include "kept.h"
#include "kernel.h"
#include "store.h"
#include "tables.h"
#include "waiting.h"

/* Have `table` marked as ended at the calling thread's end; false without memory. */
static bool follow_here(struct table *table) {
    struct table **tables = kernel_tables_here();
    if (!tables)
        return false;
    table_retain(table);
    table->followed = true;
    table->next_of_thread = *tables;
    *tables = table;
    return true;
}

void threads_ended(struct table *tables) {
    for (struct table *table = tables, *next; table; table = next) {
        next = table->next_of_thread;
        atomic_store(&table->ended, true);
        table_release(table);
    }
}

struct table *threads_new_table(unsigned long long owner, pid_t native, unsigned long ident) {
    if (store_header)
        fold_ended_tables();
    struct table *table = table_new();
    if (!table)
        return NULL;
    bool own = ident == (unsigned long)pthread_self();
    if (own && !follow_here(table)) {
        table_release(table);
        return NULL;
    }
    table->owner = owner;
    table->native = native;
    table->ident = ident;
    waiting_start(table, own);
    table_publish(table);
    if (table->mapped)
        kept_add(table);
    return table;
}

bool threads_follow(struct table *table) {
    if (!table->followed && (table->ident != (unsigned long)pthread_self() || !follow_here(table)))
        atomic_store(&table->ended, true);
    return !table_ended(table);
}

struct table *threads_table_here(void) {
    struct table *table = kernel_last_table;
    if (table && !table_ended(table) && table->mapped)
        return table;
    pid_t native = kernel_thread_id();
    unsigned long ident = (unsigned long)pthread_self();
    table = kept_running(native, ident);
    if (!table && (table = threads_new_table(TABLE_OF_SAMPLES, native, ident)))
        table_release(table); /* it is kept, and this thread's until its end */
    if (!table || !threads_follow(table))
        return NULL;
    return kernel_last_table = table;
}
