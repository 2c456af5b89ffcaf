/* The type `Collector`, common to both builds; hook.h is what differs. */
#ifndef PROFKIT_COLLECTOR_H
#define PROFKIT_COLLECTOR_H

#include "python_api.h"
#include "tables.h"

struct collector {
    PyObject_HEAD
    unsigned long long serial; /* never used twice in a process */
    unsigned generation;
    bool mapped; /* its tables are in a file, which has them when it has gone, and which a forked child has not */
    bool enabled;
    bool displaced; /* another profiler has taken the place, or the program has unset our events */
    uint64_t thread_state; /* id of the state of the thread that it was enabled in; up to Python 3.11 only */
    struct table **tables; /* in order of the threads' first event; one only where a collector is a thread's */
    size_t n_tables, room;
    struct memory *before_warmup; /* NULL where there is none */
};

/* Make a table for the calling thread and add it; NULL when memory is exhausted. */
struct table *collector_add_table(struct collector *collector);

/* Find the table of a thread, or make one for it; NULL when memory is exhausted. */
struct table *collector_table_for(struct collector *collector, pid_t native, unsigned long ident);
/* Find or make the table of the calling thread; NULL when memory is exhausted. */
struct table *collector_table_of_this_thread(struct collector *collector);

/* The type, new; NULL with an exception set on failure. */
PyObject *collector_type(void);

/* The same when it has been made, borrowed. */
extern PyTypeObject *collector_class;

#endif
