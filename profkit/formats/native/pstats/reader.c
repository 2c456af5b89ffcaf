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
/* After so many steps in a hash table, the file is assumed to collide on purpose. */
enum { MOST_PROBES = 4096 };
enum { FLAG_REF = 0x80, CODE = 0x7F };

/* An object that the file may refer to: place of a number's bytes, or index of a text or key. */
enum kind { OTHER, INTEGER, FLOAT, TEXT, KEY };
struct object {
    enum kind kind;
    uint32_t value;
};

/* A key of the file; `file` and `name` are indices into `texts`. */
struct raw_key {
    uint32_t file, name;
    int32_t line;
    uint8_t used;
};

struct raw_text {
    struct text text;
    uint8_t used;
    uint32_t number;
};

struct raw_edge {
    uint32_t key, callee;
    struct cost cost;
};

struct raw_entry {
    uint32_t key;
    struct cost cost;
};

struct list {
    void *items;
    size_t count, room;
};

struct reader {
    const uint8_t *data;
    size_t size, at;
    int edges;
    enum outcome outcome; /* why reading ended early */
    struct list objects, texts, keys, entries, links;
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
    object->kind = kind;
    object->value = value;
    return 1;
}

/* Read the rest of a reference. */
static const struct object *referred(struct reader *reader) {
    if (!has(reader, 4))
        return NULL;
    const uint32_t number = word(reader->data + reader->at);
    reader->at += 4;
    if (number >= reader->objects.count) {
        irregular(reader);
        return NULL;
    }
    return (const struct object *)reader->objects.items + number;
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
    if (code == 'r') {
        const struct object *const object = referred(reader);
        if (object == NULL)
            return 0;
        if (object->kind != INTEGER && object->kind != FLOAT)
            return irregular(reader);
        *kind = object->kind;
        *place = object->value;
        return 1;
    }
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
    const uint64_t exponent = wide_word(reader->data + place) >> 52 & 0x7FF;
    if (exponent == 0x7FF) /* infinite or NaN */
        return !wanted || irregular(reader);
    *value = real(reader->data + place);
    return 1;
}

/* Read two counts and two times; unless `wanted`, their values are not checked. */
static int cost(struct reader *reader, struct cost *cost, int wanted) {
    return count(reader, &cost->first, wanted) && count(reader, &cost->second, wanted) &&
           seconds(reader, &cost->tottime, wanted) && seconds(reader, &cost->cumtime, wanted);
}

static int text(struct reader *reader, uint32_t *place) {
    uint8_t code;
    if (!code_of(reader, &code))
        return 0;
    uint32_t length;
    uint8_t latin = 0;
    switch (code & CODE) {
    case 'r': {
        const struct object *const object = code == 'r' ? referred(reader) : NULL;
        if (object == NULL || object->kind != TEXT)
            return reader->outcome == READ ? irregular(reader) : 0;
        *place = object->value;
        return 1;
    }
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
    *place = (uint32_t)reader->texts.count;
    struct raw_text *const raw = append(reader, &reader->texts, sizeof *raw);
    if (raw == NULL)
        return 0;
    raw->text = (struct text){(uint32_t)reader->at, length, latin, 1};
    raw->used = 0;
    raw->number = 0;
    reader->at += length;
    return keep(reader, code, TEXT, *place);
}

/* Read the size of a tuple after its code. */
static int tuple(struct reader *reader, uint8_t code, uint32_t *size) {
    const size_t width = (code & CODE) == ')' ? 1 : 4;
    if ((code & CODE) != ')' && (code & CODE) != '(')
        return irregular(reader);
    if (!has(reader, width))
        return 0;
    *size = width == 1 ? reader->data[reader->at] : word(reader->data + reader->at);
    reader->at += width;
    return 1;
}

/* Read a key or a reference to one, after its code; `place` is its index in `keys`. */
static int key(struct reader *reader, uint8_t code, uint32_t *place) {
    if (code == 'r') {
        const struct object *const object = referred(reader);
        if (object == NULL)
            return 0;
        if (object->kind != KEY)
            return irregular(reader);
        *place = object->value;
        return 1;
    }
    uint32_t size;
    if (!tuple(reader, code, &size))
        return 0;
    if (size != 3)
        return irregular(reader);
    /* A container is numbered before its contents, and becomes a key once complete. */
    const size_t own = reader->objects.count;
    if (!keep(reader, code, OTHER, 0))
        return 0;
    struct raw_key read = {0, 0, 0, 0};
    if (!text(reader, &read.file) || !count(reader, &read.line, 1) || !text(reader, &read.name))
        return 0;
    *place = (uint32_t)reader->keys.count;
    struct raw_key *const raw = append(reader, &reader->keys, sizeof *raw);
    if (raw == NULL)
        return 0;
    *raw = read;
    if (code & FLAG_REF)
        ((struct object *)reader->objects.items)[own] = (struct object){KEY, *place};
    return 1;
}

/* Read the head of a tuple of the wanted size. */
static int value_of(struct reader *reader, uint32_t wanted) {
    uint8_t code;
    uint32_t size;
    if (!code_of(reader, &code) || !tuple(reader, code, &size))
        return 0;
    if (size != wanted)
        return irregular(reader);
    return keep(reader, code, OTHER, 0);
}

static int open_pairs(struct reader *reader) {
    uint8_t code;
    if (!code_of(reader, &code))
        return 0;
    if ((code & CODE) != '{')
        return irregular(reader);
    return keep(reader, code, OTHER, 0);
}

static int callers(struct reader *reader, uint32_t callee) {
    if (!open_pairs(reader))
        return 0;
    for (;;) {
        uint8_t code;
        struct raw_edge edge = {0, callee, {0, 0, 0.0, 0.0}};
        if (!code_of(reader, &code))
            return 0;
        if (code == '0')
            return 1;
        if (!key(reader, code, &edge.key) || !value_of(reader, 4) || !cost(reader, &edge.cost, reader->edges))
            return 0;
        if (reader->edges) {
            struct raw_edge *const raw = append(reader, &reader->links, sizeof *raw);
            if (raw == NULL)
                return 0;
            *raw = edge;
        }
    }
}

static int entries(struct reader *reader) {
    if (!open_pairs(reader))
        return 0;
    for (;;) {
        uint8_t code;
        struct raw_entry entry = {0, {0, 0, 0.0, 0.0}};
        if (!code_of(reader, &code))
            return 0;
        if (code == '0')
            return reader->at == reader->size || irregular(reader);
        if (!key(reader, code, &entry.key) || !value_of(reader, 5) || !cost(reader, &entry.cost, 1))
            return 0;
        const uint32_t row = (uint32_t)reader->entries.count;
        struct raw_entry *const raw = append(reader, &reader->entries, sizeof *raw);
        if (raw == NULL)
            return 0;
        *raw = entry;
        if (!callers(reader, row))
            return 0;
    }
}

/* A hash table of numbers; 0 is a free slot. */
struct table {
    uint32_t *slots;
    size_t mask;
};

static int make_table(struct table *table, size_t most) {
    size_t slots = 16;
    while (slots < 2 * most)
        slots *= 2;
    table->slots = calloc(slots, sizeof *table->slots);
    table->mask = slots - 1;
    return table->slots != NULL;
}

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Hash a text and set its `ascii`. */
static uint64_t hash_of(const uint8_t *bytes, struct text *text, uint64_t seed) {
    uint64_t hash = mixed(seed, text->length), seen = 0;
    size_t left = text->length;
    for (; left >= 8; left -= 8, bytes += 8) {
        uint64_t part;
        memcpy(&part, bytes, 8);
        seen |= part;
        hash = mixed(hash, part);
    }
    uint64_t part = 0;
    memcpy(&part, bytes, left);
    seen |= part;
    text->ascii = !(seen & UINT64_C(0x8080808080808080));
    return mixed(mixed(hash, part), 0);
}

/* Number the used texts in file order, equal ones alike; the empty text is 0. */
static int number_texts(struct reader *reader, uint64_t seed, struct dump *dump) {
    struct raw_text *const texts = reader->texts.items;
    const size_t all = reader->texts.count;
    struct table table;
    dump->texts = malloc((all ? all : 1) * sizeof *dump->texts);
    if (dump->texts == NULL || !make_table(&table, all)) {
        reader->outcome = NO_MEMORY;
        return 0;
    }
    for (size_t i = 0; i < all; i++) {
        if (!texts[i].used || texts[i].text.length == 0)
            continue;
        struct text *const own = &texts[i].text;
        const uint8_t *const bytes = reader->data + own->at;
        size_t slot = (size_t)(hash_of(bytes, own, seed) >> 7) & table.mask;
        size_t probes = 0;
        for (;; slot = (slot + 1) & table.mask) {
            const uint32_t number = table.slots[slot];
            if (number == 0) {
                dump->texts[dump->text_count++] = *own;
                table.slots[slot] = texts[i].number = (uint32_t)dump->text_count;
                break;
            }
            const struct text *const other = dump->texts + number - 1;
            if (other->length == own->length && (own->ascii || other->latin == own->latin) &&
                memcmp(reader->data + other->at, bytes, own->length) == 0) {
                texts[i].number = number;
                break;
            }
            if (++probes > MOST_PROBES) {
                free(table.slots);
                return irregular(reader);
            }
        }
    }
    free(table.slots);
    return 1;
}

/* Set the row of each used key: `rows` is by index in `keys`. */
static int number_rows(struct reader *reader, uint64_t seed, struct dump *dump, uint32_t *rows) {
    const struct raw_text *const texts = reader->texts.items;
    const struct raw_key *const keys = reader->keys.items;
    const struct raw_entry *const entries = reader->entries.items;
    const struct raw_edge *const links = reader->links.items;
    struct table table;
    if (!make_table(&table, reader->keys.count)) {
        reader->outcome = NO_MEMORY;
        return 0;
    }
    const size_t own = reader->entries.count, all = own + reader->links.count;
    for (size_t i = 0; i < all; i++) {
        const uint32_t place = i < own ? entries[i].key : links[i - own].key;
        if (i >= own && rows[place] != UINT32_MAX)
            continue;
        const struct raw_key *const raw = keys + place;
        const struct function function = {texts[raw->file].number, texts[raw->name].number, raw->line};
        const uint64_t hash =
            mixed(mixed(seed, (uint64_t)function.file << 32 | function.name), (uint32_t)function.line);
        size_t slot = (size_t)(mixed(hash, 0) >> 7) & table.mask;
        size_t probes = 0;
        uint32_t found = 0;
        for (; (found = table.slots[slot]) != 0; slot = (slot + 1) & table.mask) {
            const struct function *const other = dump->functions + found - 1;
            if (other->file == function.file && other->name == function.name && other->line == function.line)
                break;
            if (++probes > MOST_PROBES) {
                free(table.slots);
                return irregular(reader);
            }
        }
        if (found != 0 && i < own) { /* a dictionary has no key twice */
            free(table.slots);
            return irregular(reader);
        }
        if (found == 0) {
            const size_t row = dump->rows + dump->extra;
            dump->functions[row] = function;
            table.slots[slot] = found = (uint32_t)row + 1;
            if (i < own)
                dump->rows++;
            else
                dump->extra++;
        }
        rows[place] = found - 1;
    }
    free(table.slots);
    return 1;
}

static int gathered(struct reader *reader, uint64_t seed, struct dump *dump) {
    struct raw_text *const texts = reader->texts.items;
    struct raw_key *const keys = reader->keys.items;
    const struct raw_entry *const entries = reader->entries.items;
    const struct raw_edge *const links = reader->links.items;
    const size_t own = reader->entries.count, edges = reader->links.count, all = reader->keys.count;
    for (size_t i = 0; i < own; i++)
        keys[entries[i].key].used = 1;
    for (size_t i = 0; i < edges; i++)
        keys[links[i].key].used = 1;
    for (size_t i = 0; i < all; i++)
        if (keys[i].used)
            texts[keys[i].file].used = texts[keys[i].name].used = 1;
    uint32_t *const rows = malloc((all ? all : 1) * sizeof *rows);
    /* Every row has a key, so there are no more rows than keys. */
    dump->functions = malloc((all ? all : 1) * sizeof *dump->functions);
    dump->caller = malloc((edges ? edges : 1) * sizeof *dump->caller);
    dump->callee = malloc((edges ? edges : 1) * sizeof *dump->callee);
    dump->edge_costs = malloc((edges ? edges : 1) * sizeof *dump->edge_costs);
    int done = rows != NULL && dump->functions != NULL && dump->caller != NULL && dump->callee != NULL &&
               dump->edge_costs != NULL;
    if (!done)
        reader->outcome = NO_MEMORY;
    else {
        memset(rows, 0xFF, all * sizeof *rows);
        done = number_texts(reader, seed, dump) && number_rows(reader, seed, dump, rows);
    }
    if (done && (dump->costs = calloc(dump->rows + dump->extra + 1, sizeof *dump->costs)) == NULL) {
        reader->outcome = NO_MEMORY;
        done = 0;
    }
    if (done) {
        for (size_t i = 0; i < own; i++)
            dump->costs[i] = entries[i].cost;
        for (size_t i = 0; i < edges; i++) {
            dump->caller[i] = rows[links[i].key];
            dump->callee[i] = links[i].callee;
            dump->edge_costs[i] = links[i].cost;
        }
        dump->edges = edges;
    }
    free(rows);
    return done;
}

enum outcome read_dump(const uint8_t *data, size_t size, int edges, uint64_t seed, struct dump *dump) {
    memset(dump, 0, sizeof *dump);
    if (size > INT32_MAX) /* places have 32 bits, as do rows in Python */
        return IRREGULAR;
    struct reader reader = {.data = data, .size = size, .edges = edges, .outcome = READ};
    if (entries(&reader))
        gathered(&reader, seed, dump);
    free(reader.objects.items);
    free(reader.texts.items);
    free(reader.keys.items);
    free(reader.entries.items);
    free(reader.links.items);
    if (reader.outcome != READ)
        free_dump(dump);
    return reader.outcome;
}

void free_dump(struct dump *dump) {
    free(dump->texts);
    free(dump->functions);
    free(dump->costs);
    free(dump->caller);
    free(dump->callee);
    free(dump->edge_costs);
    memset(dump, 0, sizeof *dump);
}
