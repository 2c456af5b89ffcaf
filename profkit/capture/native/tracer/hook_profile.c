/* Events by PyEval_SetProfile, up to Python 3.11: of the thread that enables the collector. */
#include "hook.h"

#include <frameobject.h>

#include "calls.h"
#include "labels.h"

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
    switch (what) {
    case PyTrace_CALL: {
        PyObject *code = code_of(frame);
        return call_begins(table, code, code, NULL);
    }
    case PyTrace_RETURN:
        call_ends(table, code_of(frame));
        break;
    case PyTrace_C_CALL:
        if (PyCFunction_Check(argument))
            return call_begins(table, ((struct c_function *)argument)->definition, argument, NULL);
        break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
        if (PyCFunction_Check(argument))
            call_ends(table, ((struct c_function *)argument)->definition);
        break;
    default:
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

#if PY_VERSION_HEX >= 0x030A0000
int hook_detach(struct collector *collector) {
    /* The GIL is held: no other thread of this interpreter is in on_event(), or will be in one of this collector. */
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread; thread = PyThreadState_Next(thread))
        if (thread->c_profileobj == (PyObject *)collector && _PyEval_SetProfile(thread, NULL, NULL) < 0)
            return -1;
    return 0;
}
#else
int hook_detach(struct collector *collector) {
    (void)collector;
    PyErr_SetString(PyExc_NotImplementedError, "up to Python 3.9 a collector is disabled by its own thread");
    return -1;
}
#endif
