/* A regular pstats dump as lists, without Python; profkit/formats/pstats_objects.py is the general reader. */
#ifndef PROFKIT_PSTATS_READER_H
#define PROFKIT_PSTATS_READER_H

#include <stddef.h>
#include <stdint.h>

/* A text of the file: its bytes, in Latin-1 or UTF-8. */
struct text {
    uint32_t at, length;
    uint8_t latin;
};

/* A function of the file; `file` and `name` are indices into the texts. */
struct key {
    uint32_t file, name;
    int32_t line;
};

/* An entry (`callee` is -1), or a caller of the entry `callee`: two counts in file order, and seconds. */
struct row {
    uint32_t key;
    int32_t callee, first, second;
    double tottime, cumtime;
};

struct list {
    void *items;
    size_t count, room;
};

/* What the file holds, in its order: `texts` and `keys` are as often there as in the file. */
struct dump {
    struct list texts, keys, rows;
};

enum outcome { READ, IRREGULAR, NO_MEMORY };

/* Read `size` bytes; call `free_dump` only after READ. Without `edges`, callers are checked but not kept. */
enum outcome read_dump(const uint8_t *data, size_t size, int edges, struct dump *dump);
void free_dump(struct dump *dump);

#endif
