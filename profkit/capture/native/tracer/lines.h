/* Time per source line, from the sampler's looks, summed per function. A C function's line is in its Python caller. */
#pragma once

#include "python_api.h"

#include <stdatomic.h>
#include <stdint.h>

struct function;
struct table;

/* One line of one function: nanoseconds and number of looks. */
struct line {
    _Atomic uint32_t kind;
    uint32_t called;       /* number of the function that has the time */
    uint32_t within;       /* number of the function that contains the line */
    uint32_t line;
    int64_t ns, n;
    struct line *next;
};

/* Convert a place of stacks_site() to a byte offset in the code. */
static inline int64_t lines_byte(int64_t instruction) {
#if !defined(PROFKIT_ABI3) && PY_VERSION_HEX >= 0x030A0000 && PY_VERSION_HEX < 0x030B0000
    return 2 * instruction; /* frames of 3.10 count instructions */
#else
    return instruction;
#endif
}

/* Return the line of a byte of a code, or -1; with the GIL. */
int lines_at(PyObject *code, int64_t byte);

/* Add to the sums of a function, with the GIL. */
void lines_add(struct table *table, struct function *function, uint32_t within, uint32_t line, int64_t ns, int64_t n);
