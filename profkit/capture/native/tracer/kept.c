#include "kept.h"

#include "tables.h"

#include <stdlib.h>

static struct table **kept;
static size_t n_kept, room;

void kept_add(struct table *table) {
    if (n_kept == room) {
        size_t more = room ? 2 * room : 64;
        struct table **grown = realloc(kept, more * sizeof *grown);
        if (!grown)
            return; /* then it stays in the file */
        kept = grown;
        room = more;
    }
    table_retain(table);
    kept[n_kept++] = table;
}

void kept_forget(void) { n_kept = 0; }

void kept_leave(void) {
    for (size_t i = 0; i < n_kept; i++)
        table_leave(kept[i]);
}

void kept_each_running(void (*function)(struct table *table, void *about), void *about) {
    for (size_t i = 0; i < n_kept; i++)
        if (!table_ended(kept[i]))
            function(kept[i], about);
}

struct table *kept_last(pid_t native, unsigned long ident) {
    for (size_t i = n_kept; i-- > 0;)
        if (kept[i]->native == native && kept[i]->ident == ident && kept[i]->generation == kernel_generation)
            return kept[i];
    return NULL;
}

struct table *kept_running(pid_t native, unsigned long ident) {
    struct table *table = kept_last(native, ident);
    return table && !table_ended(table) ? table : NULL;
}

struct table *const *kept_all(size_t *n) {
    *n = n_kept;
    return kept;
}

void kept_drop_folded(void) {
    size_t left = 0;
    for (size_t i = 0; i < n_kept; i++)
        if (kept[i]->folded == 0)
            kept[left++] = kept[i];
    n_kept = left;
}
