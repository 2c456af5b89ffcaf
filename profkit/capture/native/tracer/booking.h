/* What looks have seen (looks.h) is added to the tables. */
#ifndef PROFKIT_BOOKING_H
#define PROFKIT_BOOKING_H

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

/* Take what was seen and add it to the tables; returns how many samples that were. With the GIL. */
int64_t booking_take(void);

#endif
