#include "fold.h"

#include "tables.h"

#include <stdlib.h>

#include "kept.h"
#include "lines.h"
#include "paths.h"
#include "pauses.h"
#include "ranges.h"
#include "store.h"

/* Number of kept tables of ended threads, and the excess at which the smallest are folded. */
#define MOST_ENDED 80
#define FOLD_AT_ONCE 20

struct ended {
    struct table *table;
    int64_t own;
};

static int64_t own_ticks(const struct table *table) {
    int64_t ticks = 0;
    for (const struct function *function = table->base; function; function = function->next)
        for (const struct edge *edge = function->first_callee; edge; edge = edge->next)
            ticks += edge->own;
    return ticks;
}

static int by_own_ticks(const void *one, const void *other) {
    int64_t a = ((const struct ended *)one)->own, b = ((const struct ended *)other)->own;
    return a < b ? -1 : a > b;
}

static void sum_edge(struct edge *to, const struct edge *from) {
    to->calls += from->calls;
    to->own += from->own;
    to->total += from->total;
    to->recursive += from->recursive;
    to->wait += from->wait;
    to->cumulative_wait += from->cumulative_wait;
    to->blocked += from->blocked;
    to->cumulative_blocked += from->cumulative_blocked;
    to->seen += from->seen;
    to->seen_squares += from->seen_squares;
    to->samples += from->samples;
    to->squares += from->squares;
    to->sampled += from->sampled;
    to->counted += from->counted;
}

static bool add_functions(struct table *sum, struct table *from, struct function **places) {
    places[0] = sum->base;
    /* Callees come after their first caller, so every caller is placed before it is met. */
    for (struct function *caller = from->base; caller; caller = caller->next) {
        struct function *here = places[caller->number];
        for (const struct edge *edge = caller->first_callee; edge; edge = edge->next) {
            struct edge *to = table_named_edge(sum, here, edge->callee->name);
            if (!to)
                return false;
            places[edge->callee->number] = to->callee;
            sum_edge(to, edge);
        }
        here->recursive += caller->recursive;
        here->total += caller->total;
        here->cumulative_wait += caller->cumulative_wait;
        here->cumulative_blocked += caller->cumulative_blocked;
        here->sampled += caller->sampled;
        here->cut += caller->cut;
        here->counted_recursive += caller->counted_recursive;
    }
    for (const struct function *function = from->base; function; function = function->next) {
        for (const struct pause *pause = function->pauses; pause; pause = pause->next)
            pause_add(sum, places[function->number], (enum pause_kind)pause->what, pause->ns, pause->n);
        for (const struct line *line = function->lines; line; line = line->next)
            lines_add(sum, places[function->number], places[line->within]->number, line->line, line->ns, line->n);
    }
    return true;
}

static bool sum_table(struct table *sum, struct table *from) {
    struct function **places = calloc((size_t)from->n_functions + 1, sizeof *places);
    bool done = places && add_functions(sum, from, places) && ranges_add(sum, from, places) &&
                paths_add(sum, from, places);
    free(places);
    sum->taken += from->taken;
    sum->lost += from->lost;
    sum->n_folded += from->n_folded ? from->n_folded : 1;
    sum->read_before |= from->read_before;
    sum->unmeasured |= from->unmeasured;
    return done;
}

static void take_over(struct table *sum, const struct ended *gone, size_t n) {
    uint64_t epoch = atomic_load(&store_header->epoch) + 1;
    sum->born = epoch;
    for (size_t i = 0; i < n; i++)
        gone[i].table->folded = epoch;
    table_publish(sum);
    atomic_store(&store_header->epoch, epoch);
}

static void fold(struct ended *ended, size_t n) {
    struct table *sum = table_new_sum();
    bool done = sum != NULL;
    for (size_t i = 0; done && i < n; i++)
        done = sum_table(sum, ended[i].table);
    if (!done) {
        if (sum) {
            table_clear(sum);
            table_release(sum);
        }
        return;
    }
    take_over(sum, ended, n);
    kept_drop_folded();
    kept_add(sum);
    table_release(sum);
    for (size_t i = 0; i < n; i++) {
        table_clear(ended[i].table);
        table_release(ended[i].table);
    }
}

/* Whether nothing but kept.c has the table of an ended thread. */
static bool is_left(const struct table *table) { return table_ended(table) && atomic_load(&table->references) == 1; }

void fold_ended_tables(void) {
    size_t most = 0, n = 0, sums = 0, n_kept;
    struct table *const *kept = kept_all(&n_kept);
    for (size_t i = 0; i < n_kept; i++)
        most += is_left(kept[i]);
    if (most < MOST_ENDED + FOLD_AT_ONCE)
        return;
    struct ended *ended = calloc(most, sizeof *ended);
    if (!ended)
        return;
    for (size_t i = 0; i < n_kept && n < most; i++) { /* other threads may end meanwhile */
        struct table *table = kept[i];
        if (!is_left(table))
            continue;
        /* An earlier sum is always folded. */
        ended[n++] = (struct ended){table, table->n_folded ? -1 : own_ticks(table)};
        sums += table->n_folded > 0;
    }
    qsort(ended, n, sizeof *ended, by_own_ticks);
    fold(ended, FOLD_AT_ONCE + sums);
    free(ended);
}
