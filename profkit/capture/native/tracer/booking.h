/* What looks have seen (looks.h) is added to the tables. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

/* What was booked: samples, and the ns for which threads queued. */
struct booked {
    int64_t samples, wait;
};

/* Take what was seen and add it to the tables, with the GIL. */
struct booked booking_take(void);
