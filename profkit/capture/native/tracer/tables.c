#include "tables.h"

#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "arena.h"
#include "entries.h"
#include "names.h"
#include "paths.h"
#include "ranges.h"
#include "store.h"

/* The size for a short thread; it doubles. */
#define FIRST_CALLS 32

static struct edge no_edge = {.kind = 0};

static uint32_t last_number = 0;

static void publish(_Atomic uint32_t *kind, enum entry_kind value) {
    atomic_store_explicit(kind, value, memory_order_release);
}

static struct function *add_function(struct table *table, struct name *name) {
    if (name && !names_use(name))
        return NULL;
    struct function *function = arena_take(table, sizeof *function);
    if (!function) {
        if (name)
            names_release(name);
        return NULL;
    }
    if (name) {
        function->name = name;
        function->name_id = name->id;
        function->passes_on = name->passes_on;
        function->number = ++table->n_functions;
    }
    if (table->last_function)
        table->last_function->next = function;
    table->last_function = function;
    publish(&function->kind, ENTRY_FUNCTION);
    return function;
}

struct table *table_new(void) {
    struct block *block = store_take(sizeof(struct table), last_number + 1);
    if (!block)
        return NULL;
    struct table *table = (struct table *)block->content;
    table->number = ++last_number;
    table->mapped = block->mapped;
    table->generation = kernel_generation;
    pthread_mutex_init(&table->lock, NULL);
    table->top = table->stack = store_content(FIRST_CALLS * sizeof *table->stack, BLOCK_STACK, table->number);
    table->base = add_function(table, NULL);
    atomic_init(&table->references, 1);
    if (!table->stack || !table->base || !paths_start(table)) {
        table_release(table);
        return NULL;
    }
    table->top->function = table->base;
    table->top->edge = &no_edge;
    table->limit = table->stack + FIRST_CALLS;
    return table;
}

struct table *table_new_sum(void) {
    struct table *table = table_new();
    if (table)
        atomic_store(&table->ended, true);
    return table;
}

void table_publish(struct table *table) { store_publish(store_block_of(table), BLOCK_TABLE); }

void table_retain(struct table *table) { atomic_fetch_add(&table->references, 1); }

/* What is in the store remains if it `stays`. */
static void free_memory(struct table *table, bool stays) {
    for (struct function *function = table->base; function; function = function->next)
        free(function->callees.slots);
    ranges_free(table);
    paths_free(table);
    free(table->functions.slots);
    if (!stays)
        store_give(table->stack);
    arena_free(table, stays);
    if (stays)
        return;
    table->base = table->last_function = NULL;
    table->first_seen = NULL;
    table->functions = (struct slots){0};
    table->stack = table->top = table->limit = NULL;
}

void table_release(struct table *table) {
    if (table->mapped && table->generation != kernel_generation)
        return; /* the parent's, in the parent's file */
    if (atomic_fetch_sub(&table->references, 1) == 1) {
        store_publish(store_block_of(table), BLOCK_FREE);
        free_memory(table, false);
        pthread_mutex_destroy(&table->lock);
        store_give(table);
    }
}

static void forget(struct table *table, bool stays) {
    /* No event reaches the table now. A lock left behind by a fork is never released, and nobody needs it. */
    bool locked = pthread_mutex_trylock(&table->lock) == 0;
    if (!locked && table->generation == kernel_generation)
        locked = pthread_mutex_lock(&table->lock) == 0;
    table->owner = 0;
    if (locked)
        pthread_mutex_unlock(&table->lock);
    for (struct function *function = table->base; function; function = function->next) {
        struct name *name = function->name;
        function->name = NULL;
        if (name)
            names_release(name);
    }
    free_memory(table, stays);
}

void table_clear(struct table *table) { forget(table, false); }

void table_leave(struct table *table) { forget(table, true); }

static struct edge *edge_to(const struct function *caller, const struct name *name) {
    struct edge *edge = caller->first_callee;
    while (edge && edge->callee->name != name)
        edge = edge->next;
    return edge;
}

static struct edge *add_edge(struct table *table, struct function *caller, struct name *name) {
    if (!slots_reserve(&table->functions))
        return NULL;
    struct edge *known = edges_find(&table->functions, name);
    struct function *callee = known ? known->callee : add_function(table, name);
    struct edge *edge = callee ? arena_take(table, sizeof *edge) : NULL;
    if (!edge)
        return NULL;
    edge->caller = caller->number;
    edge->called = callee->number;
    edge->callee = callee;
    publish(&edge->kind, ENTRY_EDGE);
    if (!known)
        edges_put(&table->functions, name, edge);
    if (caller->last_callee)
        caller->last_callee->next = edge;
    else
        caller->first_callee = edge;
    caller->last_callee = edge;
    return edge;
}

struct edge *table_named_edge(struct table *table, struct function *caller, struct name *name) {
    struct edge *edge = edge_to(caller, name);
    return edge ? edge : add_edge(table, caller, name);
}

struct edge *table_add_edge(struct table *table, struct function *caller, const void *key, PyObject *object,
                            PyObject *self) {
    PyObject *type, *value, *traceback;
    struct edge *edge = NULL;
    bool kept;
    /* throw() resumes a generator with the exception pending, and a label may need Python code. */
    PyErr_Fetch(&type, &value, &traceback);
    struct name *name = slots_reserve(&caller->callees) ? names_of(key, object, self, &kept) : NULL;
    if (name) {
        if (!kept || name->n_keys > 1)
            edge = edge_to(caller, name);
        if (!edge)
            edge = add_edge(table, caller, name);
    }
    if (edge && kept) {
        edges_put(&caller->callees, key, edge);
        caller->last_key = key;
        caller->last = edge;
    }
    if (table->mapped)
        agent_name_thread(table);
    PyErr_Restore(type, value, traceback);
    return edge;
}

struct edge *table_known_edge(struct table *table, struct function *caller, const void *key) {
    struct name *name = names_known(key);
    struct edge *edge = name ? table_named_edge(table, caller, name) : NULL;
    if (edge && slots_reserve(&caller->callees))
        edges_put(&caller->callees, key, edge);
    return edge;
}

bool table_grow_stack(struct table *table) {
    size_t used = (size_t)(table->top - table->stack) + 1;
    struct call *outgrown = table->stack;
    struct call *stack = store_content(2 * used * sizeof *stack, BLOCK_STACK, table->number);
    if (!stack)
        return false;
    memcpy(stack, outgrown, used * sizeof *stack);
    /* Between these stores a reader sees more calls than fit, or none. */
    table->stack = stack;
    table->top = stack + used - 1;
    table->limit = stack + 2 * used;
    store_give(outgrown);
    return true;
}

struct function *table_function(const struct table *table, const void *key) {
    const struct name *name = names_known(key);
    const struct edge *edge = name ? edges_find(&table->functions, name) : NULL;
    return edge ? edge->callee : NULL;
}

struct call *table_open_call(struct table *table, const void *key) {
    const struct name *name = names_known(key);
    struct edge *edge = name ? edges_find(&table->functions, name) : NULL;
    if (name && !(edge && edge->callee->open > 0))
        return NULL; /* mostly a call that began before the tracer */
    for (struct call *call = table->top; call > table->stack; call--)
        if (call->key == key || (edge && call->edge->callee == edge->callee))
            return call;
    return NULL;
}
