#include "slots.h"

#include <stdlib.h>

/* The size for a short thread of few functions; it doubles. */
#define FIRST_SLOTS 4

void slots_put(struct slots *slots, uint64_t key, void *entry) {
    size_t i = slots_first(key, slots->mask);
    while (slots->slots[i].key)
        i = (i + 1) & slots->mask;
    slots->slots[i] = (struct slot){key, entry};
    slots->used++;
}

/* With half of the slots empty, a search ends after a step or two. */
bool slots_reserve(struct slots *slots) {
    if (slots->slots && 2 * (slots->used + 1) <= slots->mask + 1)
        return true;
    struct slots grown = {.mask = slots->slots ? 2 * slots->mask + 1 : FIRST_SLOTS - 1};
    grown.slots = calloc(grown.mask + 1, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; slots->slots && i <= slots->mask; i++)
        if (slots->slots[i].key)
            slots_put(&grown, slots->slots[i].key, slots->slots[i].entry);
    free(slots->slots);
    *slots = grown;
    return true;
}
