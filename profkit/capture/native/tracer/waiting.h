/* Charging waiting to functions, exactly and almost for nothing.
 *
 * A thread can only have lost the CPU in an interval between two of its events that is long enough for it. So
 * the kernel is asked after long intervals only, and what its counters have increased by is charged to the
 * function that was running in the interval. Short waits in short intervals add up unseen; every few
 * milliseconds they are charged to the function that is running then. A thread that turns out to have many
 * of them is asked about shorter intervals too: there the cost is small beside the waiting.
 */
#ifndef PROFKIT_WAITING_H
#define PROFKIT_WAITING_H

#include "tables.h"

/* The interval, ns, after which the kernel is asked; asking takes 1.2 us. */
#define LONG_GAP_NS 200000

/* The same while the thread has many short waits. Tried with select() of 20 us, which takes 80, among computing
 * of 30 to 150 us under contention: 0.99 of the time blocked falls to select(), against 0.94 without this. */
#define FINE_GAP_NS 50000

/* The longest time, ns, that short waits add up before they are charged. */
#define CHARGE_EVERY_NS 5000000

/* So many short waits, ns, when they are charged, are many; and for so long after the last they may return. */
#define MANY_SHORT_WAITS_NS 100000
#define STAY_FINE_NS 1000000000

/* Less than this, ns, is the inexactness of three counters that are read one after the other. */
#define NOTHING_NS 20000

/* Take the first reading of a table, or of one whose thread was not traced for some time. */
void waiting_start(struct table *table, bool own_thread);

/* A long interval of the calling thread, or the time to charge what has added up: `runner`, an open call of
 * `table`, ran from the table's last event until `now`. Returns when the interval ended, which is later than `now`
 * if the thread lost the CPU while it asked. */
int64_t waiting_charge(struct table *table, struct call *runner, int64_t now);

/* Charge everything to the innermost open call, which is about to be closed from outside. */
void waiting_settle(struct table *table, bool own_thread);

/* What would be charged to the innermost open call if it ended now. */
void waiting_pending(const struct table *table, bool own_thread, int64_t now, int64_t *wait, int64_t *blocked);

#endif
