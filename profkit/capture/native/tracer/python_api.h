/* Python.h for all builds: PROFKIT_ABI3 for every CPython from 3.12 on (headers of 3.10 or 3.11); with
 * PROFKIT_FREE_THREADED, for the free-threaded interpreter of the headers (3.13 on), which samples only; else for
 * the interpreter of the headers, 3.8 to 3.11. */
#pragma once

#define PY_SSIZE_T_CLEAN
#if defined(PROFKIT_ABI3) && !defined(PROFKIT_FREE_THREADED)
#define Py_LIMITED_API 0x030A0000
#endif
#include <Python.h>

#if !defined(PROFKIT_ABI3) && (PY_VERSION_HEX < 0x03080000 || PY_VERSION_HEX >= 0x030C0000)
#error "without PROFKIT_ABI3 the tracer is for CPython 3.8 to 3.11"
#endif
#if defined(Py_GIL_DISABLED) != defined(PROFKIT_FREE_THREADED)
#error "the headers of a free-threaded interpreter are for its own tracer, and no others"
#endif

#if PY_VERSION_HEX < 0x03090000
#define PyInterpreterState_Get _PyInterpreterState_Get
#endif

/* Keep another object, or NULL, in the place of one. */
static inline void exchange(PyObject **place, PyObject *value) {
    PyObject *before = *place;
    Py_XINCREF(value);
    *place = value;
    Py_XDECREF(before);
}

/* Return an attribute, a new reference; NULL without an exception. */
static inline PyObject *attribute(PyObject *of, const char *name) {
    PyObject *value = of ? PyObject_GetAttrString(of, name) : NULL;
    if (!value)
        PyErr_Clear();
    return value;
}

/* The same as a number; -1 without one. */
static inline long attribute_number(PyObject *of, const char *name) {
    PyObject *value = attribute(of, name);
    long number = value ? PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    PyErr_Clear();
    return number;
}

/* Return the UTF-8 of a string, which keeps it, and its length; NULL without an exception for other objects. */
static inline const char *text_of(PyObject *string, Py_ssize_t *bytes) {
    const char *text = string && PyUnicode_Check(string) ? PyUnicode_AsUTF8AndSize(string, bytes) : NULL;
    if (!text)
        PyErr_Clear();
    return text;
}

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
