/* Tables in a file outlive their threads. The largest are kept, the others are folded into one sum, so that a
 * program with a thread per task does not grow without bound.
 *
 * A sum is made from the previous one and the tables to be folded, and replaces them by one store of the epoch: a
 * reader counts each call once, whenever the process dies. */
#ifndef PROFKIT_FOLD_H
#define PROFKIT_FOLD_H

#include "python_api.h"

#include <sys/types.h>

struct table;

/* Keep a table of the file until it is folded. */
void tables_keep(struct table *table);

/* Fold tables of ended threads if there are enough, with the GIL. */
void tables_fold(void);

/* Call a function for each running thread's table, with the GIL. */
void tables_each_running(void (*function)(struct table *table, void *about), void *about);

/* Return a running thread's table, or NULL, with the GIL. */
struct table *tables_running(pid_t native, unsigned long ident);

/* The same for a thread that may have ended. */
struct table *tables_last(pid_t native, unsigned long ident);

/* In a forked child, forget the parent's tables. */
void tables_forget(void);

#endif
