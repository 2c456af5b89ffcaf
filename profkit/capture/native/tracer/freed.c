#define _GNU_SOURCE 1
#include "freed.h"

#include <stdatomic.h>

#ifdef PROFKIT_ABI3
#include <dlfcn.h>
#endif

/* Number of addresses that are kept. A program that frees more between two bookings gets no new names from stacks. */
enum { MOST_FREED = 1 << 14 };

static _Atomic(uintptr_t) last[MOST_FREED];
static _Atomic uint64_t n_freed;
static bool watched;

static void note(const void *code) {
    uint64_t n = atomic_fetch_add(&n_freed, 1);
    atomic_store(&last[n % MOST_FREED], (uintptr_t)code);
}

#ifdef PROFKIT_ABI3
/* PyCodeEvent */
enum { CREATED, DESTROYED };
typedef int (*on_event)(int event, PyObject *code);
typedef int (*add_watcher)(on_event callback);

static int on_code(int event, PyObject *code) {
    if (event == DESTROYED)
        note(code);
    return 0;
}

static bool watch_codes(void) {
    add_watcher add = (add_watcher)dlsym(RTLD_DEFAULT, "PyCode_AddWatcher"); /* not in the limited API */
    bool added = add && add(on_code) >= 0;
    PyErr_Clear(); /* all of the interpreter's few places are taken */
    return added;
}
#else
/* Up to Python 3.11 nothing tells but the type's own destructor. */
static destructor free_code;

static void free_noted(PyObject *code) {
    note(code);
    free_code(code);
}

static bool watch_codes(void) {
    free_code = PyCode_Type.tp_dealloc;
    PyCode_Type.tp_dealloc = free_noted;
    return true;
}
#endif

void freed_start(void) { watched = watched || watch_codes(); }

uint64_t freed_count(void) { return atomic_load(&n_freed); }

bool freed_since(uintptr_t code, uint64_t count) {
    uint64_t now = freed_count();
    bool freed = !watched || now - count > MOST_FREED;
    for (uint64_t n = count; !freed && n < now; n++)
        freed = atomic_load(&last[n % MOST_FREED]) == code;
    return freed;
}
