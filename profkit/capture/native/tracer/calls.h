/* The hot path: calls begin and end, without locks, and without allocation once the functions are known.
 *
 * As in cProfile, the clock is read last at a call's start and first at its end: the tracer's time falls to the
 * caller. */
#pragma once

#include "tables.h"

#include "agent.h"
#include "clock.h"
#include "hook.h"
#include "paths.h"
#include "ranges.h"
#include "tiers.h"
#include "waiting.h"

/* Close calls that ended unseen, e.g. left behind by a greenlet, if an outer call of `key` is open. */
void calls_resynchronise(struct table *table, const void *key);

/* Close the open calls of a thread whose tracing ends, but for adopted ones that stay open. */
void calls_close_all(struct table *table, bool own_thread);

/* The same for a thread that was not traced since its last event: later time belongs to no call. */
void calls_abandon_all(struct table *table);

/* Record calls in progress of a frame (or NULL) and its callers as if they began now, in a table without open calls.
 * Runs no Python code, so the thread stays where it is. */
void calls_adopt_all(struct table *table, PyObject *frame, struct adopted which);

/* Do what is due: call the agent, or check the budget. Return as agent_remind(). */
int calls_due(struct table *table);

/* `probe` is the cost of the call's events. Return as calls_due(). */
static inline int call_begins(struct table *table, const void *key, PyObject *object, PyObject *self,
                              const struct probe *probe) {
    struct function *caller = table->top->function;
    struct edge *edge = caller->last;
    if (UNLIKELY(caller->last_key != key)) {
        edge = edges_find(&caller->callees, key);
        if (LIKELY(edge)) {
            caller->last_key = key;
            caller->last = edge;
        } else {
            edge = table_add_edge(table, caller, key, object, self);
            if (!edge) {
                table->lost++;
                return 0;
            }
        }
    }
    if (UNLIKELY(table->top + 1 == table->limit) && !table_grow_stack(table)) {
        table->lost++;
        return 0;
    }
    struct function *function = edge->callee;
    struct call *call = table->top + 1;
    call->function = function;
    call->edge = edge;
    call->key = key;
    call->path = path_of(table, (call - 1)->path, edge);
    call->children = 0;
    function->open++;
    edge->open++;
    int64_t now = clock_ticks();
    bool due = now > agent_due; /* checked here: where everything slow is in calls, only their ends have long gaps */
    if (UNLIKELY(now - table->last > table->long_gap || now > table->due)) {
        due |= now > tiers_due;
        now = waiting_charge(table, call - 1, now);
    }
    table->last = now;
    table->taken += probe->outside;
    now = table_time(table, now);
    if (UNLIKELY(table->context != NULL))
        ranges_call(table, caller, function, now);
    call->wait_at_start = table->wait;
    call->blocked_at_start = table->blocked;
    call->start = now;
    table->top = call;
    return UNLIKELY(due) ? calls_due(table) : 0;
}

/* Book a call that ended at `now` in ticks of table_time(); `inside` are the ticks of its open callee. */
static inline void call_books(struct table *table, const struct call *call, int64_t now, int64_t inside) {
    struct function *function = call->function;
    struct edge *edge = call->edge;
    int64_t total = now - call->start;
    int64_t own = total - call->children - inside;
    edge->calls++;
    edge->own += own;
    call->path->calls++;
    call->path->own += own;
    if (LIKELY(--edge->open == 0))
        edge->total += total;
    else
        edge->recursive++;
    if (LIKELY(--function->open == 0))
        function->total += total;
    else
        function->recursive++;
    int64_t wait = table->wait - call->wait_at_start, blocked = table->blocked - call->blocked_at_start;
    if (UNLIKELY(wait | blocked)) {
        if (edge->open == 0) {
            edge->cumulative_wait += wait;
            edge->cumulative_blocked += blocked;
        }
        if (function->open == 0) {
            function->cumulative_wait += wait;
            function->cumulative_blocked += blocked;
        }
    }
}

static inline void call_closes(struct table *table, int64_t now) {
    struct call *call = table->top;
    call_books(table, call, now, 0);
    table->top = call - 1;
    table->top->children += now - call->start;
}

/* Charge the innermost call until now, of which `taken` ticks are the tracer's; return the time by table_time(). */
static inline int64_t call_runs_until_now(struct table *table, int64_t taken) {
    int64_t now = clock_ticks();
    if (UNLIKELY(now - table->last > table->long_gap || now > table->due))
        now = waiting_charge(table, table->top, now);
    table->last = now;
    table->taken += taken;
    now = table_time(table, now);
    if (UNLIKELY(table->context != NULL))
        ranges_charge(table, table->top->function, now);
    return now;
}

static inline void call_ends(struct table *table, const void *key, const struct probe *probe) {
    if (LIKELY(table->top->key == key))
        call_closes(table, call_runs_until_now(table, probe->inside));
    else
        calls_resynchronise(table, key);
}
