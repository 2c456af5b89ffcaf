/* Ends of calls that the hot path does not expect; see calls.h. */
#include "calls.h"

void calls_resynchronise(struct table *table, const void *key) {
    struct call *found = table_open_call(table, key);
    if (!found)
        return;
    int64_t now = clock_ticks();
    if (now - table->last > table->long_gap || now > table->due)
        now = waiting_charge(table, table->top, now);
    if (table->context)
        ranges_charge(table, table->top->function, now);
    table->last = now;
    while (table->top >= found)
        call_closes(table, now);
}

void calls_abandon_all(struct table *table) {
    ranges_close_all(table, table->last);
    while (table->top > table->stack)
        call_closes(table, table->last);
}

void calls_close_all(struct table *table, bool own_thread) {
    if (table->top > table->stack)
        waiting_settle(table, own_thread);
    int64_t now = clock_ticks();
    ranges_close_all(table, now);
    while (table->top > table->stack)
        call_closes(table, now);
    table->last = now;
}
