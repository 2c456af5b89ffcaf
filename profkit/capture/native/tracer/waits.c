#define _GNU_SOURCE 1
#include "waits.h"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "kept.h"
#include "stacks.h"
#include "tables.h"

enum { MOST_POLLED = 16 };

/* Bytes before the GIL's futex searched for its holder: CPython 3.8 to 3.15 have both in one structure of 200. */
#define HOLDER_WITHIN 256

/* Attempts before the search is given up. */
#define MOST_FUTILE 20

/* The GIL */

static uintptr_t runtime, runtime_end; /* bounds of `_PyRuntime`; 0 if hidden */
static uintptr_t futex;                /* in it; seen to be waited for */
static int futile;                     /* failed searches, each of which takes the GIL */
static uintptr_t holder;               /* address of the holder's thread state; the next word is 1 if it is held */

static void find_runtime(void) {
    static bool done = false;
    Dl_info about;
    ElfW(Sym) *symbol = NULL;
    if (done)
        return;
    done = true;
    void *found = dlsym(RTLD_DEFAULT, "_PyRuntime");
    if (found && dladdr1(found, &about, (void **)&symbol, RTLD_DL_SYMENT) && symbol && symbol->st_size > 0) {
        runtime = (uintptr_t)found;
        runtime_end = runtime + symbol->st_size;
    }
}

bool waits_unlearnt(void) { return futex && !holder && futile < MOST_FUTILE; }

void waits_learn(uintptr_t mine) {
    for (uintptr_t at = futex & ~(uintptr_t)7; at > runtime && at > futex - HOLDER_WITHIN; at -= sizeof(uintptr_t))
        if (*(volatile uintptr_t *)at == mine && *(volatile int *)(at + sizeof(uintptr_t)) == 1) {
            holder = at;
            return;
        }
    futex = 0; /* another lock of the interpreter: try the next one */
    futile++;
}

uintptr_t waits_holder(void) {
    if (!holder || *(volatile int *)(holder + sizeof(uintptr_t)) != 1)
        return 0;
    return *(volatile uintptr_t *)holder;
}

/* System calls */

static enum pause_kind by_descriptor(uint64_t descriptor) {
    char path[48], target[24];
    snprintf(path, sizeof path, "/proc/self/fd/%d", (int)descriptor);
    ssize_t size = readlink(path, target, sizeof target - 1); /* asks no file system, which could hang */
    if (size <= 0)
        return PAUSE_OTHER;
    target[size] = '\0';
    if (!strncmp(target, "pipe:", 5))
        return PAUSE_PIPE;
    if (!strncmp(target, "socket:", 7))
        return PAUSE_SOCKET;
    if (!strncmp(target, "/dev/", 5) && strncmp(target, "/dev/shm/", 9))
        return PAUSE_DEVICE;
    return target[0] == '/' ? PAUSE_FILE : PAUSE_OTHER;
}

/* The common kind of several descriptors; without any, only the clock ends the wait. */
struct polled {
    enum pause_kind kind;
    bool mixed;
};

static void add_polled(struct polled *polled, uint64_t descriptor) {
    enum pause_kind kind = by_descriptor(descriptor);
    polled->mixed |= polled->kind != PAUSE_NONE && polled->kind != kind;
    polled->kind = kind;
}

static enum pause_kind kind_of(const struct polled *polled) {
    return polled->mixed ? PAUSE_POLL : polled->kind == PAUSE_NONE ? PAUSE_SLEEP : polled->kind;
}

static enum pause_kind by_poll(uintptr_t at, uint64_t n) {
    struct pollfd fds[MOST_POLLED];
    struct polled polled = {PAUSE_NONE, false};
    if (n > MOST_POLLED || (n && !stacks_copy(at, fds, n * sizeof *fds)))
        return PAUSE_POLL;
    for (uint64_t i = 0; i < n; i++)
        if (fds[i].fd >= 0)
            add_polled(&polled, (uint64_t)fds[i].fd);
    return kind_of(&polled);
}

static enum pause_kind by_select(uint64_t n, const uint64_t sets[3]) {
    struct polled polled = {PAUSE_NONE, false};
    unsigned seen = 0;
    for (int i = 0; i < 3; i++) {
        fd_set set;
        size_t bytes = (n + 63) / 64 * 8;
        if (!sets[i] || n == 0)
            continue;
        if (n > FD_SETSIZE || !stacks_copy((uintptr_t)sets[i], &set, bytes))
            return PAUSE_POLL;
        for (uint64_t fd = 0; fd < n; fd++)
            if (FD_ISSET((int)fd, &set)) {
                if (++seen > MOST_POLLED)
                    return PAUSE_POLL;
                add_polled(&polled, fd);
            }
    }
    return kind_of(&polled);
}

static enum pause_kind by_futex(uintptr_t address) {
    find_runtime();
    if (address >= runtime && address < runtime_end) {
        futex = holder ? futex : address;
        return PAUSE_GIL;
    }
    return PAUSE_LOCK;
}

static enum pause_kind by_call(long number, const uint64_t *argument) {
    switch (number) {
    case SYS_futex:
        return by_futex((uintptr_t)argument[0]);
    case SYS_flock:
    case SYS_fcntl:
    case SYS_semop:
    case SYS_semtimedop:
        return PAUSE_LOCK;
    case SYS_wait4:
    case SYS_waitid:
    case SYS_clone:
#ifdef SYS_clone3
    case SYS_clone3:
#endif
#ifdef SYS_vfork
    case SYS_vfork:
#endif
        return PAUSE_CHILD;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
        return PAUSE_SLEEP;
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
        return by_poll((uintptr_t)argument[0], argument[1]);
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
        return by_select(argument[0], argument + 1);
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        return PAUSE_POLL;
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
        return PAUSE_SOCKET;
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_ioctl:
        return by_descriptor(argument[0]);
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_ftruncate: {
        enum pause_kind kind = by_descriptor(argument[0]);
        return kind == PAUSE_FILE ? PAUSE_WRITE : kind;
    }
    case SYS_openat:
    case SYS_getdents64:
        return PAUSE_FILE;
    case SYS_msync:
    case SYS_sync:
    case SYS_syncfs:
        return PAUSE_WRITE;
    default:
        return PAUSE_OTHER;
    }
}

enum pause_kind waits_for(pid_t thread, struct kernel_file *call, struct kernel_file *stat) {
    char text[256], state;
    int cpu;
    uint64_t argument[6] = {0};
    if (!kernel_text_of(thread, "syscall", call, text, sizeof text) || text[0] == 'r')
        return PAUSE_NONE; /* "running": on a CPU or queued */
    char *word = text;
    long number = strtol(word, &word, 10);
    for (int i = 0; i < 6 && *word == ' '; i++)
        argument[i] = strtoull(word + 1, &word, 16);
    enum pause_kind kind = number < 0 ? PAUSE_OTHER : by_call(number, argument);
    /* Waiting for storage is uninterruptible, in any system call or none. */
    if ((kind == PAUSE_FILE || kind == PAUSE_OTHER) && kernel_state_of(thread, stat, &state, &cpu) && state == 'D')
        return PAUSE_DISK;
    return kind;
}

/* The garbage collector */

static int64_t collection_began; /* ticks; an interpreter runs one collection at a time */

/* Return the calling thread's function, from its open calls or, if sampled, its frames. */
static struct function *function_here(struct table *table) {
    if (table->top > table->stack)
        return table->top->function;
    PyObject *code = attribute((PyObject *)PyEval_GetFrame(), "f_code");
    struct function *function = code ? table_function(table, code) : NULL;
    if (code && !function) { /* not met by any sample yet */
        const struct edge *edge = table_add_edge(table, table->base, code, code, NULL);
        function = edge ? edge->callee : NULL;
    }
    Py_XDECREF(code);
    PyErr_Clear();
    return function ? function : table->base;
}

static PyObject *collects(PyObject *Py_UNUSED(self), PyObject *arguments) {
    const char *phase;
    PyObject *about, *type, *value, *traceback;
    if (!PyArg_ParseTuple(arguments, "sO!", &phase, &PyDict_Type, &about)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    if (phase[2] == 'a') { /* "start" */
        collection_began = clock_ticks();
        Py_RETURN_NONE;
    }
    int64_t took = collection_began ? clock_ns_in(clock_ticks() - collection_began) : 0;
    struct table *table = kernel_last_table;
    if (!table) /* it began while the process was sampled */
        table = kept_running(kernel_thread_id(), (unsigned long)pthread_self());
    collection_began = 0;
    PyObject *number = PyDict_GetItemString(about, "generation"); /* borrowed */
    long generation = number ? PyLong_AsLong(number) : -1;
    if (!table || table_ended(table) || !table->base || took <= 0 || generation < 0 || generation > 2)
        Py_RETURN_NONE;
    PyErr_Fetch(&type, &value, &traceback);
    pause_add(table, function_here(table), PAUSE_GC_0 + (enum pause_kind)generation, took, 1);
    PyErr_Restore(type, value, traceback);
    Py_RETURN_NONE;
}

static PyMethodDef collects_method = {"collects", collects, METH_VARARGS, NULL};

bool waits_watch_collections(PyObject *callbacks) {
#ifdef PROFKIT_FREE_THREADED
    (void)collects_method;
    return callbacks == NULL; /* only the booking thread may use the tables */
#endif
    PyObject *function = PyCFunction_New(&collects_method, NULL);
    bool done = function && PyList_Check(callbacks) && PyList_Append(callbacks, function) == 0;
    Py_XDECREF(function);
    PyErr_Clear();
    return done;
}
