/* Replaces hooks in free-threaded Python, which samples: counting calls would need tables with locks. */
#include "hook.h"

const struct hook_traits hook_traits = {0};

int hook_start(void) { return 0; }

int hook_enable(struct collector *Py_UNUSED(collector)) {
    PyErr_SetString(PyExc_ValueError, "calls of free-threaded Python are not traced");
    return -1;
}

int hook_disable(struct collector *Py_UNUSED(collector)) { return 0; }

int hook_suspend(struct collector *Py_UNUSED(collector)) { return 0; }

void hook_look(struct collector *Py_UNUSED(collector)) {}

void hook_follow_others(struct collector *Py_UNUSED(collector), bool Py_UNUSED(on)) {}

bool hook_adopt(struct collector *Py_UNUSED(collector), unsigned long Py_UNUSED(ident), pid_t Py_UNUSED(native),
                PyObject *Py_UNUSED(frame), struct adopted Py_UNUSED(which)) {
    return false;
}

void hook_leave_thread(void) {}

bool hook_burst(bool on) { return !on; }

void hook_burst_over(void) {}

bool hook_ask_main(int (*function)(void *)) {
    (void)function;
    return false;
}

bool hook_count(bool on) { return !on; }

void hook_count_over(void) {}
