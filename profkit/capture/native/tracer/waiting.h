/* Charges waiting to functions, exactly and at almost no cost. A thread can lose the CPU only between two events
 * that are far enough apart: only then is the kernel asked, and the increase of its counters charged to the function
 * that ran. Short waits add up and are charged every few ms; a thread with many of them is asked after shorter
 * intervals. */
#pragma once

#include "table.h"

/* Interval after which the kernel is asked, ns; asking takes 1200 ns. */
#define LONG_GAP_NS 200000

/* The same while a thread has many short waits, ns. With select() of 20 us (taking 80) among computations of 30 to
 * 150 us under contention, select() gets 0.99 of its blocked time, against 0.94 without this. */
#define FINE_GAP_NS 50000

/* Longest time for which short waits add up before they are charged, ns. */
#define CHARGE_EVERY_NS 5000000

/* Short waits that count as many when charged, ns, and how long the shorter interval lasts after them, ns. */
#define MANY_SHORT_WAITS_NS 100000
#define STAY_FINE_NS 1000000000

/* Inexactness of reading three counters in turn, ns. */
#define NOTHING_NS 20000

/* Take the first reading of a table, or the first after a time without tracing. */
void waiting_start(struct table *table, bool own_thread);

/* Charge a long interval of the calling thread, or what has added up: `runner`, an open call, ran from the last
 * event to `now`. Return the interval's end, later than `now` if the thread lost the CPU while asking. */
int64_t waiting_charge(struct table *table, struct call *runner, int64_t now);

/* Charge everything to the innermost open call before it is closed from outside. */
void waiting_settle(struct table *table, bool own_thread);
