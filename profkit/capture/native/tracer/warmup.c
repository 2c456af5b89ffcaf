/* Entries are only appended to lists, so each table is remembered as a sequence of numbers in list order. */
#include "warmup.h"

#include "tables.h"

#include <stdlib.h>

#include "paths.h"
#include "ranges.h"

struct numbers {
    int64_t *values;
    size_t used, room;
    bool failed;
};

struct remembered {
    const struct table *table;
    size_t begin; /* index of its first number */
};

struct memory {
    struct remembered *tables;
    size_t n_tables;
    struct numbers numbers;
};

static void keep(struct numbers *numbers, int64_t value) {
    if (numbers->used == numbers->room) {
        size_t more = numbers->room ? 2 * numbers->room : 1024;
        int64_t *grown = realloc(numbers->values, more * sizeof *grown);
        if (!grown) {
            numbers->failed = true;
            return;
        }
        numbers->values = grown;
        numbers->room = more;
    }
    numbers->values[numbers->used++] = value;
}

static void keep_edges(struct numbers *numbers, const struct edge *first) {
    size_t count_at = numbers->used;
    int64_t count = 0;
    keep(numbers, 0);
    for (const struct edge *edge = first; edge; edge = edge->next, count++) {
        keep(numbers, edge->calls);
        keep(numbers, edge->own);
        keep(numbers, edge->total);
        keep(numbers, edge->recursive);
        keep(numbers, edge->wait);
        keep(numbers, edge->cumulative_wait);
        keep(numbers, edge->blocked);
        keep(numbers, edge->cumulative_blocked);
    }
    if (!numbers->failed)
        numbers->values[count_at] = count;
}

static void keep_table(struct numbers *numbers, const struct table *table) {
    keep(numbers, (int64_t)table->n_functions + 1);
    for (const struct function *function = table->base; function; function = function->next) {
        keep(numbers, function->recursive);
        keep(numbers, function->total);
        keep(numbers, function->cumulative_wait);
        keep(numbers, function->cumulative_blocked);
        keep_edges(numbers, function->first_callee);
    }
    keep(numbers, table->paths.n);
    for (const struct path *path = table->paths.first; path; path = path->next) {
        keep(numbers, path->calls);
        keep(numbers, path->own);
        keep(numbers, path->wait);
        keep(numbers, path->blocked);
    }
    keep(numbers, table->ranges ? (int64_t)table->ranges->n_contexts : 0);
    for (const struct context *context = table->ranges ? table->ranges->first : NULL; context; context = context->next) {
        keep(numbers, context->count);
        keep_edges(numbers, context->first_row);
    }
}

struct memory *memory_of(struct table *const *tables, size_t n) {
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->tables = calloc(n + 1, sizeof *memory->tables);
    for (size_t i = 0; memory->tables && i < n; i++) {
        memory->tables[i] = (struct remembered){tables[i], memory->numbers.used};
        keep_table(&memory->numbers, tables[i]);
    }
    memory->n_tables = n;
    if (!memory->tables || memory->numbers.failed) {
        memory_free(memory);
        return NULL;
    }
    return memory;
}

/* Return the next number to restore; 0 for entries added later. */
static int64_t next(const int64_t **values, int64_t *left) {
    if (*left == 0)
        return 0;
    return *(*values)++;
}

static void restore_edges(const int64_t **values, struct edge *first, bool known) {
    int64_t left = known ? *(*values)++ : 0;
    for (struct edge *edge = first; edge; edge = edge->next) {
        edge->calls = next(values, &left);
        edge->own = next(values, &left);
        edge->total = next(values, &left);
        edge->recursive = next(values, &left);
        edge->wait = next(values, &left);
        edge->cumulative_wait = next(values, &left);
        edge->blocked = next(values, &left);
        edge->cumulative_blocked = next(values, &left);
        left -= left > 0;
    }
}

void memory_restore(const struct memory *memory, struct table *table) {
    const int64_t *values = NULL;
    for (size_t i = 0; memory && i < memory->n_tables; i++)
        if (memory->tables[i].table == table)
            values = memory->numbers.values + memory->tables[i].begin;
    int64_t left = values ? *values++ : 0;
    for (struct function *function = table->base; function; function = function->next) {
        bool known = left > 0;
        function->recursive = next(&values, &left);
        function->total = next(&values, &left);
        function->cumulative_wait = next(&values, &left);
        function->cumulative_blocked = next(&values, &left);
        restore_edges(&values, function->first_callee, known);
        left -= known;
    }
    left = values ? *values++ : 0;
    for (struct path *path = table->paths.first; path; path = path->next) {
        path->calls = next(&values, &left);
        path->own = next(&values, &left);
        path->wait = next(&values, &left);
        path->blocked = next(&values, &left);
        left -= left > 0;
    }
    left = values ? *values++ : 0;
    for (struct context *context = table->ranges ? table->ranges->first : NULL; context; context = context->next) {
        bool known = left > 0;
        context->count = next(&values, &left);
        restore_edges(&values, context->first_row, known);
        left -= known;
    }
}

void memory_free(struct memory *memory) {
    if (!memory)
        return;
    free(memory->tables);
    free(memory->numbers.values);
    free(memory);
}
