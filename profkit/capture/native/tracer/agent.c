#include "agent.h"

#include "tables.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "store.h"

/* `threading` registers a thread that it starts after about a dozen calls, and other threads never. */
#define MOST_TRIES 40

int64_t agent_due = INT64_MAX;
bool agent_serving;

static PyObject *name_function, *remind_function, *range_function, *begin_function;

static void exchange(PyObject **place, PyObject *value) {
    PyObject *before = *place;
    Py_XINCREF(value);
    *place = value;
    Py_XDECREF(before);
}

void agent_serve(PyObject *name_of, PyObject *remind, double seconds) {
    exchange(&name_function, name_of);
    exchange(&remind_function, remind);
    agent_serving = remind != NULL;
    agent_due = remind ? clock_ticks() + clock_ticks_in((int64_t)(seconds * 1e9)) : INT64_MAX;
}

void agent_forget(void) {
    agent_serving = false;
    agent_due = INT64_MAX;
}

/* Call a function of the agent. PyTorch's compiler examines each frame inside compiled code and would count the
 * agent's, so it is switched off in this thread meanwhile. */
static PyObject *call_unseen(PyObject *function, PyObject *argument) {
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

void agent_await_call(PyObject *begin) { exchange(&begin_function, begin); }

static bool is_own(PyObject *code) {
    PyObject *file = PyObject_GetAttrString(code, "co_filename");
    Py_ssize_t size;
    const char *text = file && PyUnicode_Check(file) ? PyUnicode_AsUTF8AndSize(file, &size) : NULL;
    bool own = text && store_is_own(text, (size_t)size);
    Py_XDECREF(file);
    PyErr_Clear();
    return own;
}

int agent_first_call(PyObject *code) {
    PyObject *type, *value, *traceback;
    sigset_t all, before;
    if (!begin_function)
        return 0;
    PyErr_Fetch(&type, &value, &traceback);
    if (is_own(code)) {
        PyErr_Restore(type, value, traceback);
        return 0;
    }
    PyObject *begin = begin_function;
    begin_function = NULL;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    PyObject *done = call_unseen(begin, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    Py_DECREF(begin);
    if (!done) { /* raised by a signal handler of the target; the agent catches its own errors */
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return -1;
    }
    Py_DECREF(done);
    PyErr_Restore(type, value, traceback);
    return 1;
}

/* Drop an error of the agent. A KeyboardInterrupt is the target's and is raised again later. */
static void drop_error(void) {
    bool interrupted = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    PyErr_Clear();
    if (interrupted)
        PyErr_SetInterrupt();
}

void agent_name_thread(struct table *table) {
    if (table->name[0] || !name_function || table->name_tries >= MOST_TRIES)
        return;
    table->name_tries++;
    PyObject *ident = PyLong_FromUnsignedLong(table->ident);
    PyObject *name = ident ? call_unseen(name_function, ident) : NULL;
    PyObject *bytes = name && PyUnicode_Check(name) ? PyUnicode_AsEncodedString(name, "utf-8", "replace") : NULL;
    if (bytes) {
        strncpy(table->name, PyBytes_AsString(bytes), sizeof table->name - 1);
        size_t used = strlen(table->name);
        while (used > 0 && used == sizeof table->name - 1 && ((unsigned char)table->name[used - 1] & 0x80))
            table->name[--used] = '\0'; /* a truncated character */
    }
    Py_XDECREF(bytes);
    Py_XDECREF(name);
    Py_XDECREF(ident);
    drop_error();
}

unsigned agent_name_later(struct table *table) {
    unsigned tries = table->name_tries;
    table->name_tries = MOST_TRIES;
    return tries;
}

void agent_name_again(struct table *table, unsigned tries) { table->name_tries = tries; }

void agent_serve_ranges(PyObject *function) { exchange(&range_function, function); }

void agent_range(bool begins) {
    PyObject *type, *value, *traceback;
    sigset_t all, before;
    if (!range_function)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Py_XDECREF(call_unseen(range_function, begins ? Py_True : Py_False));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    drop_error();
    PyErr_Restore(type, value, traceback);
}

int agent_remind(struct table *table) {
    PyObject *type, *value, *traceback;
    sigset_t all, before;
    int64_t begun = clock_ticks();
    agent_due = INT64_MAX; /* until the function returns the next time */
    PyErr_Fetch(&type, &value, &traceback);
    /* A Python signal handler run inside the call would have its exception caught there. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    PyObject *seconds = remind_function ? call_unseen(remind_function, NULL) : NULL;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!seconds && PyErr_Occurred()) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return -1;
    }
    double until = seconds ? PyFloat_AsDouble(seconds) : -1.0;
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
