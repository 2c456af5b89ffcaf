/* Ends of calls that the hot path does not expect; see calls.h. */
#include "calls.h"

void calls_resynchronise(struct table *table, const void *key) {
    /* Most often a call that began before the tracer did. */
    struct function *function = table_open_function(table, key);
    if (!function)
        return;
    int64_t now = clock_ticks();
    if (now - table->last > table->long_gap || now > table->due)
        now = waiting_charge(table, table->top, now);
    if (table->context)
        ranges_charge(table, table->top->function, now);
    table->last = now;
    while (table->top > table->stack) {
        bool found = table->top->function == function;
        call_closes(table, now);
        if (found)
            return;
    }
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
