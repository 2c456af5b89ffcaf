#include "collector.h"

#include <stdlib.h>

#include "calls.h"
#include "agent.h"
#include "clock.h"
#include "hook.h"
#include "kept.h"
#include "labels.h"
#include "range_events.h"
#include "store.h"
#include "threads.h"
#include "warmup.h"

static unsigned long long last_serial = 0;

/* Drop tables of ended threads, which the file keeps. */
static void drop_ended(struct collector *collector) {
    size_t left = 0;
    for (size_t i = 0; i < collector->n_tables; i++) {
        struct table *table = collector->tables[i];
        if (table_ended(table))
            table_release(table);
        else
            collector->tables[left++] = table;
    }
    collector->n_tables = left;
}

static struct table *add_table(struct collector *collector, pid_t native, unsigned long ident) {
    if (collector->mapped) {
        if (collector->generation != kernel_generation)
            return NULL;
        drop_ended(collector);
    }
    if (collector->n_tables == collector->room) {
        size_t room = collector->room ? 2 * collector->room : 4;
        struct table **tables = realloc(collector->tables, room * sizeof(struct table *));
        if (!tables)
            return NULL;
        collector->tables = tables;
        collector->room = room;
    }
    struct table *table = collector->mapped ? kept_running(native, ident) : NULL;
    if (table) { /* of samples, or of a collector that is finished */
        table_retain(table);
        table->owner = collector->serial;
    } else {
        table = threads_new_table(collector->serial, native, ident);
    }
    if (table)
        collector->tables[collector->n_tables++] = table;
    return table;
}

struct table *collector_add_table(struct collector *collector) {
    return add_table(collector, kernel_thread_id(), (unsigned long)pthread_self());
}

struct table *collector_table_for(struct collector *collector, pid_t native, unsigned long ident) {
    for (size_t i = collector->n_tables; i-- > 0;) {
        struct table *table = collector->tables[i];
        if (table->native == native && table->ident == ident && !table_ended(table))
            return table;
    }
    return add_table(collector, native, ident);
}

struct table *collector_table_of_this_thread(struct collector *collector) {
    if (collector->mapped && collector->generation != kernel_generation)
        return NULL;
    /* The table may date from a time when another collector was on. */
    pid_t thread = kernel_thread_id();
    for (size_t i = collector->n_tables; i-- > 0;) {
        struct table *table = collector->tables[i];
        if (table->native == thread && !table_ended(table) && threads_follow(table))
            return kernel_last_table = table;
    }
    struct table *table = collector_add_table(collector);
    if (table)
        kernel_last_table = table;
    return table;
}

static PyObject *collector_renew(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    struct collector *collector = (struct collector *)self;
    free(collector->tables);
    collector->tables = NULL;
    collector->n_tables = collector->room = 0;
    memory_free(collector->before_warmup);
    collector->before_warmup = NULL;
    collector->serial = ++last_serial;
    collector->generation = kernel_generation;
    collector->mapped = store_header != NULL;
    Py_RETURN_NONE;
}

static PyObject *collector_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    if (PyTuple_Size(arguments) || (keywords && PyDict_Size(keywords))) {
        PyErr_SetString(PyExc_TypeError, "Collector() takes no arguments");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct collector *collector = (struct collector *)allocate(type, 0);
    clock_calibrate();
    if (collector) {
        collector->serial = ++last_serial;
        collector->generation = kernel_generation;
        collector->mapped = store_header != NULL;
    }
    return (PyObject *)collector;
}

static void collector_dealloc(PyObject *self) {
    struct collector *collector = (struct collector *)self;
    PyTypeObject *type = Py_TYPE(self);
    bool gone = collector->mapped && collector->generation != kernel_generation; /* with their file */
    for (size_t i = 0; i < collector->n_tables && !gone; i++) {
        if (!collector->mapped)
            table_clear(collector->tables[i]);
        table_release(collector->tables[i]);
    }
    free(collector->tables);
    memory_free(collector->before_warmup);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *collector_enable(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    struct collector *collector = (struct collector *)self;
    if (!collector->enabled) {
        collector->enabled = true; /* an event may come before the hook returns */
        if (hook_enable(collector) < 0) {
            collector->enabled = false;
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *stop(struct collector *collector, int (*hook)(struct collector *collector)) {
    if (collector->enabled) {
        if (hook(collector) < 0)
            return NULL;
        collector->enabled = false;
    }
    Py_RETURN_NONE;
}

static PyObject *collector_disable(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    return stop((struct collector *)self, hook_disable);
}

static void forget_warmup(struct collector *collector) {
    pid_t own = kernel_thread_id();
    for (size_t i = 0; i < collector->n_tables; i++) {
        struct table *table = collector->tables[i];
        if (table_ended(table))
            continue;
        calls_close_all(table, table->native == own);
        memory_restore(collector->before_warmup, table);
    }
    memory_free(collector->before_warmup);
    collector->before_warmup = NULL;
}

static PyObject *collector_remember(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    struct collector *collector = (struct collector *)self;
    memory_free(collector->before_warmup);
    collector->before_warmup = memory_of(collector->tables, collector->n_tables);
    Py_RETURN_NONE;
}

static PyObject *collector_adopt(PyObject *self, PyObject *arguments) {
    struct collector *collector = (struct collector *)self;
    PyObject *threads, *ident, *native, *function = PySys_GetObject("_current_frames"); /* borrowed */
    Py_ssize_t place = 0, skip, most;
    int fresh;
    long adopted = 0;
    if (!PyArg_ParseTuple(arguments, "O!nnp", &PyDict_Type, &threads, &skip, &most, &fresh))
        return NULL;
    struct adopted which = {(size_t)skip, most < 0 ? SIZE_MAX : (size_t)most};
    /* No Python code runs from here on: a thread that made a call now would look traced already. */
#ifdef PROFKIT_ABI3
    if (!collector->enabled) {
        Py_XDECREF(collector_enable(self, NULL));
        if (PyErr_Occurred())
            return NULL;
    }
#endif
    PyObject *frames = function ? PyObject_CallObject(function, NULL) : NULL;
    if (!frames)
        return NULL;
    if (fresh)
        forget_warmup(collector);
    range_events_pause(false);
    while (PyDict_Next(threads, &place, &ident, &native)) {
        PyObject *frame = PyDict_GetItem(frames, ident); /* borrowed */
        if (frame)
            adopted += hook_adopt(collector, PyLong_AsUnsignedLong(ident), (pid_t)PyLong_AsLong(native), frame, which);
    }
    Py_DECREF(frames);
    for (size_t i = 0; i < collector->n_tables; i++)
        if (collector->tables[i]->mapped)
            agent_name_thread(collector->tables[i]);
    return PyErr_Occurred() ? NULL : PyLong_FromLong(adopted);
}

static PyObject *collector_suspend(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    range_events_pause(tiers_now() == tiers_wanted()); /* samples are charged to ranges, too */
    return stop((struct collector *)self, hook_suspend);
}

static PyObject *collector_follow_others(PyObject *self, PyObject *on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0)
        return NULL;
    hook_follow_others((struct collector *)self, truth);
    Py_RETURN_NONE;
}

static PyObject *collector_displaced(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    struct collector *collector = (struct collector *)self;
    hook_look(collector);
    return PyBool_FromLong(collector->displaced);
}

static PyObject *collector_ended(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    struct collector *collector = (struct collector *)self;
    return PyBool_FromLong(collector->n_tables && table_ended(collector->tables[0]));
}

static PyObject *collector_own_time(PyObject *self, PyObject *what) {
    const struct collector *collector = (struct collector *)self;
    const void *key = PyCFunction_Check(what) ? ((struct c_function *)what)->definition : (const void *)what;
    const struct table *table = collector->n_tables ? collector->tables[0] : NULL;
    const struct function *called = table ? table_function(table, key) : NULL;
    int64_t calls = 0, own = 0;
    for (const struct function *caller = called ? table->base : NULL; caller; caller = caller->next)
        for (const struct edge *edge = caller->first_callee; edge; edge = edge->next) {
            calls += edge->callee == called ? edge->calls : 0;
            own += edge->callee == called ? edge->own : 0;
        }
    return PyFloat_FromDouble(calls ? (double)own * clock_seconds_per_tick() / (double)calls : 0.0);
}

static PyMethodDef methods[] = {
    {"enable", collector_enable, METH_NOARGS,
     "enable()\n--\n\nBegin to trace: from Python 3.12 on all threads, before that the calling one.\n\n"
     "Raises ValueError if another profiler has the place that there is (from 3.12 on)."},
    {"disable", collector_disable, METH_NOARGS,
     "disable()\n--\n\nStop tracing, after closing the calls that are open at this moment."},
    {"adopt", collector_adopt, METH_VARARGS,
     "adopt(threads, skip, most, fresh)\n--\n\nTrace threads, a dict of ident to native id, with the calls that are in\n"
     "progress in them, as if they began now; those that are traced already go on. The skip innermost of the calling\n"
     "thread are not the target's. Unless most is -1, only so many of its others are recorded, and stay open at the end.\n"
     "With fresh, what was traced since remember() is forgotten. From Python 3.12 on it enables the collector, as enable()\n"
     "does; before, the collector is one thread's. Returns how many threads are traced now."},
    {"remember", collector_remember, METH_NOARGS,
     "remember()\n--\n\nA warm-up begins: what is traced until adopt() is forgotten then. Nothing is being traced."},
    {"suspend", collector_suspend, METH_NOARGS,
     "suspend()\n--\n\nStop tracing all its threads, from any thread, after closing the calls that are open."},
    {"follow_others", collector_follow_others, METH_O,
     "follow_others(on)\n--\n\nTrace threads that no collector is enabled in and that `threading` has not started, or do so no longer;\n"
     "up to Python 3.11. Their tables are in a file."},
    {"renew", collector_renew, METH_NOARGS,
     "renew()\n--\n\nIn a forked child, go on where the parent was: what was traced is the parent's, and it is traced into the\n"
     "tables of map_tables() from now on. From Python 3.12 on, after map_tables() was called."},
    {"displaced", collector_displaced, METH_NOARGS,
     "displaced()\n--\n\nWhether another profiler has the place, or nothing, from any thread: nothing was traced\n"
     "since."},
    {"ended", collector_ended, METH_NOARGS,
     "ended()\n--\n\nWhether the thread that enabled it first has ended."},
    {"own_time", collector_own_time, METH_O,
     "own_time(what)\n--\n\nReturn the seconds of its own that a call of a code object or C function took in the thread that\n"
     "enabled it first; 0.0 without calls."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Traces calls by thread, with the time that they wait for a CPU."},
    {Py_tp_new, collector_new},
    {Py_tp_dealloc, collector_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "profkit_tracer.Collector",
    .basicsize = sizeof(struct collector),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyObject *collector_type(void) { return PyType_FromSpec(&spec); }
