/*
 * The tracer's tables under any order of calls, returns, ranges, samples, and calls that are seen in bursts: returns
 * of functions that are not the innermost, or not open; methods of built-in types; ranges that end in another order than they
 * began; threads that end; a fork. Beside them a plain model counts, and the tables must agree with it.
 *
 * The tracer's sources are compiled beside this one, those whose insides are needed are part of it. Only the hooks are left out,
 * through which an interpreter would bring the same events in an order that it alone decides.
 */
#define _GNU_SOURCE 1 /* as those parts want it */
#include "booking.c"
#include "kernel.c"
#include "range_events.c"

#include "bursts.h"
#include "calls.h"
#include "forks.h"
#include "hook.h"
#include "labels.h"
#include "threads.h"

#include <errno.h>
#include <sys/wait.h>

#include "input.h"
#include "interpreter.h"

enum { FUNCTIONS = 24, CODES = 8, MOST_STACK = 3000, MOST_EVENTS = 3000, DOMAINS = 3, MOST_NESTED = 2 };

/* What may be called: a code object, a C function, or a method that is called on an object. */
static struct callable {
    PyObject *object, *self, *label;
    const void *key;
} callables[FUNCTIONS];

/* The model of one thread's table. */
struct model {
    int stack[MOST_STACK];
    int depth;
    int64_t calls[FUNCTIONS];                /* that have returned */
    int64_t edges[FUNCTIONS + 1][FUNCTIONS]; /* the same by caller; the last row is outside every call */
    int64_t seen[FUNCTIONS + 1][FUNCTIONS];  /* in bursts */
    int64_t sampled[FUNCTIONS];              /* ticks that samples have charged to it */
    int64_t ranges;                          /* that are to be counted in some context */
    int domains[MOST_OPEN_RANGES], open, deeper;
};

/* Threads and forks take a hundred times as long as a call: few of the inputs have them. */
static bool may_start_threads, may_fork, forked;

static const char program[] =
    "import collections, operator\n"
    "def make(names, files):\n"
    "    return [compile(f'def {n}(): pass', f, 'exec').co_consts[0] for n, f in zip(names, files)]\n"
    "files = ['/p/a.py', '/p/b.py', '/l/nvtx/nvtx.py', '/l/contextlib.py', '/p/a.py', '/p/caf\\udce9.py', '<string>', '']\n"
    "codes = make(['f%d' % i for i in range(8)], files)\n"
    "functions = [len, sorted, [].append, {}.get, 'a'.upper, operator.add, object().__repr__, collections.deque([1]).pop]\n"
    "class Odd(dict):\n"
    "    def __repr__(self): raise ValueError\n"
    "methods = [(list.append, []), (dict.get, Odd()), (str.upper, ''), (set.add, set()), (bytes.hex, b''),\n"
    "           (list.append, type('L', (list,), {})()), (tuple.count, ()), (dict.items, {})]\n"
    "def within(): start()\n"
    "within()\n";

/* Samples are booked where stacks can be read, which a function finds out that another one has called. */
static PyObject *start_stacks(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(nothing))
{
    MUST(stacks_start());
    Py_RETURN_NONE;
}

static PyMethodDef start = {"start", start_stacks, METH_NOARGS, NULL};

static void add_callable(int number, PyObject *object, PyObject *self, const void *key)
{
    struct callable *one = &callables[number];
    *one = (struct callable){object, self, label_of(object, self), key};
    MUST(one->label != NULL);
    Py_INCREF(object);
    Py_XINCREF(self);
}

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count;
    (void)words;
    start_interpreter();
    MUST(labels_start() == 0 && forks_start());
    clock_start();
    PyObject *names = names_after(&start, program);
    PyObject *codes = PyDict_GetItemString(names, "codes"), *functions = PyDict_GetItemString(names, "functions"),
             *methods = PyDict_GetItemString(names, "methods");
    for (int i = 0; i < 8; i++) {
        PyObject *code = PyList_GetItem(codes, i), *function = PyList_GetItem(functions, i);
        PyObject *pair = PyList_GetItem(methods, i);
        add_callable(i, code, NULL, code);
        if (PyCFunction_Check(function))
            add_callable(8 + i, function, NULL, ((struct c_function *)function)->definition);
        else
            add_callable(8 + i, PyList_GetItem(functions, 0), NULL,
                         ((struct c_function *)PyList_GetItem(functions, 0))->definition);
        PyObject *method = PyTuple_GetItem(pair, 0);
        MUST(Py_TYPE(method) == &PyMethodDescr_Type);
        add_callable(16 + i, method, PyTuple_GetItem(pair, 1), ((struct c_method *)method)->definition);
    }
    return 0;
}

/* Two of them may be one function: the first of these numbers. */
static int same_as(int number)
{
    for (int i = 0; i < number; i++)
        if (callables[i].key == callables[number].key)
            return i;
    return number;
}

static int number_of_key(const void *key)
{
    int number = 0;
    while (callables[number].key != key)
        number++;
    return number;
}

static int number_of(const PyObject *label, const struct table *table)
{
    for (const struct function *function = table->base; function; function = function->next)
        if (function->name && function->name->label == label)
            for (int i = 0; i < FUNCTIONS; i++)
                if (names_known(callables[i].key) == function->name)
                    return i;
    return -1;
}

/* Events, in the table and in the model */

static const struct probe free_of_cost = {0, 0};

/* There is no hook here: bursts begin and end, and what is called in them is said by the input. */
const struct hook_traits hook_traits = {.burst_ns = 1000, .first_gap_ns = 1000, .gap_ns = 1000};
bool hook_burst(bool Py_UNUSED(on)) { return true; }

static void begin(struct table *table, struct model *model, int number)
{
    if (model->depth == MOST_STACK)
        return;
    const struct callable *one = &callables[number];
    call_begins(table, one->key, one->object, one->self, &free_of_cost);
    model->stack[model->depth++] = number;
}

static void close_one(struct model *model)
{
    int number = model->stack[--model->depth];
    model->calls[number]++;
    model->edges[model->depth > 0 ? model->stack[model->depth - 1] : FUNCTIONS][number]++;
}

static void finish(struct table *table, struct model *model, int number)
{
    int at = model->depth;
    while (at > 0 && model->stack[at - 1] != number)
        at--;
    call_ends(table, callables[number].key, &free_of_cost);
    if (at == 0)
        return;
    while (model->depth >= at)
        close_one(model);
}

static void begin_range(struct model *model, uint32_t domain, uint32_t name)
{
    listener.pushed(domain, name);
    if (model->open == MOST_OPEN_RANGES) {
        model->deeper++;
        return;
    }
    model->domains[model->open++] = (int)domain;
    model->ranges++;
}

static void end_range(struct model *model, uint32_t domain)
{
    listener.popped(domain);
    if (model->deeper > 0) {
        model->deeper--;
        return;
    }
    int at = model->open;
    while (at > 0 && model->domains[at - 1] != (int)domain)
        at--;
    if (at == 0)
        return;
    memmove(&model->domains[at - 1], &model->domains[at], (size_t)(model->open - at) * sizeof model->domains[0]);
    model->open--;
}

/* A call that a burst sees, by a code object or by nobody who is known. */
static void count(struct table *table, struct model *model, int number, unsigned by)
{
    const struct callable *one = &callables[number], *caller = &callables[same_as((int)(by % CODES))];
    bool known = by % 16 < CODES;
    table->mapped = true; /* there are bursts only where tables are in a file */
    bursts_count(known ? (uintptr_t)caller->key : 0, one->key, one->object, one->self);
    table->mapped = false;
    model->seen[known ? number_of_key(caller->key) : FUNCTIONS][number]++;
}

/* A stack that the sampler has seen, of code objects and perhaps a function in C. */
static void sample(struct table *table, struct model *model, int innermost, struct input *input)
{
    struct seen_thread thread = {.table = table, .native = table->native, .ident = table->ident};
    uint32_t depth = take_byte(input) % 20;
    struct charge charge = {.thread = &thread, .n = depth, .run = 1 + take_byte(input), .blocked = take_byte(input), .samples = 1, .certain = true};
    charge.place = -1;
    charge.what = depth % 3 ? PAUSE_NONE : PAUSE_LOCK;
    static uintptr_t stack[20];
    int last = -1;
    for (uint32_t i = depth; i-- > 0;) {
        last = same_as(take_byte(input) % CODES);
        stack[i] = (uintptr_t)callables[last].key;
    }
    if (innermost >= CODES) {
        charge.leaf = callables[innermost].key;
        last = names_known(charge.leaf) ? innermost : last;
    }
    charge.codes = stack;
    book(&charge, true);
    if (last >= 0 && model->depth == 0) /* else they are of the exact tier's time */
        model->sampled[last] += clock_ticks_in(charge.run + charge.blocked);
}

/* What the tables have to say */

static void check_samples(const struct table *table, const struct model *model)
{
    int64_t sampled[FUNCTIONS] = {0}, seen[FUNCTIONS + 1][FUNCTIONS] = {{0}};
    for (const struct function *function = table->base; function; function = function->next) {
        int caller = function->name ? number_of(function->name->label, table) : FUNCTIONS;
        for (const struct edge *edge = function->first_callee; edge; edge = edge->next) {
            int callee = number_of(edge->callee->name->label, table);
            MUST(callee >= 0 && edge->own >= edge->sampled && edge->seen >= 0);
            sampled[callee] += edge->sampled;
            seen[caller][callee] += edge->seen;
        }
    }
    MUST(memcmp(sampled, model->sampled, sizeof sampled) == 0 && memcmp(seen, model->seen, sizeof seen) == 0);
}

static void check_edges(const struct table *table, const struct model *model)
{
    int64_t edges[FUNCTIONS + 1][FUNCTIONS] = {{0}}, calls[FUNCTIONS] = {0}, own[FUNCTIONS] = {0};
    for (const struct function *function = table->base; function; function = function->next) {
        int caller = function->name ? number_of(function->name->label, table) : FUNCTIONS;
        for (const struct edge *edge = function->first_callee; edge; edge = edge->next) {
            int callee = number_of(edge->callee->name->label, table);
            MUST(callee >= 0 && edge->recursive >= 0 && edge->recursive <= edge->calls);
            edges[caller][callee] += edge->calls; /* of the base there may be two, one for samples */
            calls[callee] += edge->calls;
            own[callee] += edge->own;
        }
    }
    MUST(memcmp(edges, model->edges, sizeof edges) == 0 && memcmp(calls, model->calls, sizeof calls) == 0);
    for (const struct function *function = table->base->next; function; function = function->next) {
        int number = number_of(function->name->label, table);
        MUST(function->recursive >= 0 && function->recursive <= calls[number] && own[number] >= 0);
    }
}

static void check_paths(const struct table *table)
{
    int64_t calls = 0, booked = 0;
    for (const struct function *function = table->base; function; function = function->next)
        for (const struct edge *edge = function->first_callee; edge; edge = edge->next)
            calls += edge->calls;
    for (const struct path *path = table->paths.first; path; path = path->next) {
        MUST(path->parent_number < path->number && path->called <= table->n_functions);
        booked += path->calls;
    }
    MUST(booked == calls);
}

static void check_ranges(const struct table *table, const struct model *model)
{
    const struct ranges *ranges = table->ranges;
    int64_t counted = 0;
    if (ranges == NULL) {
        MUST(model->ranges == 0);
        return;
    }
    for (const struct context *context = ranges->first; context; context = context->next) {
        MUST(context->parent_number < context->number && context->domain < DOMAINS && context->count >= 0);
        counted += context->count;
    }
    MUST(counted == model->ranges || ranges->n_contexts == MOST_CONTEXTS);
    MUST(ranges->n_open == (size_t)model->open);
}

static void check_table(const struct table *table, const struct model *model)
{
    MUST(table->lost == 0 && table->top - table->stack == model->depth);
    for (int i = 0; i < model->depth; i++)
        MUST(number_of(table->stack[i + 1].function->name->label, table) == model->stack[i]);
    check_edges(table, model);
    check_paths(table);
    check_ranges(table, model);
    check_samples(table, model);
    MUST(!PyErr_Occurred());
}

/* Programs */

struct part {
    struct input input;
    int depth;
};

static void run_part(struct input *input, int nested);

static void *run_thread(void *argument)
{
    struct part *part = argument;
    PyGILState_STATE state = PyGILState_Ensure();
    run_part(&part->input, part->depth + 1);
    PyGILState_Release(state);
    return NULL;
}

static void call_thread(struct input *input, int nested)
{
    size_t bytes = take_byte(input);
    struct part part = {{input->data, bytes < input->left ? bytes : input->left}, nested};
    pthread_t thread;
    input->data += part.input.left;
    input->left -= part.input.left;
    if (nested == MOST_NESTED || !may_start_threads)
        return;
    Py_BEGIN_ALLOW_THREADS
    MUST(pthread_create(&thread, NULL, run_thread, &part) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    Py_END_ALLOW_THREADS
}

static void step(struct table *table, struct model *model, struct input *input, int nested)
{
    unsigned what = take_byte(input);
    int number = same_as((int)(take_byte(input) % FUNCTIONS));
    switch (what % 18) {
    case 0:
    case 1:
    case 2:
    case 3:
        begin(table, model, number);
        break;
    case 4:
    case 5:
    case 6: /* as a program without tricks returns */
        if (model->depth > 0)
            finish(table, model, model->stack[model->depth - 1]);
        break;
    case 7:
        finish(table, model, number);
        break;
    case 8:
    case 9:
        begin_range(model, (uint32_t)number % DOMAINS, what >> 4);
        break;
    case 10:
        end_range(model, (uint32_t)number % DOMAINS);
        break;
    case 11:
        check_table(table, model);
        break;
    case 12: /* a long time passes */
        table->last -= clock_ticks_in(1000000 * (int64_t)(number + 1));
        break;
    case 13:
        table->due = 0;
        break;
    case 14:
        call_thread(input, nested);
        kernel_last_table = table;
        break;
    case 15:
        count(table, model, number, what >> 4 | (unsigned)take_byte(input));
        break;
    case 16:
        sample(table, model, number, input);
        break;
    default:
        for (int i = 0; i < number * 4; i++) /* recursion */
            begin(table, model, number);
    }
}

/* The rest in a child: its thread's table goes on. */
static bool in_child(void)
{
    if (!may_fork || forked)
        return false;
    forked = true;
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0)
        return true;
    int status = 0;
    while (waitpid(child, &status, 0) != child)
        MUST(errno == EINTR); /* the engine has a timer */
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
}

static void run_part(struct input *input, int nested)
{
    static struct model models[MOST_NESTED + 1];
    struct model *model = &models[nested];
    struct table *table = threads_new_table(1, kernel_thread_id(), (unsigned long)pthread_self());
    bool child = false;
    MUST(table != NULL);
    memset(model->calls, 0, sizeof model->calls);
    memset(model->edges, 0, sizeof model->edges);
    memset(model->seen, 0, sizeof model->seen);
    memset(model->sampled, 0, sizeof model->sampled);
    model->ranges = 0;
    model->depth = model->open = model->deeper = 0;
    kernel_last_table = table;
    for (int i = 0; input->left > 0 && i < MOST_EVENTS; i++) {
        step(table, model, input, nested);
        if (i == 20 && nested == 0)
            child = in_child();
    }
    check_table(table, model);
    calls_close_all(table, true);
    while (model->depth > 0)
        close_one(model);
    model->open = model->deeper = 0;
    check_table(table, model);
    if (child)
        _exit(0);
    table_clear(table);
    table_release(table);
    kernel_last_table = NULL;
}

/* The main thread does not end between inputs: its list of tables is emptied as at its end. */
static void forget(void)
{
    if (here == NULL)
        return;
    thread_ends(here);
    MUST(pthread_setspecific(key, NULL) == 0);
    forked = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    Py_ssize_t before = 0, after = 0;
    for (int i = 0; i < FUNCTIONS; i++)
        before += Py_REFCNT(callables[i].label) + Py_REFCNT(callables[i].object);
    uint8_t kind = take_byte(&input);
    may_start_threads = kind % 4 == 1;
    may_fork = kind == 10;
    run_part(&input, 0);
    forget();
    for (int i = 0; i < FUNCTIONS; i++)
        after += Py_REFCNT(callables[i].label) + Py_REFCNT(callables[i].object);
    MUST(after == before);
    return 0;
}
