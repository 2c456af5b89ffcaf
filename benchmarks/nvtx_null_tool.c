/*
 * An NVTX tool that throws everything away: with it attached, an NVTX call costs what the caller itself does for a
 * tool. What a collector costs on top is the collector's own.
 */
#include <stddef.h>
#include <stdint.h>

typedef void (*function)(void);

static char domain, string;

static void nothing(void) {}
static int level(void) { return 0; }
static void *a_domain(void) { return &domain; }
static void *a_string(void) { return &string; }
static uint64_t an_id(void) { return 1; }

struct callbacks {
    size_t size;
    int (*table)(int module, function ***table, unsigned *size);
};

static void fill(const struct callbacks *callbacks, int module, const function *functions, unsigned count)
{
    function **table = NULL;
    unsigned size = 0;
    if (!callbacks->table(module, &table, &size))
        return;
    for (unsigned id = 1; id < count && id < size; id++)
        if (functions[id] != NULL && table[id] != NULL)
            *table[id] = functions[id];
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*get)(uint32_t))
{
    static const function core[16] = {[1] = nothing,         [2] = nothing,         [4] = (function)an_id,
                                      [5] = (function)an_id, [7] = nothing,         [8] = (function)level,
                                      [9] = (function)level, [11] = (function)level, [12] = nothing};
    static const function core2[16] = {[1] = nothing,           [2] = (function)an_id,     [3] = nothing,
                                       [4] = (function)level,    [5] = (function)level,     [8] = nothing,
                                       [10] = (function)a_string, [12] = (function)a_domain, [14] = nothing};
    const struct callbacks *callbacks = get(1);
    if (callbacks == NULL)
        return 0;
    fill(callbacks, 1, core, 16);
    fill(callbacks, 5, core2, 16);
    return 1;
}
