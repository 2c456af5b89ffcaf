/* All amounts are in ns. */
#include "waiting.h"

#include "clock.h"
#include "paths.h"
#include "ranges.h"
#include "store.h"

/* Asking takes 1200 ns, or 5000 if the descriptor must be opened; beyond this the thread lost the CPU meanwhile. */
#define LOST_WHILE_ASKING_NS 20000

static void remember(struct table *table, const struct reading *reading) {
    table->read = *reading;
    store_clock(reading->at);
    table->read_before = true;
}

void waiting_start(struct table *table, bool own_thread) {
    struct reading reading;
    table->last = clock_ticks();
    table->long_gap = clock_ticks_in(LONG_GAP_NS);
    table->due = table->last + clock_ticks_in(CHARGE_EVERY_NS);
    table->uncharged_wait = table->uncharged_blocked = 0;
    table->read_before = false;
    if (own_thread ? kernel_read_own(&reading) : kernel_read_other(table->native, &reading))
        remember(table, &reading);
    else
        table->unmeasured = true;
}

/* Add what happened since the last reading. Time neither on a CPU nor queued was blocked; small negative amounts, as
 * counters are not read at one instant, must cancel out. */
static void accumulate(const struct table *table, const struct reading *reading, int64_t *wait, int64_t *blocked) {
    int64_t waited = reading->wait - table->read.wait;
    if (waited < 0)
        waited = 0;
    *wait += waited;
    *blocked += (reading->at - table->read.at) - (reading->run - table->read.run) - waited;
}

static int64_t limited(int64_t low, int64_t value, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

static void charge_runner(struct table *table, struct call *runner, int64_t wait, int64_t blocked) {
    table->uncharged_wait -= wait;
    table->uncharged_blocked -= blocked;
    table->wait += wait;
    table->blocked += blocked;
    if (runner > table->stack) {
        runner->edge->wait += wait;
        runner->edge->blocked += blocked;
        runner->path->wait += wait;
        runner->path->blocked += blocked;
        if (table->context && (wait | blocked))
            ranges_wait(table, runner->function, wait, blocked);
    }
}

/* Choose the long interval: an interval of length `gap`, or (0) short ones together, held `waits` ns of waiting. */
static void adapt(struct table *table, int64_t now, int64_t gap, int64_t waits) {
    if (gap ? gap < LONG_GAP_NS && waits > NOTHING_NS : waits > MANY_SHORT_WAITS_NS) {
        table->long_gap = clock_ticks_in(FINE_GAP_NS);
        table->fine_until = now + clock_ticks_in(STAY_FINE_NS);
    } else if (now > table->fine_until) {
        table->long_gap = clock_ticks_in(LONG_GAP_NS);
    }
}

int64_t waiting_charge(struct table *table, struct call *runner, int64_t now) {
    struct reading reading;
    bool done = kernel_read_own(&reading);
    int64_t after = clock_ticks();
    if (after - now > clock_ticks_in(LOST_WHILE_ASKING_NS))
        now = after;
    if (!done) {
        table->unmeasured = true;
        table->due = now + clock_ticks_in(CHARGE_EVERY_NS);
        return now;
    }
    if (!table->read_before) { /* a forked child's counters restart */
        table->uncharged_wait = table->uncharged_blocked = 0;
        remember(table, &reading);
        table->due = now + clock_ticks_in(CHARGE_EVERY_NS);
        return now;
    }
    accumulate(table, &reading, &table->uncharged_wait, &table->uncharged_blocked);
    remember(table, &reading);
    int64_t gap = now - table->last;
    bool is_long = gap > table->long_gap;
    /* A long interval holds at most its length of waiting; the rest belongs to earlier short ones. */
    int64_t most = is_long ? clock_ns_in(gap) : INT64_MAX;
    int64_t wait = limited(0, table->uncharged_wait, most);
    int64_t blocked = limited(0, table->uncharged_blocked, most - wait);
    charge_runner(table, runner, wait, blocked);
    adapt(table, now, is_long ? most : 0, wait + blocked);
    /* If something is left, `due` stays, so that the next short interval charges it. */
    if (table->uncharged_wait + table->uncharged_blocked < NOTHING_NS)
        table->due = now + clock_ticks_in(CHARGE_EVERY_NS);
    return now;
}

void waiting_settle(struct table *table, bool own_thread) {
    struct reading reading;
    if (!table->read_before)
        return;
    if (own_thread ? kernel_read_own(&reading) : kernel_read_other(table->native, &reading)) {
        accumulate(table, &reading, &table->uncharged_wait, &table->uncharged_blocked);
        remember(table, &reading);
    }
    bool shared = !own_thread && table->ranges; /* the thread may report a range meanwhile */
    if (shared)
        pthread_mutex_lock(&table->lock);
    charge_runner(table, table->top, limited(0, table->uncharged_wait, INT64_MAX),
                  limited(0, table->uncharged_blocked, INT64_MAX));
    if (shared)
        pthread_mutex_unlock(&table->lock);
}
