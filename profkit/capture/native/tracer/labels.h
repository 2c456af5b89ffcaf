/* C functions: what identifies one, and the name that cProfile gives it.
 *
 * A C function is its PyMethodDef, as in cProfile. The function pointer in it, which the limited API would give,
 * is not enough: pybind11 gives all its functions the same one. So the definition is read from the objects
 * themselves, whose first fields have been the same in every CPython with a GIL; labels_start() verifies them
 * on the interpreter that runs before anything is taken from there.
 */
#ifndef PROFKIT_LABELS_H
#define PROFKIT_LABELS_H

#include "python_api.h"

#include <stdbool.h>

/* How a built-in function or bound method (type PyCFunction_Type or derived from it) begins. */
struct c_function {
    PyObject head;
    PyMethodDef *definition;
    PyObject *self;
    PyObject *module;
};

/* How a method of a built-in type (type PyMethodDescr_Type) begins. */
struct c_method {
    PyObject head;
    PyTypeObject *type;
    PyObject *name;
    PyObject *qualified_name;
    PyMethodDef *definition;
};

/* Once a process. Returns -1 with ImportError set if objects are not laid out as above. */
int labels_start(void);

/* The label of what is called: a code object itself; of a C function or of a method called on `self` the string
 * that cProfile uses. Returns a new reference, or NULL with an exception set. */
PyObject *label_of(PyObject *object, PyObject *self);

/* Whether ranges that such a function opens are its caller's: C functions, and the Python parts of libraries whose
 * purpose they are. Leaves no exception behind. */
bool label_passes_on(PyObject *label);

#endif
