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

void calls_adopt(struct table *table, PyObject *code, int64_t now) {
    struct function *caller = table->top->function;
    struct edge *edge = edges_find(&caller->callees, code);
    if (!edge)
        edge = table_add_edge(table, caller, code, code, NULL);
    if (!edge || (table->top + 1 == table->limit && !table_grow_stack(table))) {
        table->lost++;
        return;
    }
    struct call *call = table->top + 1;
    *call = (struct call){.edge = edge,
                          .start = now,
                          .wait_at_start = table->wait,
                          .blocked_at_start = table->blocked,
                          .key = code,
                          .function = edge->callee,
                          .path = path_of(table, table->top->path, edge->callee)};
    edge->callee->open++;
    edge->open++;
    table->top = call;
}
