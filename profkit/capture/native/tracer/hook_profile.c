/* Events from PyEval_SetProfile, up to Python 3.11, for the thread that enables the collector. */
#include "hook.h"

#include <frameobject.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#define Py_BUILD_CORE 1
#if PY_VERSION_HEX < 0x03090000
#include <internal/pycore_pystate.h>
#else
#undef _PyGC_FINALIZED /* both define it in 3.9 */
#include <internal/pycore_ceval.h>
#include <internal/pycore_interp.h>
#endif
#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_frame.h>
#endif
#undef Py_BUILD_CORE

#include "bursts.h"
#include "calls.h"
#include "collector.h"
#include "labels.h"
#include "looks.h"
#include "stacks.h"
#include "threads.h"
#include "waiting.h"

/* Version differences: the frame that the interpreter runs, and the flag beside the profile function that says
 * whether a thread is traced. */
#if PY_VERSION_HEX >= 0x030B0000
typedef struct _PyInterpreterFrame frame_to_run;
static inline const frame_to_run *running_of(const PyFrameObject *frame) { return frame->f_frame; }
static inline void set_traced(PyThreadState *thread, bool on) { thread->cframe->use_tracing = on ? 255 : 0; }
#else
typedef PyFrameObject frame_to_run;
static inline const frame_to_run *running_of(const PyFrameObject *frame) { return frame; }
#if PY_VERSION_HEX >= 0x030A0000
static inline void set_traced(PyThreadState *thread, bool on) { thread->cframe->use_tracing = on; }
#else
static inline void set_traced(PyThreadState *thread, bool on) { thread->use_tracing = on; }
#endif
#endif

static inline PyObject *code_of(const PyFrameObject *frame) { return (PyObject *)running_of(frame)->f_code; }

static inline int book_event(struct table *table, PyFrameObject *frame, int what, PyObject *argument) {
    if (what == PyTrace_CALL) {
        PyObject *code = code_of(frame);
        return call_begins(table, code, code, NULL, &tiers_python);
    }
    if (what == PyTrace_RETURN) {
        call_ends(table, code_of(frame), &tiers_python);
        return 0;
    }
    if (!PyCFunction_Check(argument))
        return 0;
    const void *key = ((struct c_function *)argument)->definition;
    if (what == PyTrace_C_CALL) {
        looks_saw_call((uintptr_t)code_of(frame), stacks_site(frame), key);
        return call_begins(table, key, argument, NULL, &tiers_c);
    }
    call_ends(table, key, &tiers_c);
    return 0;
}

static int event_in_child(PyFrameObject *frame, int what, PyObject *argument);

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    struct table *table = ((struct collector *)self)->tables[0];
    if (UNLIKELY(table->generation != kernel_generation))
        return event_in_child(frame, what, argument); /* the table is the parent's */
    return book_event(table, frame, what, argument);
}

/* Handle an event of the parent's collector in a forked child: the first call starts the agent, which sets its own. */
static int event_in_child(PyFrameObject *frame, int what, PyObject *argument) {
    if (what != PyTrace_CALL && what != PyTrace_C_CALL)
        return 0;
    int begun = agent_first_call(code_of(frame));
    if (begun <= 0)
        return begun;
    PyThreadState *thread = PyThreadState_Get();
    return thread->c_profilefunc == on_event ? on_event(thread->c_profileobj, frame, what, argument) : 0;
}

/* Threads not started by `threading` are adopted by a frame evaluation function. C code that calls Python from its
 * own threads usually makes a thread state for each call. */

/* Whether the calling thread has or had its own collector, or is about to get one. */
static FAST_THREAD_LOCAL bool has_own = false;

static struct collector *adopter; /* owned; NULL if threads are not adopted */

static bool ends_with(PyObject *text, const char *end) {
    Py_ssize_t size;
    const char *bytes = text_of(text, &size);
    size_t length = strlen(end);
    return bytes && (size_t)size >= length && memcmp(bytes + size - length, end, length) == 0;
}

/* Whether a thread's outermost frame is where `threading` begins, which sets a collector after some calls. */
static bool is_of_threading(PyFrameObject *frame) {
    Py_INCREF(frame);
    for (;;) {
#if PY_VERSION_HEX >= 0x030B0000
        PyFrameObject *outer = PyFrame_GetBack(frame);
#else
        PyFrameObject *outer = frame->f_back;
        Py_XINCREF(outer);
#endif
        if (!outer)
            break;
        Py_DECREF(frame);
        frame = outer;
    }
    const PyCodeObject *code = (const PyCodeObject *)code_of(frame);
    bool found = ends_with(code->co_name, "_bootstrap") && ends_with(code->co_filename, "threading.py");
    Py_DECREF(frame);
    return found;
}

static int on_adopted_event(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    struct collector *collector = (struct collector *)self;
    struct table *table = kernel_last_table;
    if (UNLIKELY(collector->generation != kernel_generation))
        return event_in_child(frame, what, argument);
    if (UNLIKELY(!table || table->owner != collector->serial)) {
        has_own = is_of_threading(frame);
        if (has_own) {
            PyEval_SetProfile(NULL, NULL);
            return 0;
        }
        table = collector_table_of_this_thread(collector);
        if (!table)
            return 0;
    }
    return book_event(table, frame, what, argument);
}

/* Python 3.8 lacks these functions, and the thread argument. */
#if PY_VERSION_HEX >= 0x03090000
static _PyFrameEvalFunction runner(void) { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()); }
static void set_runner(_PyFrameEvalFunction run) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), run); }
#define RUN(thread, frame, throwing) _PyEval_EvalFrameDefault(thread, frame, throwing)
#else
static _PyFrameEvalFunction runner(void) { return _PyInterpreterState_Get()->eval_frame; }
static void set_runner(_PyFrameEvalFunction run) { _PyInterpreterState_Get()->eval_frame = run; }
#define RUN(thread, frame, throwing) _PyEval_EvalFrameDefault(frame, throwing)
#endif

static void adopt_thread(void) {
    PyObject *type, *value, *traceback; /* throw() resumes a generator with the exception pending */
    PyErr_Fetch(&type, &value, &traceback);
    has_own = true; /* not for frames of an audit hook called here */
    PyEval_SetProfile(on_adopted_event, (PyObject *)adopter);
    has_own = !_PyThreadState_UncheckedGet()->c_profilefunc; /* an audit hook may object: try once */
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

static inline PyObject *run_as_due(PyThreadState *thread, frame_to_run *frame, int throwing) {
    if (UNLIKELY(!thread->c_profilefunc && adopter && !has_own))
        adopt_thread();
    return RUN(thread, frame, throwing);
}

#if PY_VERSION_HEX >= 0x030B0000
/* Python 3.11 makes Python calls without the C stack, unless a frame evaluation function is set. Beyond this stack
 * size, or a quarter of what is left of the stack, frames are left alone. For Python's default limit it mostly suffices. */
#define MOST_STACK ((size_t)1 << 20)

static PyObject *run_frame(PyThreadState *thread, frame_to_run *frame, int throwing);

/* What is left of this thread's stack, 0 if it is not known. That of the main thread grows up to its limit. */
static size_t stack_left(const char *here) {
    if (kernel_thread_id() == getpid()) {
        struct rlimit limit;
        return getrlimit(RLIMIT_STACK, &limit) ? 0 : limit.rlim_cur;
    }
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &lowest, &bytes);
        pthread_attr_destroy(&attributes);
    }
    return lowest ? (size_t)(here - (const char *)lowest) : 0;
}

static void look_at_stack(void) {
    static FAST_THREAD_LOCAL const char *begin = NULL;
    static FAST_THREAD_LOCAL size_t most = 0;
    const char here = 0;
    if (UNLIKELY(!begin)) {
        begin = &here;
        most = stack_left(begin) / 4;
        if (most > MOST_STACK)
            most = MOST_STACK;
    }
    if (UNLIKELY(begin - &here > (ptrdiff_t)most) && runner() == run_frame)
        set_runner(_PyEval_EvalFrameDefault);
}
#else
static inline void look_at_stack(void) {}
#endif

#if PY_VERSION_HEX >= 0x03090000
static PyObject *run_frame(PyThreadState *thread, frame_to_run *frame, int throwing) {
    look_at_stack();
    return run_as_due(thread, frame, throwing);
}
#else
static PyObject *run_frame(PyFrameObject *frame, int throwing) {
    return run_as_due(_PyThreadState_UncheckedGet(), frame, throwing);
}
#endif

void hook_follow_others(struct collector *collector, bool on) {
    if (on) {
        Py_INCREF((PyObject *)collector);
        Py_XDECREF((PyObject *)adopter);
        adopter = collector;
        has_own = true; /* the caller is traced, or will be */
        if (runner() == _PyEval_EvalFrameDefault)
            set_runner(run_frame);
    } else if (adopter == collector) {
        adopter = NULL;
        if (runner() == run_frame)
            set_runner(_PyEval_EvalFrameDefault);
        Py_DECREF((PyObject *)collector);
    }
}

void hook_leave_thread(void) { has_own = true; }

static int refuse_other_thread(const struct collector *collector) {
    if (collector->n_tables && (collector->tables[0]->native != kernel_thread_id() ||
                                table_ended(collector->tables[0]))) {
        PyErr_SetString(PyExc_RuntimeError, "a collector belongs to the thread that first enabled it");
        return -1;
    }
    return 0;
}

void hook_look(struct collector *collector) {
    if (!collector->enabled || collector->displaced || !collector->n_tables ||
        table_ended(collector->tables[0]))
        return;
    /* The GIL is held: no thread comes or goes, and none is in on_event(). */
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    /* Not by thread_id: a new state has the creating thread's until the thread begins. */
    while (thread && thread->id != collector->thread_state)
        thread = PyThreadState_Next(thread);
    if (thread && thread->c_profileobj != (PyObject *)collector) {
        collector->displaced = true;
        calls_abandon_all(collector->tables[0]);
    }
}

int hook_enable(struct collector *collector) {
    if (refuse_other_thread(collector) < 0)
        return -1;
    if (!collector->n_tables && !collector_add_table(collector)) {
        PyErr_NoMemory();
        return -1;
    }
    kernel_last_table = collector->tables[0];
    has_own = true;
    collector->thread_state = PyThreadState_Get()->id;
    PyEval_SetProfile(on_event, (PyObject *)collector);
    collector->displaced = false;
    return PyErr_Occurred() ? -1 : 0; /* an audit hook may object */
}

int hook_disable(struct collector *collector) {
    if (refuse_other_thread(collector) < 0)
        return -1;
    if (PyThreadState_Get()->c_profileobj == (PyObject *)collector)
        PyEval_SetProfile(NULL, NULL);
    else
        hook_look(collector);
    calls_close_all(collector->tables[0], true);
    return PyErr_Occurred() ? -1 : 0;
}

/* Set only the function, without a reference to an object. For bursts, the interpreter's own function would call audit
 * hooks each time. */
static void put_function(PyThreadState *thread, Py_tracefunc function) {
    thread->c_profilefunc = function;
    set_traced(thread, function || thread->c_tracefunc);
}

/* PyEval_SetProfile() for any thread; with the GIL, no thread of this interpreter is in a profile function. */
static int set_profile(PyThreadState *thread, Py_tracefunc function, PyObject *object) {
#if PY_VERSION_HEX >= 0x030A0000
    return _PyEval_SetProfile(thread, function, object);
#else
    put_function(thread, function);
    exchange(&thread->c_profileobj, object);
    return 0;
#endif
}

static int detach(struct collector *collector) {
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    for (; thread; thread = PyThreadState_Next(thread))
        if (thread->c_profileobj == (PyObject *)collector && set_profile(thread, NULL, NULL) < 0)
            return -1;
    return 0;
}

static int on_first_event(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    struct table *table = ((struct collector *)self)->tables[0];
    if (table->generation == kernel_generation && threads_follow(table))
        kernel_last_table = table;
    PyThreadState_Get()->c_profilefunc = on_event;
    return on_event(self, frame, what, argument);
}

static bool has_frame(PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x03090000
    PyFrameObject *frame = PyThreadState_GetFrame(thread);
    Py_XDECREF(frame);
    return frame != NULL;
#else
    return thread->frame != NULL;
#endif
}

bool hook_adopt(struct collector *collector, unsigned long ident, pid_t native, PyObject *frame, struct adopted which) {
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    /* A new thread's state has the creating thread's ident, and no frame. */
    while (thread && !(thread->thread_id == ident && has_frame(thread)))
        thread = PyThreadState_Next(thread);
    if (!thread || (thread->c_profilefunc && thread->c_profileobj != (PyObject *)collector))
        return false;
    struct table *table = collector_table_for(collector, native, ident);
    if (!table || table->top > table->stack)
        return table != NULL;
    bool own = thread == PyThreadState_Get();
    collector->enabled = true;
    collector->displaced = false;
    collector->thread_state = thread->id;
    waiting_start(table, own);
    calls_adopt_all(table, frame, own ? which : all_of_them);
    if (own)
        kernel_last_table = table;
    return set_profile(thread, own ? on_event : on_first_event, (PyObject *)collector) == 0;
}

int hook_suspend(struct collector *collector) {
    hook_look(collector);
    if (detach(collector) < 0)
        return -1;
    for (size_t i = 0; i < collector->n_tables && !collector->displaced; i++) {
        struct table *table = collector->tables[i];
        if (!table_ended(table))
            calls_close_all(table, table->native == kernel_thread_id());
    }
    return 0;
}

/* Bursts */

/* Ten loops without calls ran 1.2 to 2.6 times as long (median 1.65) in traced frames on 3.11, 1.2 times on 3.10,
 * and unchanged before (docs/costs.md). */
#if PY_VERSION_HEX >= 0x030B0000
#define SLOWS 0.65
#define INTERPRETER_PART 0.9
#elif PY_VERSION_HEX >= 0x030A0000
#define SLOWS 0.2
#define INTERPRETER_PART 0.6
#else
#define SLOWS 0.0
#define INTERPRETER_PART 0.6
#endif

const struct hook_traits hook_traits = {
    .slows = SLOWS, .interpreter_part = INTERPRETER_PART, .warms_ns = 100000, .burst_ns = 250000, .ends_bursts = true, .first_gap_ns = 40000000, .gap_ns = 60000000};

static int on_counted(PyObject *Py_UNUSED(self), PyFrameObject *frame, int what, PyObject *argument) {
    int64_t begun = clock_ticks();
    if (begun < bursts_from)
        return 0;
    if (UNLIKELY(begun > bursts_until)) {
        if (bursts_over(begun))
            hook_burst(false);
    } else if (what == PyTrace_CALL) {
        PyObject *code = code_of(frame);
        bursts_count(stacks_caller(), code, code, NULL);
    } else if (what == PyTrace_C_CALL && PyCFunction_Check(argument)) {
        const void *key = ((struct c_function *)argument)->definition;
        uintptr_t code = (uintptr_t)code_of(frame);
        looks_saw_call(code, stacks_site(frame), key);
        bursts_count(code, key, argument, NULL);
    }
    bursts_taken += clock_ticks() - begun;
    return 0;
}

bool hook_burst(bool on) {
    bool any = false;
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);
    for (; thread; thread = PyThreadState_Next(thread)) {
        if (on ? !thread->c_profilefunc && !thread->c_profileobj && has_frame(thread)
               : thread->c_profilefunc == on_counted) {
            put_function(thread, on ? on_counted : NULL);
            any = true;
        }
    }
    return any;
}

bool hook_ask_main(deferred function) {
#if PY_VERSION_HEX >= 0x03090000
    /* Py_AddPendingCall() would read the state of the thread that has the GIL, which may end meanwhile. */
    PyInterpreterState *interpreter = PyInterpreterState_Main();
    if (_PyEval_AddPendingCall(interpreter, function, NULL) < 0)
        return false;
    /* The interpreter checks whether the calling thread may run it, not the main thread. */
    _Py_atomic_store_relaxed(&interpreter->ceval.eval_breaker, 1);
    return true;
#else
    /* Once the last thread has ended, it would print an exception, without the GIL. */
    return !_PyRuntime.ceval.pending.finishing && Py_AddPendingCall(function, NULL) == 0;
#endif
}

bool hook_after_fork(deferred function) { return function(NULL) == 0; }
