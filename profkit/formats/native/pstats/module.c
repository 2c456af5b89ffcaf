/* Python module of the pstats reader: `read` returns columns as bytearrays, or None. */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "reader.h"

#include <string.h>

static PyObject *bytes_of(size_t count, size_t width, char **bytes) {
    PyObject *const made = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(count * width));
    *bytes = made == NULL ? NULL : PyByteArray_AsString(made);
    return made;
}

/* Append one field of an array of structures as a column of `type`, which may be wider than the field. */
#define COLUMN(items, count, field, type)                                                                              \
    do {                                                                                                               \
        char *column;                                                                                                  \
        PyObject *const made = bytes_of((count), sizeof(type), &column);                                               \
        if (made == NULL)                                                                                              \
            goto failed;                                                                                               \
        for (size_t i = 0; i < (count); i++) {                                                                         \
            const type value = (type)(items)[i] field;                                                                 \
            memcpy(column + i * sizeof value, &value, sizeof value);                                                   \
        }                                                                                                              \
        if (PyTuple_SetItem(result, place++, made) < 0)                                                                \
            goto failed;                                                                                               \
    } while (0)

/* As `decode_text` in pstats_objects.py. */
static PyObject *decoded(const char *bytes, const struct text *text) {
    if (text->ascii || text->latin)
        return PyUnicode_DecodeLatin1(bytes, (Py_ssize_t)text->length, NULL);
    PyObject *const made = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)text->length, "surrogatepass");
    if (made != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return made;
    PyErr_Clear();
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)text->length, "surrogateescape");
}

/* Return the string table. `twice` is set if texts of different bytes are the same string; such dumps are left to
   the Python reader. */
static PyObject *strings_of(const char *data, const struct dump *dump, int *twice) {
    PyObject *seen = NULL, *const strings = PyTuple_New((Py_ssize_t)dump->text_count + 1);
    PyObject *text = strings == NULL ? NULL : PyUnicode_FromStringAndSize("", 0);
    if (text == NULL || PyTuple_SetItem(strings, 0, text) < 0)
        goto failed;
    for (size_t i = 0; i < dump->text_count; i++) {
        const struct text *const raw = dump->texts + i;
        text = decoded(data + raw->at, raw);
        if (text == NULL)
            goto failed;
        if (!raw->ascii) {
            if (seen == NULL && (seen = PyDict_New()) == NULL) {
                Py_DECREF(text);
                goto failed;
            }
            *twice |= PyDict_GetItemWithError(seen, text) != NULL;
            if (PyErr_Occurred() || PyDict_SetItem(seen, text, Py_None) < 0) {
                Py_DECREF(text);
                goto failed;
            }
        }
        if (PyTuple_SetItem(strings, (Py_ssize_t)i + 1, text) < 0)
            goto failed;
    }
    Py_XDECREF(seen);
    return strings;
failed:
    Py_XDECREF(seen);
    Py_XDECREF(strings);
    return NULL;
}

enum { PARTS = 15 };

static PyObject *columns_of(const char *data, const struct dump *dump) {
    int twice = 0;
    Py_ssize_t place = 0;
    const size_t all = dump->rows + dump->extra;
    PyObject *const result = PyTuple_New(PARTS);
    PyObject *part = result == NULL ? NULL : strings_of(data, dump, &twice);
    if (part == NULL || PyTuple_SetItem(result, place++, part) < 0)
        goto failed;
    if (twice) {
        Py_DECREF(result);
        Py_RETURN_NONE;
    }
    COLUMN(dump->functions, all, .file, int32_t);
    COLUMN(dump->functions, all, .line, int32_t);
    COLUMN(dump->functions, all, .name, int32_t);
    COLUMN(dump->costs, all, .first, int64_t);
    COLUMN(dump->costs, all, .second, int64_t);
    COLUMN(dump->costs, all, .tottime, double);
    COLUMN(dump->costs, all, .cumtime, double);
    part = PyLong_FromSize_t(dump->extra);
    if (part == NULL || PyTuple_SetItem(result, place++, part) < 0)
        goto failed;
    COLUMN(dump->caller, dump->edges, , int32_t);
    COLUMN(dump->callee, dump->edges, , int32_t);
    COLUMN(dump->edge_costs, dump->edges, .first, int64_t);
    COLUMN(dump->edge_costs, dump->edges, .second, int64_t);
    COLUMN(dump->edge_costs, dump->edges, .tottime, double);
    COLUMN(dump->edge_costs, dump->edges, .cumtime, double);
    return result;
failed:
    Py_XDECREF(result);
    return NULL;
}

static PyObject *read_columns(PyObject *module, PyObject *arguments) {
    PyObject *data;
    int edges;
    if (!PyArg_ParseTuple(arguments, "Sp:read", &data, &edges))
        return NULL;
    /* Python's string hash differs from process to process, so it serves as the seed here. */
    PyObject *const salt = PyModule_GetNameObject(module);
    const Py_hash_t seed = salt == NULL ? -1 : PyObject_Hash(salt);
    Py_XDECREF(salt);
    if (seed == -1)
        return NULL;
    struct dump dump;
    char *bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(data, &bytes, &size) < 0)
        return NULL;
    enum outcome outcome;
    Py_BEGIN_ALLOW_THREADS; /* bytes are immutable, and the caller holds a reference */
    outcome = read_dump((const uint8_t *)bytes, (size_t)size, edges, (uint64_t)seed, &dump);
    Py_END_ALLOW_THREADS;
    switch (outcome) {
    case IRREGULAR:
        Py_RETURN_NONE;
    case NO_MEMORY:
        return PyErr_NoMemory();
    default:
        break;
    }
    PyObject *const result = columns_of(bytes, &dump);
    free_dump(&dump);
    return result;
}

static PyMethodDef METHODS[] = {
    {"read", read_columns, METH_VARARGS,
     "read(data, edges): the columns of the regular dump that these bytes are, else None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef DEFINITION = {
    PyModuleDef_HEAD_INIT, "_pstats", "Reads regular pstats dumps.", -1, METHODS, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__pstats(void);

PyMODINIT_FUNC PyInit__pstats(void) { return PyModule_Create(&DEFINITION); }
