#include "frames.h"

#include "calls.h"

#include <stdlib.h>

static PyObject *attribute(PyObject *of, const char *name) {
    PyObject *value = PyObject_GetAttrString(of, name);
    PyErr_Clear();
    return value;
}

/* Collect the code of a frame and its callers, innermost first, as new references; return the count. */
static size_t codes_of(PyObject *frame, PyObject ***found) {
    size_t n = 0, room = 0;
    PyObject **codes = NULL;
    Py_XINCREF(frame);
    while (frame && frame != Py_None) {
        if (n == room) {
            size_t more = room ? 2 * room : 64;
            PyObject **grown = realloc(codes, more * sizeof *grown);
            if (!grown)
                break;
            codes = grown;
            room = more;
        }
        PyObject *code = attribute(frame, "f_code");
        if (code)
            codes[n++] = code;
        PyObject *around = attribute(frame, "f_back");
        Py_DECREF(frame);
        frame = around;
    }
    Py_XDECREF(frame);
    *found = codes;
    return n;
}

void frames_begin(struct table *table, PyObject *frame, size_t skip) {
    PyObject *type, *value, *traceback, **codes;
    PyErr_Fetch(&type, &value, &traceback);
    size_t n = codes_of(frame, &codes);
    int64_t now = clock_ticks();
    for (size_t i = n; i-- > 0;) {
        if (i >= skip)
            calls_adopt(table, codes[i], now);
        Py_DECREF(codes[i]);
    }
    table->last = now;
    free(codes);
    PyErr_Restore(type, value, traceback);
}
