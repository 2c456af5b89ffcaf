/*
 * The compiled reader of pstats dumps under any bytes: it reads or refuses, looks at no byte outside of them, and what it
 * gives names only what is there. Some beginnings of each input are read too, in memory of their own size.
 *
 * That it reads what the reader in Python reads is the target `pstats`.
 */
#include "reader.c"

#include <math.h>

#include "input.h"

enum { CUTS = 32 };

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count;
    (void)words;
    return 0;
}

static int check(const uint8_t *data, size_t size, int edges, uint64_t seed)
{
    struct dump dump;
    if (read_dump(data, size, edges, seed, &dump) != READ) {
        MUST(dump.texts == NULL && dump.functions == NULL && dump.costs == NULL && dump.edges == 0);
        return 0;
    }
    const size_t rows = dump.rows + dump.extra;
    MUST(edges || (dump.edges == 0 && dump.extra == 0));
    for (size_t i = 0; i < dump.text_count; i++) {
        const struct text *const text = dump.texts + i;
        MUST(text->length > 0 && text->at < size && text->length <= size - text->at);
        for (size_t j = 0; j < i && i < 64; j++)
            MUST(dump.texts[j].length != text->length || dump.texts[j].latin != text->latin ||
                 memcmp(data + dump.texts[j].at, data + text->at, text->length) != 0);
    }
    for (size_t i = 0; i < rows; i++) {
        MUST(dump.functions[i].file <= dump.text_count && dump.functions[i].name <= dump.text_count);
        MUST(isfinite(dump.costs[i].tottime) && isfinite(dump.costs[i].cumtime));
    }
    for (size_t i = 0; i < dump.edges; i++) {
        MUST(dump.caller[i] < rows && dump.callee[i] < dump.rows);
        MUST(i == 0 || dump.callee[i - 1] <= dump.callee[i]);
        MUST(isfinite(dump.edge_costs[i].tottime) && isfinite(dump.edge_costs[i].cumtime));
    }
    free_dump(&dump);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int whole = check(data, size, 1, 1), alone = check(data, size, 0, 2);
    MUST(alone || !whole);
    for (size_t end = size % (1 + size / CUTS); end < size; end += 1 + size / CUTS) {
        uint8_t *const cut = malloc(end + (end == 0));
        if (cut == NULL)
            return 0;
        memcpy(cut, data, end);
        /* What is whole has no beginning that is whole. */
        MUST(!check(cut, end, 1, 3) || !whole);
        check(cut, end, 0, 4);
        free(cut);
    }
    return 0;
}
