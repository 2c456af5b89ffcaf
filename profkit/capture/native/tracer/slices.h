/* The busiest functions of a thread in each slice of time, from the sampler's looks. Slices get longer with the
 * process's age, so their number grows with its logarithm. Folded sums (fold.h) have none. */
#pragma once

#include "python_api.h"

#include <stdatomic.h>
#include <stdint.h>

struct function;
struct table;

/* One function in one slice, in ns; `begin` and `end` by the monotonic clock. */
struct slice {
    _Atomic uint32_t kind;
    uint32_t called;
    int64_t unused;
    int64_t begin, end, ns;
    struct slice *next; /* the one before it in the table */
};

/* Data added from here on was seen between the previous call and now. */
void slices_booked(int64_t now);

/* Forget the parent's slices, in a forked child. */
void slices_forget(void);

/* Add what was seen of a function, with the GIL. */
void slices_add(struct table *table, const struct function *function, int64_t ns);
