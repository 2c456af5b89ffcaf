#define _GNU_SOURCE 1
#include "lines.h"

#include <dlfcn.h>

#include "arena.h"
#include "entries.h"
#include "table.h"

enum { MOST_LINES = 100 };

typedef int (*line_function)(PyObject *code, int byte);

int lines_at(PyObject *code, int64_t byte) {
    static line_function function;
    if (!function)
        function = (line_function)dlsym(RTLD_DEFAULT, "PyCode_Addr2Line"); /* not in the limited API */
    int64_t most = INT32_MAX;
#if defined(PROFKIT_ABI3) || PY_VERSION_HEX >= 0x030B0000
    most = 2 * (int64_t)Py_SIZE(code); /* a code object ends with its instructions */
#endif
    /* A frame read while another thread changes it may be torn. */
    return function && byte >= 0 && byte < most ? function(code, (int)byte) : -1;
}

void lines_add(struct table *table, struct function *function, uint32_t within, uint32_t line, int64_t ns, int64_t n) {
    struct line *found = function->lines;
    int known = 0;
    for (; found && !(found->line == line && found->within == within); found = found->next)
        known++;
    if (!found) {
        found = known < MOST_LINES ? arena_take(table, sizeof *found) : NULL;
        if (!found)
            return;
        found->called = function->number;
        found->within = within;
        found->line = line;
        found->next = function->lines;
        function->lines = found;
        atomic_store_explicit(&found->kind, ENTRY_LINE, memory_order_release);
    }
    found->ns += ns;
    found->n += n;
}
