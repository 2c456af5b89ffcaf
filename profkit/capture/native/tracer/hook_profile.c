/* Events by PyEval_SetProfile, up to Python 3.11: of the thread that enables the collector. */
#include "hook.h"

#include <frameobject.h>

#include "calls.h"
#include "frames.h"
#include "labels.h"
#include "waiting.h"

int hook_start(void) { return 0; }

static inline PyObject *code_of(PyFrameObject *frame) {
#if PY_VERSION_HEX < 0x030B0000
    return (PyObject *)frame->f_code;
#else
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    Py_DECREF(code); /* the frame holds another reference */
    return code;
#endif
}

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    struct table *table = ((struct collector *)self)->tables[0];
    if (UNLIKELY(table->generation != kernel_generation))
        return 0; /* in a forked child, whose parent's it is */
    bool of_python = what == PyTrace_CALL || what == PyTrace_RETURN;
    if (!of_python && !PyCFunction_Check(argument))
        return 0;
    const void *key = of_python ? (const void *)code_of(frame) : ((struct c_function *)argument)->definition;
    if (UNLIKELY(throttle_has(key))) {
        table->taken += of_python ? throttle_python.left : throttle_c.left;
        return 0;
    }
    switch (what) {
    case PyTrace_CALL:
        return call_begins(table, key, (PyObject *)key, NULL, &throttle_python);
    case PyTrace_RETURN:
        call_ends(table, key, &throttle_python);
        break;
    case PyTrace_C_CALL:
        return call_begins(table, key, argument, NULL, &throttle_c);
    default:
        call_ends(table, key, &throttle_c);
        break;
    }
    return 0;
}

static int refuse_other_thread(const struct collector *collector) {
    if (collector->n_tables && (collector->tables[0]->native != kernel_thread_id() ||
                                table_ended(collector->tables[0]))) {
        PyErr_SetString(PyExc_RuntimeError, "a collector belongs to the thread that first enabled it");
        return -1;
    }
    return 0;
}

void hook_look(struct collector *collector) {
    if (!collector->enabled || collector->displaced || !collector->n_tables ||
        table_ended(collector->tables[0]))
        return;
    /* The GIL is held: no thread comes or goes, and none is in on_event(). */
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    /* Not by thread_id: until a new thread begins, its state has that of the thread that creates it. */
    while (thread && thread->id != collector->thread_state)
        thread = PyThreadState_Next(thread);
    if (thread && thread->c_profileobj != (PyObject *)collector) {
        collector->displaced = true;
        calls_abandon_all(collector->tables[0]);
    }
}

int hook_enable(struct collector *collector) {
    if (refuse_other_thread(collector) < 0)
        return -1;
    if (!collector->n_tables && !collector_add_table(collector)) {
        PyErr_NoMemory();
        return -1;
    }
    kernel_last_table = collector->tables[0];
    collector->thread_state = PyThreadState_Get()->id;
    PyEval_SetProfile(on_event, (PyObject *)collector);
    collector->displaced = false;
    return PyErr_Occurred() ? -1 : 0; /* an audit hook may object */
}

int hook_disable(struct collector *collector) {
    if (refuse_other_thread(collector) < 0)
        return -1;
    /* If another profiler has taken the place, it keeps it. */
    if (PyThreadState_Get()->c_profileobj == (PyObject *)collector)
        PyEval_SetProfile(NULL, NULL);
    else
        hook_look(collector);
    calls_close_all(collector->tables[0], true);
    return PyErr_Occurred() ? -1 : 0;
}

/* PyEval_SetProfile() for any thread; the GIL is held: none of this interpreter is in a profile function. */
static int set_profile(PyThreadState *thread, Py_tracefunc function, PyObject *object) {
#if PY_VERSION_HEX >= 0x030A0000
    return _PyEval_SetProfile(thread, function, object);
#else
    PyObject *before = thread->c_profileobj;
    Py_XINCREF(object);
    thread->c_profilefunc = function;
    thread->c_profileobj = object;
    thread->use_tracing = function != NULL || thread->c_tracefunc != NULL;
    Py_XDECREF(before);
    return 0;
#endif
}

int hook_detach(struct collector *collector) {
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    for (; thread; thread = PyThreadState_Next(thread))
        if (thread->c_profileobj == (PyObject *)collector && set_profile(thread, NULL, NULL) < 0)
            return -1;
    return 0;
}

/* The first event in a thread that was adopted by another. */
static int on_first_event(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    struct table *table = ((struct collector *)self)->tables[0];
    if (table->generation == kernel_generation && table_follow(table))
        kernel_last_table = table;
    PyThreadState_Get()->c_profilefunc = on_event;
    return on_event(self, frame, what, argument);
}

static bool has_frame(PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x03090000
    PyFrameObject *frame = PyThreadState_GetFrame(thread);
    Py_XDECREF(frame);
    return frame != NULL;
#else
    return thread->frame != NULL;
#endif
}

bool hook_adopt(struct collector *collector, unsigned long ident, pid_t native, PyObject *frame, size_t skip) {
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    /* The state of a new thread has the ident of the thread that creates it, and no frame. */
    while (thread && !(thread->thread_id == ident && has_frame(thread)))
        thread = PyThreadState_Next(thread);
    if (!thread || (thread->c_profilefunc && thread->c_profileobj != (PyObject *)collector))
        return false;
    struct table *table = collector_table_for(collector, native, ident);
    if (!table || table->top > table->stack)
        return table != NULL;
    bool own = thread == PyThreadState_Get();
    collector->enabled = true;
    collector->displaced = false;
    collector->thread_state = thread->id;
    waiting_start(table, own);
    frames_begin(table, frame, own ? skip : 0);
    if (own)
        kernel_last_table = table;
    return set_profile(thread, own ? on_event : on_first_event, (PyObject *)collector) == 0;
}

int hook_suspend(struct collector *collector) {
    hook_look(collector);
    if (hook_detach(collector) < 0)
        return -1;
    struct table *table = collector->n_tables ? collector->tables[0] : NULL;
    if (table && !collector->displaced && !table_ended(table))
        calls_close_all(table, table->native == kernel_thread_id());
    return 0;
}
