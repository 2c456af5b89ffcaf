/* In which lines of source the time of functions went, as looks of the sampler have found it.
 *
 * Sums are kept by function. A line is one of the function itself or, of a C function, one of the Python function that has called it.
 */
#ifndef PROFKIT_LINES_H
#define PROFKIT_LINES_H

#include "python_api.h"

#include <stdatomic.h>
#include <stdint.h>

struct function;
struct table;

/* One line of one function: nanoseconds, and in how many looks. */
struct line {
    _Atomic uint32_t kind; /* an entry_kind, stored last */
    uint32_t called;       /* number of the function whose time it is, */
    uint32_t within;       /* and of the one that has the line */
    uint32_t line;
    int64_t ns, n;
    struct line *next; /* of the same function */
};

/* The byte of a code at which a place in it is, as stacks_site() has it. */
static inline int64_t lines_byte(int64_t instruction) {
#if !defined(PROFKIT_ABI3) && PY_VERSION_HEX >= 0x030A0000 && PY_VERSION_HEX < 0x030B0000
    return 2 * instruction; /* there frames count instructions, and not bytes */
#else
    return instruction;
#endif
}

/* The line of a byte of a code; -1 for none. The GIL is held. */
int lines_at(PyObject *code, int64_t byte);

/* Add to the sums of a function of a table. Like all of a table, with the GIL. */
void lines_add(struct table *table, struct function *function, uint32_t within, uint32_t line, int64_t ns, int64_t n);

#endif
