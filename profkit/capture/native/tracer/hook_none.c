/* What hooks do unless they have something to do there: the definitions of hook_profile.c and hook_monitoring.c take
 * their place. In free-threaded Python, which samples, they are all: counting calls would need tables with locks. */
#include "hook.h"

#define UNLESS_DEFINED __attribute__((weak))

UNLESS_DEFINED const struct hook_traits hook_traits = {0};

UNLESS_DEFINED int hook_start(void) { return 0; }

UNLESS_DEFINED int hook_enable(struct collector *Py_UNUSED(collector)) {
    PyErr_SetString(PyExc_ValueError, "calls of free-threaded Python are not traced");
    return -1;
}

UNLESS_DEFINED int hook_disable(struct collector *Py_UNUSED(collector)) { return 0; }

UNLESS_DEFINED int hook_suspend(struct collector *Py_UNUSED(collector)) { return 0; }

UNLESS_DEFINED void hook_look(struct collector *Py_UNUSED(collector)) {}

UNLESS_DEFINED void hook_follow_others(struct collector *Py_UNUSED(collector), bool Py_UNUSED(on)) {}

UNLESS_DEFINED bool hook_adopt(struct collector *Py_UNUSED(collector), unsigned long Py_UNUSED(ident),
                               pid_t Py_UNUSED(native), PyObject *Py_UNUSED(frame), struct adopted Py_UNUSED(which)) {
    return false;
}

UNLESS_DEFINED void hook_leave_thread(void) {}

UNLESS_DEFINED bool hook_burst(bool on) { return !on; }

UNLESS_DEFINED void hook_burst_over(void) {}

UNLESS_DEFINED bool hook_ask_main(deferred Py_UNUSED(function)) { return false; }

UNLESS_DEFINED bool hook_after_fork(deferred Py_UNUSED(function)) { return false; }

UNLESS_DEFINED bool hook_count(bool on) { return !on; }

UNLESS_DEFINED void hook_count_over(void) {}
