/* Stacks of the process's threads, read without the GIL while they run. Memory is copied by process_vm_readv(2), or
 * from /proc/self/mem if refused: a stale pointer is an error, not a crash. The layout comes from the headers up to
 * Python 3.11; later, in any version, it is found by searching for values that Python reports. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Frames read of a stack; the innermost of a deeper one. */
enum { STACK_MOST = 1000 };

struct seen_frame {
    uintptr_t at;   /* address of the interpreter's frame */
    uintptr_t code; /* address of the code object, which may be freed by now (freed.h); 0 if not Python's */
    uintptr_t back;
    int64_t instruction; /* as in stacks_site() */
};

/* A thread's last stack, which makes the next one cheap to read. Zeroed at first. */
struct stack {
    struct seen_frame *frames; /* innermost first */
    size_t n, room;
    bool certain;     /* all frames existed at one instant; otherwise callers may be wrong */
    uint64_t freed;   /* code objects that were freed before it was read */
    uintptr_t holder; /* address of the pointer to the innermost frame */
};

/* Find the layout, with the GIL, in a Python function called by another; false without an exception if impossible. */
bool stacks_start(void);

/* Copy memory of this process; false if any of it is unmapped. */
bool stacks_copy(uintptr_t from, void *to, size_t bytes);

/* Read a thread state: its thread (`native` is 0 if unknown), and its neighbours in the interpreter's list; false if it
 * is gone. */
struct seen_state {
    uintptr_t before, after;
    unsigned long ident;
    pid_t native;
};
bool stacks_state(uintptr_t state, struct seen_state *found);

/* Read the stack of a thread state; false on failure. `stack->n` is 0 if no Python runs there. */
bool stacks_read(uintptr_t state, struct stack *stack);

/* Copy a thread's stack, to read the next one separately; false without memory. */
bool stacks_copy_of(const struct stack *stack, struct stack *copy);

/* Whether a thread runs byte code: its place has changed since a moment ago. */
bool stacks_moves(uintptr_t state);

/* Whether a frame's instruction makes no call and takes no long time in C. Byte code spends about STACKS_SURE_PART
 * of its time there. Only on Python 3.11, where it matters most (hook_traits); elsewhere true. */
#if !defined(PROFKIT_ABI3) && PY_VERSION_HEX >= 0x030B0000
#define STACKS_SURE_PART 0.5
#else
#define STACKS_SURE_PART 1.0
#endif
bool stacks_is_byte_code(const struct seen_frame *frame);

void stacks_free(struct stack *stack);

/* Whether code that a stack named is alive and the program's, with the GIL; `freed` is the stack's. */
bool stacks_is_code(uintptr_t code, uint64_t freed);

/* Return the code that called the function which this thread is about to run, or 0. */
uintptr_t stacks_caller(void);

/* The same, also across C code; `within`: the function is inside a call of the same code, of the innermost 32. */
uintptr_t stacks_caller_beyond(bool *within);

#ifndef PROFKIT_ABI3
#include <frameobject.h>
int64_t stacks_site(const PyFrameObject *frame);
#endif
