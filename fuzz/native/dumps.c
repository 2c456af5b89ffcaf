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

static int check(const uint8_t *data, size_t size, int edges)
{
    struct dump dump;
    if (read_dump(data, size, edges, &dump) != READ) {
        MUST(dump.texts.items == NULL && dump.keys.items == NULL && dump.rows.items == NULL);
        return 0;
    }
    const struct text *const texts = dump.texts.items;
    const struct key *const keys = dump.keys.items;
    const struct row *const rows = dump.rows.items;
    int32_t entries = 0;
    for (size_t i = 0; i < dump.texts.count; i++)
        MUST(texts[i].at < size && texts[i].length <= size - texts[i].at);
    for (size_t i = 0; i < dump.keys.count; i++)
        MUST(keys[i].file < dump.texts.count && keys[i].name < dump.texts.count);
    for (size_t i = 0; i < dump.rows.count; i++) {
        entries += rows[i].callee == -1;
        MUST(rows[i].callee == -1 || (edges && rows[i].callee == entries - 1));
        MUST(rows[i].key < dump.keys.count);
        MUST(isfinite(rows[i].tottime) && isfinite(rows[i].cumtime));
    }
    free_dump(&dump);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int whole = check(data, size, 1), alone = check(data, size, 0);
    MUST(alone || !whole);
    for (size_t end = size % (1 + size / CUTS); end < size; end += 1 + size / CUTS) {
        uint8_t *const cut = malloc(end + (end == 0));
        if (cut == NULL)
            return 0;
        memcpy(cut, data, end);
        /* What is whole has no beginning that is whole. */
        MUST(!check(cut, end, 1) || !whole);
        check(cut, end, 0);
        free(cut);
    }
    return 0;
}
