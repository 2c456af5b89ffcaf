/* Stacks of the process's threads, read without the GIL and while they run.
 *
 * Frames are followed by copies that cannot fault (process_vm_readv(2) of the own process, or /proc/self/mem where a container refuses
 * that): a stale pointer is an error, not a crash. Where the interpreter keeps what is needed is known up to Python 3.11, whose headers this is compiled with. From
 * 3.12 on it is found when the process begins, by looking for values that Python itself has told: no version is asked for.
 */
#ifndef PROFKIT_STACKS_H
#define PROFKIT_STACKS_H

#include "python_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Frames of a stack that are read; of a deeper one they are the innermost. */
enum { STACK_MOST = 1000 };

struct seen_frame {
    uintptr_t at;   /* the interpreter's frame */
    uintptr_t code; /* a code object's address: it may be gone by now; 0 of a frame that is none of Python's */
    uintptr_t back;
    int64_t instruction; /* as stacks_site() */
};

/* The last stack of a thread, which makes the next one cheap to read. Zeroed at first. */
struct stack {
    struct seen_frame *frames; /* innermost first */
    size_t n, room;
    bool certain;     /* all of them were there at one time; else what is called by what may not be so */
    uintptr_t holder; /* where the pointer to the innermost frame was */
};

/* Find out where things are. Called with the GIL by a function in Python that another one has called; false where stacks
 * cannot be read, without an exception. */
bool stacks_start(void);

/* Copy memory of this process; false where some of it is not there. */
bool stacks_copy(uintptr_t from, void *to, size_t bytes);

/* What a thread state says of its thread and of those beside it in the interpreter's list; false where it is gone. */
struct seen_state {
    uintptr_t before, after;
    unsigned long ident;
    pid_t native;
};
bool stacks_state(uintptr_t state, struct seen_state *found);

/* Read the stack of a thread state; false where that failed. With `stack->n` 0 no Python runs there. */
bool stacks_read(uintptr_t state, struct stack *stack);

/* Copy what is known of a thread's stack, to read the next one apart; false where there is no memory. */
bool stacks_copy_of(const struct stack *stack, struct stack *copy);

/* Whether the thread of a state runs byte code: it is not where it was a moment before. */
bool stacks_moves(uintptr_t state);

/* Whether a frame is at an instruction that calls nothing, and nothing that takes long in C. Where byte code is run, about
 * STACKS_SURE_PART of the time is in such instructions. Only on Python 3.11, where it matters most (hook_traits); elsewhere true. */
#if !defined(PROFKIT_ABI3) && PY_VERSION_HEX >= 0x030B0000
#define STACKS_SURE_PART 0.5
#else
#define STACKS_SURE_PART 1.0
#endif
bool stacks_is_byte_code(const struct seen_frame *frame);

void stacks_free(struct stack *stack);

/* Whether an address is that of a code object of a program's now; the GIL is held. */
bool stacks_is_code(uintptr_t code);

/* The code that has called the function which the calling thread is about to run; 0 for none. */
uintptr_t stacks_caller(void);

/* The same, also where C code is between the two; `within` says whether the function is within a call of the same code, `frames` how
 * many were looked at. */
uintptr_t stacks_caller_beyond(bool *within, int64_t *frames);

#ifndef PROFKIT_ABI3
#include <frameobject.h>
/* The place in its code where a frame is. */
int64_t stacks_site(const PyFrameObject *frame);
#endif

#endif
