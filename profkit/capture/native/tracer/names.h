/* Names of functions, shared by all threads: a number each, and in the store its file, line and names. The GIL is
 * held.
 *
 * Code with equal file, line and names is one function if the file is not real (`<string>`), so that run-time
 * compilation cannot grow without bound; in a real file (lambdas of one line) the code tells them apart. Up to
 * MOST_KEYS code objects per function are kept and found by address, others by name at each call. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kept code objects, or definitions of C functions, per function. */
#define MOST_KEYS 256

struct name_entry;
struct name_key;

/* What a list of equal hashes holds begins with this. */
struct link {
    struct link *next;
    uint64_t hash;
};

struct name {
    struct link link;
    PyObject *label;       /* the first code object, or cProfile's name; owned */
    struct name_key *keys;
    size_t n_keys;
    size_t uses;           /* by functions of tables */
    uint32_t id;
    unsigned written;      /* the store's generation that has it, plus 1 */
    bool has_hash;         /* `code_hash` is that of the label */
    bool passes_on;        /* see label_passes_on() */
    bool of_program;       /* see names_of_program() */
    bool uncounted;        /* calls while sampled are not counted one by one, or no longer (seldom.h) */
    Py_hash_t code_hash;
    unsigned counted_in;   /* the generation of `counting`, plus 1 */
    int64_t counting;      /* cost of its counted calls, in calls */
    struct name_entry *entry; /* in the store, if written */
    size_t bytes;
    char text[];           /* file, name, qualified name, each with a NUL; line of the code */
};

/* Find or make the name of what is called; NULL without memory. `kept` says whether the key is its own for good;
 * `object` and `self` as in labels.h. May leave an exception. */
struct name *names_of(const void *key, PyObject *object, PyObject *self, bool *kept);

/* Visit the code objects that have names, one of each name. */
void names_each_code(void (*visit)(PyObject *code));

/* Return the name of a kept key, or NULL. */
struct name *names_known(const void *key);

/* Whether a file is neither the standard library's nor an installed package's. */
bool names_of_program(const char *file);

/* Stop counting calls of this one by one. */
void names_leave(struct name *name);

/* The same of code that has no name, should it get one; false without memory. */
bool names_leave_unnamed(const void *code);

/* A table's function starts, or stops, using the name. */
bool names_use(struct name *name);
void names_release(struct name *name);
