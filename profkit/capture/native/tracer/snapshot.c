/* Numbers are copied first, as making Python objects may run the collector, finalisers, and other threads. */
#include "snapshot.h"

#include <stdlib.h>

#include "clock.h"
#include "names.h"
#include "ranges.h"
#include "waiting.h"

/* A function; an edge or a row of a context, with the callee's label; or a call that has not returned: what its
 * function would gain if it returned now. */
struct row {
    PyObject *label; /* owned */
    int64_t calls, recursive, total, own, wait, cumulative_wait, blocked, cumulative_blocked;
    size_t n_callees; /* rows of `edges`, in order */
};

struct context_row {
    PyObject *opener; /* owned; NULL if no function opened it */
    Py_ssize_t parent; /* index in the snapshot, or -1 */
    uint32_t domain, name;
    int64_t count;
    size_t n_rows; /* rows of `inside`, in order */
};

struct snapshot {
    struct row *functions, *edges, *inside, *open;
    struct context_row *contexts;
    size_t n_functions, n_edges, n_inside, n_open, n_contexts;
    pid_t native;
    unsigned long ident;
    bool ended, measured;
    int64_t lost;
};

static PyObject *shared(PyObject *object) {
    Py_INCREF(object);
    return object;
}

/* Borrowed; NULL for the base. */
static PyObject *label_in(const struct function *function) {
    return function->name ? function->name->label : NULL;
}

static int64_t at_least_zero(int64_t value) { return value < 0 ? 0 : value; }

static void copy_edges(struct snapshot *copy, const struct table *table) {
    for (const struct function *caller = table->base; caller; caller = caller->next) {
        struct row *from = caller->number ? &copy->functions[caller->number - 1] : NULL;
        if (from) {
            from->label = shared(caller->name->label);
            from->recursive = caller->recursive;
            from->total = caller->total;
            from->cumulative_wait = caller->cumulative_wait;
            from->cumulative_blocked = caller->cumulative_blocked;
        }
        for (const struct edge *edge = caller->first_callee; edge; edge = edge->next) {
            struct row *to = &copy->functions[edge->callee->number - 1];
            to->calls += edge->calls;
            to->own += edge->own;
            to->wait += edge->wait;
            to->blocked += edge->blocked;
            if (!from || !(edge->calls || edge->wait || edge->blocked))
                continue;
            from->n_callees++;
            copy->edges[copy->n_edges++] = (struct row){
                .label = shared(edge->callee->name->label),
                .calls = edge->calls,
                .recursive = edge->recursive,
                .total = edge->total,
                .own = edge->own,
                .wait = edge->wait,
                .cumulative_wait = edge->cumulative_wait,
                .blocked = edge->blocked,
                .cumulative_blocked = edge->cumulative_blocked,
            };
        }
    }
}

static void copy_open(struct snapshot *copy, const struct table *table, bool own_thread) {
    int64_t now = clock_ticks(), inner = 0, wait, blocked;
    if (table->top == table->stack)
        return;
    waiting_pending(table, own_thread, now, &wait, &blocked);
    now = table_time(table, now);
    copy->n_open = (size_t)(table->top - table->stack);
    for (size_t i = copy->n_open; i > 0; i--) {
        const struct call *call = &table->stack[i];
        bool innermost = call == table->top;
        int64_t total = now - call->start;
        copy->open[i - 1] = (struct row){
            .label = shared(call->function->name->label),
            .total = total,
            .own = total - call->children - inner,
            .wait = innermost ? wait : 0,
            .cumulative_wait = table->wait - call->wait_at_start + wait,
            .blocked = innermost ? blocked : 0,
            .cumulative_blocked = table->blocked - call->blocked_at_start + blocked,
        };
        inner = total;
    }
}

static bool copy_contexts(struct snapshot *copy, const struct table *table) {
    const struct ranges *ranges = table->ranges;
    if (!ranges)
        return true;
    copy->contexts = calloc(ranges->n_contexts + 1, sizeof *copy->contexts);
    copy->inside = calloc(ranges->n_rows + 1, sizeof *copy->inside);
    if (!copy->contexts || !copy->inside)
        return false;
    int64_t now = table_time(table, clock_ticks());
    for (const struct context *context = ranges->first; context; context = context->next) {
        struct context_row *to = &copy->contexts[copy->n_contexts++];
        PyObject *opener = label_in(context->opener);
        *to = (struct context_row){
            .opener = opener ? shared(opener) : NULL,
            .parent = (Py_ssize_t)context->parent_number - 1,
            .domain = context->domain,
            .name = context->name,
            .count = context->count,
        };
        for (const struct edge *row = context->first_row; row; row = row->next) {
            if (!row->callee->name) /* outside all traced calls */
                continue;
            bool running = context == table->context && row->callee == table->top->function && !copy->ended;
            to->n_rows++;
            copy->inside[copy->n_inside++] = (struct row){
                .label = shared(row->callee->name->label),
                .calls = row->calls,
                .own = row->own + (running ? now - table->charged_until : 0),
                .wait = row->wait,
                .blocked = row->blocked,
            };
        }
    }
    return true;
}

static void free_rows(struct row *rows, size_t n) {
    for (size_t i = 0; rows && i < n; i++)
        Py_XDECREF(rows[i].label);
    free(rows);
}

static void free_snapshot(struct snapshot *snapshot) {
    free_rows(snapshot->functions, snapshot->n_functions);
    free_rows(snapshot->edges, snapshot->n_edges);
    free_rows(snapshot->inside, snapshot->n_inside);
    free_rows(snapshot->open, snapshot->n_open);
    for (size_t i = 0; i < snapshot->n_contexts; i++)
        Py_XDECREF(snapshot->contexts[i].opener);
    free(snapshot->contexts);
}

/* Copy a table, which may be the calling thread's; false without memory. */
static bool take(struct snapshot *copy, struct table *table, bool own_thread, bool ended) {
    copy->functions = calloc(table->n_functions + 1, sizeof *copy->functions);
    copy->edges = calloc(table->n_edges + 1, sizeof *copy->edges);
    copy->open = calloc((size_t)(table->top - table->stack) + 1, sizeof *copy->open);
    if (!copy->functions || !copy->edges || !copy->open)
        return false;
    copy->n_functions = table->n_functions;
    copy->native = table->native;
    copy->ident = table->ident;
    copy->ended = ended;
    copy->measured = table->read_before && !table->unmeasured;
    copy->lost = table->lost;
    copy_edges(copy, table);
    if (!ended)
        copy_open(copy, table, own_thread);
    /* A thread left behind by a fork may have held its lock. */
    if (!ended || table->generation == kernel_generation)
        pthread_mutex_lock(&table->lock);
    else if (pthread_mutex_trylock(&table->lock) != 0)
        return true;
    bool copied = copy_contexts(copy, table);
    pthread_mutex_unlock(&table->lock);
    return copied;
}

static double seconds(int64_t count, double unit) { return (double)at_least_zero(count) * unit; }

/* `(code, calls, recursive calls, total, own, wait, cumulative wait, blocked, cumulative blocked)`, and the list of
 * callees if there is one. */
static PyObject *function_as_tuple(const struct row *row, double tick, PyObject *callees) {
    return Py_BuildValue(callees ? "(OLLddddddN)" : "(OLLdddddd)", row->label, (long long)row->calls,
                         (long long)row->recursive, seconds(row->total, tick), seconds(row->own, tick),
                         seconds(row->wait, 1e-9), seconds(row->cumulative_wait, 1e-9), seconds(row->blocked, 1e-9),
                         seconds(row->cumulative_blocked, 1e-9), callees);
}

static PyObject *edge_as_tuple(const struct row *row, double tick) { return function_as_tuple(row, tick, NULL); }

static PyObject *open_as_tuple(const struct row *row, double tick) {
    return Py_BuildValue("(Odddddd)", row->label, seconds(row->total, tick), seconds(row->own, tick),
                         seconds(row->wait, 1e-9), seconds(row->cumulative_wait, 1e-9), seconds(row->blocked, 1e-9),
                         seconds(row->cumulative_blocked, 1e-9));
}

/* `(code, calls, own, wait, blocked)`. */
static PyObject *inside_as_tuple(const struct row *row, double tick) {
    return Py_BuildValue("(OLddd)", row->label, (long long)row->calls, seconds(row->own, tick),
                         seconds(row->wait, 1e-9), seconds(row->blocked, 1e-9));
}

static bool append(PyObject *list, PyObject *item) {
    bool done = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

static PyObject *rows_as_list(const struct row *rows, size_t n, double tick,
                              PyObject *(*as_tuple)(const struct row *, double)) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        if (!append(list, as_tuple(&rows[i], tick)))
            Py_CLEAR(list);
    return list;
}

static PyObject *entries_as_list(const struct snapshot *snapshot, double tick) {
    PyObject *list = PyList_New(0);
    const struct row *edges = snapshot->edges;
    for (size_t i = 0; list && i < snapshot->n_functions; i++) {
        const struct row *row = &snapshot->functions[i];
        const struct row *callees = edges;
        edges += row->n_callees;
        if (!(row->calls || row->wait || row->blocked || row->n_callees))
            continue;
        PyObject *last = row->n_callees ? rows_as_list(callees, row->n_callees, tick, edge_as_tuple) : shared(Py_None);
        if (!last || !append(list, function_as_tuple(row, tick, last)))
            Py_CLEAR(list);
    }
    return list;
}

/* `(index of the parent or -1, domain, name, opener or None, ranges, rows)`. */
static PyObject *contexts_as_list(const struct snapshot *snapshot, double tick) {
    PyObject *list = PyList_New(0);
    const struct row *rows = snapshot->inside;
    for (size_t i = 0; list && i < snapshot->n_contexts; i++) {
        const struct context_row *context = &snapshot->contexts[i];
        PyObject *inside = rows_as_list(rows, context->n_rows, tick, inside_as_tuple);
        if (!inside || !append(list, Py_BuildValue("(nIIOLN)", context->parent, context->domain, context->name,
                                                   context->opener ? context->opener : Py_None,
                                                   (long long)context->count, inside)))
            Py_CLEAR(list);
        rows += context->n_rows;
    }
    return list;
}

static PyObject *as_tuple(const struct snapshot *snapshot, double tick) {
    PyObject *entries = entries_as_list(snapshot, tick);
    PyObject *open = entries ? rows_as_list(snapshot->open, snapshot->n_open, tick, open_as_tuple) : NULL;
    PyObject *contexts = open ? contexts_as_list(snapshot, tick) : NULL;
    PyObject *tuple = contexts ? Py_BuildValue("(lkOOLOOO)", (long)snapshot->native, snapshot->ident,
                                               snapshot->ended ? Py_True : Py_False,
                                               snapshot->measured ? Py_True : Py_False, (long long)snapshot->lost,
                                               entries, open, contexts)
                               : NULL;
    Py_XDECREF(contexts);
    Py_XDECREF(open);
    Py_XDECREF(entries);
    return tuple;
}

PyObject *snapshot_of(struct table *const *tables, size_t n) {
    pid_t own = kernel_thread_id();
    PyObject *list = NULL;
    bool taken = true;
    struct snapshot *snapshots = calloc(n + 1, sizeof *snapshots);
    if (!snapshots)
        return PyErr_NoMemory();
    for (size_t i = 0; i < n && taken; i++)
        taken = take(&snapshots[i], tables[i], tables[i]->native == own, table_ended(tables[i]));
    if (taken)
        list = PyList_New(0);
    else
        PyErr_NoMemory();
    double tick = clock_seconds_per_tick();
    for (size_t i = 0; list && i < n; i++)
        if (!append(list, as_tuple(&snapshots[i], tick)))
            Py_CLEAR(list);
    for (size_t i = 0; i < n; i++)
        free_snapshot(&snapshots[i]);
    free(snapshots);
    return list;
}
