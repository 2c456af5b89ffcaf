/* Names: strings by content, whose numbers stay the same in forked children, and definitions of domains, categories
 * and threads. Looking up a known string takes no lock. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "names.h"

/* Most strings kept. Beyond this, as with step numbers in names, numbers in new names are replaced; the reserve is
 * for really new ones. */
enum { MOST_NAMES = 1 << 16, RESERVED_NAMES = 1 << 12, FIRST_SLOTS = 1 << 10 };

enum { MOST_DEFINITIONS = 1 << 14, MOST_DOMAINS = 1 << 12 };

struct table {
    struct table *outgrown; /* stays, as threads may read it; all together are as large as the last */
    size_t mask;
    _Atomic(struct name *) slots[];
};

struct pending {
    struct pending *next;
    enum definition_kind kind;
    uint32_t id, extra;
    size_t bytes;
    char text[];
};

static _Atomic(struct table *) names;
static uint32_t name_count;
static _Atomic bool names_full;
static _Atomic uint64_t retry_define_ns;
static struct pending *definitions, **last_definition = &definitions; /* oldest first */
static unsigned definition_count;
static struct domain domains[MOST_DOMAINS];
static uint16_t domain_count;
static const char too_many[] = "(more names than are kept)";

static uint64_t hash_of(const char *text, size_t bytes)
{
    uint64_t hash = bytes * 0x9E3779B97F4A7C15u;
    while (bytes > 0) {
        uint64_t word = 0;
        size_t part = bytes < 8 ? bytes : 8;
        memcpy(&word, text, part);
        hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
        text += part;
        bytes -= part;
    }
    return hash;
}

static struct name *find(struct table *table, uint64_t hash, const char *text, size_t bytes)
{
    if (table == NULL)
        return NULL;
    for (size_t i = hash & table->mask;; i = (i + 1) & table->mask) {
        struct name *name = atomic_load_explicit(&table->slots[i], memory_order_acquire);
        if (name == NULL)
            return NULL;
        if (name->hash == hash && name->bytes == bytes && memcmp(name->text, text, bytes) == 0)
            return name;
    }
}

static void put(struct table *table, struct name *name)
{
    size_t i = name->hash & table->mask;
    while (atomic_load_explicit(&table->slots[i], memory_order_relaxed) != NULL)
        i = (i + 1) & table->mask;
    atomic_store_explicit(&table->slots[i], name, memory_order_release);
}

/* Return the table with room for one more; NULL without memory. */
static struct table *roomy_table(void)
{
    struct table *table = atomic_load_explicit(&names, memory_order_relaxed);
    if (table != NULL && name_count < table->mask - table->mask / 4)
        return table;
    size_t slots = table == NULL ? FIRST_SLOTS : 2 * (table->mask + 1);
    struct table *larger = calloc(1, sizeof *larger + slots * sizeof larger->slots[0]);
    if (larger == NULL)
        return NULL;
    larger->outgrown = table;
    larger->mask = slots - 1;
    for (size_t i = 0; table != NULL && i <= table->mask; i++) {
        struct name *name = atomic_load_explicit(&table->slots[i], memory_order_relaxed);
        if (name != NULL)
            put(larger, name);
    }
    atomic_store_explicit(&names, larger, memory_order_release);
    return larger;
}

/* Find or add a name, with the lock held. */
static struct name *add(uint64_t hash, const char *text, size_t bytes, uint32_t most)
{
    struct name *name = find(atomic_load(&names), hash, text, bytes);
    if (name != NULL || name_count >= most)
        return name;
    struct table *table = roomy_table();
    name = table == NULL ? NULL : malloc(sizeof *name + bytes);
    if (name == NULL)
        return NULL;
    name->hash = hash;
    name->id = ++name_count;
    name->bytes = (uint32_t)bytes;
    atomic_init(&name->generation, 0);
    atomic_init(&name->pattern, NULL);
    memcpy(name->text, text, bytes);
    put(table, name);
    if (name_count >= MOST_NAMES)
        atomic_store(&names_full, true);
    return name;
}

static struct name *intern_within(const char *text, size_t bytes, uint32_t most)
{
    uint64_t hash = hash_of(text, bytes);
    struct name *name = find(atomic_load_explicit(&names, memory_order_acquire), hash, text, bytes);
    if (name != NULL || (most <= MOST_NAMES && atomic_load(&names_full)))
        return name;
    pthread_mutex_lock(&collector_lock);
    name = add(hash, text, bytes, most);
    pthread_mutex_unlock(&collector_lock);
    return name;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/* Whether a character continues a word; those beyond ASCII do. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* Return the end of the number at `i`, or `i` if there is none: an address, or digits with an optional fraction, not
 * followed by a letter. `pattern_of` in profkit/measure/range_stats.py finds the same. */
static size_t end_of_number(const char *text, size_t bytes, size_t i)
{
    size_t end = i + 2;
    if (i > 0 && is_digit(text[i - 1]))
        return i; /* inside a number that a letter follows */
    if (i + 2 < bytes && text[i] == '0' && text[i + 1] == 'x' && is_hex(text[i + 2])) {
        while (end < bytes && is_hex(text[end]))
            end++;
        if (end == bytes || !(is_word(text[end]) || is_digit(text[end])))
            return end;
    }
    for (end = i; end < bytes && is_digit(text[end]);)
        end++;
    if (end + 1 < bytes && text[end] == '.' && is_digit(text[end + 1])) {
        size_t fraction = end + 1;
        while (fraction < bytes && is_digit(text[fraction]))
            fraction++;
        return fraction < bytes && is_word(text[fraction]) ? end : fraction;
    }
    return end < bytes && is_word(text[end]) ? i : end;
}

/* Replace the numbers in a text by `{n}`, as in reports; return the bytes, 0 without room. */
static size_t without_numbers(const char *text, size_t bytes, char pattern[MOST_TEXT])
{
    size_t used = 0;
    for (size_t i = 0; i < bytes;) {
        if (used + 3 > MOST_TEXT)
            return 0;
        size_t end = is_digit(text[i]) ? end_of_number(text, bytes, i) : i;
        if (end > i) {
            memcpy(pattern + used, "{n}", 3);
            used += 3;
            i = end;
        } else {
            pattern[used++] = text[i++];
        }
    }
    return used;
}

/* Not inlined, to keep its frame off the hot path. */
__attribute__((noinline)) static struct name *intern_folded(const char *text, size_t bytes)
{
    char folded[MOST_TEXT];
    size_t used = without_numbers(text, bytes, folded);
    files_count_folded();
    struct name *name = used > 0 ? intern_within(folded, used, MOST_NAMES + RESERVED_NAMES - 1) : NULL;
    return name != NULL ? name : intern_within(too_many, sizeof too_many - 1, MOST_NAMES + RESERVED_NAMES);
}

static struct name *intern(const char *text, size_t bytes)
{
    struct name *name = intern_within(text, bytes, MOST_NAMES);
    return name != NULL ? name : intern_folded(text, bytes);
}

/* Return a text's length, truncated at the start of a UTF-8 character. */
static size_t length_of(const char *text)
{
    size_t bytes = strnlen(text, MOST_TEXT + 1);
    if (bytes <= MOST_TEXT)
        return bytes;
    bytes = MOST_TEXT;
    while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80)
        bytes--;
    return bytes;
}

struct name *names_intern(const char *text)
{
    return text == NULL ? NULL : intern(text, length_of(text));
}

__attribute__((noinline)) struct name *names_intern_wide(const wchar_t *text)
{
    if (text == NULL)
        return NULL;
    char narrow[MOST_TEXT + 1];
    return intern(narrow, names_narrow(text, narrow, sizeof narrow));
}

/* Write a wide text as UTF-8 with a NUL, whatever the locale; return its bytes. */
size_t names_narrow(const wchar_t *wide, char *text, size_t room)
{
    static const uint8_t heads[] = {0, 0xC0, 0xE0, 0xF0}; /* by the bytes that follow */
    size_t used = 0;
    for (; *wide != 0 && used + 5 <= room; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
            c = 0xFFFD;
        unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        text[used++] = (char)(heads[more] | c >> (6 * more));
        while (more-- > 0)
            text[used++] = (char)(0x80 | (c >> (6 * more) & 0x3F));
    }
    text[used] = '\0';
    return used;
}

/* Open the files unless they are, with the lock held. Definitions made before are written, oldest first, as the last
 * name wins. */
bool names_open_files(void)
{
    if (files_are_open())
        return true;
    if (!files_open())
        return false;
    for (const struct pending *known = definitions; known != NULL; known = known->next)
        files_define(known->kind, known->id, known->extra, known->text, known->bytes);
    return true;
}

/* Return a string's number for a record, after writing its definition. */
uint32_t names_use(struct name *name)
{
    if (name == NULL)
        return 0;
    if (atomic_load_explicit(&name->generation, memory_order_acquire) == collector_generation)
        return name->id;
    uint64_t now = now_ns();
    if (now < atomic_load(&retry_define_ns))
        return name->id;
    pthread_mutex_lock(&collector_lock);
    if (atomic_load(&name->generation) != collector_generation) {
        if (names_open_files() && files_define(DEFINITION_STRING, name->id, 0, name->text, name->bytes))
            atomic_store_explicit(&name->generation, collector_generation, memory_order_release);
        else
            atomic_store(&retry_define_ns, now + RETRY_NS);
    }
    pthread_mutex_unlock(&collector_lock);
    return name->id;
}

__attribute__((noinline)) static struct name *make_pattern(struct name *name)
{
    char text[MOST_TEXT];
    size_t used = without_numbers(name->text, name->bytes, text);
    if (used == 0 || (used == name->bytes && memcmp(text, name->text, used) == 0))
        return name; /* without room, too: the reader folds it */
    struct name *pattern = intern_within(text, used, MOST_NAMES + RESERVED_NAMES - 1);
    return pattern != NULL ? pattern : name;
}

/* Return the name with its numbers replaced, shared by ranges that differ only in numbers. */
struct name *names_pattern(struct name *name)
{
    if (name == NULL)
        return NULL;
    struct name *pattern = atomic_load_explicit(&name->pattern, memory_order_acquire);
    if (pattern == NULL) {
        pattern = make_pattern(name);
        atomic_store_explicit(&name->pattern, pattern, memory_order_release);
    }
    return pattern;
}

/* Remember a definition, with the lock held, and write it if there are files. */
static struct pending *define(enum definition_kind kind, uint32_t id, uint32_t extra, const char *text)
{
    size_t bytes = length_of(text);
    struct pending *fresh = NULL, *newest = NULL;
    for (struct pending *known = definitions; known != NULL; known = known->next)
        if (known->kind == kind && known->id == id && known->extra == extra)
            newest = known;
    if (newest != NULL && newest->bytes == bytes && memcmp(newest->text, text, bytes) == 0)
        return newest; /* else renamed */
    if (definition_count < MOST_DEFINITIONS)
        fresh = malloc(sizeof *fresh + bytes);
    if (fresh == NULL)
        return NULL;
    *fresh = (struct pending){.kind = kind, .id = id, .extra = extra, .bytes = bytes};
    memcpy(fresh->text, text, bytes);
    *last_definition = fresh;
    last_definition = &fresh->next;
    definition_count++;
    files_define(kind, id, extra, text, bytes);
    return fresh;
}

void names_define(enum definition_kind kind, uint32_t id, uint32_t extra, const char *text)
{
    if (text == NULL)
        return;
    pthread_mutex_lock(&collector_lock);
    define(kind, id, extra, text);
    if (kind == DEFINITION_THREAD) /* worth files: reports name threads without ranges, too */
        names_open_files();
    pthread_mutex_unlock(&collector_lock);
}

/* Return the domain of a name, always the same one; NULL (the default one) without room. */
struct domain *names_domain(const char *text)
{
    struct domain *found = NULL;
    size_t bytes = length_of(text);
    pthread_mutex_lock(&collector_lock);
    for (struct pending *known = definitions; known != NULL && found == NULL; known = known->next)
        if (known->kind == DEFINITION_DOMAIN && known->bytes == bytes && memcmp(known->text, text, bytes) == 0)
            found = &domains[known->id - 1];
    if (found == NULL && domain_count < MOST_DOMAINS) {
        uint16_t id = (uint16_t)(domain_count + 1);
        if (define(DEFINITION_DOMAIN, id, 0, text) != NULL) {
            found = &domains[domain_count++];
            found->id = id;
        }
    }
    pthread_mutex_unlock(&collector_lock);
    return found;
}
