/* Tables of a file outlive their threads: the largest stay as they are, the others are summed into one now and then, so that a
 * program which starts a thread per task does not grow without bound.
 *
 * A sum is made anew from the one before it and the tables that are to go, and takes their place by one store of the epoch:
 * whenever the process dies, a reader counts each call once.
 */
#ifndef PROFKIT_FOLD_H
#define PROFKIT_FOLD_H

#include "python_api.h"

#include <sys/types.h>

struct table;

/* Keep a table of the file until it is folded. */
void tables_keep(struct table *table);

/* Fold tables of threads that have ended, if there are enough of them; the GIL is held. */
void tables_fold(void);

/* Call a function for the table of each thread that is running; the GIL is held. */
void tables_each_running(void (*function)(struct table *table, void *about), void *about);

/* The table of a thread that is running; NULL for none. The GIL is held. */
struct table *tables_running(pid_t native, unsigned long ident);

/* The same of one that has ended, perhaps. */
struct table *tables_last(pid_t native, unsigned long ident);

/* In a forked child: all of them are the parent's. */
void tables_forget(void);

#endif
