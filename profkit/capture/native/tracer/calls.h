/* The hot path: a call begins, a call ends. No lock, and no allocation once the functions are known.
 *
 * As in cProfile the clock is read last at a call's begin and first at its end, so that what the tracer takes
 * falls to the caller.
 */
#ifndef PROFKIT_CALLS_H
#define PROFKIT_CALLS_H

#include "tables.h"

#include "agent.h"
#include "clock.h"
#include "paths.h"
#include "ranges.h"
#include "tiers.h"
#include "waiting.h"

/* Close calls that ended unseen, if one of `key` is open further out: a greenlet left them behind. */
void calls_resynchronise(struct table *table, const void *key);

/* Close every open call of a thread: it is traced no longer. */
void calls_close_all(struct table *table, bool own_thread);

/* The same where it has not been traced since its last event: what it did later is no call's. */
void calls_abandon_all(struct table *table);

/* A call of a code object began at `now`, unseen; it is inside the one that is open. */
void calls_adopt(struct table *table, PyObject *code, int64_t now);

/* It is time for the agent, or for a look at the budget; -1 with an exception where the target is to get one, see agent.h. */
int calls_due(struct table *table);

/* `probe` is what the events of such a call cost. Returns as calls_due(). */
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
    bool due = now > agent_due; /* asked here: where all that takes long is within calls, only their ends have long gaps */
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

/* Book a call whose end is `now`, in ticks of table_time(); `inside` are those that the call in it has been open. */
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

/* Book the innermost open call. */
static inline void call_closes(struct table *table, int64_t now) {
    struct call *call = table->top;
    call_books(table, call, now, 0);
    table->top = call - 1;
    table->top->children += now - call->start;
}

/* The innermost open call ends. */
static inline void call_ends_here(struct table *table, const struct probe *probe) {
    int64_t now = clock_ticks();
    if (UNLIKELY(now - table->last > table->long_gap || now > table->due))
        now = waiting_charge(table, table->top, now);
    table->last = now;
    table->taken += probe->inside;
    now = table_time(table, now);
    if (UNLIKELY(table->context != NULL))
        ranges_charge(table, table->top->function, now);
    call_closes(table, now);
}

static inline void call_ends(struct table *table, const void *key, const struct probe *probe) {
    if (LIKELY(table->top->key == key))
        call_ends_here(table, probe);
    else
        calls_resynchronise(table, key);
}

#endif
