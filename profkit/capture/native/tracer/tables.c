/* The parts of a thread's table that are not on the hot path: making and finding things, growing, freeing. */
#include "tables.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "labels.h"
#include "ranges.h"
#include "waiting.h"

/* Where no further callee is remembered: never equal to any key. */
static struct edge no_edge = {.key = NULL};

/* Sizes for a short thread of few functions; everything doubles from there. */
#define FIRST_SLOTS 4
#define FIRST_CALLS 32
#define FIRST_CHUNK 2000
#define LARGEST_CHUNK 64000

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void *table_take(struct table *table, size_t size) {
    struct chunk *chunk = table->arena;
    size = (size + 15) & ~(size_t)15;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t next = chunk ? 2 * chunk->size : FIRST_CHUNK;
        if (next > LARGEST_CHUNK)
            next = LARGEST_CHUNK;
        struct chunk *new = malloc(sizeof *new + next);
        if (!new)
            return NULL;
        *new = (struct chunk){.next = chunk, .used = 0, .size = next};
        table->arena = chunk = new;
    }
    void *place = chunk->bytes + chunk->used;
    chunk->used += size;
    return memset(place, 0, size);
}

static void edges_put(struct edge **slots, size_t mask, struct edge *edge) {
    size_t i = edges_slot(edge->key, mask);
    while (slots[i])
        i = (i + 1) & mask;
    slots[i] = edge;
}

/* Make room for one more, with at least half of the slots empty: a search then ends after a step or two. */
static bool edges_reserve(struct edges *edges) {
    if (edges->slots && 2 * (edges->used + 1) <= edges->mask + 1)
        return true;
    size_t size = edges->slots ? 2 * (edges->mask + 1) : FIRST_SLOTS;
    struct edge **slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; edges->slots && i <= edges->mask; i++)
        if (edges->slots[i])
            edges_put(slots, size - 1, edges->slots[i]);
    free(edges->slots);
    edges->slots = slots;
    edges->mask = size - 1;
    return true;
}

static struct function *add_function(struct table *table, const void *key, PyObject *label) {
    struct function *function = table_take(table, sizeof *function);
    if (!function)
        return NULL;
    function->key = key;
    function->label = label;
    function->last = &no_edge;
    if (table->last_function)
        table->last_function->next = function;
    table->last_function = function;
    return function;
}

struct table *table_new(unsigned long long owner) {
    struct table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    pthread_mutex_init(&table->lock, NULL);
    table->stack = calloc(FIRST_CALLS, sizeof *table->stack);
    table->base = add_function(table, NULL, NULL);
    atomic_init(&table->references, 1);
    if (!table->stack || !table->base || !kernel_follow(table)) {
        table_release(table);
        return NULL;
    }
    table->top = table->stack;
    table->top->function = table->base;
    table->top->edge = &no_edge;
    table->limit = table->stack + FIRST_CALLS;
    table->owner = owner;
    table->native = kernel_thread_id();
    table->ident = (unsigned long)pthread_self();
    table->generation = kernel_generation;
    waiting_start(table);
    return table;
}

void table_retain(struct table *table) { atomic_fetch_add(&table->references, 1); }

static void free_memory(struct table *table) {
    for (struct function *function = table->base; function; function = function->next)
        free(function->callees.slots);
    ranges_free(table);
    free(table->functions.slots);
    free(table->stack);
    for (struct chunk *chunk = table->arena, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    table->base = table->last_function = NULL;
    table->functions = (struct edges){0};
    table->stack = table->top = table->limit = NULL;
    table->arena = NULL;
}

void table_release(struct table *table) {
    if (atomic_fetch_sub(&table->references, 1) == 1) {
        free_memory(table);
        pthread_mutex_destroy(&table->lock);
        free(table);
    }
}

void table_clear(struct table *table) {
    /* No event reaches it any more, not even one from a label's finaliser. A lock that a fork has left behind in
     * another thread's table is never released, and no thread is left to take it for. */
    bool locked = pthread_mutex_trylock(&table->lock) == 0;
    if (!locked && table->generation == kernel_generation)
        locked = pthread_mutex_lock(&table->lock) == 0;
    table->owner = 0;
    if (locked)
        pthread_mutex_unlock(&table->lock);
    for (struct function *function = table->base; function; function = function->next) {
        PyObject *label = function->label;
        function->label = NULL;
        Py_XDECREF(label);
    }
    free_memory(table);
}

static struct function *find_or_add_function(struct table *table, const void *key, PyObject *object,
                                             PyObject *self) {
    struct edge *known = edges_find(&table->functions, key);
    if (known)
        return known->callee;
    PyObject *label = label_of(object, self);
    if (!label)
        return NULL;
    struct function *function = add_function(table, key, label);
    if (!function) {
        Py_DECREF(label);
        return NULL;
    }
    function->number = ++table->n_functions;
    function->passes_on = label_passes_on(label);
    return function;
}

struct edge *table_add_edge(struct table *table, struct function *caller, const void *key, PyObject *object,
                            PyObject *self) {
    PyObject *type, *value, *traceback;
    struct edge *edge = NULL;
    /* A generator is resumed by throw() with the exception pending, and a label may need Python code. */
    PyErr_Fetch(&type, &value, &traceback);
    if (!edges_reserve(&table->functions) || !edges_reserve(&caller->callees))
        goto done;
    struct function *callee = find_or_add_function(table, key, object, self);
    if (!callee)
        goto done;
    edge = table_take(table, sizeof *edge);
    if (!edge)
        goto done;
    edge->key = key;
    edge->callee = callee;
    edges_put(caller->callees.slots, caller->callees.mask, edge);
    caller->callees.used++;
    if (!edges_find(&table->functions, key)) {
        edges_put(table->functions.slots, table->functions.mask, edge);
        table->functions.used++;
    }
    if (caller->last_callee)
        caller->last_callee->next = edge;
    else
        caller->first_callee = edge;
    caller->last_callee = edge;
    table->n_edges++;
done:
    PyErr_Restore(type, value, traceback);
    return edge;
}

struct edge *table_add_row(struct table *table, struct edges *rows, struct function *function) {
    if (!edges_reserve(rows))
        return NULL;
    struct edge *row = table_take(table, sizeof *row);
    if (!row)
        return NULL;
    row->key = function;
    row->callee = function;
    edges_put(rows->slots, rows->mask, row);
    rows->used++;
    return row;
}

bool table_grow_stack(struct table *table) {
    size_t used = (size_t)(table->top - table->stack) + 1;
    struct call *stack = realloc(table->stack, 2 * used * sizeof *stack);
    if (!stack)
        return false;
    table->stack = stack;
    table->top = stack + used - 1;
    table->limit = stack + 2 * used;
    return true;
}

struct function *table_open_function(struct table *table, const void *key) {
    struct edge *edge = edges_find(&table->functions, key);
    return edge && edge->callee->open > 0 ? edge->callee : NULL;
}
