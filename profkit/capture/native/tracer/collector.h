/* The type `Collector`, common to all builds; hook.h declares what differs. */
#pragma once

#include "python_api.h"
#include "table.h"

struct collector {
    PyObject_HEAD
    unsigned long long serial;
    unsigned generation;
    bool mapped; /* its tables are in a file, which outlives it and which a forked child does not have */
    bool enabled;
    bool displaced; /* another profiler took its place, or the program unset our events */
    uint64_t thread_state; /* id of the thread state that it was enabled in; up to Python 3.11 */
    struct table **tables; /* by first event; only one if each thread has a collector */
    size_t n_tables, room;
    struct memory *before_warmup; /* NULL without a warm-up */
};

/* Make a table for the calling thread; NULL without memory, as below. */
struct table *collector_add_table(struct collector *collector);

struct table *collector_table_for(struct collector *collector, pid_t native, unsigned long ident);
struct table *collector_table_of_this_thread(struct collector *collector);

PyObject *collector_type(void);
