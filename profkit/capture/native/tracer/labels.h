/* C functions: their identity, and cProfile's names for them.
 *
 * The identity is the PyMethodDef, as in cProfile: the function pointer, all that the limited API gives, is the same
 * for all functions of pybind11. So the definition is read from the objects' first fields, which are the same in
 * every CPython with a GIL; labels_start() checks that in the running interpreter. */
#ifndef PROFKIT_LABELS_H
#define PROFKIT_LABELS_H

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

/* Return the label of what is called: the code object, or cProfile's string for a C function or a method called on
 * `self`; a new reference, or NULL with an exception. */
PyObject *label_of(PyObject *object, PyObject *self);

/* Whether ranges opened by this function belong to its caller: for C functions and Python parts of range libraries.
 * Leaves no exception. */
bool label_passes_on(PyObject *label);

#endif
