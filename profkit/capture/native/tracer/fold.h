/* Tables in a file outlive their threads. The largest are kept, the others are folded into a sum, which bounds
 * programs with a thread per task. A new sum replaces the old one and the folded tables by one store of the epoch,
 * so readers count each call once whenever the process dies. The GIL is held. */
#pragma once

#include "python_api.h"

#include <sys/types.h>

struct table;

void tables_keep(struct table *table);

/* Fold tables of ended threads if there are enough. */
void tables_fold(void);

void tables_each_running(void (*function)(struct table *table, void *about), void *about);

/* Return a running thread's table, or NULL. */
struct table *tables_running(pid_t native, unsigned long ident);

/* The same for a thread that may have ended. */
struct table *tables_last(pid_t native, unsigned long ident);

/* In a forked child, forget the parent's tables. */
void tables_forget(void);

/* Leave all tables as they are in the file, before store_close(). */
void tables_leave(void);
