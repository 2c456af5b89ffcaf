/* All functions but rank_calls_possible() need the GIL. */
#define _GNU_SOURCE 1 /* for strcasestr() */
#include "rank_calls.h"

#include <string.h>

#include "lines.h"
#include "pauses.h"

enum { MOST_KNOWN = 256, MOST_CALLS = 16 };

/* In the order of RANK_METHODS in profkit/capture/rank_calls.py. Names from FIRST_SHARED on also occur in other
 * classes, and count only in code that mentions a communicator. */
static const char *const METHODS[] = {
    "Allgather", "Allgatherv", "Allreduce", "Alltoall", "Alltoallv", "Barrier", "Bcast", "Gather", "Gatherv", "Probe", "Recv",
    "Reduce", "Scatter", "Scatterv", "Sendrecv", "Wait", "Waitall", "Waitany", "allgather", "allreduce", "alltoall", "barrier",
    "bcast", "sendrecv", "Reduce_scatter", "Send", "Ssend", "ssend", "recv", "send", "gather", "scatter", "reduce", "probe", "wait",
};
enum { N_METHODS = sizeof METHODS / sizeof *METHODS, FIRST_SHARED = 28 };
_Static_assert(N_METHODS == PAUSE_KINDS - PAUSE_RANKS - 1, "one kind of a pause for each method");

static struct lines {
    PyObject *code; /* owned */
    int n, line[MOST_CALLS], method[MOST_CALLS]; /* `n` is -1 until they are looked up */
} known[MOST_KNOWN];
static int n_known;
static bool has_mpi; /* mpi4py is imported, or being imported: till then no code is looked at */

/* How this interpreter loads a method: the instruction, and the shift of the name's number. */
static int load_method = -1, name_shift;

bool rank_calls_possible(void) { return has_mpi && n_known > 0; }

static int method_of(PyObject *name, bool shared) {
    const char *text = text_of(name, NULL);
    for (int i = 0; text && i < (shared ? N_METHODS : FIRST_SHARED); i++)
        if (!strcmp(text, METHODS[i]))
            return i;
    return -1;
}

/* Whether code uses a name of a communicator: `comm`, `self.comm`, `MPI.COMM_WORLD`, `WORLD`. */
static bool speaks_of_ranks(PyObject *code) {
    static const char *const LISTS[] = {"co_names", "co_varnames", "co_freevars"};
    bool any = false;
    for (int list = 0; list < 3 && !any; list++) {
        PyObject *names = attribute(code, LISTS[list]);
        for (Py_ssize_t i = 0; names && PyTuple_Check(names) && i < PyTuple_Size(names) && !any; i++) {
            const char *text = text_of(PyTuple_GetItem(names, i), NULL);
            any = text && (strcasestr(text, "comm") || strcasestr(text, "world") || !strcmp(text, "MPI"));
        }
        Py_XDECREF(names);
    }
    return any;
}

static PyObject *bytes_of(PyObject *code) {
    PyObject *bytes = attribute(code, "co_code");
    if (bytes && !PyBytes_Check(bytes))
        Py_CLEAR(bytes);
    return bytes;
}

/* In `a.b()`, the first instruction with the number of `b` loads a method: 1, from Python 3.12 on 3 with a flag bit. */
static bool learn(void) {
    if (load_method >= 0)
        return true;
    PyObject *code = Py_CompileString("a.b()", "", Py_eval_input), *bytes = code ? bytes_of(code) : NULL;
    const unsigned char *text = bytes ? (const unsigned char *)PyBytes_AsString(bytes) : NULL;
    for (Py_ssize_t i = 0; text && i + 1 < PyBytes_Size(bytes); i += 2)
        if (text[i + 1] == 1 || text[i + 1] == 3) {
            load_method = text[i];
            name_shift = text[i + 1] == 3;
            break;
        }
    Py_XDECREF(bytes);
    Py_XDECREF(code);
    PyErr_Clear();
    return load_method >= 0;
}

static void find_lines(struct lines *of) {
    PyObject *names = attribute(of->code, "co_names"), *bytes = learn() ? bytes_of(of->code) : NULL;
    bool shared = speaks_of_ranks(of->code);
    of->n = 0;
    for (Py_ssize_t i = 0; names && bytes && i + 1 < PyBytes_Size(bytes) && of->n < MOST_CALLS; i += 2) {
        const unsigned char *at = (const unsigned char *)PyBytes_AsString(bytes) + i;
        Py_ssize_t number = at[1] >> name_shift;
        int method = at[0] == load_method && number < PyTuple_Size(names) ? method_of(PyTuple_GetItem(names, number), shared) : -1;
        if (method >= 0) {
            of->method[of->n] = method;
            of->line[of->n++] = lines_at(of->code, i);
        }
    }
    Py_XDECREF(bytes);
    Py_XDECREF(names);
    PyErr_Clear();
}

static void scan(PyObject *code) {
    PyObject *names = n_known < MOST_KNOWN ? attribute(code, "co_names") : NULL;
    bool any = false;
    for (Py_ssize_t i = 0; names && PyTuple_Check(names) && i < PyTuple_Size(names) && !any; i++) {
        int method = method_of(PyTuple_GetItem(names, i), true);
        any = method >= FIRST_SHARED ? speaks_of_ranks(code) : method >= 0;
    }
    Py_XDECREF(names);
    if (any) {
        Py_IncRef(code);
        known[n_known] = (struct lines){.code = code, .n = -1};
        n_known++;
    }
}

static void has_mpi_now(each_code each) {
    has_mpi = true;
    each(scan);
}

void rank_calls_meet(PyObject *code, const char *file, each_code each) {
    if (!has_mpi && strstr(file, "/mpi4py/"))
        has_mpi_now(each);
    if (has_mpi)
        scan(code);
}

void rank_calls_look(each_code each) {
    PyObject *modules = has_mpi ? NULL : PySys_GetObject("modules"); /* borrowed */
    if (modules && PyDict_Check(modules) && PyDict_GetItemString(modules, "mpi4py") != NULL)
        has_mpi_now(each);
}

int rank_calls_at(PyObject *code, int64_t instruction) {
    for (int i = 0; i < n_known; i++) {
        if (known[i].code != code)
            continue;
        if (known[i].n < 0)
            find_lines(&known[i]);
        int line = known[i].n ? lines_at(code, lines_byte(instruction)) : -1;
        for (int at = 0; at < known[i].n; at++)
            if (known[i].line[at] == line)
                return PAUSE_RANKS + 1 + known[i].method[at];
        return PAUSE_NONE;
    }
    return PAUSE_NONE;
}
