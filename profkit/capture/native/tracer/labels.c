#include "labels.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifndef PROFKIT_ABI3
_Static_assert(offsetof(struct c_function, definition) == offsetof(PyCFunctionObject, m_ml), "layout");
_Static_assert(offsetof(struct c_function, self) == offsetof(PyCFunctionObject, m_self), "layout");
_Static_assert(offsetof(struct c_function, module) == offsetof(PyCFunctionObject, m_module), "layout");
#endif

/* type.__dict__'s '__mro__' and '__dict__', which no metaclass can override. */
static PyObject *mro_of_types, *dict_of_types;

static PyObject *get_by(PyObject *descriptor, PyTypeObject *type) {
    return PyObject_CallMethod(descriptor, "__get__", "O", (PyObject *)type);
}

/* Return the unbound attribute of a type or its bases; NULL, perhaps with an exception, if absent. */
static PyObject *find_in_type(PyTypeObject *type, const char *name) {
    PyObject *found = NULL;
    PyObject *key = PyUnicode_FromString(name);
    PyObject *bases = key ? get_by(mro_of_types, type) : NULL;
    Py_ssize_t n = bases && PyTuple_Check(bases) ? PyTuple_Size(bases) : 0;
    for (Py_ssize_t i = 0; i < n && !found; i++) {
        PyObject *names = get_by(dict_of_types, (PyTypeObject *)PyTuple_GetItem(bases, i));
        if (!names)
            break;
        found = PyObject_GetItem(names, key);
        if (!found)
            PyErr_Clear();
        Py_DECREF(names);
    }
    Py_XDECREF(bases);
    Py_XDECREF(key);
    return found;
}

static PyObject *label_of_free_function(const char *name, PyObject *module) {
    PyObject *module_name = NULL;
    if (module && PyUnicode_Check(module)) {
        Py_INCREF(module);
        module_name = module;
    } else if (module && PyModule_Check(module)) {
        module_name = PyModule_GetNameObject(module);
        if (!module_name)
            PyErr_Clear();
    }
    PyObject *label;
    if (module_name && PyUnicode_CompareWithASCIIString(module_name, "builtins") != 0)
        label = PyUnicode_FromFormat("<%U.%s>", module_name, name);
    else
        label = PyUnicode_FromFormat("<%s>", name);
    Py_XDECREF(module_name);
    return label;
}

/* As PyObject_Repr(), which runs signal handlers of the target first, whose exceptions would be lost here. */
static PyObject *repr_of(PyObject *object) {
#if PY_VERSION_HEX >= 0x030A0000
    return ((reprfunc)PyType_GetSlot(Py_TYPE(object), Py_tp_repr))(object);
#else
    return Py_TYPE(object)->tp_repr(object);
#endif
}

static PyObject *label_of_method(const char *name, PyObject *self, PyObject *module) {
    PyObject *unbound = find_in_type(Py_TYPE(self), name);
    if (unbound) {
        PyObject *label = repr_of(unbound);
        Py_DECREF(unbound);
        if (label)
            return label;
    }
    PyErr_Clear();
    if (module && PyUnicode_Check(module))
        return PyUnicode_FromFormat("<built-in method %U.%s>", module, name);
    return PyUnicode_FromFormat("<built-in method %s>", name);
}

PyObject *label_of(PyObject *object, PyObject *self) {
    if (PyCFunction_Check(object)) {
        const struct c_function *function = (const struct c_function *)object;
        const char *name = function->definition->ml_name;
        if (function->self)
            return label_of_method(name, function->self, function->module);
        return label_of_free_function(name, function->module);
    }
    if (self)
        return label_of_method(((const struct c_method *)object)->definition->ml_name, self, NULL);
    Py_IncRef(object); /* code may be immortal and in read-only memory, which older headers' inline code ignores */
    return object;
}

/* Whether a built-in function has the expected layout; follows only verified fields. */
static bool function_as_expected(PyObject *object, PyObject *self, const char *name) {
    const struct c_function *function = (const struct c_function *)object;
    PyObject *module = PyObject_GetAttrString(object, "__module__");
    bool same = module && PyCFunction_Check(object) && function->self == self &&
                (function->module == module || (!function->module && module == Py_None)) &&
                function->definition && function->definition->ml_meth == PyCFunction_GetFunction(object) &&
                strcmp(function->definition->ml_name, name) == 0;
    Py_XDECREF(module);
    return same;
}

static bool layout_as_expected(void) {
    PyObject *builtins = PyImport_ImportModule("builtins");
    PyObject *len = builtins ? PyObject_GetAttrString(builtins, "len") : NULL;
    PyObject *list = PyList_New(0);
    PyObject *bound = list ? PyObject_GetAttrString(list, "append") : NULL;
    PyObject *unbound = PyObject_GetAttrString((PyObject *)&PyList_Type, "append");
    PyObject *size = PyObject_GetAttrString((PyObject *)&PyBaseObject_Type, "__basicsize__");
    bool same = len && bound && unbound && size && PyLong_AsSsize_t(size) == (Py_ssize_t)sizeof(PyObject) &&
                function_as_expected(len, builtins, "len") && function_as_expected(bound, list, "append");
    if (same) {
        const struct c_method *method = (const struct c_method *)unbound;
        same = Py_TYPE(unbound) == &PyMethodDescr_Type && method->type == &PyList_Type &&
               method->definition == ((const struct c_function *)bound)->definition;
    }
    Py_XDECREF(size);
    Py_XDECREF(unbound);
    Py_XDECREF(bound);
    Py_XDECREF(list);
    Py_XDECREF(len);
    Py_XDECREF(builtins);
    return same;
}

int labels_start(void) {
    if (mro_of_types)
        return 0;
    if (!layout_as_expected()) {
        PyErr_SetString(PyExc_ImportError, "profkit's tracer does not know this interpreter's built-in functions");
        return -1;
    }
    PyObject *names = PyObject_GetAttrString((PyObject *)&PyType_Type, "__dict__");
    if (!names)
        return -1;
    dict_of_types = PyMapping_GetItemString(names, "__dict__");
    mro_of_types = dict_of_types ? PyMapping_GetItemString(names, "__mro__") : NULL;
    Py_DECREF(names);
    return mro_of_types ? 0 : -1;
}

/* Ends of file names whose functions open ranges for their callers. */
static const char *const passing_on[] = {
    "/nvtx/nvtx.py", "/contextlib.py", "/torch/cuda/nvtx.py",
    "/torch/autograd/profiler.py", "/cupyx/profiler/_time_range.py", "<frozen profkit.torch_nvtx>",
};

bool label_passes_on(const char *file) {
    size_t size = strlen(file);
    for (size_t i = 0; i < sizeof passing_on / sizeof *passing_on; i++) {
        size_t bytes = strlen(passing_on[i]);
        if (size >= bytes && !strcmp(file + size - bytes, passing_on[i]))
            return true;
    }
    return false;
}
