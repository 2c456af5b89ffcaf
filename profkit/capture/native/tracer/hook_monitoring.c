/* Events from sys.monitoring, Python 3.12 and later, of all threads. As in cProfile, start, resumption and throw
 * begin a Python call; return, yield and unwinding end it; C calls are those of built-in functions and methods. */
#include "hook.h"

#include "bursts.h"
#include "calls.h"
#include "collector.h"
#include "labels.h"
#include "looks.h"
#include "seldom.h"
#include "stacks.h"
#include "waiting.h"

/* The tool id that cProfile also uses: the second user gets an error. */
#define PROFILER_ID 2

/* The optimizer's tool id, which no known tool uses; the target keeps those that bursts leave. */
#define COUNTER_ID 5

static PyObject *missing, *disable;

static inline struct table *table_of_this_thread(struct collector *collector) {
    struct table *table = kernel_last_table;
    if (LIKELY(table && table->owner == collector->serial))
        return table;
    return collector_table_of_this_thread(collector);
}

/* The same for a call by or of `code`; the first one in a forked child starts the agent. `raised` is set if an
 * exception of the target is pending. */
static inline struct table *table_to_call(struct collector *collector, PyObject *code, bool *raised) {
    *raised = false;
    if (UNLIKELY(collector->generation != kernel_generation && collector->mapped)) {
        *raised = agent_first_call(code) < 0;
        if (*raised)
            return NULL;
    }
    return table_of_this_thread(collector);
}

/* None is immortal in every Python with sys.monitoring; reference counting by older headers would make its count
 * drift. */
static inline PyObject *none(void) { return Py_None; }

static PyObject *on_python_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (UNLIKELY(count == 0))
        return none();
    bool raised;
    struct table *table = table_to_call((struct collector *)self, arguments[0], &raised);
    if (UNLIKELY(raised))
        return NULL;
    if (LIKELY(table) && UNLIKELY(call_begins(table, arguments[0], arguments[0], NULL, &tiers_python) < 0))
        return NULL;
    return none();
}

static PyObject *on_python_end(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (UNLIKELY(count == 0))
        return none();
    struct table *table = table_of_this_thread((struct collector *)self);
    if (LIKELY(table))
        call_ends(table, arguments[0], &tiers_python);
    return none();
}

/* Return what a call event calls, or NULL if it does not count. `self` is set for methods called unbound. */
static inline const void *definition_of(PyObject *const *arguments, Py_ssize_t count, PyObject **self) {
    if (UNLIKELY(count < 4))
        return NULL;
    PyObject *callable = arguments[2], *first = arguments[3];
    *self = NULL;
    if (Py_TYPE(callable) == &PyMethodDescr_Type) {
        const struct c_method *method = (const struct c_method *)callable;
        if (first == missing || !PyObject_TypeCheck(first, method->type))
            return NULL;
        *self = first;
        return method->definition;
    }
    return PyCFunction_Check(callable) ? ((const struct c_function *)callable)->definition : NULL;
}

/* A call event that is not for a C function; Python functions have other events. */
static PyObject *on_other_call(struct collector *collector) {
    struct table *table = table_of_this_thread(collector);
    if (LIKELY(table != NULL))
        table->taken += tiers_site;
    return none();
}

static void saw_call(PyObject *const *arguments, const void *definition) {
    looks_saw_call((uintptr_t)arguments[0], PyLong_AsLong(arguments[1]), definition);
}

static PyObject *on_c_call(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *bound_to;
    const void *definition = definition_of(arguments, count, &bound_to);
    if (!definition)
        return on_other_call((struct collector *)self);
    saw_call(arguments, definition);
    bool raised;
    struct table *table = table_to_call((struct collector *)self, arguments[0], &raised);
    if (UNLIKELY(raised) || (table && UNLIKELY(call_begins(table, definition, arguments[2], bound_to, &tiers_c) < 0)))
        return NULL;
    return none();
}

static PyObject *on_c_end(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *bound_to;
    const void *definition = definition_of(arguments, count, &bound_to);
    if (!definition)
        return none();
    struct table *table = table_of_this_thread((struct collector *)self);
    if (table)
        call_ends(table, definition, &tiers_c);
    return none();
}

#define CALLBACK(function) {"event", (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}

static PyMethodDef python_call = CALLBACK(on_python_call);
static PyMethodDef python_end = CALLBACK(on_python_end);
static PyMethodDef c_call = CALLBACK(on_c_call);
static PyMethodDef c_end = CALLBACK(on_c_end);

/* A tool id of sys.monitoring, with the events for which it calls functions. */
struct subscription {
    const char *event;
    PyMethodDef *callback;
};

struct tool {
    int id;
    const struct subscription *subscriptions;
    size_t n;
    int events; /* their numbers, if take() has taken the id; else 0 */
};

#define TOOL(id, subscriptions) {id, subscriptions, sizeof subscriptions / sizeof *subscriptions, 0}

static const struct subscription profiled[] = {
    {"PY_START", &python_call}, {"PY_RESUME", &python_call}, {"PY_THROW", &python_call},
    {"PY_RETURN", &python_end}, {"PY_YIELD", &python_end},   {"PY_UNWIND", &python_end},
    {"CALL", &c_call},          {"C_RETURN", &c_end},        {"C_RAISE", &c_end},
};

static const struct tool profiler = TOOL(PROFILER_ID, profiled);

static PyObject *monitoring, *event_numbers;

int hook_start(void) {
    if (monitoring)
        return 0;
    PyObject *module = PySys_GetObject("monitoring"); /* borrowed */
    event_numbers = module ? PyObject_GetAttrString(module, "events") : NULL;
    missing = event_numbers ? PyObject_GetAttrString(module, "MISSING") : NULL;
    disable = missing ? PyObject_GetAttrString(module, "DISABLE") : NULL;
    if (!disable)
        return -1;
    Py_INCREF(module);
    monitoring = module;
    return 0;
}

static int tell(PyObject *result) {
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int claim(int id) { return tell(PyObject_CallMethod(monitoring, "use_tool_id", "is", id, "profkit")); }

static int set_events(const struct tool *tool, int events) {
    return tell(PyObject_CallMethod(monitoring, "set_events", "ii", tool->id, events));
}

/* Register a tool's callbacks, bound to `self`, or remove them; return the events, -1 with an exception on failure.
 * Audit hooks see this. */
static int have_called(const struct tool *tool, PyObject *self, bool on) {
    int all = 0;
    for (size_t i = 0; i < tool->n; i++) {
        PyObject *number = PyObject_GetAttrString(event_numbers, tool->subscriptions[i].event);
        PyObject *callback = on ? PyCFunction_NewEx(tool->subscriptions[i].callback, self, NULL) : NULL;
        bool failed = !number || (on && !callback) ||
                      tell(PyObject_CallMethod(monitoring, "register_callback", "iOO", tool->id, number,
                                               on ? callback : Py_None)) < 0;
        int event = failed ? -1 : (int)PyLong_AsLong(number);
        Py_XDECREF(callback);
        Py_XDECREF(number);
        if (failed && on)
            return -1;
        all |= event;
    }
    return all;
}

static int subscribe(const struct tool *tool, PyObject *self) {
    int events = have_called(tool, self, true);
    return events < 0 ? -1 : set_events(tool, events);
}

/* Undo subscribe(), even a partial one. */
static int unsubscribe(const struct tool *tool) {
    int failed = set_events(tool, 0);
    failed |= have_called(tool, NULL, false) < 0;
    return failed | tell(PyObject_CallMethod(monitoring, "free_tool_id", "i", tool->id));
}

/* For counting: take a tool's id, without events so far, and give it back; no exception. */

static bool take(struct tool *tool) {
    if (!tool->events && claim(tool->id) == 0) {
        int events = have_called(tool, NULL, true);
        tool->events = events > 0 ? events : 0;
        if (!tool->events)
            unsubscribe(tool);
    }
    PyErr_Clear();
    return tool->events != 0;
}

static void give_back(struct tool *tool) {
    if (tool->events)
        unsubscribe(tool);
    PyErr_Clear();
    tool->events = 0;
}

/* Seldom called functions are counted by a separate tool: events switched off for it still reach bursts. */

static PyObject *count_seldom(PyObject *Py_UNUSED(self), PyObject *const *arguments, Py_ssize_t count) {
    if (LIKELY(count == 0 || seldom_call(arguments[0])))
        return none();
    Py_IncRef(disable);
    return disable;
}

static PyMethodDef counts_seldom = CALLBACK(count_seldom);
static const struct subscription seldom[] = {{"PY_START", &counts_seldom}, {"PY_RESUME", &counts_seldom}};
static struct tool counter = TOOL(COUNTER_ID, seldom);
static bool counter_on;

bool hook_count(bool on) {
    on = seldom_count(on) && counter.events;
    if (on == counter_on)
        return on;
    int failed = set_events(&counter, on ? counter.events : 0);
    PyErr_Clear();
    counter_on = on && !failed;
    return seldom_count(counter_on);
}

void hook_count_over(void) {
    hook_count(false);
    give_back(&counter);
}

int hook_enable(struct collector *collector) {
    if (claim(PROFILER_ID) < 0) {
        if (PyErr_ExceptionMatches(PyExc_ValueError)) {
            PyErr_Clear();
            PyErr_SetString(PyExc_ValueError, "Another profiling tool is already active");
        }
        return -1;
    }
    collector->displaced = false;
    if (subscribe(&profiler, (PyObject *)collector) == 0) {
        hook_count(false); /* no Python runs in between */
        return 0;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    unsubscribe(&profiler);
    PyErr_Restore(type, value, traceback);
    return -1;
}

/* Whether the tool id is ours; `freed` is returned if nobody has it. */
static bool place_is_ours(bool freed) {
    PyObject *name = PyObject_CallMethod(monitoring, "get_tool", "i", PROFILER_ID);
    bool ours = name == Py_None ? freed
                                : name && PyUnicode_Check(name) &&
                                      PyUnicode_CompareWithASCIIString(name, "profkit") == 0;
    Py_XDECREF(name);
    PyErr_Clear();
    return ours;
}

/* A program may unset our events or take the tool id. If it only frees the id, events continue up to Python 3.13. */
void hook_look(struct collector *collector) {
    if (!collector->enabled || collector->displaced)
        return;
    if (place_is_ours(true)) {
        PyObject *on = PyObject_CallMethod(monitoring, "get_events", "i", PROFILER_ID);
        bool some = !on || PyLong_AsLong(on) != 0; /* a freed id has no events to read */
        Py_XDECREF(on);
        PyErr_Clear();
        if (some)
            return;
    }
    collector->displaced = true;
    /* The GIL is held: no thread is in a callback. */
    for (size_t i = 0; i < collector->n_tables; i++)
        if (!collector->mapped || collector->generation == kernel_generation) /* else they are the parent's */
            calls_abandon_all(collector->tables[i]);
}

/* Take back a freed id, to check our events and unset them; stop if they are gone. */
static bool still_subscribed(struct collector *collector) {
    if (!place_is_ours(false))
        claim(PROFILER_ID);
    PyErr_Clear(); /* another tool has it */
    hook_look(collector);
    if (!collector->displaced)
        return true;
    if (place_is_ours(false))
        unsubscribe(&profiler);
    PyErr_Clear();
    return false;
}

/* With `counts`, calls that begin from here on are counted. No Python runs in between, so each call is seen once. */
static int end_events(struct collector *collector, bool counts) {
    if (!still_subscribed(collector))
        return 0;
    if (counts)
        hook_count(true);
    int failed = unsubscribe(&profiler);
    pid_t own = kernel_thread_id();
    for (size_t i = 0; i < collector->n_tables; i++) {
        struct table *table = collector->tables[i];
        if (!table_ended(table))
            calls_close_all(table, table->native == own);
    }
    return failed;
}

int hook_disable(struct collector *collector) { return end_events(collector, false); }

bool hook_adopt(struct collector *collector, unsigned long ident, pid_t native, PyObject *frame, struct adopted which) {
    struct table *table = collector->enabled ? collector_table_for(collector, native, ident) : NULL;
    bool own = native == kernel_thread_id();
    if (table && own)
        calls_close_all(table, true); /* calls of the agent since it enabled the collector */
    if (!table || table->top > table->stack)
        return table != NULL;
    waiting_start(table, own);
    calls_adopt_all(table, frame, own ? which : all_of_them);
    return true;
}

int hook_suspend(struct collector *collector) {
    return end_events(collector, tiers_now() == TIER_EXACT && tiers_wanted() == TIER_SAMPLED && take(&counter));
}

/* Bursts count call beginnings through a separate tool, so the target can use its profiler meanwhile. */

const struct hook_traits hook_traits = {
    .slows = 0, .interpreter_part = 0.6, .burst_ns = 5000000, .ends_bursts = false, .first_gap_ns = 150000000, .gap_ns = 1000000000};

static PyObject *count_python(PyObject *Py_UNUSED(self), PyObject *const *arguments, Py_ssize_t count) {
    int64_t begun = clock_ticks();
    if (LIKELY(count > 0))
        bursts_count(stacks_caller(), arguments[0], arguments[0], NULL);
    bursts_taken += clock_ticks() - begun;
    return none();
}

static PyObject *count_c(PyObject *Py_UNUSED(self), PyObject *const *arguments, Py_ssize_t count) {
    PyObject *bound_to;
    int64_t begun = clock_ticks();
    const void *definition = definition_of(arguments, count, &bound_to);
    if (definition) {
        saw_call(arguments, definition);
        bursts_count((uintptr_t)arguments[0], definition, arguments[2], bound_to);
    }
    bursts_taken += clock_ticks() - begun;
    return none();
}

static PyMethodDef counts_python = CALLBACK(count_python);
static PyMethodDef counts_c = CALLBACK(count_c);

static const struct subscription counted[] = {
    {"PY_START", &counts_python}, {"PY_RESUME", &counts_python}, {"PY_THROW", &counts_python}, {"CALL", &counts_c},
};

static struct tool burst = TOOL(0, counted);

/* Take one of the ids that the target is most likely to leave. */
static bool take_any(struct tool *tool) {
    if (tool->events)
        return true;
    for (tool->id = 4; tool->id >= 3; tool->id--)
        if (take(tool))
            return true;
    return false;
}

bool hook_burst(bool on) {
    bool done = (on ? take_any(&burst) : burst.events != 0) && set_events(&burst, on ? burst.events : 0) == 0;
    PyErr_Clear();
    return done || !on;
}

void hook_burst_over(void) { give_back(&burst); }

/* After a fork */

static deferred after_fork;
static struct tool returning;

static int set_local_events(PyObject *code, int events) {
    return tell(PyObject_CallMethod(monitoring, "set_local_events", "iOi", returning.id, code, events));
}

static PyObject *on_return(PyObject *Py_UNUSED(self), PyObject *const *arguments, Py_ssize_t count) {
    if (count > 0)
        set_local_events(arguments[0], 0);
    give_back(&returning);
    after_fork(NULL);
    return none();
}

static PyMethodDef returns = CALLBACK(on_return);
static const struct subscription instructions[] = {{"INSTRUCTION", &returns}};
static struct tool returning = TOOL(0, instructions);

bool hook_after_fork(deferred function) {
    PyObject *code = attribute((PyObject *)PyEval_GetFrame(), "f_code");
    after_fork = function;
    bool done = code && take_any(&returning) && set_local_events(code, returning.events) == 0;
    if (!done)
        give_back(&returning);
    PyErr_Clear();
    Py_DecRef(code);
    return done;
}
