/* The tables in a file: they are kept after their threads have ended, until they are folded (fold.h). The GIL is
 * held. */
#pragma once

#include "python_api.h"

#include <stddef.h>
#include <sys/types.h>

struct table;

void kept_add(struct table *table);

void kept_each_running(void (*function)(struct table *table, void *about), void *about);

/* Return a running thread's table, or NULL. */
struct table *kept_running(pid_t native, unsigned long ident);

/* The same for a thread that may have ended. */
struct table *kept_last(pid_t native, unsigned long ident);

/* Return all of them and their number, until the next one is kept or dropped. */
struct table *const *kept_all(size_t *n);

/* Drop those that a sum has replaced. */
void kept_drop_folded(void);

/* In a forked child, forget the parent's tables. */
void kept_forget(void);

/* Leave all tables as they are in the file, before store_close(). */
void kept_leave(void);
