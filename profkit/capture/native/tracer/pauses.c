#include "table.h" /* first: it configures the system headers */

#include "pauses.h"

#include "arena.h"
#include "entries.h"

void pause_add(struct table *table, struct function *function, enum pause_kind what, int64_t ns, int64_t n) {
    struct pause *pause = function->pauses;
    while (pause && pause->what != (uint32_t)what)
        pause = pause->next;
    if (!pause) {
        pause = arena_take(table, sizeof *pause);
        if (!pause)
            return;
        pause->called = function->number;
        pause->what = (uint32_t)what;
        pause->next = function->pauses;
        function->pauses = pause;
        atomic_store_explicit(&pause->kind, ENTRY_PAUSE, memory_order_release);
    }
    pause->ns += ns;
    pause->n += n;
}
