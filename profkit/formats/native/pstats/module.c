/* Python module of the pstats reader: `read` returns the texts, keys and rows of reader.h, or None. */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "reader.h"

/* As `decode_text` in pstats_objects.py. */
static PyObject *decoded(const char *bytes, const struct text *text) {
    if (text->latin)
        return PyUnicode_DecodeLatin1(bytes, (Py_ssize_t)text->length, NULL);
    PyObject *const made = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)text->length, "surrogatepass");
    if (made != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return made;
    PyErr_Clear();
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)text->length, "surrogateescape");
}

static PyObject *strings_of(const char *data, const struct list *texts) {
    PyObject *const strings = PyTuple_New((Py_ssize_t)texts->count);
    for (size_t i = 0; strings != NULL && i < texts->count; i++) {
        const struct text *const text = (const struct text *)texts->items + i;
        PyObject *const made = decoded(data + text->at, text);
        if (made == NULL || PyTuple_SetItem(strings, (Py_ssize_t)i, made) < 0) {
            Py_DECREF(strings);
            return NULL;
        }
    }
    return strings;
}

static PyObject *bytes_of(const struct list *list, size_t item) {
    return PyBytes_FromStringAndSize(list->items, (Py_ssize_t)(list->count * item));
}

static PyObject *read_dump_of(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *data;
    int edges;
    if (!PyArg_ParseTuple(arguments, "Sp:read", &data, &edges))
        return NULL;
    struct dump dump;
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(data, &bytes, &size) < 0)
        return NULL;
    enum outcome outcome;
    Py_BEGIN_ALLOW_THREADS; /* bytes are immutable, and the caller holds a reference */
    outcome = read_dump((const uint8_t *)bytes, (size_t)size, edges, &dump);
    Py_END_ALLOW_THREADS;
    if (outcome == IRREGULAR)
        Py_RETURN_NONE;
    if (outcome == NO_MEMORY)
        return PyErr_NoMemory();
    PyObject *const strings = strings_of(bytes, &dump.texts);
    PyObject *const keys = strings == NULL ? NULL : bytes_of(&dump.keys, sizeof(struct key));
    PyObject *const rows = keys == NULL ? NULL : bytes_of(&dump.rows, sizeof(struct row));
    PyObject *const result = rows == NULL ? NULL : PyTuple_Pack(3, strings, keys, rows);
    Py_XDECREF(strings);
    Py_XDECREF(keys);
    Py_XDECREF(rows);
    free_dump(&dump);
    return result;
}

static PyMethodDef METHODS[] = {
    {"read", read_dump_of, METH_VARARGS,
     "read(data, edges): texts, keys and rows of the regular dump that these bytes are, else None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef DEFINITION = {
    PyModuleDef_HEAD_INIT, "_pstats", "Reads regular pstats dumps.", -1, METHODS, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__pstats(void) { return PyModule_Create(&DEFINITION); }
