#include "calls.h"

#include <stdlib.h>

#include "range_events.h"

void calls_resynchronise(struct table *table, const void *key) {
    const struct call *found = table_open_call(table, key);
    if (!found)
        return;
    int64_t now = call_runs_until_now(table, 0);
    while (table->top >= found)
        call_closes(table, now);
}

void calls_abandon_all(struct table *table) {
    int64_t now = table_time(table, table->last);
    range_events_close_all(table, now);
    while (table->top > table->stack)
        call_closes(table, now);
}

void calls_close_all(struct table *table, bool own_thread) {
    if (table->top > table->stack)
        waiting_settle(table, own_thread);
    table->last = clock_ticks();
    int64_t now = table_time(table, table->last);
    range_events_close_all(table, now);
    while (table->top > table->stack && !(table->stays_open && table->top->start == table->stays_open)) {
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

/* Record a call of `code` that began unseen at `now` inside the innermost open call. */
static void adopt(struct table *table, PyObject *code, int64_t now) {
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

/* Collect the code of a frame and its callers, innermost first, as new references; return the count. */
static size_t codes_of(PyObject *frame, PyObject ***found) {
    size_t n = 0, room = 0;
    PyObject **codes = NULL;
    Py_XINCREF(frame);
    while (frame && frame != Py_None) {
        if (n == room) {
            size_t more = room ? 2 * room : 64;
            PyObject **grown = realloc(codes, more * sizeof *grown);
            if (!grown)
                break;
            codes = grown;
            room = more;
        }
        PyObject *code = attribute(frame, "f_code");
        if (code)
            codes[n++] = code;
        PyObject *around = attribute(frame, "f_back");
        Py_DECREF(frame);
        frame = around;
    }
    Py_XDECREF(frame);
    *found = codes;
    return n;
}

void calls_adopt_all(struct table *table, PyObject *frame, struct adopted which) {
    PyObject *type, *value, *traceback, **codes;
    PyErr_Fetch(&type, &value, &traceback);
    size_t n = codes_of(frame, &codes);
    int64_t now = clock_ticks();
    for (size_t i = n; i-- > 0;) {
        if (i >= which.skip && i - which.skip < which.most)
            adopt(table, codes[i], now);
        Py_DECREF(codes[i]);
    }
    table->stays_open = which.most < SIZE_MAX ? table_time(table, now) : 0;
    table->last = now;
    table->charged_until = table_time(table, now); /* what ran before was charged by samples */
    free(codes);
    PyErr_Restore(type, value, traceback);
}
