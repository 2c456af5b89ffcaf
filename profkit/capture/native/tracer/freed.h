/* Code objects that were freed. A stack is read without the GIL and booked later; what it names may be gone by then,
 * and its memory another object's. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

/* Begin to note them, with the GIL; without an exception where the interpreter cannot tell. */
void freed_start(void);

/* Return how many were freed so far; to be called before a stack is read. */
uint64_t freed_count(void);

/* Whether a code object may have been freed after the first `count` were: always where nobody tells, or too many were.
 * With the GIL. */
bool freed_since(uintptr_t code, uint64_t count);
