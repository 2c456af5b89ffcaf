/* Numbers are copied first, as making Python objects may run the collector, finalisers, and other threads. */
#include "snapshot.h"

#include <stdlib.h>

#include "clock.h"
#include "names.h"
#include "ranges.h"
#include "waiting.h"

/* A function, or an edge with the callee's label. */
struct row {
    PyObject *label; /* owned */
    int64_t calls, recursive, total, own, wait, cumulative_wait, blocked, cumulative_blocked;
    size_t n_callees; /* rows of `edges`, in order */
};

/* A call that has not returned: what its function would gain if it returned now. */
struct open_row {
    PyObject *label; /* owned */
    int64_t total, own, wait, cumulative_wait, blocked, cumulative_blocked;
};

struct context_row {
    PyObject *opener; /* owned; NULL if no function opened it */
    Py_ssize_t parent; /* index in the snapshot, or -1 */
    uint32_t domain, name;
    int64_t count;
    size_t n_rows; /* rows of `inside`, in order */
};

struct snapshot {
    struct row *functions, *edges, *inside;
    struct context_row *contexts;
    size_t n_contexts, n_inside;
    struct open_row *open;
    size_t n_functions, n_edges, n_open;
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
        copy->open[i - 1] = (struct open_row){
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

struct snapshot *snapshot_take(struct table *table, bool own_thread, bool ended) {
    struct snapshot *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    copy->functions = calloc(table->n_functions + 1, sizeof *copy->functions);
    copy->edges = calloc(table->n_edges + 1, sizeof *copy->edges);
    copy->open = calloc((size_t)(table->top - table->stack) + 1, sizeof *copy->open);
    if (!copy->functions || !copy->edges || !copy->open) {
        snapshot_free(copy);
        return NULL;
    }
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
        return copy;
    bool copied = copy_contexts(copy, table);
    pthread_mutex_unlock(&table->lock);
    if (!copied) {
        snapshot_free(copy);
        return NULL;
    }
    return copy;
}

void snapshot_free(struct snapshot *snapshot) {
    if (!snapshot)
        return;
    for (size_t i = 0; snapshot->functions && i < snapshot->n_functions; i++)
        Py_XDECREF(snapshot->functions[i].label);
    for (size_t i = 0; i < snapshot->n_edges; i++)
        Py_XDECREF(snapshot->edges[i].label);
    for (size_t i = 0; i < snapshot->n_open; i++)
        Py_XDECREF(snapshot->open[i].label);
    for (size_t i = 0; i < snapshot->n_contexts; i++)
        Py_XDECREF(snapshot->contexts[i].opener);
    for (size_t i = 0; i < snapshot->n_inside; i++)
        Py_XDECREF(snapshot->inside[i].label);
    free(snapshot->contexts);
    free(snapshot->inside);
    free(snapshot->functions);
    free(snapshot->edges);
    free(snapshot->open);
    free(snapshot);
}

static bool put(PyObject *tuple, Py_ssize_t index, PyObject *value) {
    if (!value)
        return false;
    PyTuple_SetItem(tuple, index, value);
    return true;
}

static PyObject *seconds(int64_t count, double unit) {
    return PyFloat_FromDouble((double)at_least_zero(count) * unit);
}

/* `(code, calls, recursive calls, total, own, wait, cumulative wait, blocked, cumulative blocked)`, with room for
 * callees if wanted. */
static PyObject *row_as_tuple(const struct row *row, double tick, bool with_callees) {
    PyObject *tuple = PyTuple_New(with_callees ? 10 : 9);
    if (tuple && put(tuple, 0, shared(row->label)) && put(tuple, 1, PyLong_FromLongLong(row->calls)) &&
        put(tuple, 2, PyLong_FromLongLong(row->recursive)) && put(tuple, 3, seconds(row->total, tick)) &&
        put(tuple, 4, seconds(row->own, tick)) && put(tuple, 5, seconds(row->wait, 1e-9)) &&
        put(tuple, 6, seconds(row->cumulative_wait, 1e-9)) && put(tuple, 7, seconds(row->blocked, 1e-9)) &&
        put(tuple, 8, seconds(row->cumulative_blocked, 1e-9)))
        return tuple;
    Py_XDECREF(tuple);
    return NULL;
}

static PyObject *open_as_tuple(const struct open_row *row, double tick) {
    PyObject *tuple = PyTuple_New(7);
    if (tuple && put(tuple, 0, shared(row->label)) && put(tuple, 1, seconds(row->total, tick)) &&
        put(tuple, 2, seconds(row->own, tick)) && put(tuple, 3, seconds(row->wait, 1e-9)) &&
        put(tuple, 4, seconds(row->cumulative_wait, 1e-9)) && put(tuple, 5, seconds(row->blocked, 1e-9)) &&
        put(tuple, 6, seconds(row->cumulative_blocked, 1e-9)))
        return tuple;
    Py_XDECREF(tuple);
    return NULL;
}

static bool append(PyObject *list, PyObject *item) {
    bool done = item && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return done;
}

static PyObject *callees_as_list(const struct row *edges, size_t n, double tick) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        if (!append(list, row_as_tuple(&edges[i], tick, false)))
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
        PyObject *tuple = row_as_tuple(row, tick, true);
        PyObject *last = row->n_callees ? callees_as_list(callees, row->n_callees, tick) : shared(Py_None);
        if (!tuple || !put(tuple, 9, last)) {
            Py_XDECREF(tuple ? NULL : last);
            Py_XDECREF(tuple);
            Py_CLEAR(list);
        } else if (!append(list, tuple)) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *open_as_list(const struct snapshot *snapshot, double tick) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < snapshot->n_open; i++)
        if (!append(list, open_as_tuple(&snapshot->open[i], tick)))
            Py_CLEAR(list);
    return list;
}

/* `(code, calls, own, wait, blocked)`. */
static PyObject *inside_as_tuple(const struct row *row, double tick) {
    PyObject *tuple = PyTuple_New(5);
    if (tuple && put(tuple, 0, shared(row->label)) && put(tuple, 1, PyLong_FromLongLong(row->calls)) &&
        put(tuple, 2, seconds(row->own, tick)) && put(tuple, 3, seconds(row->wait, 1e-9)) &&
        put(tuple, 4, seconds(row->blocked, 1e-9)))
        return tuple;
    Py_XDECREF(tuple);
    return NULL;
}

/* `(index of the parent or -1, domain, name, opener or None, ranges, rows)`. */
static PyObject *context_as_tuple(const struct context_row *context, const struct row *rows, double tick) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < context->n_rows; i++)
        if (!append(list, inside_as_tuple(&rows[i], tick)))
            Py_CLEAR(list);
    PyObject *tuple = list ? PyTuple_New(6) : NULL;
    if (!tuple) {
        Py_XDECREF(list);
        return NULL;
    }
    PyTuple_SetItem(tuple, 5, list);
    if (put(tuple, 0, PyLong_FromSsize_t(context->parent)) && put(tuple, 1, PyLong_FromUnsignedLong(context->domain)) &&
        put(tuple, 2, PyLong_FromUnsignedLong(context->name)) &&
        put(tuple, 3, shared(context->opener ? context->opener : Py_None)) &&
        put(tuple, 4, PyLong_FromLongLong(context->count)))
        return tuple;
    Py_DECREF(tuple);
    return NULL;
}

static PyObject *contexts_as_list(const struct snapshot *snapshot, double tick) {
    PyObject *list = PyList_New(0);
    const struct row *rows = snapshot->inside;
    for (size_t i = 0; list && i < snapshot->n_contexts; i++) {
        if (!append(list, context_as_tuple(&snapshot->contexts[i], rows, tick)))
            Py_CLEAR(list);
        rows += snapshot->contexts[i].n_rows;
    }
    return list;
}

PyObject *snapshot_as_tuple(const struct snapshot *snapshot, double tick) {
    PyObject *tuple = PyTuple_New(8);
    if (tuple && put(tuple, 0, PyLong_FromLong((long)snapshot->native)) &&
        put(tuple, 1, PyLong_FromUnsignedLong(snapshot->ident)) &&
        put(tuple, 2, PyBool_FromLong(snapshot->ended)) && put(tuple, 3, PyBool_FromLong(snapshot->measured)) &&
        put(tuple, 4, PyLong_FromLongLong(snapshot->lost)) && put(tuple, 5, entries_as_list(snapshot, tick)) &&
        put(tuple, 6, open_as_list(snapshot, tick)) && put(tuple, 7, contexts_as_list(snapshot, tick)))
        return tuple;
    Py_XDECREF(tuple);
    return NULL;
}
