/* C functions: their identity, and cProfile's names for them. The identity is the PyMethodDef, as in cProfile: the
 * limited API gives only the function pointer, which is the same for all of pybind11's. So it is read from the
 * objects' first fields, the same in every CPython with a GIL; labels_start() checks that. */
#pragma once

#include "python_api.h"

#include <stdbool.h>

/* The beginning of a built-in function or bound method (PyCFunction_Type or derived). */
struct c_function {
    PyObject head;
    PyMethodDef *definition;
    PyObject *self;
    PyObject *module;
};

/* The beginning of a method of a built-in type (PyMethodDescr_Type). */
struct c_method {
    PyObject head;
    PyTypeObject *type;
    PyObject *name;
    PyObject *qualified_name;
    PyMethodDef *definition;
};

/* Prepare, once per process; -1 with ImportError if the layouts differ. */
int labels_start(void);

/* Return the code object, or cProfile's string for a C function or a method called on `self`: a new reference, or
 * NULL with an exception. */
PyObject *label_of(PyObject *object, PyObject *self);

/* Whether ranges opened by functions of this file are their callers': it is part of a range library. */
bool label_passes_on(const char *file);
