/* What a thread waits for (pauses.h), by its system call, and what others wait for because of it. The GIL is a futex
 * in `_PyRuntime`, recognised by its address in every CPython; its holder is a few words before it. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"
#include "pauses.h"

/* Return what a thread waits for now, through files as in kernel.h; PAUSE_NONE if it runs, queues, or is unknown. */
enum pause_kind waits_for(pid_t thread, struct kernel_file *call, struct kernel_file *stat);

/* Find where the interpreter stores the GIL's holder, after a thread was seen waiting. The caller, in state `mine`,
 * has it. */
void waits_learn(uintptr_t mine);

bool waits_unlearnt(void);

/* Return the state of the thread with the GIL; 0 if none or unknown. */
uintptr_t waits_holder(void);

/* Add a callback to the garbage collector's list; false without an exception if impossible. With the GIL. */
bool waits_watch_collections(PyObject *callbacks);
