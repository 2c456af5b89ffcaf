/* Ends of calls that the hot path does not expect; see calls.h. */
#include "calls.h"

/* End an open call, and those in it. */
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

/* The innermost open call of a frame, or NULL. */
static const struct call *call_of_frame(const struct table *table, const void *frame) {
    for (const struct call *call = table->top; call > table->stack; call--)
        if (call->frame == frame)
            return call;
    return NULL;
}

bool calls_have_frame(const struct table *table, const void *frame) { return call_of_frame(table, frame) != NULL; }

void calls_end_frame(struct table *table, const void *frame, const struct probe *probe) {
    if (LIKELY(table->top->frame == frame)) {
        call_ends_here(table, probe);
        return;
    }
    const struct call *call = call_of_frame(table, frame);
    if (call) /* greenlets have left some behind; there is none where the function has been throttled meanwhile */
        close_down_to(table, call);
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
    while (table->top > table->stack)
        call_closes(table, now);
}

void calls_remove(struct table *table, const struct name *name) {
    struct edge *edge = edges_find(&table->functions, name);
    const struct function *function = edge ? edge->callee : NULL;
    if (!function || function->open == 0)
        return;
    int64_t now = table_time(table, clock_ticks());
    for (struct call *call = table->top; call > table->stack; call--)
        if (call->function == function)
            call_books(table, call, now, call < table->top ? now - call[1].start : 0);
    struct call *kept = table->stack;
    for (struct call *call = table->stack + 1; call <= table->top; call++) {
        if (call->function != function) {
            *++kept = *call;
            continue;
        }
        /* What it called and what is still open in it are its caller's from now on; what it took itself is booked. */
        kept->children += now - call->start - (call < table->top ? now - call[1].start : 0);
    }
    table->top = kept;
}

int calls_due(struct table *table) {
    int64_t now = clock_ticks();
    if (now > throttle_due) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        throttle_look(table);
        PyErr_Restore(type, value, traceback);
    }
    return now > agent_due ? agent_remind(table) : 0;
}

void calls_adopt(struct table *table, PyObject *code, int64_t now) {
    struct function *caller = table->top->function;
    if (throttle_has(code))
        return;
    struct edge *edge = edges_find(&caller->callees, code);
    if (!edge)
        edge = table_add_edge(table, caller, code, code, NULL);
    if (edge == &table_left_edge)
        return;
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
    edge->callee->open++;
    edge->open++;
    table->top = call;
}
