/* The tables of threads: made at a thread's first call or sample, and followed to its end. The GIL is held unless
 * stated otherwise. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <sys/types.h>

struct table;

/* Make a table with one reference; NULL without memory. Another thread than the calling one must follow it at its
 * first use. */
struct table *threads_new_table(unsigned long long owner, pid_t native, unsigned long ident);

/* Have the calling thread's end noted in a table; false if it is the table of another thread, which has ended. */
bool threads_follow(struct table *table);

/* Return the calling thread's table, in the sampled tier; NULL without memory. */
struct table *threads_table_here(void);

/* Note the end of the thread that had these tables, without the GIL. */
void threads_ended(struct table *tables);
