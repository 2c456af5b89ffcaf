/* An interpreter inside of a fuzz target: isolated, without site, with one function of the target's own. */
#ifndef PROFKIT_FUZZ_INTERPRETER_H
#define PROFKIT_FUZZ_INTERPRETER_H

#include <Python.h>

#include "input.h"

static inline void start_interpreter(void)
{
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    MUST(!PyStatus_Exception(Py_InitializeFromConfig(&config)));
    PyConfig_Clear(&config);
}

/* Runs a program that may call `start`; returns its global names, which stay. */
static inline PyObject *names_after(PyMethodDef *start, const char *program)
{
    PyObject *names = PyDict_New(), *function = PyCFunction_New(start, NULL);
    MUST(names != NULL && function != NULL && PyDict_SetItemString(names, start->ml_name, function) == 0);
    Py_DECREF(function);
    PyObject *done = PyRun_String(program, Py_file_input, names, names);
    if (done == NULL)
        PyErr_Print();
    MUST(done != NULL);
    Py_DECREF(done);
    return names;
}

#endif
