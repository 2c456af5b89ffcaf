#include "agent.h"

#include "table.h"

#include <signal.h>
#include <string.h>

#include "clock.h"
#include "store.h"

/* `threading` registers a thread that it starts after about a dozen calls, and other threads never. */
#define MOST_TRIES 40

/* Until a function of the agent is called again that found no room on the stack. */
#define ROOM_AGAIN_S 0.2

/* More calls inside calls than functions of the agent make (undisturbed.py). */
#define CALLS_OF_AGENT 30

int64_t agent_due = INT64_MAX;
bool agent_serving;

static PyObject *remind_function, *range_function, *begin_function;

void agent_serve(PyObject *remind, double seconds) {
    exchange(&remind_function, remind);
    agent_serving = remind != NULL;
    agent_due = remind ? clock_ticks() + clock_ticks_in((int64_t)(seconds * 1e9)) : INT64_MAX;
}

void agent_forget(void) {
    agent_serving = false;
    agent_due = INT64_MAX;
}

/* Before Python 3.10, its own RecursionError would lower the limit for the target, which is then ended at the next one. */
static bool lacks_room(void) {
#if PY_VERSION_HEX < 0x030A0000
    return PyThreadState_Get()->recursion_depth + CALLS_OF_AGENT > Py_GetRecursionLimit();
#else
    return false;
#endif
}

/* Call a function of the agent. PyTorch's compiler examines each frame inside compiled code and would count the
 * agent's, so it is switched off in this thread meanwhile. */
static PyObject *call_unseen(PyObject *function, PyObject *argument) {
    if (lacks_room()) {
        PyErr_SetNone(PyExc_RecursionError);
        return NULL;
    }
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *compiler = modules ? PyDict_GetItemString(modules, "torch._C._dynamo.eval_frame") : NULL;
    PyObject *set = compiler ? PyObject_GetAttrString(compiler, "set_eval_frame") : NULL;
    PyObject *before = set ? PyObject_CallFunctionObjArgs(set, Py_None, NULL) : NULL;
    PyErr_Clear();
    PyObject *result = PyObject_CallFunctionObjArgs(function, argument, NULL);
    if (before) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_XDECREF(PyObject_CallFunctionObjArgs(set, before, NULL));
        PyErr_Clear();
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(before);
    Py_XDECREF(set);
    return result;
}

/* Hold signals back in this thread: exceptions of their Python handlers would be caught in the agent's functions. */
static void hold_signals(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

static void let_signals_come(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }

/* Forget a fetched exception: another one takes its place. */
static int raise_instead(PyObject *type, PyObject *value, PyObject *traceback) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return -1;
}

/* Whether a function of the agent found no room on the stack. It runs wherever the target is, which may be at its limit
 * of recursion and must not notice. */
static bool found_no_room(void) {
    if (!PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_RecursionError))
        return false;
    PyErr_Clear();
    return true;
}

void agent_await_call(PyObject *begin) { exchange(&begin_function, begin); }

static bool is_own(PyObject *code) {
    PyObject *file = attribute(code, "co_filename");
    Py_ssize_t size;
    const char *text = text_of(file, &size);
    bool own = text && store_is_own(text, (size_t)size);
    Py_XDECREF(file);
    return own;
}

int agent_first_call(PyObject *code) {
    PyObject *type, *value, *traceback, *done = NULL;
    sigset_t before;
    if (!begin_function)
        return 0;
    PyErr_Fetch(&type, &value, &traceback);
    if (is_own(code)) {
        PyErr_Restore(type, value, traceback);
        return 0;
    }
    hold_signals(&before);
    if (PyErr_CheckSignals() == 0) { /* handlers of those that came before run here */
        PyObject *begin = begin_function;
        begin_function = NULL;
        done = call_unseen(begin, NULL);
        if (!done && found_no_room()) {
            begin_function = begin; /* for the next call */
            let_signals_come(&before);
            PyErr_Restore(type, value, traceback);
            return 0;
        }
        Py_DECREF(begin);
    }
    let_signals_come(&before);
    if (!done) /* raised by a signal handler of the target; the agent catches its own errors */
        return raise_instead(type, value, traceback);
    Py_DECREF(done);
    PyErr_Restore(type, value, traceback);
    return 1;
}

/* Return the name that `threading` has for a thread, a new reference, or NULL. Runs no Python code, where signal
 * handlers of the target would be called. */
static PyObject *name_of(unsigned long ident) {
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *threading = modules ? PyDict_GetItemString(modules, "threading") : NULL;
    PyObject *threads = threading ? PyObject_GetAttrString(threading, "_active") : NULL;
    PyObject *key = threads && PyDict_CheckExact(threads) ? PyLong_FromUnsignedLong(ident) : NULL;
    PyObject *thread = key ? PyObject_GetItem(threads, key) : NULL; /* a new reference: it may be taken out meanwhile */
    PyObject *name = thread ? PyObject_GetAttrString(thread, "_name") : NULL;
    Py_XDECREF(thread);
    Py_XDECREF(key);
    Py_XDECREF(threads);
    return name;
}

void agent_name_thread(struct table *table) {
    if (table->name[0] || !agent_serving || table->name_tries >= MOST_TRIES)
        return;
    table->name_tries++;
    PyObject *name = name_of(table->ident);
    PyObject *bytes = name && PyUnicode_Check(name) ? PyUnicode_AsEncodedString(name, "utf-8", "replace") : NULL;
    if (bytes) {
        strncpy(table->name, PyBytes_AsString(bytes), sizeof table->name - 1);
        size_t used = strlen(table->name);
        while (used > 0 && used == sizeof table->name - 1 && ((unsigned char)table->name[used - 1] & 0x80))
            table->name[--used] = '\0'; /* a truncated character */
    }
    Py_XDECREF(bytes);
    Py_XDECREF(name);
    PyErr_Clear();
}

void agent_serve_ranges(PyObject *function) { exchange(&range_function, function); }

void agent_range(bool begins) {
    PyObject *type, *value, *traceback;
    sigset_t before;
    if (!range_function)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    hold_signals(&before);
    Py_XDECREF(call_unseen(range_function, begins ? Py_True : Py_False));
    let_signals_come(&before);
    /* A KeyboardInterrupt is the target's, and is raised again later. */
    bool interrupted = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    PyErr_Clear();
    if (interrupted)
        PyErr_SetInterrupt();
    PyErr_Restore(type, value, traceback);
}

int agent_remind(struct table *table) {
    PyObject *type, *value, *traceback, *seconds = NULL;
    sigset_t before;
    int64_t begun = clock_ticks();
    agent_due = INT64_MAX; /* until the function returns the next time */
    PyErr_Fetch(&type, &value, &traceback);
    hold_signals(&before);
    if (PyErr_CheckSignals() < 0) /* a handler of one that came before */
        agent_due = begun;
    else if (remind_function)
        seconds = call_unseen(remind_function, NULL);
    let_signals_come(&before);
    bool no_room = !seconds && remind_function && agent_due == INT64_MAX && found_no_room();
    if (!seconds && PyErr_Occurred())
        return raise_instead(type, value, traceback);
    double until = seconds ? PyFloat_AsDouble(seconds) : no_room ? ROOM_AGAIN_S : -1.0;
    Py_XDECREF(seconds);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    int64_t now = clock_ticks();
    if (until > 0)
        agent_due = now + clock_ticks_in((int64_t)(until * 1e9));
    /* The time falls to the caller, as always with the tracer's work. */
    if (table) {
        table->last += now - begun;
        table->top->start += now - begun;
    }
    return 0;
}
