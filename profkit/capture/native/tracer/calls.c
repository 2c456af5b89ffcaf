#include "calls.h"

static void close_down_to(struct table *table, const struct call *found) {
    int64_t now = clock_ticks();
    if (now - table->last > table->long_gap || now > table->due)
        now = waiting_charge(table, table->top, now);
    table->last = now;
    now = table_time(table, now);
    if (table->context)
        ranges_charge(table, table->top->function, now);
    while (table->top >= found)
        call_closes(table, now);
}

void calls_resynchronise(struct table *table, const void *key) {
    const struct call *found = table_open_call(table, key);
    if (found)
        close_down_to(table, found);
}

void calls_abandon_all(struct table *table) {
    int64_t now = table_time(table, table->last);
    ranges_close_all(table, now);
    while (table->top > table->stack)
        call_closes(table, now);
}

void calls_close_all(struct table *table, bool own_thread) {
    if (table->top > table->stack)
        waiting_settle(table, own_thread);
    table->last = clock_ticks();
    int64_t now = table_time(table, table->last);
    ranges_close_all(table, now);
    while (table->top > table->stack) {
        if (tiers_now() != tiers_wanted()) {
            table->top->function->cut++;
            table->top->function->again++;
        }
        call_closes(table, now);
    }
}

int calls_due(struct table *table) {
    int64_t now = clock_ticks();
    if (now > tiers_due)
        tiers_look();
    return now > agent_due ? agent_remind(table) : 0;
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
                          .start = table_time(table, now),
                          .wait_at_start = table->wait,
                          .blocked_at_start = table->blocked,
                          .key = code,
                          .function = edge->callee,
                          .path = path_of(table, table->top->path, edge)};
    if (edge->callee->again > 0 && edge->calls > 0) { /* it was counted when it was cut */
        edge->callee->again--;
        edge->calls--;
        call->path->calls--;
    } else {
        edge->callee->cut++;
        if (edge->counted > 0) { /* when it began */
            edge->counted--;
            edge->callee->counted_recursive -= edge->callee->open > 0 && edge->callee->counted_recursive > 0;
        }
    }
    edge->callee->open++;
    edge->open++;
    table->top = call;
}
