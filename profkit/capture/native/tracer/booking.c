#include "booking.h"

#include "agent.h"
#include "clock.h"
#include "kept.h"
#include "lines.h"
#include "looks.h"
#include "names.h"
#include "paths.h"
#include "rank_calls.h"
#include "ranges.h"
#include "slices.h"
#include "stacks.h"
#include "tables.h"
#include "threads.h"
#include "tiers.h"
#include "waits.h"

/* A table that ended since the look gets the time in its ranges, also where its thread runs on and may begin another. */
static struct table *table_of(const struct charge *charge, bool may_make) {
    struct seen_thread *seen = charge->thread;
    int64_t run;
    bool runs = kernel_cpu_time(seen->native, &run);
    bool in_range = charge->context && charge->table == seen->table;
    if (seen->table && seen->table->folded == 0 && (in_range || !runs || !table_ended(seen->table)))
        return seen->table;
    struct table *table = runs ? kept_running(seen->native, seen->ident) : kept_last(seen->native, seen->ident);
    if (!table && !may_make)
        return NULL; /* it never ran Python */
    if (!table)
        table = threads_new_table(TABLE_OF_SAMPLES, seen->native, seen->ident);
    else
        table_retain(table);
    looks_set_table(seen, table);
    if (table)
        agent_name_thread(table);
    return table;
}

static struct function *innermost_known(const struct table *table, const struct charge *charge) {
    for (uint32_t i = 0; i < charge->n + (charge->leaf != NULL); i++) {
        const void *key = charge->leaf && i == 0 ? charge->leaf : (const void *)charge->codes[i - (charge->leaf != NULL)];
        struct function *function = table_function(table, key);
        if (function)
            return function;
    }
    return table->base;
}

static struct function *book_time(struct table *table, const struct charge *charge) {
    struct edge *inside[STACK_MOST + 1], *edge = NULL;
    size_t n = 0;
    int64_t whole = clock_ticks_in(charge->run + charge->wait + charge->blocked);
    struct function *caller = table->base;
    struct path *path = table->stack->path;
    for (uint32_t i = charge->n + (charge->leaf != NULL); i-- > 0;) {
        bool leaf = charge->leaf && i == 0;
        const void *key = leaf ? charge->leaf : (const void *)charge->codes[i - (charge->leaf != NULL)];
        struct edge *found = edges_find(&caller->callees, key);
        if (!found && leaf)
            found = table_known_edge(table, caller, key);
        else if (!found && !charge->certain)
            break; /* nothing else has seen this call */
        else if (!found && (names_known(key) || stacks_is_code((uintptr_t)key, charge->freed)))
            found = table_add_edge(table, caller, key, (PyObject *)key, NULL);
        if (!found)
            continue; /* gone, or the interpreter's own code: the time is the caller's */
        edge = found;
        struct function *function = edge->callee;
        path = path_of(table, path, edge);
        if (function->open++ == 0) {
            function->total += whole;
            function->sampled += whole;
            function->cumulative_wait += charge->wait;
            function->cumulative_blocked += charge->blocked;
        }
        if (edge->open++ == 0) {
            edge->total += whole;
            edge->cumulative_wait += charge->wait;
            edge->cumulative_blocked += charge->blocked;
        }
        inside[n++] = edge;
        caller = function;
    }
    if (edge) {
        edge->own += whole;
        edge->wait += charge->wait;
        edge->blocked += charge->blocked;
        edge->samples += charge->samples;
        edge->squares += charge->squares;
        edge->sampled += whole;
        path->own += whole;
        path->wait += charge->wait;
        path->blocked += charge->blocked;
        if (charge->context && charge->table == table) /* the contexts of another one may be gone */
            ranges_sampled(table, charge->context, edge->callee, whole, charge->wait, charge->blocked);
    }
    while (n > 0) {
        inside[--n]->open--;
        inside[n]->callee->open--;
    }
    table->wait += charge->wait;
    table->blocked += charge->blocked;
    table->last = clock_ticks();
    return caller;
}

static void book_lines(struct table *table, struct function *function, const struct charge *charge) {
    PyObject *code = charge->n ? (PyObject *)charge->codes[0] : NULL;
    const struct function *within = code ? table_function(table, code) : NULL; /* whose name keeps the code alive */
    if (!within || !(within == function || charge->leaf) || function == table->base)
        return;
    for (const struct spot *spot = charge->spots; spot; spot = spot->next) {
        int line = spot->ns > 0 ? lines_at(code, lines_byte(spot->instruction)) : -1;
        if (line > 0)
            lines_add(table, function, within->number, (uint32_t)line, spot->ns, spot->n);
    }
}

static void book(const struct charge *charge, bool sampled) {
    struct table *table = table_of(charge, sampled);
    if (!table)
        return;
    bool is_time = sampled && charge->what != PAUSE_HELD_GIL && table->top == table->stack;
    struct function *function = is_time ? book_time(table, charge) : innermost_known(table, charge);
    if (charge->what != PAUSE_HELD_GIL) {
        book_lines(table, function, charge);
        if (function != table->base)
            slices_add(table, function, charge->run + charge->wait + charge->blocked);
    }
    PyObject *code = charge->place >= 0 && charge->n ? (PyObject *)charge->codes[0] : NULL;
    int ranks = charge->what != PAUSE_HELD_GIL && code ? rank_calls_at(code, charge->place) : PAUSE_NONE;
    if (ranks != PAUSE_NONE)
        pause_add(table, function, (enum pause_kind)ranks, charge->run + charge->wait + charge->blocked, charge->samples);
    else if (charge->what != PAUSE_NONE && charge->blocked > 0)
        pause_add(table, function, charge->what, charge->blocked, charge->samples);
}

int64_t booking_take(void) {
    int64_t queued = 0;
    bool sampled = tiers_now() == TIER_SAMPLED;
    struct seen_thread *ended, *next;
    struct seen *taken = looks_take(&ended);
    slices_booked(clock_monotonic_ns());
    for (uint32_t i = 0; i < taken->n_charges; i++) {
        const struct charge *charge = &taken->charges[i];
        queued += charge->wait;
        if (charge->run + charge->wait + charge->blocked > 0)
            book(charge, sampled);
    }
    looks_empty(taken);
    for (; ended; ended = next) {
        next = ended->next;
        looks_forget_thread(ended);
    }
    return queued;
}
