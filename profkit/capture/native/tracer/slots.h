/* A hash table: the functions, edges and paths of a thread are found in one at each call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open addressing by keys other than 0; `mask` is the size, a power of two, minus one. */
struct slots {
    struct slot {
        uint64_t key;
        void *entry;
    } *slots;
    size_t mask, used;
};

/* Make room for one more; false without memory. */
bool slots_reserve(struct slots *slots);

/* Put an entry where there is room. */
void slots_put(struct slots *slots, uint64_t key, void *entry);

static inline size_t slots_first(uint64_t key, size_t mask) {
    /* Keys differ least in the low bits; Fibonacci's multiplier spreads the rest. */
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
}

static inline void *slots_find(const struct slots *slots, uint64_t key) {
    if (!slots->slots)
        return NULL;
    for (size_t i = slots_first(key, slots->mask);; i = (i + 1) & slots->mask) {
        const struct slot *slot = &slots->slots[i];
        if (slot->key == key || !slot->key)
            return slot->entry;
    }
}
