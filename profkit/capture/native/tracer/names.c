#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "labels.h"
#include "layout.h"
#include "rank_calls.h"
#include "store.h"

#define FIRST_BUCKETS 256
/* Longest text kept, in bytes; nobody reads longer ones. */
#define MOST_TEXT 4000
#define NAMES_BLOCK ((size_t)(1 << 14) - sizeof(struct block))

struct name_key {
    struct name_key *next_in_bucket, *next_of_name;
    const void *key;
    PyObject *code; /* owned; NULL for a C function, whose definition stays */
    struct name *name;
};

struct file {
    struct file *next;
    uint64_t hash;
    uint32_t id;
    unsigned written;
    size_t bytes;
    char text[];
};

static struct {
    struct name_key **keys;
    size_t n_key_buckets, n_keys;
    struct name **names;
    size_t n_name_buckets, n_names;
    struct file *files[FIRST_BUCKETS];
    uint32_t last_name, last_file;
} known;

/* Flags of code whose calls cannot all be counted: generators and coroutines may be resumed by an exception, whose
 * event cannot be set per function; the interpreter's own code has no events. */
#define NOT_COUNTED (0x20 | 0x80 | 0x200 | 0x2000000)

/* Where names are written; valid for one generation of the store. */
static char *place, *place_end;
static unsigned place_generation;

static size_t bucket_of(const void *key, size_t n) {
    return (size_t)((((uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (n - 1);
}

static uint64_t hash_of(const char *text, size_t bytes) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001B3);
    return hash ^ hash >> 32;
}

static bool grow_keys(void) {
    size_t n = known.keys ? 2 * known.n_key_buckets : FIRST_BUCKETS;
    struct name_key **buckets = calloc(n, sizeof(struct name_key *));
    if (!buckets)
        return known.keys != NULL;
    for (size_t i = 0; i < known.n_key_buckets; i++)
        for (struct name_key *key = known.keys[i], *next; key; key = next) {
            next = key->next_in_bucket;
            struct name_key **bucket = &buckets[bucket_of(key->key, n)];
            key->next_in_bucket = *bucket;
            *bucket = key;
        }
    free(known.keys);
    known.keys = buckets;
    known.n_key_buckets = n;
    return true;
}

static bool grow_names(void) {
    size_t n = known.names ? 2 * known.n_name_buckets : FIRST_BUCKETS;
    struct name **buckets = calloc(n, sizeof(struct name *));
    if (!buckets)
        return known.names != NULL;
    for (size_t i = 0; i < known.n_name_buckets; i++)
        for (struct name *name = known.names[i], *next; name; name = next) {
            next = name->next;
            struct name **bucket = &buckets[name->hash & (n - 1)];
            name->next = *bucket;
            *bucket = name;
        }
    free(known.names);
    known.names = buckets;
    known.n_name_buckets = n;
    return true;
}

struct name *names_known(const void *key) {
    if (!known.keys)
        return NULL;
    for (struct name_key *one = known.keys[bucket_of(key, known.n_key_buckets)]; one; one = one->next_in_bucket)
        if (one->key == key)
            return one->name;
    return NULL;
}

struct text {
    char bytes[3 * (MOST_TEXT + 1) + 16];
    size_t used;
};

/* Add a string and a NUL; only the NUL if it is unavailable. */
static void add_string(struct text *text, PyObject *string) {
    PyObject *bytes = string ? PyUnicode_AsEncodedString(string, "utf-8", "surrogatepass") : NULL;
    Py_ssize_t size = bytes ? PyBytes_Size(bytes) : 0;
    if (size > MOST_TEXT) {
        const char *all = PyBytes_AsString(bytes);
        size = MOST_TEXT;
        while (size > 0 && ((unsigned char)all[size] & 0xC0) == 0x80)
            size--;
    }
    if (size > 0) {
        memcpy(text->bytes + text->used, PyBytes_AsString(bytes), (size_t)size);
        for (Py_ssize_t i = 0; i < size; i++) /* a code object may have any name */
            if (!text->bytes[text->used + (size_t)i])
                text->bytes[text->used + (size_t)i] = ' ';
    }
    text->used += (size_t)size;
    text->bytes[text->used++] = '\0';
    Py_XDECREF(bytes);
    PyErr_Clear();
}

static void add_attribute(struct text *text, PyObject *code, const char *attribute) {
    PyObject *value = PyObject_GetAttrString(code, attribute);
    if (!value)
        PyErr_Clear(); /* no qualified name before 3.11 */
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
        add_number(text, 0);
        return;
    }
    add_attribute(text, label, "co_filename");
    add_attribute(text, label, "co_name");
    add_attribute(text, label, "co_qualname");
    PyObject *line = PyObject_GetAttrString(label, "co_firstlineno");
    add_number(text, line ? PyLong_AsLong(line) : 0);
    Py_XDECREF(line);
    add_number(text, text->bytes[0] == '<' ? 0 : (int64_t)PyObject_Hash(label));
    PyErr_Clear();
}

static bool add_key(struct name *name, const void *key, PyObject *object) {
    if (name->n_keys >= MOST_KEYS)
        return false;
    if (known.n_keys >= known.n_key_buckets && !grow_keys())
        return false;
    struct name_key *one = malloc(sizeof *one);
    if (!one)
        return false;
    struct name_key **bucket = &known.keys[bucket_of(key, known.n_key_buckets)];
    *one = (struct name_key){.next_in_bucket = *bucket, .next_of_name = name->keys, .key = key, .name = name};
    if (key == (const void *)object) {
        one->code = object;
        Py_IncRef(object);
    }
    *bucket = name->keys = one;
    name->n_keys++;
    known.n_keys++;
    return true;
}

static bool cannot_be_counted(PyObject *code) {
    PyObject *value = PyObject_GetAttrString(code, "co_flags");
    bool cannot = !value || (PyLong_AsLong(value) & NOT_COUNTED);
    Py_XDECREF(value);
    PyErr_Clear();
    return cannot;
}

static struct name *add_name(const struct text *text, uint64_t hash, PyObject *label) {
    if (known.n_names >= known.n_name_buckets && !grow_names())
        return NULL;
    struct name *name = calloc(1, sizeof *name + text->used);
    if (!name)
        return NULL;
    Py_IncRef(label);
    name->label = label;
    name->hash = hash;
    name->id = ++known.last_name;
    name->passes_on = label_passes_on(label);
    name->uncounted = PyUnicode_Check(label) || cannot_be_counted(label);
    if (!PyUnicode_Check(label))
        rank_calls_meet(label);
    name->bytes = text->used;
    memcpy(name->text, text->bytes, text->used);
    struct name **bucket = &known.names[hash & (known.n_name_buckets - 1)];
    name->next = *bucket;
    *bucket = name;
    known.n_names++;
    return name;
}

static struct name *find_or_add(PyObject *label) {
    static struct text text; /* the GIL is held throughout */
    describe(&text, label);
    uint64_t hash = hash_of(text.bytes, text.used);
    struct name *name = known.names ? known.names[hash & (known.n_name_buckets - 1)] : NULL;
    while (name && !(name->hash == hash && name->bytes == text.used && memcmp(name->text, text.bytes, text.used) == 0))
        name = name->next;
    return name ? name : add_name(&text, hash, label);
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
    if (name)
        *kept = add_key(name, key, object);
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
    struct file **bucket = &known.files[hash % FIRST_BUCKETS], *file = *bucket;
    while (file && !(file->hash == hash && file->bytes == bytes && memcmp(file->text, text, bytes) == 0))
        file = file->next;
    if (!file) {
        file = calloc(1, sizeof *file + bytes);
        if (!file)
            return 0;
        file->hash = hash;
        file->id = ++known.last_file;
        file->bytes = bytes;
        memcpy(file->text, text, bytes);
        file->next = *bucket;
        *bucket = file;
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

static void unlink_key(const struct name_key *key) {
    struct name_key **link = &known.keys[bucket_of(key->key, known.n_key_buckets)];
    while (*link != key)
        link = &(*link)->next_in_bucket;
    *link = key->next_in_bucket;
    known.n_keys--;
}

void names_release(struct name *name) {
    if (--name->uses > 0)
        return;
    struct name **link = &known.names[name->hash & (known.n_name_buckets - 1)];
    while (*link != name)
        link = &(*link)->next;
    *link = name->next;
    known.n_names--;
    for (struct name_key *key = name->keys; key; key = key->next_of_name)
        unlink_key(key);
    /* Unlinked first, since releasing objects may run Python. */
    for (struct name_key *key = name->keys, *next; key; key = next) {
        next = key->next_of_name;
        Py_DecRef(key->code);
        free(key);
    }
    Py_DecRef(name->label);
    free(name);
}
