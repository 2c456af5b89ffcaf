/* A regular pstats dump as columns, without Python; profkit/formats/pstats_objects.py is the general reader. */
#ifndef PROFKIT_PSTATS_READER_H
#define PROFKIT_PSTATS_READER_H

#include <stddef.h>
#include <stdint.h>

/* A text of the file: its bytes, and whether they are ASCII; otherwise `latin` tells Latin-1 from UTF-8. */
struct text {
    uint32_t at, length;
    uint8_t latin, ascii;
};

/* A function: its line, and numbers of its texts (0: empty, else 1 + index in `texts`). */
struct function {
    uint32_t file, name;
    int32_t line;
};

/* Costs of a row or an edge: two counts in file order, and seconds. */
struct cost {
    int32_t first, second;
    double tottime, cumtime;
};

/* `functions` are `rows` with an entry, then `extra` callers without one, whose `costs` are 0. */
struct dump {
    struct text *texts;
    size_t text_count;
    struct function *functions;
    struct cost *costs;
    size_t rows, extra;
    uint32_t *caller, *callee;
    struct cost *edge_costs;
    size_t edges;
};

enum outcome { READ, IRREGULAR, NO_MEMORY };

/* Read `size` bytes; call `free_dump` only after READ. Without `edges`, callers are checked but not kept. `seed` keeps
   the author of a file from choosing texts that collide in the hash tables. */
enum outcome read_dump(const uint8_t *data, size_t size, int edges, uint64_t seed, struct dump *dump);
void free_dump(struct dump *dump);

#endif
