#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "labels.h"
#include "entries.h"
#include "rank_calls.h"
#include "slots.h"
#include "store.h"

#define FIRST_BUCKETS 256
/* Longest text kept, in bytes; nobody reads longer ones. */
#define MOST_TEXT 4000
/* Code that is left uncounted: 16 MiB. */
#define MOST_LEFT ((size_t)1 << 19)
#define NAMES_BLOCK ((size_t)(1 << 14) - sizeof(struct block))

struct name_key {
    struct link link;
    struct name_key *next_of_name;
    const void *key;
    PyObject *code; /* owned; NULL for a C function, whose definition stays */
    struct name *name;
};

struct file {
    struct link link;
    uint32_t id;
    unsigned written;
    size_t bytes;
    char text[];
};

/* Lists of what has the same hash, modulo `n`, a power of two. */
struct buckets {
    struct link **lists;
    size_t n, used;
};

static struct buckets keys, names, files;

/* Code that was left uncounted before it had a name, by address. */
static struct slots left;
static uint32_t last_name, last_file;

/* Flags of code whose calls cannot all be counted: generators and coroutines may be resumed by an exception, whose
 * event cannot be set per function; the interpreter's own code has no events. */
#define NOT_COUNTED (0x20 | 0x80 | 0x200 | 0x2000000)

/* Where names are written; valid for one generation of the store. */
static char *place, *place_end;
static unsigned place_generation;

static uint64_t hash_of_key(const void *key) { return (((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15)) >> 32; }

static uint64_t hash_of(const char *text, size_t bytes) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001B3);
    return hash ^ hash >> 32;
}

static struct link **list_of(const struct buckets *buckets, uint64_t hash) {
    return &buckets->lists[hash & (buckets->n - 1)];
}

static struct link *first_of(const struct buckets *buckets, uint64_t hash) {
    return buckets->lists ? *list_of(buckets, hash) : NULL;
}

static void put(struct buckets *buckets, struct link *link) {
    struct link **list = list_of(buckets, link->hash);
    link->next = *list;
    *list = link;
    buckets->used++;
}

static void drop(struct buckets *buckets, struct link *link) {
    struct link **at = list_of(buckets, link->hash);
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    buckets->used--;
}

/* Make room for one more; false without memory for the first ones. */
static bool make_room(struct buckets *buckets) {
    struct buckets grown = {.n = buckets->lists ? 2 * buckets->n : FIRST_BUCKETS};
    if (buckets->used < buckets->n)
        return true;
    grown.lists = calloc(grown.n, sizeof *grown.lists);
    if (!grown.lists)
        return buckets->lists != NULL;
    for (size_t i = 0; i < buckets->n; i++)
        for (struct link *link = buckets->lists[i], *next; link; link = next) {
            next = link->next;
            put(&grown, link);
        }
    free(buckets->lists);
    *buckets = grown;
    return true;
}

struct name *names_known(const void *key) {
    for (struct link *link = first_of(&keys, hash_of_key(key)); link; link = link->next)
        if (((struct name_key *)link)->key == key)
            return ((struct name_key *)link)->name;
    return NULL;
}

struct text {
    char bytes[3 * (MOST_TEXT + 1) + 16];
    size_t used;
};

/* Add a string and a NUL; only the NUL if it is unavailable. */
static void add_string(struct text *text, PyObject *string) {
    Py_ssize_t size = 0;
    const char *all = text_of(string, &size);
    PyObject *bytes = all || !string ? NULL : PyUnicode_AsEncodedString(string, "utf-8", "surrogatepass");
    if (bytes) {
        all = PyBytes_AsString(bytes);
        size = PyBytes_Size(bytes);
    }
    if (size > MOST_TEXT) {
        size = MOST_TEXT;
        while (size > 0 && ((unsigned char)all[size] & 0xC0) == 0x80)
            size--;
    }
    if (size > 0) {
        memcpy(text->bytes + text->used, all, (size_t)size);
        for (Py_ssize_t i = 0; i < size; i++) /* a code object may have any name */
            if (!text->bytes[text->used + (size_t)i])
                text->bytes[text->used + (size_t)i] = ' ';
    }
    text->used += (size_t)size;
    text->bytes[text->used++] = '\0';
    Py_XDECREF(bytes);
    PyErr_Clear();
}

static void add_attribute(struct text *text, PyObject *code, const char *name) {
    PyObject *value = attribute(code, name); /* no qualified name before 3.11 */
    add_string(text, value && PyUnicode_Check(value) ? value : NULL);
    Py_XDECREF(value);
}

static void add_number(struct text *text, int64_t number) {
    memcpy(text->bytes + text->used, &number, sizeof number);
    text->used += sizeof number;
}

static void describe(struct text *text, PyObject *label) {
    text->used = 0;
    if (PyUnicode_Check(label)) {
        memcpy(text->bytes, "~", 2);
        text->used = 2;
        add_string(text, label);
        text->bytes[text->used++] = '\0';
        add_number(text, 0);
        return;
    }
    add_attribute(text, label, "co_filename");
    add_attribute(text, label, "co_name");
    add_attribute(text, label, "co_qualname");
    add_number(text, attribute_number(label, "co_firstlineno"));
}

/* Whether code with a name's text is its code. Hashes of code are slow, and only lambdas of one line and the like
 * need one. */
static bool is_code_of(struct name *name, PyObject *label) {
    if (name->label == label || name->text[0] == '<' || name->text[0] == '~')
        return true;
    if (!name->has_hash) {
        name->code_hash = PyObject_Hash(name->label);
        name->has_hash = true;
    }
    bool same = name->code_hash == PyObject_Hash(label);
    PyErr_Clear();
    return same;
}

static bool add_key(struct name *name, const void *key, PyObject *object) {
    if (name->n_keys >= MOST_KEYS || !make_room(&keys))
        return false;
    struct name_key *one = malloc(sizeof *one);
    if (!one)
        return false;
    *one = (struct name_key){.link.hash = hash_of_key(key), .next_of_name = name->keys, .key = key, .name = name};
    if (key == (const void *)object) {
        one->code = object;
        Py_IncRef(object);
    }
    put(&keys, &one->link);
    name->keys = one;
    name->n_keys++;
    return true;
}

bool names_of_program(const char *file) {
    return *file != '<' && *file != '~' && !strstr(file, "/site-packages/") && !strstr(file, "/dist-packages/") &&
           !strstr(file, "/lib/python3");
}

static struct name *add_name(const struct text *text, uint64_t hash, PyObject *label) {
    struct name *name = make_room(&names) ? calloc(1, sizeof *name + text->used) : NULL;
    if (!name)
        return NULL;
    Py_IncRef(label);
    name->label = label;
    name->link.hash = hash;
    name->id = ++last_name;
    name->bytes = text->used;
    memcpy(name->text, text->bytes, text->used);
    bool in_c = PyUnicode_Check(label);
    name->passes_on = in_c || label_passes_on(name->text);
    name->of_program = names_of_program(name->text);
    name->uncounted = in_c || (attribute_number(label, "co_flags") & NOT_COUNTED);
    if (!in_c)
        rank_calls_meet(label, name->text, names_each_code);
    put(&names, &name->link);
    return name;
}

static struct name *find_or_add(PyObject *label) {
    static struct text text; /* the GIL is held throughout */
    describe(&text, label);
    uint64_t hash = hash_of(text.bytes, text.used);
    struct name *name = (struct name *)first_of(&names, hash);
    while (name && !(name->link.hash == hash && name->bytes == text.used &&
                     memcmp(name->text, text.bytes, text.used) == 0 && is_code_of(name, label)))
        name = (struct name *)name->link.next;
    return name ? name : add_name(&text, hash, label);
}

static bool was_left(const void *key) { return slots_find(&left, (uintptr_t)key) != NULL; }

bool names_leave_unnamed(const void *code) {
    if (was_left(code))
        return true;
    if (left.used >= MOST_LEFT || !slots_reserve(&left))
        return false;
    slots_put(&left, (uintptr_t)code, &left);
    return true;
}

void names_each_code(void (*visit)(PyObject *code)) {
    for (size_t i = 0; names.lists && i < names.n; i++)
        for (struct link *link = names.lists[i]; link; link = link->next)
            if (!PyUnicode_Check(((struct name *)link)->label))
                visit(((struct name *)link)->label);
}

struct name *names_of(const void *key, PyObject *object, PyObject *self, bool *kept) {
    struct name *name = names_known(key);
    *kept = true;
    if (name)
        return name;
    PyObject *label = label_of(object, self);
    if (!label)
        return NULL;
    name = find_or_add(label);
    if (name) {
        *kept = add_key(name, key, object);
        if (was_left(key))
            names_leave(name);
    }
    Py_DecRef(label);
    return name;
}

static struct name_entry *take_entry(size_t bytes) {
    bytes = (sizeof(struct name_entry) + bytes + 7) & ~(size_t)7;
    if (place_generation != kernel_generation + 1)
        place = place_end = NULL;
    if ((size_t)(place_end - place) < bytes) {
        char *content = store_content(NAMES_BLOCK, BLOCK_NAMES, 0);
        if (!content)
            return NULL;
        place = content;
        place_end = content + store_room(content);
        place_generation = kernel_generation + 1;
    }
    struct name_entry *entry = (struct name_entry *)place;
    place += bytes;
    return entry;
}

static struct name_entry *write_entry(enum name_entry_kind kind, const struct name_entry *like, const char *text) {
    struct name_entry *entry = take_entry(like->bytes);
    if (!entry)
        return NULL;
    *entry = *like;
    memcpy(entry->text, text, like->bytes);
    atomic_store_explicit(&entry->kind, kind, memory_order_release);
    return entry;
}

/* Return a file's number, writing it to the store if new; 0 if impossible. */
static uint32_t file_number(const char *text) {
    size_t bytes = strlen(text);
    uint64_t hash = hash_of(text, bytes);
    struct file *file = (struct file *)first_of(&files, hash);
    while (file && !(file->link.hash == hash && file->bytes == bytes && memcmp(file->text, text, bytes) == 0))
        file = (struct file *)file->link.next;
    if (!file) {
        file = make_room(&files) ? calloc(1, sizeof *file + bytes) : NULL;
        if (!file)
            return 0;
        file->link.hash = hash;
        file->id = ++last_file;
        file->bytes = bytes;
        memcpy(file->text, text, bytes);
        put(&files, &file->link);
    }
    if (file->written != kernel_generation + 1) {
        struct name_entry entry = {.id = file->id, .bytes = (uint32_t)bytes};
        entry.flags = store_is_own(text, bytes) ? NAME_IS_OWN : 0;
        if (!write_entry(NAME_FILE, &entry, text))
            return 0;
        file->written = kernel_generation + 1;
    }
    return file->id;
}

static bool write_name(struct name *name) {
    const char *file = name->text, *own = file + strlen(file) + 1, *qualified = own + strlen(own) + 1;
    int64_t line;
    memcpy(&line, qualified + strlen(qualified) + 1, sizeof line);
    struct name_entry entry = {
        .id = name->id,
        .file = file_number(file),
        .line = line < 0 || line > INT32_MAX ? 0 : (uint32_t)line,
        .bytes = (uint32_t)(strlen(own) + 1 + strlen(qualified)), /* with the NUL between them */
        .flags = name->uncounted ? NAME_IS_UNCOUNTED : 0,
    };
    name->entry = entry.file ? write_entry(NAME_FUNCTION, &entry, own) : NULL;
    if (!name->entry)
        return false;
    name->written = kernel_generation + 1;
    return true;
}

bool names_use(struct name *name) {
    if (store_header && name->written != kernel_generation + 1 && !write_name(name))
        return false;
    name->uses++;
    return true;
}

void names_leave(struct name *name) {
    name->uncounted = true;
    if (store_header && name->written == kernel_generation + 1)
        name->entry->flags |= NAME_IS_UNCOUNTED;
}

void names_release(struct name *name) {
    if (--name->uses > 0)
        return;
    drop(&names, &name->link);
    for (struct name_key *key = name->keys; key; key = key->next_of_name)
        drop(&keys, &key->link);
    /* Unlinked first, since releasing objects may run Python. */
    for (struct name_key *key = name->keys, *next; key; key = next) {
        next = key->next_of_name;
        Py_DecRef(key->code);
        free(key);
    }
    Py_DecRef(name->label);
    free(name);
}
