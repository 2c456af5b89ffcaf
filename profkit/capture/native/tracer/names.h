/* What functions are called, once for all threads: a number for each, and in the store its file, line and names.
 *
 * Code objects of equal file, line and names are one function where the file is none (`<string>`): programs that compile as
 * they go would grow without bound. In a real file two such (lambdas of one line) are two, told apart by what they do. A code
 * object that is kept is found by its address; of one function a limited number is kept, and further ones are looked up by
 * their names at each call. The GIL is held in all of this.
 */
#ifndef PROFKIT_NAMES_H
#define PROFKIT_NAMES_H

#include "python_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Code objects, or definitions of C functions, by which one function is found. */
#define MOST_KEYS 256

struct name_entry;
struct name_key;

struct name {
    PyObject *label;       /* the first code object, or cProfile's name of a C function; owned */
    struct name_key *keys;
    size_t n_keys;
    size_t uses;           /* functions of tables */
    struct name *next;     /* of the same hash */
    uint64_t hash;
    uint32_t id;
    unsigned written;      /* the generation of the store that has it, plus 1 */
    bool passes_on;        /* see label_passes_on() */
    bool uncounted;        /* calls while the process is sampled are not counted one by one, or no longer (seldom.h), */
    unsigned counted_in;   /* and, in this generation, */
    int64_t counting;      /* those that were took as long as so many */
    struct name_entry *entry; /* in the store, where it is written */
    size_t bytes;
    char text[];           /* file, name, qualified name, each with a NUL behind; line and hash of the code */
};

/* Find or make the name of what is called; NULL when memory is exhausted. `kept` says whether the key is its own for good.
 * Labels.h explains `object` and `self`. May leave an exception behind. */
struct name *names_of(const void *key, PyObject *object, PyObject *self, bool *kept);

/* The name that a kept key has, or NULL. */
struct name *names_known(const void *key);

/* From now on calls of this are not counted one by one. */
void names_leave(struct name *name);

/* A function of a table begins, or ends, to have the name. */
bool names_use(struct name *name);
void names_release(struct name *name);

#endif
