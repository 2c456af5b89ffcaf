/* Yardsticks: fixed work in C whose CPU time shows how fast the machine is. One extension module for all
 * interpreters (limited API); the launcher repeats pieces of about 0.1 ms. The work must never change, so that machines
 * stay comparable. */
#define Py_LIMITED_API 0x03080000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#define HAS_FLUSH 1
static void flush(const void *line) { _mm_clflush(line); }
static void flushed(void) { _mm_mfence(); }
#elif defined(__aarch64__)
#define HAS_FLUSH 1
static void flush(const void *line) { __asm__ volatile("dc civac, %0" : : "r"(line) : "memory"); }
static void flushed(void) { __asm__ volatile("dsb ish" : : : "memory"); }
#else
#define HAS_FLUSH 0
#endif

/* Loops for about 0.1 ms on a server CPU of 2020. */
enum { INTEGER_LOOPS = 40000, BRANCH_LOOPS = 25000, VECTOR_LOOPS = 20000 };
/* Nodes visited once each, too far apart for prefetching: 256 kB. */
enum { NODES = 1024, NODE_BYTES = 256 };
/* Lines read in order: 512 kB. */
enum { LINES = 8192, LINE_BYTES = 64 };

/* Receives results, so that the compiler must compute them. */
static volatile uint64_t sink;

/* A chain of dependent operations: the clock frequency. */
static void integer(void) {
    uint64_t x = sink | 1;
    for (int i = 0; i < INTEGER_LOOPS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        x ^= x >> 29;
    }
    sink = x;
}

/* Unpredictable branches, half of them taken. */
static void branches(void) {
    static uint64_t state = 88172645463325252u;
    uint64_t x = state, taken = 0;
    for (int i = 0; i < BRANCH_LOOPS; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (x & 1) {
            __asm__ volatile("" : "+r"(taken)); /* prevents a conditional move */
            taken++;
        }
    }
    state = x;
    sink = taken;
}

typedef float floats __attribute__((vector_size(32)));

/* As many parallel multiplications and additions of floats as the unit can do. */
static inline __attribute__((always_inline)) void multiply(void) {
    const floats factor = {0.999f, 0.998f, 0.997f, 0.996f, 0.995f, 0.994f, 0.993f, 0.992f};
    floats a = factor, b = factor, c = factor, d = factor, e = factor, f = factor, g = factor, h = factor;
    for (int i = 0; i < VECTOR_LOOPS; i++) {
        a = a * factor + factor, b = b * factor + factor, c = c * factor + factor, d = d * factor + factor;
        e = e * factor + factor, f = f * factor + factor, g = g * factor + factor, h = h * factor + factor;
    }
    a = a + b + c + d + e + f + g + h;
    sink = (uint64_t)(a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7]);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void multiply_avx2(void) { multiply(); }
#endif

static void vector(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        multiply_avx2();
        return;
    }
#endif
    multiply();
}

#if HAS_FLUSH
/* Memory for the two pieces that read it, touched once. */
static unsigned char *memory;

static int have_memory(void) {
    if (memory != NULL)
        return 1;
    const size_t size = (size_t)LINES * LINE_BYTES;
    void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        return 0;
    unsigned char *const begin = found;
    for (size_t at = 0; at < size; at += LINE_BYTES)
        begin[at + 8] = 1;
    /* Sattolo's shuffle: one cycle through all nodes. */
    uint32_t order[NODES];
    uint64_t x = 88172645463325252u;
    for (uint32_t i = 0; i < NODES; i++)
        order[i] = i;
    for (uint32_t i = NODES - 1; i > 0; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        const uint32_t j = (uint32_t)(x % i), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint32_t i = 0; i < NODES; i++)
        *(void **)(begin + (size_t)order[i] * NODE_BYTES) = begin + (size_t)order[(i + 1) % NODES] * NODE_BYTES;
    memory = begin;
    return 1;
}

static void out_of_caches(int step, int count) {
    for (int i = 0; i < count; i++)
        flush(memory + (size_t)i * (size_t)step);
    flushed();
}

/* Each address is read from memory at the previous one. */
static void latency(void) {
    void *at = memory;
    for (int i = 0; i < NODES; i++)
        at = *(void *volatile *)at;
    sink = (uint64_t)(uintptr_t)at;
}

static void bandwidth(void) {
    uint64_t sum = 0;
    for (int i = 0; i < LINES; i++)
        sum += *(const volatile uint64_t *)(memory + (size_t)i * LINE_BYTES + 8);
    sink = sum;
}
#endif

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const struct {
    const char *name;
    void (*work)(void);
    int step, count; /* of the memory flushed from the caches before */
} PIECES[] = {
    {"integer", integer, 0, 0},
    {"branches", branches, 0, 0},
    {"vector", vector, 0, 0},
#if HAS_FLUSH
    {"latency", latency, NODE_BYTES, NODES},
    {"bandwidth", bandwidth, LINE_BYTES, LINES},
#endif
};
enum { KINDS = sizeof PIECES / sizeof PIECES[0] };

static PyObject *piece(PyObject *module, PyObject *number) {
    (void)module;
    const long kind = PyLong_AsLong(number);
    if (kind == -1 && PyErr_Occurred())
        return NULL;
    if (kind < 0 || kind >= KINDS) {
        PyErr_SetString(PyExc_IndexError, "there is no such yardstick");
        return NULL;
    }
    double seconds;
    Py_BEGIN_ALLOW_THREADS;
#if HAS_FLUSH
    if (PIECES[kind].count)
        out_of_caches(PIECES[kind].step, PIECES[kind].count);
#endif
    const double begin = cpu_seconds();
    PIECES[kind].work();
    seconds = cpu_seconds() - begin;
    Py_END_ALLOW_THREADS;
    return PyFloat_FromDouble(seconds);
}

static PyMethodDef METHODS[] = {
    {"piece", piece, METH_O, "Do one piece of the yardstick with this number in NAMES; return its CPU seconds."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef DEFINITION = {
    PyModuleDef_HEAD_INIT, "_yardsticks", "Fixed work that says how fast the machine is.", -1, METHODS, NULL, NULL, NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__yardsticks(void) {
#if HAS_FLUSH
    if (!have_memory())
        return PyErr_NoMemory();
#endif
    PyObject *module = PyModule_Create(&DEFINITION);
    PyObject *names = PyTuple_New(KINDS);
    if (module == NULL || names == NULL)
        goto failed;
    for (Py_ssize_t i = 0; i < KINDS; i++) {
        PyObject *name = PyUnicode_FromString(PIECES[i].name);
        if (name == NULL || PyTuple_SetItem(names, i, name) < 0)
            goto failed;
    }
    if (PyModule_AddObject(module, "NAMES", names) < 0)
        goto failed;
    return module;
failed:
    Py_XDECREF(names);
    Py_XDECREF(module);
    return NULL;
}
