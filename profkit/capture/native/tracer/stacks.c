#define _GNU_SOURCE 1
#include "stacks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef PROFKIT_ABI3
#define Py_BUILD_CORE 1
#if PY_VERSION_HEX < 0x03090000
#include <internal/pycore_pystate.h>
#elif PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_frame.h>
#include <opcode.h>
#endif
#undef Py_BUILD_CORE
#endif

#include "freed.h"
#include "kernel.h"

/* Attempts to read a stack whose innermost frame changes. */
#define TRIES 3

/* Sizes, in words, that are searched in a thread state and a frame; most bytes of a code object's head. */
#define STATE_WORDS 128
#define FRAME_WORDS 12
#define MOST_CODE_HEAD 512

/* Bytes of the C library's thread descriptor that are searched for its number. */
#define THREAD_BYTES 2048

/* Offsets, in bytes. */
static struct layout {
    size_t ident, native; /* in a thread state; `native` is 0 without one */
    size_t number;        /* of the native id in the C library's descriptor, to which ident points */
    size_t frame;         /* in a thread state: the innermost frame */
    bool through;         /* or a pointer to a structure that begins with it */
    size_t code, back, instruction, frame_bytes; /* in a frame */
    bool by_index; /* `instruction` is an index, not a pointer into the code */
    size_t code_head; /* bytes of a code object before its instructions */
    size_t state_bytes;
} layout;

static pid_t own_process;
static uintptr_t code_type;

/* Code of the frames that Python 3.12 puts between Python and C; 0 without such frames. */
static uintptr_t between;

/* CO_NO_MONITORING_EVENTS, a flag of code since Python 3.12. */
#define NO_EVENTS 0x2000000l

/* Bytes that are read at once: no more than a page, so that all can be read if a part can. A system call takes as
 * long for them as for one word. */
#define BLOCK ((uintptr_t)4096)

/* Most bytes between two frames that are read together. */
#define MOST_GAP 1024

/* Tag bits in a word with a pointer. */
#define TAGS ((uintptr_t)7)

static bool by_file; /* process_vm_readv(2) is refused, as in some containers */

/* Copy from several places in order; return the bytes up to the first unreadable place. */
static size_t copy(void *to, const struct iovec *there, size_t n, size_t bytes) {
    struct iovec here = {to, bytes};
    size_t copied = 0;
    if (!by_file) {
        ssize_t found = process_vm_readv(own_process, &here, 1, there, n, 0);
        return found > 0 ? (size_t)found : 0;
    }
    for (size_t i = 0; i < n && copied < bytes; i++) {
        ssize_t found = kernel_read_memory((uintptr_t)there[i].iov_base, (char *)to + copied, there[i].iov_len);
        copied += found > 0 ? (size_t)found : 0;
        if (found < (ssize_t)there[i].iov_len)
            break;
    }
    return copied;
}

bool stacks_copy(uintptr_t from, void *to, size_t bytes) {
    struct iovec there = {(void *)from, bytes};
    return from && copy(to, &there, 1, bytes) == bytes;
}

static bool is_refused(void) {
    uintptr_t word;
    struct iovec here = {&word, sizeof word}, there = {&own_process, sizeof own_process};
    return process_vm_readv(own_process, &here, 1, &there, 1, 0) < 0;
}

static uintptr_t word_in(const void *from, size_t offset) {
    uintptr_t word;
    memcpy(&word, (const char *)from + offset, sizeof word);
    return word;
}

/* Thread states before Python 3.11 lack the native id. */
static bool find_number(void) {
    char bytes[THREAD_BYTES];
    pid_t number = kernel_thread_id(), found;
    size_t room = sizeof bytes;
    while (room >= 64 && !stacks_copy((uintptr_t)pthread_self(), bytes, room))
        room /= 2;
    for (size_t i = 0; i + sizeof found <= room; i += sizeof found) {
        memcpy(&found, bytes + i, sizeof found);
        if (found == number) {
            layout.number = i;
            return true;
        }
    }
    return false;
}

static size_t larger(size_t one, size_t other) { return one > other ? one : other; }

#ifndef PROFKIT_ABI3
static bool find_layout(void) {
    layout.ident = offsetof(PyThreadState, thread_id);
#if PY_VERSION_HEX >= 0x030B0000
    layout.native = offsetof(PyThreadState, native_thread_id);
    layout.frame = offsetof(PyThreadState, cframe);
    layout.through = true;
    _Static_assert(offsetof(_PyCFrame, current_frame) % sizeof(void *) == 0, "a pointer");
    layout.code = offsetof(_PyInterpreterFrame, f_code);
    layout.back = offsetof(_PyInterpreterFrame, previous);
    layout.instruction = offsetof(_PyInterpreterFrame, prev_instr);
    layout.code_head = offsetof(PyCodeObject, co_code_adaptive);
#else
    layout.frame = offsetof(PyThreadState, frame);
    layout.code = offsetof(PyFrameObject, f_code);
    layout.back = offsetof(PyFrameObject, f_back);
    layout.instruction = offsetof(PyFrameObject, f_lasti) & ~(size_t)7;
    layout.by_index = true;
    _Static_assert(offsetof(PyFrameObject, f_lasti) % 8 == 0, "the first half of a word");
#endif
    return true;
}

#if PY_VERSION_HEX >= 0x030B0000
#define CURRENT_FRAME offsetof(_PyCFrame, current_frame)
int64_t stacks_site(const PyFrameObject *frame) {
    const struct _PyInterpreterFrame *running = frame->f_frame;
    return (const char *)running->prev_instr - (const char *)_PyCode_CODE(running->f_code);
}
#else
#define CURRENT_FRAME 0
int64_t stacks_site(const PyFrameObject *frame) { return frame->f_lasti; }
#endif

#else
#define CURRENT_FRAME 0

/* Return the byte offset of a word among others, or SIZE_MAX. */
static size_t place_of(const uintptr_t *words, size_t n, uintptr_t wanted, uintptr_t tags) {
    for (size_t i = 0; i < n; i++)
        if ((words[i] & ~tags) == wanted)
            return i * sizeof *words;
    return SIZE_MAX;
}

static uintptr_t frame_in(PyObject *frame) { return word_in(frame, sizeof(PyObject) + sizeof(uintptr_t)); }

static size_t words_there(uintptr_t from, uintptr_t *words, size_t most) {
    while (most > 0 && !stacks_copy(from, words, most * sizeof *words))
        most -= most > 8 ? 8 : 1;
    return most;
}

static bool find_frame(uintptr_t state, uintptr_t frame) {
    uintptr_t words[STATE_WORDS], inside;
    size_t n = words_there(state, words, STATE_WORDS);
    layout.frame = place_of(words, n, frame, 0);
    for (size_t i = 0; i < n && layout.frame == SIZE_MAX; i++)
        if (words[i] % sizeof(void *) == 0 && stacks_copy(words[i], &inside, sizeof inside) && inside == frame) {
            layout.frame = i * sizeof *words;
            layout.through = true;
        }
    layout.ident = place_of(words, n, (uintptr_t)pthread_self(), 0);
    layout.native = place_of(words, n, (uintptr_t)kernel_thread_id(), 0);
    return layout.frame != SIZE_MAX && layout.ident != SIZE_MAX && layout.native != SIZE_MAX;
}

/* Find the code, the caller and the instruction in a running frame, whose caller is `around`. */
static bool find_in_frame(PyObject *frame, PyObject *around, PyObject *code) {
    uintptr_t words[FRAME_WORDS];
    size_t n = words_there(frame_in(frame), words, FRAME_WORDS);
    long last = attribute_number(frame, "f_lasti");
    layout.code = place_of(words, n, (uintptr_t)code, TAGS);
    layout.back = place_of(words, n, frame_in(around), 0);
    for (size_t i = 0; i < n; i++) {
        uintptr_t inside = words[i] - (uintptr_t)code - (uintptr_t)last;
        if (words[i] > (uintptr_t)code && inside >= 64 && inside < MOST_CODE_HEAD && i * sizeof *words != layout.code) {
            layout.instruction = i * sizeof *words;
            layout.code_head = inside;
        }
    }
    return last >= 0 && layout.code != SIZE_MAX && layout.back != SIZE_MAX && layout.code_head > 0;
}

static bool find_layout(void) {
    PyObject *frame = (PyObject *)PyEval_GetFrame(); /* borrowed */
    PyObject *around = attribute(frame, "f_back"), *code = attribute(frame, "f_code");
    bool found = frame && around && code && around != Py_None && find_frame((uintptr_t)PyThreadState_Get(), frame_in(frame)) &&
                 find_in_frame(frame, around, code);
    Py_XDECREF(around);
    Py_XDECREF(code);
    return found;
}
#endif

/* Check the layout on the calling thread's own stack. */
static bool is_right(void) {
    struct stack stack = {0};
    struct seen_state state;
    PyObject *frame = (PyObject *)PyEval_GetFrame(); /* borrowed */
    bool right = stacks_state((uintptr_t)PyThreadState_Get(), &state) && state.native == kernel_thread_id() &&
                 state.ident == (unsigned long)pthread_self() && stacks_read((uintptr_t)PyThreadState_Get(), &stack);
    size_t depth = 0;
    Py_XINCREF(frame);
    while (right && frame && frame != Py_None) {
        PyObject *code = attribute(frame, "f_code"), *around = attribute(frame, "f_back");
        for (; depth < stack.n && stack.frames[depth].code != (uintptr_t)code; depth++) {
            if (stack.frames[depth].code && between && stack.frames[depth].code != between)
                break;
            between = stack.frames[depth].code ? stack.frames[depth].code : between;
        }
        right = depth < stack.n && stack.frames[depth].code == (uintptr_t)code;
        depth++;
        Py_XDECREF(code);
        Py_DECREF(frame);
        frame = around;
    }
    Py_XDECREF(frame);
    if (right && depth < stack.n && stack.frames[depth].code) /* the outermost frame also has one around it */
        between = stack.frames[depth].code;
    stacks_free(&stack);
    return right && depth > 1;
}

bool stacks_start(void) {
    static int known; /* 1: works, -1: does not */
    own_process = getpid();
    if (known)
        return known > 0;
    by_file = is_refused();
    PyObject *code = attribute((PyObject *)PyEval_GetFrame(), "f_code");
    code_type = code ? (uintptr_t)Py_TYPE(code) : 0;
    Py_XDECREF(code);
    freed_start();
    bool found = code_type && find_layout() && (layout.native || find_number());
    layout.frame_bytes = larger(larger(layout.code, layout.back), layout.instruction) + sizeof(uintptr_t);
    layout.state_bytes = larger(layout.ident, layout.native) + sizeof(uintptr_t);
    found = found && layout.frame_bytes <= FRAME_WORDS * 16 && layout.state_bytes <= STATE_WORDS * 8 && is_right();
    known = found ? 1 : -1;
    kernel_close_memory(); /* this thread is the program's */
    return found;
}

bool stacks_state(uintptr_t state, struct seen_state *found) {
    char bytes[STATE_WORDS * 8];
    if (!stacks_copy(state, bytes, layout.state_bytes))
        return false;
    /* In every version a thread state begins with the list's links. */
    *found = (struct seen_state){word_in(bytes, 0), word_in(bytes, sizeof(uintptr_t)), word_in(bytes, layout.ident), 0};
    if (layout.native)
        found->native = (pid_t)word_in(bytes, layout.native);
    else /* of a thread that has ended and left its state behind, nothing may be there */
        stacks_copy(found->ident + layout.number, &found->native, sizeof found->native);
    return true;
}

#ifdef PROFKIT_FREE_THREADED
/* _PyGC_BITS_DEFERRED: not all references are counted. Only the collector frees such code, after this thread
 * releases its thread state. Another thread may free any other code at any moment. */
#define DEFERRED 64

static bool can_be_kept(uintptr_t at) {
    PyObject head;
    return stacks_copy(at, &head, sizeof head) && (uintptr_t)head.ob_type == code_type &&
           (head.ob_ref_local == _Py_IMMORTAL_REFCNT_LOCAL || (head.ob_gc_bits & DEFERRED));
}
#else
static bool can_be_kept(uintptr_t Py_UNUSED(at)) { return true; }
#endif

bool stacks_is_code(uintptr_t code, uint64_t freed) {
    if (freed_since(code, freed) || !can_be_kept(code))
        return false;
    /* The interpreter's own code, e.g. for calling a class, has no events. */
    return !(attribute_number((PyObject *)code, "co_flags") & NO_EVENTS);
}

/* Whether an object is code; what was so remains so until code is freed. */
static bool is_code(uintptr_t object, uint64_t freed) {
    static uintptr_t known[256];
    static uint64_t known_at;
    uintptr_t type, *place = &known[(object >> 4) % 256];
    if (known_at != freed || freed_since(0, freed)) /* or nobody tells */
        memset(known, 0, sizeof known);
    known_at = freed;
    if (*place == object && object)
        return true;
    bool is = stacks_copy(object + offsetof(PyObject, ob_type), &type, sizeof type) && type == code_type;
    *place = is ? object : 0;
    return is;
}

static void take_frame(const char *bytes, uintptr_t at, struct seen_frame *frame, uint64_t freed) {
    uintptr_t code = word_in(bytes, layout.code) & ~TAGS;
    frame->at = at;
    frame->back = word_in(bytes, layout.back);
    if (frame->code != code)
        frame->code = code != between && is_code(code, freed) ? code : 0;
    uintptr_t instruction = word_in(bytes, layout.instruction);
    frame->instruction = layout.by_index ? (int32_t)instruction : (int64_t)(instruction - code - layout.code_head);
}

static bool innermost(uintptr_t state, struct stack *stack, uintptr_t *frame) {
    uintptr_t words[2];
    struct iovec there[2] = {{(void *)(state + layout.frame), sizeof *words}, {(void *)stack->holder, sizeof *words}};
    if (!layout.through) {
        stack->holder = state + layout.frame;
        return stacks_copy(stack->holder, frame, sizeof *frame);
    }
    /* The pointer is mostly held at the same place as before. */
    size_t n = stack->holder ? 2 : 1;
    size_t copied = copy(words, there, n, n * sizeof *words);
    if (copied < sizeof *words)
        return false;
    bool held = copied == sizeof words && stack->holder == words[0] + CURRENT_FRAME;
    stack->holder = words[0] + CURRENT_FRAME;
    *frame = words[1];
    return held || stacks_copy(stack->holder, frame, sizeof *frame);
}

static bool has_room(struct stack *stack) {
    if (stack->room)
        return true;
    stack->frames = malloc(2 * STACK_MOST * sizeof *stack->frames);
    stack->room = stack->frames ? STACK_MOST : 0;
    return stack->room > 0;
}

/* Return a frame's index in the last stack from `from` on, or `stack->n`. */
static size_t place_in(const struct stack *stack, size_t from, uintptr_t at) {
    while (from < stack->n && stack->frames[from].at != at)
        from++;
    return from;
}

/* The last bytes that were read of a stack. */
static struct {
    uintptr_t from;
    size_t size;
    char bytes[BLOCK + FRAME_WORDS * 16];
} block;

/* Return the bytes of a frame; NULL if it is gone. Callers' frames mostly lie below it, so these are read with it. The
 * address may be any number, if the thread has reused the memory that it was read from. */
static const char *frame_at(uintptr_t at) {
    if (block.size < layout.frame_bytes || at - block.from > block.size - layout.frame_bytes) {
        block.from = at - at % BLOCK;
        block.size = at - block.from + layout.frame_bytes;
        if (!stacks_copy(block.from, block.bytes, block.size))
            block.size = 0;
    }
    return block.size ? block.bytes + (at - block.from) : NULL;
}

/* Follow frames outwards until one is unchanged, and so are its callers. False if a frame is gone. */
static bool follow(struct stack *stack, uintptr_t at) {
    struct seen_frame *fresh = stack->frames + STACK_MOST;
    size_t n = 0, same = 0;
    block.size = 0;
    while (at && n < STACK_MOST) {
        const char *bytes = frame_at(at);
        if (!bytes)
            return false;
        /* Frames of the last stack that remain are in the same order. */
        size_t place = place_in(stack, same, at);
        fresh[n] = place < stack->n ? stack->frames[place] : (struct seen_frame){0};
        struct seen_frame before = fresh[n];
        take_frame(bytes, at, &fresh[n], stack->freed);
        n++;
        if (place < stack->n) {
            same = place + 1;
            if (fresh[n - 1].code == before.code && fresh[n - 1].back == before.back)
                break;
        }
        at = fresh[n - 1].back;
    }
    size_t kept = at ? stack->n - same : 0;
    if (kept + n > STACK_MOST)
        kept = STACK_MOST - n;
    memmove(stack->frames + n, stack->frames + same, kept * sizeof *fresh);
    memmove(stack->frames, fresh, n * sizeof *fresh);
    stack->n = n + kept;
    return true;
}

/* Check that the pointer to the innermost frame and all frames are as read: the thread may have reused their memory.
 * They are read in the opposite order, between two reads of the pointer, neighbours with what is between them. */
static bool is_as_read(const struct stack *stack, uintptr_t top) {
    static struct iovec there[STACK_MOST + 2];
    static char bytes[STACK_MOST * (MOST_GAP + FRAME_WORDS * 16) + 2 * sizeof(uintptr_t)];
    static size_t place[STACK_MOST];
    size_t n = 0, size = sizeof top;
    there[n++] = (struct iovec){(void *)stack->holder, sizeof top};
    uintptr_t end = 0;
    for (size_t i = stack->n; i-- > 0;) {
        uintptr_t at = stack->frames[i].at;
        if (end && at >= end && at - end <= MOST_GAP && at / BLOCK - (end - 1) / BLOCK <= 1) {
            there[n - 1].iov_len += at - end + layout.frame_bytes;
            size += at - end;
        } else {
            there[n++] = (struct iovec){(void *)at, layout.frame_bytes};
        }
        place[i] = size;
        size += layout.frame_bytes;
        end = at + layout.frame_bytes;
    }
    there[n++] = there[0];
    size += sizeof top;
    if (copy(bytes, there, n, size) != size || word_in(bytes, 0) != top || word_in(bytes, size - sizeof top) != top)
        return false;
    for (size_t i = 0; i < stack->n; i++) {
        const struct seen_frame *frame = &stack->frames[i];
        uintptr_t code = word_in(bytes + place[i], layout.code) & ~TAGS;
        if (word_in(bytes + place[i], layout.back) != frame->back || (frame->code && code != frame->code))
            return false;
    }
    return true;
}

bool stacks_read(uintptr_t state, struct stack *stack) {
    uintptr_t top;
    if (!has_room(stack))
        return false;
    for (int i = 0; i < TRIES; i++) {
        if (!stack->certain)
            stack->n = 0; /* do not reuse a wrong stack */
        stack->freed = freed_count();
        if (!innermost(state, stack, &top))
            return false;
        bool whole = follow(stack, top);
        stack->certain = whole && is_as_read(stack, top);
        if (stack->certain)
            return true;
        if (!whole)
            stack->n = 0;
    }
    return stack->n > 0;
}

bool stacks_copy_of(const struct stack *stack, struct stack *copy) {
    if (!has_room(copy))
        return false;
    if (stack->n)
        memcpy(copy->frames, stack->frames, stack->n * sizeof *stack->frames);
    copy->n = stack->n;
    copy->certain = stack->certain;
    copy->freed = stack->freed;
    copy->holder = stack->holder;
    return true;
}

bool stacks_moves(uintptr_t state) {
    uintptr_t top[2], word[2] = {0, 0};
    struct stack stack = {0};
    for (int i = 0; i < 2; i++)
        if (!innermost(state, &stack, &top[i]) || !top[i] ||
            !stacks_copy(top[i] + layout.instruction, &word[i], sizeof *word))
            return false;
    return top[0] != top[1] || word[0] != word[1];
}

#if !defined(PROFKIT_ABI3) && PY_VERSION_HEX >= 0x030B0000
/* Instructions that neither call C functions nor compute with objects of unknown type. */
static const bool is_short[256] = {
    [LOAD_FAST] = true, [STORE_FAST] = true, [LOAD_CONST] = true, [LOAD_CONST__LOAD_FAST] = true,
    [LOAD_FAST__LOAD_CONST] = true, [LOAD_FAST__LOAD_FAST] = true, [STORE_FAST__LOAD_FAST] = true,
    [STORE_FAST__STORE_FAST] = true, [LOAD_GLOBAL_BUILTIN] = true, [LOAD_GLOBAL_MODULE] = true,
    [LOAD_ATTR_INSTANCE_VALUE] = true, [LOAD_ATTR_MODULE] = true, [LOAD_ATTR_SLOT] = true, [LOAD_ATTR_WITH_HINT] = true,
    [LOAD_METHOD_CLASS] = true, [LOAD_METHOD_MODULE] = true, [LOAD_METHOD_NO_DICT] = true, [LOAD_METHOD_WITH_DICT] = true,
    [LOAD_METHOD_WITH_VALUES] = true, [STORE_ATTR_INSTANCE_VALUE] = true, [STORE_ATTR_SLOT] = true,
    [STORE_ATTR_WITH_HINT] = true, [BINARY_OP_ADD_FLOAT] = true, [BINARY_OP_ADD_INT] = true, [BINARY_OP_MULTIPLY_FLOAT] = true,
    [BINARY_OP_MULTIPLY_INT] = true, [BINARY_OP_SUBTRACT_FLOAT] = true, [BINARY_OP_SUBTRACT_INT] = true,
    [BINARY_SUBSCR_DICT] = true, [BINARY_SUBSCR_GETITEM] = true, [BINARY_SUBSCR_LIST_INT] = true,
    [BINARY_SUBSCR_TUPLE_INT] = true, [STORE_SUBSCR_DICT] = true, [STORE_SUBSCR_LIST_INT] = true, [UNPACK_SEQUENCE_LIST] = true,
    [UNPACK_SEQUENCE_TUPLE] = true, [UNPACK_SEQUENCE_TWO_TUPLE] = true, [COMPARE_OP_FLOAT_JUMP] = true,
    [COMPARE_OP_INT_JUMP] = true, [COMPARE_OP_STR_JUMP] = true, [JUMP_FORWARD] = true, [JUMP_BACKWARD] = true,
    [JUMP_BACKWARD_QUICK] = true, [JUMP_BACKWARD_NO_INTERRUPT] = true, [POP_JUMP_FORWARD_IF_FALSE] = true,
    [POP_JUMP_FORWARD_IF_TRUE] = true, [POP_JUMP_FORWARD_IF_NONE] = true, [POP_JUMP_FORWARD_IF_NOT_NONE] = true,
    [POP_JUMP_BACKWARD_IF_FALSE] = true, [POP_JUMP_BACKWARD_IF_TRUE] = true, [POP_JUMP_BACKWARD_IF_NONE] = true,
    [POP_JUMP_BACKWARD_IF_NOT_NONE] = true, [RESUME] = true, [RESUME_QUICK] = true, [SWAP] = true, [COPY] = true,
    [PUSH_NULL] = true, [NOP] = true, [KW_NAMES] = true, [LOAD_DEREF] = true, [STORE_DEREF] = true, [LOAD_CLOSURE] = true,
    [COPY_FREE_VARS] = true, [MAKE_CELL] = true, [BUILD_TUPLE] = true, [BUILD_LIST] = true, [BUILD_MAP] = true, [IS_OP] = true,
    [EXTENDED_ARG] = true, [EXTENDED_ARG_QUICK] = true, [CALL_PY_EXACT_ARGS] = true, [CALL_PY_WITH_DEFAULTS] = true,
    [PRECALL_PYFUNC] = true, [PRECALL_BOUND_METHOD] = true, [PRECALL_NO_KW_LEN] = true, [PRECALL_NO_KW_ISINSTANCE] = true,
    [PRECALL_NO_KW_TYPE_1] = true, [PRECALL_NO_KW_LIST_APPEND] = true, [LIST_APPEND] = true, [RETURN_VALUE] = true,
    [YIELD_VALUE] = true,
};

bool stacks_is_byte_code(const struct seen_frame *frame) {
    uint8_t instruction;
    return frame->code && stacks_copy(frame->code + layout.code_head + (uintptr_t)frame->instruction, &instruction, 1) && is_short[instruction];
}
#else
bool stacks_is_byte_code(const struct seen_frame *Py_UNUSED(frame)) { return true; }
#endif

void stacks_free(struct stack *stack) {
    free(stack->frames);
    *stack = (struct stack){0};
}

/* The calling thread's own frames cannot change: its innermost one, and a frame's code. */
static uintptr_t own_frame(void) {
    uintptr_t frame = word_in((const void *)PyThreadState_Get(), layout.frame);
    return layout.through ? word_in((const void *)frame, CURRENT_FRAME) : frame;
}

static uintptr_t own_code(uintptr_t frame) {
    uintptr_t code = frame ? word_in((const void *)frame, layout.code) & ~TAGS : 0;
    return code && code != between && word_in((const void *)code, offsetof(PyObject, ob_type)) == code_type ? code : 0;
}

uintptr_t stacks_caller(void) {
    uintptr_t frame = own_frame();
    return own_code(frame ? word_in((const void *)frame, layout.back) : 0);
}

/* Frames in which a function is looked for among its callers: stacks of nested imports have hundreds. */
#define CYCLE_MOST 32

uintptr_t stacks_caller_beyond(bool *within) {
    uintptr_t frame = own_frame(), code = own_code(frame), caller = 0;
    *within = false;
    for (int n = 0; n < CYCLE_MOST && frame && !*within && (frame = word_in((const void *)frame, layout.back)); n++) {
        caller = caller ? caller : own_code(frame);
        *within = (word_in((const void *)frame, layout.code) & ~TAGS) == code;
    }
    return caller;
}
