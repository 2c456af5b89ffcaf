/* In which functions a thread was in each slice of time, as looks of the sampler have found it: the busiest of each.
 *
 * Slices get longer as the process gets older, so that their number grows with the logarithm of its age. A sum of threads that have
 * ended (fold.h) has none: it is no thread.
 */
#ifndef PROFKIT_SLICES_H
#define PROFKIT_SLICES_H

#include "python_api.h"

#include <stdatomic.h>
#include <stdint.h>

struct function;
struct table;

/* One function in one slice; nanoseconds, `begin` and `end` of the monotonic clock. */
struct slice {
    _Atomic uint32_t kind; /* an entry_kind, stored last */
    uint32_t called;       /* number of the function */
    int64_t unused;
    int64_t begin, end, ns;
    struct slice *next; /* of the same table, the one made before */
};

/* What is added from here on was seen from the last call of this to now. */
void slices_booked(int64_t now);

/* In a forked process. */
void slices_forget(void);

/* Add what was seen of a function of a table. Like all of a table, with the GIL. */
void slices_add(struct table *table, const struct function *function, int64_t ns);

#endif
