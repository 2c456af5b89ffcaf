/* The module refuses interpreters that it cannot trace correctly before it touches anything with another layout. */
#include "python_api.h"

#include <string.h>
#include <sys/resource.h>

#include "agent.h"
#include "bursts.h"
#include "clock.h"
#include "collector.h"
#include "forks.h"
#include "hook.h"
#include "labels.h"
#include "layout.h"
#include "range_events.h"
#include "sampler.h"
#include "seldom.h"
#include "store.h"
#include "tiers.h"
#include "waits.h"
#include "windows.h"

#ifdef PROFKIT_ABI3
#define MODULE_NAME "_tracer_abi3"
#define MODULE_INIT PyInit__tracer_abi3
#else
#define MODULE_NAME "_tracer"
#define MODULE_INIT PyInit__tracer
#endif

#ifdef PROFKIT_FREE_THREADED
enum { FREE_THREADED = 1 };
#else
enum { FREE_THREADED = 0 };
#endif

static int refuse_other_threading(void) {
    PyObject *flags = PySys_GetObject("abiflags");
    const char *text = flags ? PyUnicode_AsUTF8AndSize(flags, NULL) : NULL;
    if ((text && strchr(text, 't')) != FREE_THREADED) {
        PyErr_SetString(PyExc_ImportError, "profkit's tracer for free-threaded Python is another one than that for the usual build");
        return -1;
    }
    PyErr_Clear();
    return 0;
}

static int refuse_other_version(void) {
    PyObject *number = PySys_GetObject("hexversion");
    long version = number ? PyLong_AsLong(number) : 0;
#if defined(PROFKIT_ABI3) && !defined(PROFKIT_FREE_THREADED)
    if (version < 0x030C0000) {
        PyErr_SetString(PyExc_ImportError, "this build of profkit's tracer is for Python 3.12 and later");
        return -1;
    }
#else
    if (version >> 16 != PY_VERSION_HEX >> 16) {
        PyErr_Format(PyExc_ImportError, "this build of profkit's tracer is for Python %d.%d", PY_MAJOR_VERSION,
                     PY_MINOR_VERSION);
        return -1;
    }
#endif
    return 0;
}

/* Functions of Python without arguments and result. */
#define DOES(name, what)                                                                     \
    static PyObject *name(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {       \
        what;                                                                                \
        Py_RETURN_NONE;                                                                      \
    }

DOES(stop_watching, sampler_stop())
DOES(pause_watching, sampler_pause())
DOES(watch_again, sampler_resume())
DOES(want_samples, tiers_want(TIER_SAMPLED))
DOES(sync_tables, store_sync())
DOES(tell_parent, store_tell_parent())

static PyObject *follow_ranges(PyObject *Py_UNUSED(module), PyObject *path) {
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    bool done = range_events_follow(PyBytes_AsString(bytes));
    Py_DECREF(bytes);
    return PyBool_FromLong(done);
}

static PyObject *map_tables(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *path = NULL, *prefix = NULL;
    int descriptor;
    if (!PyArg_ParseTuple(arguments, "O&O&i", PyUnicode_FSConverter, &path, PyUnicode_FSConverter, &prefix, &descriptor))
        return NULL;
    clock_calibrate();
    bool done = store_open(PyBytes_AsString(path), descriptor, PyBytes_AsString(prefix), layout_describe);
    Py_DECREF(path);
    Py_DECREF(prefix);
    return PyBool_FromLong(done);
}

static PyObject *serve(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *remind;
    double seconds;
    if (!PyArg_ParseTuple(arguments, "Od", &remind, &seconds))
        return NULL;
    agent_serve(remind, seconds);
    Py_RETURN_NONE;
}

static PyObject *await_call(PyObject *Py_UNUSED(module), PyObject *begin) {
    agent_await_call(begin == Py_None ? NULL : begin);
    Py_RETURN_NONE;
}

static PyObject *serve_ranges(PyObject *Py_UNUSED(module), PyObject *arguments) {
    const char *name, *domain;
    int each;
    PyObject *function;
    if (!PyArg_ParseTuple(arguments, "szpO", &name, &domain, &each, &function))
        return NULL;
    agent_serve_ranges(function);
    return PyBool_FromLong(range_events_watch(name, domain, each));
}

static PyObject *range_reported(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    bool begins;
    if (range_events_reported(&begins))
        return PyBool_FromLong(begins);
    Py_RETURN_NONE;
}

static PyObject *take_out(PyObject *Py_UNUSED(module), PyObject *arguments) {
    struct probe_costs costs;
    if (!PyArg_ParseTuple(arguments, "ddddd", &costs.python_outside, &costs.python_inside, &costs.c_outside,
                          &costs.c_inside, &costs.site))
        return NULL;
    clock_calibrate();
    tiers_measured(&costs);
    Py_RETURN_NONE;
}

static PyObject *limit(PyObject *Py_UNUSED(module), PyObject *share) {
    double budget = PyFloat_AsDouble(share);
    if (budget == -1.0 && PyErr_Occurred())
        return NULL;
    seldom_begin(budget);
    tiers_begin(budget);
    bursts_forget();
    Py_RETURN_NONE;
}

static PyObject *is_serving(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    return PyBool_FromLong(agent_serving);
}

static PyObject *watch(PyObject *Py_UNUSED(module), PyObject *change) { return PyBool_FromLong(sampler_start(change)); }

static PyObject *follow_windows(PyObject *Py_UNUSED(module), PyObject *follow) {
    return PyBool_FromLong(sampler_follow(follow));
}

static PyObject *watching_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    pid_t numbers[2];
    sampler_threads(numbers);
    return Py_BuildValue("(ll)", (long)numbers[0], (long)numbers[1]);
}

static PyObject *watch_collections(PyObject *Py_UNUSED(module), PyObject *callbacks) {
    return PyBool_FromLong(waits_watch_collections(callbacks));
}

static PyObject *wants_samples(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    return PyBool_FromLong(tiers_wanted() == TIER_SAMPLED);
}

static PyObject *sample(PyObject *Py_UNUSED(module), PyObject *on) {
    int truth = PyObject_IsTrue(on);
    if (truth < 0)
        return NULL;
    return PyBool_FromLong(sampler_enter(truth ? TIER_SAMPLED : TIER_EXACT));
}

static PyObject *keep(PyObject *Py_UNUSED(module), PyObject *bytes) {
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0)
        return NULL;
    struct block *block = store_header ? store_take((size_t)size, 0) : NULL;
    if (block) {
        memcpy(block->content, data, (size_t)size);
        store_publish(block, BLOCK_RECORD);
    }
    return PyBool_FromLong(block != NULL);
}

static PyObject *let_go(PyObject *Py_UNUSED(module), PyObject *idle) {
    int truth = PyObject_IsTrue(idle);
    if (truth < 0)
        return NULL;
    agent_serve(NULL, 0.0);
    forks_let_go(truth);
    Py_RETURN_NONE;
}

static double seconds_of(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec * 1e-6; }

static PyObject *usage(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return Py_BuildValue("(dllll)", seconds_of(used.ru_utime) + seconds_of(used.ru_stime), used.ru_nvcsw, used.ru_nivcsw,
                         used.ru_maxrss, used.ru_minflt);
}

static PyMethodDef functions[] = {
    {"map_tables", map_tables, METH_VARARGS,
     "map_tables(path, prefix, descriptor)\n--\n\nKeep what is traced from now on in a new file, whatever ends the process;\n"
     "whether that is possible. Functions whose file begins with prefix are marked as the agent's. The descriptor, if\n"
     "not -1, is one of the same file for when the path leads there no longer."},
    {"serve", serve, METH_VARARGS,
     "serve(remind, seconds)\n--\n\nHave threads named in the file, and remind() called at the first call that any of them\n"
     "makes after so many seconds, and again after as many as it returns."},
    {"await_call", await_call, METH_O,
     "await_call(begin)\n--\n\nIn a forked child whose parent was traced: have begin() called when it is about to make its first\n"
     "call, except of the agent; None for no longer."},
    {"serve_ranges", serve_ranges, METH_VARARGS,
     "serve_ranges(name, domain, each, function)\n--\n\nHave function(begins) called when an NVTX range of this name begins or ends, in a\n"
     "domain (None: in any): each, or only those that begin while none is open; whether the collector reports it."},
    {"range_reported", range_reported, METH_NOARGS,
     "range_reported()\n--\n\nWhether such a range began or ended in a thread that could not call the function; None for neither."},
    {"sync_tables", sync_tables, METH_NOARGS,
     "sync_tables()\n--\n\nThe process ends: have a network file system write the file of map_tables()."},
    {"tell_parent", tell_parent, METH_NOARGS,
     "tell_parent()\n--\n\nThe process ends, and nothing of it could be kept: note this in the file of the process that forked it."},
    {"usage", usage, METH_NOARGS,
     "usage()\n--\n\nReturn what getrusage(2) says of this process: CPU seconds, voluntary and involuntary switches, the\n"
     "largest resident memory in KiB, and page faults without input; the module resource need not be loaded for it."},
    {"let_go", let_go, METH_O,
     "let_go(idle)\n--\n\nThe process goes on without the tracer, which is off: let go of the file of map_tables(), of the\n"
     "functions of serve(), and close all descriptors; of memory only if idle: no thread calls a function of serve()."},
    {"take_out", take_out, METH_VARARGS,
     "take_out(python_outside, python_inside, c_outside, c_inside, site)\n--\n\n"
     "Take out of all times what events cost, in seconds: of functions in Python and in C those of a call, outside it and\n"
     "inside; site, that of a call from Python code to a function in Python."},
    {"limit", limit, METH_O,
     "limit(share)\n--\n\nThe process begins, its tables are in a file, and what is added to its wall is to stay within this share, 0\n"
     "for no limit: above it samples are wanted."},
    {"is_serving", is_serving, METH_NOARGS,
     "is_serving()\n--\n\nWhether an agent that has called serve() in this process has not yet let_go()."},
    {"watch", watch, METH_O,
     "watch(change)\n--\n\nBegin a thread that calls change() when other than what is done now is wanted, see wants_samples(); and\n"
     "that samples after sample(True). Called by a function that another one has called. Returns whether stacks can be read."},
    {"follow_windows", follow_windows, METH_O,
     "follow_windows(follow)\n--\n\nBegin a thread, in place of the above, that calls follow() when windows may have changed, and again\n"
     "after as many seconds as it returns; whether that is possible."},
    {"stop_watching", stop_watching, METH_NOARGS, "stop_watching()\n--\n\nEnd that thread, after what it has seen is in the tables."},
    {"pause_watching", pause_watching, METH_NOARGS, "pause_watching()\n--\n\nThe same before a fork."},
    {"watch_again", watch_again, METH_NOARGS,
     "watch_again()\n--\n\nBegin it again where it was paused, when os.fork() has returned."},
    {"watching_threads", watching_threads, METH_NOARGS, "watching_threads()\n--\n\nThe numbers of these two threads; 0 for none."},
    {"watch_collections", watch_collections, METH_O,
     "watch_collections(callbacks)\n--\n\nSum up collections of the garbage collector by the function in which they come, by a function in "
     "its list of callbacks; whether that is possible."},
    {"want_samples", want_samples, METH_NOARGS, "want_samples()\n--\n\nHave change() called for samples."},
    {"wants_samples", wants_samples, METH_NOARGS,
     "wants_samples()\n--\n\nWhether samples are wanted, and not all calls traced."},
    {"sample", sample, METH_O,
     "sample(on)\n--\n\nSample from now on, or do so no longer; False where that cannot change any more. No collector is enabled."},
    {"keep", keep, METH_O, "keep(data)\n--\n\nPut a record into the file of map_tables(); whether that is possible."},
    {"follow_ranges", follow_ranges, METH_O,
     "follow_ranges(path)\n--\n\nHave the NVTX collector at this path report ranges; whether it does."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = MODULE_NAME,
    .m_doc = "Traces calls by thread, with the time that they wait for a CPU.",
    .m_methods = functions,
    .m_size = -1, /* one state per process: interpreters with their own GIL must not import it */
};

__attribute__((visibility("default"))) PyMODINIT_FUNC MODULE_INIT(void) {
    if (refuse_other_threading() < 0 || refuse_other_version() < 0 || labels_start() < 0 || hook_start() < 0)
        return NULL;
    if (!forks_start()) {
        PyErr_SetString(PyExc_ImportError, "profkit's tracer cannot follow the threads of this process");
        return NULL;
    }
    clock_start();
    PyObject *module = PyModule_Create(&definition);
#ifdef PROFKIT_FREE_THREADED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED); /* otherwise the interpreter would enable the GIL */
#endif
    PyObject *type = module ? collector_type() : NULL;
    if (!type || PyObject_SetAttrString(module, "Collector", type) < 0 || windows_add_to(module) < 0)
        Py_CLEAR(module);
    Py_XDECREF(type);
    return module;
}
