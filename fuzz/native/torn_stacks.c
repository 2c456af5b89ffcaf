/*
 * Stacks of another thread that change while they are read: between any two system calls of the reader, words of them are
 * written, and pages go and come back. Whatever is there, only memory of the reader's own is written; a stack that
 * it calls certain is what a plain walk finds at that instant, and its code objects are code objects.
 */
#define _GNU_SOURCE 1
#include <sys/uio.h>
#include <unistd.h>

static ssize_t torn_read(pid_t process, const struct iovec *here, unsigned long n_here, const struct iovec *there,
                         unsigned long n_there, unsigned long flags);
#define process_vm_readv torn_read
#include "stacks.c"
#undef process_vm_readv

#include <sys/mman.h>
#include <sys/syscall.h>

#include "input.h"
#include "interpreter.h"

/* The only way of reading here is process_vm_readv(2). */
pid_t kernel_thread_id(void) { return (pid_t)syscall(SYS_gettid); }
ssize_t kernel_read_memory(uintptr_t Py_UNUSED(from), void *Py_UNUSED(to), size_t Py_UNUSED(bytes)) { return -1; }
void kernel_close_memory(void) {}

enum { PAGE = 4096, PAGES = 8, BYTES = PAGE * PAGES, CODES = 4, MOST_TEARS = 64 };

static char *arena; /* the thread's state, its frames, and what points to them */
static bool there[PAGES];
static uintptr_t codes[CODES];

/* Changes of the arena, each before a system call of the reader. */
static struct tear {
    unsigned call;
    uint32_t what;
    uint8_t kind;
} tears[MOST_TEARS];
static size_t n_tears, next_tear;
static unsigned n_calls;

static void set_page(size_t page, bool is_there)
{
    MUST(mprotect(arena + page * PAGE, PAGE, is_there ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
    there[page] = is_there;
}

static void put(size_t at, uintptr_t word)
{
    if (at <= BYTES - sizeof word && there[at / PAGE] && there[(at + sizeof word - 1) / PAGE])
        memcpy(arena + at, &word, sizeof word);
}

/* An address in the arena (mostly where a frame may be), at an end of a page or of all memory, or of code; or a number. */
static uintptr_t word_of(uint8_t kind, uint32_t what)
{
    switch (kind % 8) {
    case 0:
        return 0;
    case 1:
        return codes[what % CODES] | (what >> 8 & TAGS);
    case 2:
        return (uintptr_t)arena + what % (BYTES + PAGE);
    case 3:
        return (uintptr_t)arena + (what % PAGES + 1) * PAGE - what % 97;
    case 4:
        return UINTPTR_MAX - what % 256;
    case 5:
        return what % 4096;
    default:
        return (uintptr_t)arena + what % (BYTES / 64) * 64;
    }
}

/* The frames that were laid last. */
static struct laid {
    size_t first, apart, depth;
} laid;

/* Write a word: mostly into what a frame holds, or anywhere; or take or bring a page. */
static void change(uint8_t kind, uint32_t what)
{
    size_t where = what >> 16;
    if (kind >= 0xF0) {
        set_page(what % PAGES, kind & 1);
        return;
    }
    if (kind % 64 < 48 && laid.depth > 0) {
        size_t fields[] = {layout.back, layout.code, layout.instruction, layout.back};
        where = laid.first + where / 4 % laid.depth * laid.apart + fields[where % 4];
    } else {
        where = where % BYTES & ~(size_t)(kind & 0x80 ? 0 : 7);
    }
    put(where, word_of(kind, what & 0xFFFF));
}

static ssize_t torn_read(pid_t process, const struct iovec *here, unsigned long n_here, const struct iovec *there_,
                         unsigned long n_there, unsigned long flags)
{
    for (; next_tear < n_tears && tears[next_tear].call <= n_calls; next_tear++)
        change(tears[next_tear].kind, tears[next_tear].what);
    n_calls++;
    return process_vm_readv(process, here, n_here, there_, n_there, flags);
}

static bool read_word(uintptr_t from, uintptr_t *word)
{
    struct iovec here = {word, sizeof *word}, place = {(void *)from, sizeof *word};
    return process_vm_readv(getpid(), &here, 1, &place, 1, 0) == sizeof *word;
}

static bool is_one_of_codes(uintptr_t code)
{
    bool is = false;
    for (int i = 0; i < CODES; i++)
        is = is || codes[i] == code;
    return is;
}

/* Walk the frames as they are now; what the reader is certain of must be their beginning, or all of them. */
static void check(uintptr_t state, const struct stack *stack, bool was_deep)
{
    uintptr_t at, code;
    MUST(stack->n <= STACK_MOST && (stack->n == 0 || stack->frames));
    for (size_t i = 0; i < stack->n; i++)
        MUST(!stack->frames[i].code || is_one_of_codes(stack->frames[i].code));
    if (!stack->certain)
        return;
    MUST(layout.through || stack->holder == state + layout.frame);
    /* The thread may have entered another C function's frame since: then this was its stack the moment before. */
    MUST(read_word(stack->holder, &at));
    for (size_t i = 0; i < stack->n; i++) {
        const struct seen_frame *frame = &stack->frames[i];
        MUST(at == frame->at && read_word(at + layout.code, &code) && read_word(at + layout.back, &at));
        MUST(frame->back == at && (!frame->code || frame->code == (code & ~TAGS)));
    }
    MUST(at == 0 || stack->n == STACK_MOST || was_deep);
}

static PyObject *start_stacks(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(nothing))
{
    MUST(stacks_start() && !by_file);
    Py_RETURN_NONE;
}

static PyMethodDef start = {"start", start_stacks, METH_NOARGS, NULL};

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count;
    (void)words;
    start_interpreter();
    PyObject *names = names_after(&start, "def within(): start()\n"
                                          "within()\n"
                                          "codes = [compile('0', f'{n}', 'exec') for n in range(4)]\n");
    for (int i = 0; i < CODES; i++)
        codes[i] = (uintptr_t)PyList_GetItem(PyDict_GetItemString(names, "codes"), i);
    arena = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(arena != MAP_FAILED);
    return 0;
}

/* A whole stack: a thread state, what its frame is held by, and frames with every so many bytes between. */
static void lay_frames(struct input *input)
{
    laid.depth = take_byte(input) * (size_t)(1 + take_byte(input) % 4);
    laid.apart = 72 + 8 * (take_byte(input) % 32);
    laid.first = 2048 + take_byte(input) * 8;
    while (laid.first + laid.depth * laid.apart > BYTES)
        laid.depth--;
    put(layout.frame, (uintptr_t)arena + (layout.through ? 1024 : laid.first));
    put(1024 + CURRENT_FRAME, (uintptr_t)arena + laid.first);
    for (size_t i = 0; i < laid.depth; i++) {
        size_t at = laid.first + i * laid.apart;
        put(at + layout.code, codes[i % CODES]);
        put(at + layout.instruction, codes[i % CODES] + layout.code_head + 2 * (i % 32));
        put(at + layout.back, i + 1 < laid.depth ? (uintptr_t)arena + at + laid.apart : 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct stack stack = {0}, other = {0};
    struct seen_state seen;
    bool was_deep = false;
    laid.depth = 0;
    for (size_t page = 0; page < PAGES; page++)
        set_page(page, true);
    memset(arena, 0, BYTES);
    while (input.left > 0) {
        uint8_t kind = take_byte(&input);
        switch (kind % 8) {
        case 0:
            lay_frames(&input);
            break;
        case 1:
            change(take_byte(&input), take_word(&input));
            break;
        case 2:
        case 3:
            for (n_tears = 0; n_tears < kind / 8 && n_tears < MOST_TEARS; n_tears++) {
                unsigned after = n_tears ? tears[n_tears - 1].call : 0;
                tears[n_tears] = (struct tear){after + take_byte(&input) % 4, 0, take_byte(&input)};
                tears[n_tears].what = take_word(&input);
            }
            break;
        case 4:
            stacks_moves((uintptr_t)arena);
            break;
        case 5:
            stacks_state((uintptr_t)arena + take_byte(&input) * 8, &seen);
            MUST(stacks_copy_of(&stack, &other) && other.n == stack.n);
            break;
        default:
            n_calls = next_tear = 0;
            if (stacks_read((uintptr_t)arena, &stack))
                check((uintptr_t)arena, &stack, was_deep);
            n_tears = 0;
            was_deep = was_deep || stack.n == STACK_MOST;
            for (size_t i = 0; i < stack.n && i < 8; i++)
                stacks_is_byte_code(&stack.frames[i]);
        }
    }
    n_tears = 0;
    stacks_free(&stack);
    stacks_free(&other);
    return 0;
}
