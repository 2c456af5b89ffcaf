#include "slices.h"

#include "arena.h"
#include "entries.h"
#include "table.h"

/* Functions kept per slice. A slice is at least SHORTEST_NS and 1 / SLICES_OF_AGE of the process's age long. */
enum { MOST_OF_SLICE = 4, SLICES_OF_AGE = 64 };
#define SHORTEST_NS INT64_C(250000000)

static int64_t first, begin, seen_until;

void slices_booked(int64_t now) {
    int64_t length = SHORTEST_NS;
    if (!first)
        first = begin = seen_until = now;
    while (length < (now - first) / SLICES_OF_AGE)
        length *= 2;
    if (seen_until - begin >= length)
        begin = seen_until;
    seen_until = now;
}

void slices_forget(void) { first = 0; }

void slices_add(struct table *table, const struct function *function, int64_t ns) {
    struct slice *found = table->slices, *least = NULL;
    int n = 0;
    for (; found && found->begin == begin && found->called != function->number; found = found->next, n++)
        least = !least || found->ns < least->ns ? found : least;
    if (!found || found->begin != begin) {
        if (n < MOST_OF_SLICE) {
            found = arena_take(table, sizeof *found);
            if (!found)
                return;
            found->called = function->number;
            found->begin = begin;
            found->end = seen_until;
            found->next = table->slices;
            table->slices = found;
            atomic_store_explicit(&found->kind, ENTRY_SLICE, memory_order_release);
        } else if (ns > least->ns) {
            found = least;
            found->ns = 0;
            found->called = function->number;
        } else {
            return;
        }
    }
    found->ns += ns;
    found->end = seen_until;
}
