/* A regular pstats dump as columns, without Python: what profkit/formats/pstats_objects.py reads one by one. */
#ifndef PROFKIT_PSTATS_READER_H
#define PROFKIT_PSTATS_READER_H

#include <stddef.h>
#include <stdint.h>

/* A text of the file: its bytes, and whether they are Latin-1 and not UTF-8, which matters to none that is ASCII. */
struct text {
    uint32_t at, length;
    uint8_t latin, ascii;
};

/* A function: numbers of its texts (0 for the empty text, else one more than the place in `texts`), and its line. */
struct function {
    uint32_t file, name;
    int32_t line;
};

/* A row, or what one function costs when another calls it: its two counts in the order of the file, and seconds. */
struct cost {
    int32_t first, second;
    double tottime, cumtime;
};

/* `functions` has `rows` that have an entry and then `extra` callers that have none, whose `costs` are 0. */
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

/* Read `size` bytes. Only after READ there is something to free. Without `edges`, callers are checked and not kept. `seed`
   makes the order of hash tables unknown to who wrote the file. */
enum outcome read_dump(const uint8_t *data, size_t size, int edges, uint64_t seed, struct dump *dump);
void free_dump(struct dump *dump);

#endif
