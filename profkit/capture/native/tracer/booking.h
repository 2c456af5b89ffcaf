/* What looks have seen (looks.h) is added to the tables. */
#pragma once

#include "python_api.h"

#include <stdint.h>

/* Take what was seen and add it to the tables, with the GIL; return the ns for which threads queued. */
int64_t booking_take(void);
