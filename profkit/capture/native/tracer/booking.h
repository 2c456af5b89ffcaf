/* What looks have seen (looks.h) is added to the tables. */
#ifndef PROFKIT_BOOKING_H
#define PROFKIT_BOOKING_H

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

/* What was booked: samples, and for how long threads ran and queued, ns. */
struct booked {
    int64_t samples, wait;
};

/* Take what was seen and add it to the tables. With the GIL. */
struct booked booking_take(void);

#endif
