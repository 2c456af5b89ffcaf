/*
 * Reads marshalled dumps of cProfile, pstats and yappi:
 * { (file, line, name): (cc, nc, tt, ct, {caller: (nc, cc, tt, ct)}) }.
 * Any other form is IRREGULAR and left to profkit/formats/pstats_objects.py. A test and the fuzzer compare the results.
 *
 * The input is hostile: `has` must confirm bytes before they are read, nothing is allocated for a size that is only
 * claimed, and every index is checked against its table. Memory is proportional to the bytes read.
 */
#include "reader.h"

#include <stdlib.h>
#include <string.h>

/* Longest text that is accepted as a name, bytes. */
enum { LONGEST_TEXT = 4096 };
enum { FLAG_REF = 0x80, CODE = 0x7F };

/* An object that the file may refer to: place of a number's bytes, or index of a text or key. */
enum kind { OTHER, INTEGER, FLOAT, TEXT, KEY };
struct object {
    enum kind kind;
    uint32_t value;
};

struct reader {
    const uint8_t *data;
    size_t size, at;
    int edges;
    enum outcome outcome; /* why reading ended early */
    struct list objects;
    struct dump *dump;
};

static int irregular(struct reader *reader) {
    reader->outcome = IRREGULAR;
    return 0;
}

/* Check that `count` bytes are left. */
static int has(struct reader *reader, size_t count) {
    return reader->size - reader->at >= count || irregular(reader);
}

/* Return room for one more item, NULL without memory. Lists grow with what was read, not with what a file claims. */
static void *append(struct reader *reader, struct list *list, size_t item) {
    if (list->count == list->room) {
        const size_t room = list->room ? list->room + list->room / 2 : 512;
        void *const items = room <= SIZE_MAX / item ? realloc(list->items, room * item) : NULL;
        if (items == NULL) {
            reader->outcome = NO_MEMORY;
            return NULL;
        }
        list->items = items;
        list->room = room;
    }
    return (char *)list->items + list->count++ * item;
}

static uint32_t word(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t wide_word(const uint8_t *at) { return (uint64_t)word(at) | (uint64_t)word(at + 4) << 32; }

static int32_t integer(const uint8_t *at) {
    const uint32_t bits = word(at);
    int32_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double real(const uint8_t *at) {
    const uint64_t bits = wide_word(at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Number an object that the file may refer to later. */
static int keep(struct reader *reader, uint8_t code, enum kind kind, uint32_t value) {
    if (!(code & FLAG_REF))
        return 1;
    struct object *const object = append(reader, &reader->objects, sizeof *object);
    if (object == NULL)
        return 0;
    *object = (struct object){kind, value};
    return 1;
}

/* Read the rest of a reference: the kind and value of its object. */
static int referred(struct reader *reader, enum kind *kind, uint32_t *value) {
    if (!has(reader, 4))
        return 0;
    const uint32_t number = word(reader->data + reader->at);
    reader->at += 4;
    if (number >= reader->objects.count)
        return irregular(reader);
    const struct object *const object = (const struct object *)reader->objects.items + number;
    *kind = object->kind;
    *value = object->value;
    return 1;
}

static int code_of(struct reader *reader, uint8_t *code) {
    if (!has(reader, 1))
        return 0;
    *code = reader->data[reader->at++];
    return 1;
}

/* Read a number; `place` is where its bytes are. */
static int number(struct reader *reader, enum kind *kind, uint32_t *place) {
    uint8_t code;
    if (!code_of(reader, &code))
        return 0;
    if (code == 'r')
        return referred(reader, kind, place) && (*kind == INTEGER || *kind == FLOAT || irregular(reader));
    size_t width;
    if ((code & CODE) == 'i')
        *kind = INTEGER, width = 4;
    else if ((code & CODE) == 'g')
        *kind = FLOAT, width = 8;
    else
        return irregular(reader);
    if (!has(reader, width))
        return 0;
    *place = (uint32_t)reader->at;
    reader->at += width;
    return keep(reader, code, *kind, *place);
}

static int count(struct reader *reader, int32_t *value, int wanted) {
    enum kind kind;
    uint32_t place;
    if (!number(reader, &kind, &place))
        return 0;
    if (kind != INTEGER)
        return !wanted || irregular(reader);
    *value = integer(reader->data + place);
    return 1;
}

static int seconds(struct reader *reader, double *value, int wanted) {
    enum kind kind;
    uint32_t place;
    if (!number(reader, &kind, &place))
        return 0;
    if (kind == INTEGER) {
        *value = integer(reader->data + place);
        return 1;
    }
    *value = real(reader->data + place);
    /* isfinite() is always true under -ffast-math. */
    return (wide_word(reader->data + place) >> 52 & 0x7FF) != 0x7FF || !wanted || irregular(reader);
}

/* Read two counts and two times; unless `wanted`, their values are not checked. */
static int cost(struct reader *reader, struct row *row, int wanted) {
    return count(reader, &row->first, wanted) && count(reader, &row->second, wanted) &&
           seconds(reader, &row->tottime, wanted) && seconds(reader, &row->cumtime, wanted);
}

static int text(struct reader *reader, uint32_t *place) {
    uint8_t code;
    if (!code_of(reader, &code))
        return 0;
    enum kind kind;
    if (code == 'r')
        return referred(reader, &kind, place) && (kind == TEXT || irregular(reader));
    uint32_t length;
    uint8_t latin = 0;
    switch (code & CODE) {
    case 'z':
    case 'Z':
        latin = 1;
        if (!has(reader, 1))
            return 0;
        length = reader->data[reader->at++];
        break;
    case 'a':
    case 'A':
        latin = 1; /* fall through */
    case 'u':
    case 't':
    case 's':
        if (!has(reader, 4))
            return 0;
        length = word(reader->data + reader->at);
        reader->at += 4;
        if (length > LONGEST_TEXT)
            return irregular(reader);
        break;
    default:
        return irregular(reader);
    }
    if (!has(reader, length))
        return 0;
    *place = (uint32_t)reader->dump->texts.count;
    struct text *const raw = append(reader, &reader->dump->texts, sizeof *raw);
    if (raw == NULL)
        return 0;
    *raw = (struct text){(uint32_t)reader->at, length, latin};
    reader->at += length;
    return keep(reader, code, TEXT, *place);
}

/* Read the head of a tuple of the wanted size, after its code. */
static int tuple(struct reader *reader, uint8_t code, uint32_t wanted) {
    const size_t width = (code & CODE) == ')' ? 1 : 4;
    if ((code & CODE) != ')' && (code & CODE) != '(')
        return irregular(reader);
    if (!has(reader, width))
        return 0;
    const uint32_t size = width == 1 ? reader->data[reader->at] : word(reader->data + reader->at);
    reader->at += width;
    if (size != wanted)
        return irregular(reader);
    return keep(reader, code, OTHER, 0);
}

/* Read a key or a reference to one, after its code; `place` is its index in `keys`. */
static int key(struct reader *reader, uint8_t code, uint32_t *place) {
    enum kind kind;
    if (code == 'r')
        return referred(reader, &kind, place) && (kind == KEY || irregular(reader));
    /* A container is numbered before its contents, and becomes a key once complete. */
    const size_t own = reader->objects.count;
    if (!tuple(reader, code, 3))
        return 0;
    struct key read;
    if (!text(reader, &read.file) || !count(reader, &read.line, 1) || !text(reader, &read.name))
        return 0;
    *place = (uint32_t)reader->dump->keys.count;
    struct key *const raw = append(reader, &reader->dump->keys, sizeof *raw);
    if (raw == NULL)
        return 0;
    *raw = read;
    if (code & FLAG_REF)
        ((struct object *)reader->objects.items)[own] = (struct object){KEY, *place};
    return 1;
}

/* Read the rest of a row after its key: a tuple of `size` objects that begins with costs. Keep it if `wanted`. */
static int rest_of(struct reader *reader, struct row *row, uint32_t size, int wanted) {
    uint8_t code;
    if (!code_of(reader, &code) || !tuple(reader, code, size) || !cost(reader, row, wanted))
        return 0;
    if (!wanted)
        return 1;
    struct row *const raw = append(reader, &reader->dump->rows, sizeof *raw);
    if (raw != NULL)
        *raw = *row;
    return raw != NULL;
}

/* Read a dictionary: the callers of the entry `callee`, or for -1 the entries, each followed by its callers. */
static int rows(struct reader *reader, int32_t callee) {
    const int is_entry = callee == -1;
    uint8_t code;
    if (!code_of(reader, &code))
        return 0;
    if ((code & CODE) != '{')
        return irregular(reader);
    if (!keep(reader, code, OTHER, 0))
        return 0;
    for (int32_t number = 0;; number++) {
        struct row row = {.callee = callee};
        if (!code_of(reader, &code))
            return 0;
        if (code == '0')
            return 1;
        if (!key(reader, code, &row.key) || !rest_of(reader, &row, is_entry ? 5 : 4, is_entry || reader->edges))
            return 0;
        if (is_entry && !rows(reader, number))
            return 0;
    }
}

enum outcome read_dump(const uint8_t *data, size_t size, int edges, struct dump *dump) {
    memset(dump, 0, sizeof *dump);
    if (size > INT32_MAX) /* places have 32 bits, as do rows in Python */
        return IRREGULAR;
    struct reader reader = {.data = data, .size = size, .edges = edges, .outcome = READ, .dump = dump};
    if (rows(&reader, -1) && reader.at < size)
        irregular(&reader);
    free(reader.objects.items);
    if (reader.outcome != READ)
        free_dump(dump);
    return reader.outcome;
}

void free_dump(struct dump *dump) {
    free(dump->texts.items);
    free(dump->keys.items);
    free(dump->rows.items);
    memset(dump, 0, sizeof *dump);
}
