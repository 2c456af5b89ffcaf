#define _GNU_SOURCE 1
#include "python_api.h" /* first: it configures the system headers */
#include "windows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define WINDOWS_MAGIC "PFKWINDW"
enum { WINDOWS_VERSION = 1, WINDOWS_HEADER_BYTES = 128, WINDOW_BYTES = 128, MOST_WINDOWS = 1000 };

/* What is captured: nothing, functions to be discarded at the next phase, or functions. */
enum phase { PHASE_OFF = 0, PHASE_WARM = 1, PHASE_ON = 2 };

enum window_kind { WINDOW_CAPTURED = 1, WINDOW_NAMED = 2 };

struct window {
    _Atomic int64_t begin_ns; /* CLOCK_MONOTONIC; 0 if incomplete */
    _Atomic int64_t end_ns;   /* 0 while open */
    uint32_t pid, kind;
    char name[104];
};

struct windows {
    char magic[8];
    uint32_t version, header_bytes;
    _Atomic uint32_t bell;    /* changes with the phase: processes sleep on it */
    _Atomic uint32_t phase;
    _Atomic uint32_t open;    /* number of the captured entry, or 0 */
    _Atomic uint32_t entries; /* begun so far, also beyond MOST_WINDOWS */
    _Atomic uint32_t opened;  /* windows so far, including an open one */
    _Atomic uint32_t leader;  /* the process whose steps count */
    _Atomic uint64_t steps;
    char unused[WINDOWS_HEADER_BYTES - 48];
    struct window windows[MOST_WINDOWS];
};

_Static_assert(sizeof(struct window) == WINDOW_BYTES, "window");
_Static_assert(offsetof(struct windows, windows) == WINDOWS_HEADER_BYTES, "windows");

static struct windows *page;

static long call_futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
    return syscall(SYS_futex, (uint32_t *)word, operation, value, timeout, NULL, 0);
}

void windows_ring(void) {
    if (!page)
        return;
    atomic_fetch_add(&page->bell, 1);
    call_futex(&page->bell, FUTEX_WAKE, INT_MAX, NULL);
}

/* Map the page, making it if nobody has. A half-made file has its full size but no magic, which is not needed here. */
static bool map_page(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    void *memory = MAP_FAILED;
    /* Allocate it: a store into a hole would be a SIGBUS when the disk is full. */
    int error = posix_fallocate(fd, 0, sizeof *page);
    if (error == EOPNOTSUPP || error == EINVAL)
        error = ftruncate(fd, sizeof *page) == 0 ? 0 : errno;
    if (error == 0)
        memory = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return false;
    page = memory;
    page->version = WINDOWS_VERSION;
    page->header_bytes = WINDOWS_HEADER_BYTES;
    memcpy(page->magic, WINDOWS_MAGIC, sizeof page->magic);
    return true;
}

static PyObject *windows_map(PyObject *Py_UNUSED(module), PyObject *path) {
    PyObject *bytes = NULL;
    if (!page) {
        if (!PyUnicode_FSConverter(path, &bytes))
            return NULL;
        map_page(PyBytes_AsString(bytes));
        Py_DECREF(bytes);
    }
    return PyBool_FromLong(page != NULL);
}

/* Take an entry; return its number, or 0 without room. */
static uint32_t begin_entry(enum window_kind kind, const char *name) {
    uint32_t index = atomic_fetch_add(&page->entries, 1);
    if (index >= MOST_WINDOWS)
        return 0;
    struct window *window = &page->windows[index];
    window->pid = (uint32_t)getpid();
    window->kind = kind;
    strncpy(window->name, name, sizeof window->name - 1);
    atomic_store(&window->begin_ns, clock_monotonic_ns());
    return index + 1;
}

static void end_entry(uint32_t number) {
    if (number > 0 && number <= MOST_WINDOWS)
        atomic_store(&page->windows[number - 1].end_ns, clock_monotonic_ns());
}

static PyObject *window_open(PyObject *Py_UNUSED(module), PyObject *arguments) {
    const char *name;
    unsigned most, phase;
    if (!PyArg_ParseTuple(arguments, "sII", &name, &most, &phase))
        return NULL;
    uint32_t number = 0, none = 0;
    /* Reserve `open` with a number that no entry has, until the entry is made. */
    if (page && (!most || atomic_load(&page->opened) < most) &&
        atomic_compare_exchange_strong(&page->open, &none, UINT32_MAX)) {
        bool room = !most || atomic_load(&page->opened) < most;
        number = room && phase == PHASE_ON ? begin_entry(WINDOW_CAPTURED, name) : 0;
        atomic_store(&page->open, number);
        if (number)
            atomic_fetch_add(&page->opened, 1);
        if (number || (room && phase == PHASE_WARM)) {
            atomic_store(&page->phase, phase);
            windows_ring();
        }
    }
    return PyLong_FromUnsignedLong(number);
}

static PyObject *window_began(PyObject *Py_UNUSED(module), PyObject *number) {
    unsigned long value = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    if (page && value > 0 && value <= MOST_WINDOWS)
        atomic_store(&page->windows[value - 1].begin_ns, clock_monotonic_ns());
    Py_RETURN_NONE;
}

static PyObject *window_close(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    uint32_t number = page ? atomic_exchange(&page->open, 0) : 0;
    bool was_on = page && atomic_exchange(&page->phase, PHASE_OFF) != PHASE_OFF;
    end_entry(number);
    if (was_on)
        windows_ring();
    return PyBool_FromLong(number != 0);
}

static PyObject *window_state(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    unsigned phase = page ? atomic_load(&page->phase) : PHASE_OFF;
    return Py_BuildValue("II", phase, page ? atomic_load(&page->open) : 0);
}

static PyObject *name_begins(PyObject *Py_UNUSED(module), PyObject *arguments) {
    const char *name;
    if (!PyArg_ParseTuple(arguments, "s", &name))
        return NULL;
    return PyLong_FromUnsignedLong(page ? begin_entry(WINDOW_NAMED, name) : 0);
}

static PyObject *name_ends(PyObject *Py_UNUSED(module), PyObject *number) {
    unsigned long value = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    if (page)
        end_entry((uint32_t)value);
    Py_RETURN_NONE;
}

/* Steps are counted in one process, the first that makes any; after its end, in another. */
static PyObject *window_steps(PyObject *Py_UNUSED(module), PyObject *increment) {
    unsigned long by = PyLong_AsUnsignedLong(increment);
    if (PyErr_Occurred())
        return NULL;
    uint32_t own = (uint32_t)getpid(), leader = page ? atomic_load(&page->leader) : 0;
    if (!page)
        return PyLong_FromLong(-1);
    if (leader != own) {
        bool gone = leader == 0 || (kill((pid_t)leader, 0) != 0 && errno == ESRCH);
        if (!gone || !atomic_compare_exchange_strong(&page->leader, &leader, own))
            return PyLong_FromLong(-1);
    }
    return PyLong_FromUnsignedLongLong(atomic_fetch_add(&page->steps, by) + by);
}

/* Whoever ends the wait gives up waking after a while (windows_end_wait): then it ends by itself. */
#define LONGEST_SLEEP_NS INT64_C(1000000000)

static atomic_bool waiting;

bool windows_wait(const atomic_bool *stopped, int64_t until) {
    static uint32_t heard;
    atomic_store(&waiting, true);
    while (page && !atomic_load(stopped)) {
        int64_t left = until - clock_monotonic_ns();
        uint32_t value = atomic_load(&page->bell);
        if (value != heard || left <= 0) {
            heard = value;
            break;
        }
        left = left < LONGEST_SLEEP_NS ? left : LONGEST_SLEEP_NS;
        struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        call_futex(&page->bell, FUTEX_WAIT, value, &timeout);
    }
    atomic_store(&waiting, false);
    return page && !atomic_load(stopped);
}

/* The waiting thread may not sleep yet, and so miss a wake: repeat until it answers. */
void windows_end_wait(void) {
    for (int i = 0; page && i < 1000 && atomic_load(&waiting); i++) {
        struct timespec pause = {.tv_nsec = 20000};
        call_futex(&page->bell, FUTEX_WAKE, INT_MAX, NULL);
        nanosleep(&pause, NULL);
    }
}

static PyMethodDef functions_of_windows[] = {
    {"windows_map", windows_map, METH_O,
     "windows_map(path)\n--\n\nShare this file with the other processes of the machine; whether that is possible."},
    {"window_open", window_open, METH_VARARGS,
     "window_open(name, most, phase)\n--\n\nOpen a window unless one is open or there were so many (0: no limit); its number, 0 "
     "without\none. Phase 1 warms up, which has no number; 2 captures."},
    {"window_began", window_began, METH_O,
     "window_began(number)\n--\n\nThe process that has opened it is traced from now on."},
    {"window_close", window_close, METH_NOARGS, "window_close()\n--\n\nClose the window that is open; whether one was."},
    {"window_state", window_state, METH_NOARGS, "window_state()\n--\n\nReturn the phase, and the number of the open window."},
    {"name_begins", name_begins, METH_VARARGS,
     "name_begins(name)\n--\n\nA part of the program begins that has a name; its number, 0 where there is no room."},
    {"name_ends", name_ends, METH_O, "name_ends(number)\n--\n\nIt ends."},
    {"window_steps", window_steps, METH_O,
     "window_steps(more)\n--\n\nCount steps; how many there were, -1 in processes whose steps do not count."},
    {NULL, NULL, 0, NULL},
};

int windows_add_to(PyObject *module) { return PyModule_AddFunctions(module, functions_of_windows); }
