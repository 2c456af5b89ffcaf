/* Reads /proc and the thread's CPU clock, and keeps descriptors per OS thread. `run` comes from the CPU clock, since
 * schedstat's first field lags by up to a timer tick; `wait`, its second field, is exact. */
#include "python_api.h" /* first: it configures the system headers */
#include "kernel.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

/* Our descriptors stay above this if the process's limit allows: programs that close a standard stream and open a
 * file rely on getting the lowest number. */
#define LOWEST_DESCRIPTOR 512

/* Linux's clock id of a thread's CPU time: bit 2 means "a thread", the low bits 2 mean CPU time. */
#define CPU_CLOCK_OF(thread) ((clockid_t)((~(unsigned)(thread) << 3) | 6u))

/* Three counters count as read at one instant below this time, ns (it takes 1200); otherwise the thread lost the CPU
 * in between, likely at the end of a system call. */
#define AT_ONCE_NS 20000
#define TRIES 3

struct os_thread {
    struct kernel_file schedstat, memory;
    struct table *tables; /* by `next_of_thread` */
    struct os_thread *next, **place; /* of all threads */
};

static struct os_thread *all_threads;
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;

unsigned kernel_generation = 0;

FAST_THREAD_LOCAL struct table *kernel_last_table = NULL;

static pthread_key_t key;
static _Thread_local struct os_thread *here;
static void (*at_end)(struct table *tables);

pid_t kernel_thread_id(void) { return (pid_t)syscall(SYS_gettid); }

static bool still_ours(const struct kernel_file *file) {
    struct stat status;
    return fstat(file->descriptor, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode;
}

void kernel_close(struct kernel_file *file) {
    if (file->opened && still_ours(file))
        close(file->descriptor);
    file->opened = false;
}

static void close_files(struct os_thread *thread) {
    kernel_close(&thread->schedstat);
    kernel_close(&thread->memory);
}

/* Runs at a thread's end, without the GIL: must not touch Python. */
static void thread_ends(void *value) {
    struct os_thread *thread = value;
    here = NULL;
    kernel_last_table = NULL;
    pthread_mutex_lock(&threads_lock);
    *thread->place = thread->next;
    if (thread->next)
        thread->next->place = thread->place;
    close_files(thread);
    at_end(thread->tables);
    pthread_mutex_unlock(&threads_lock);
    free(thread);
}

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE_FIRST 2u /* CLOSE_RANGE_UNSHARE, missing in old headers */

bool kernel_own_descriptors(void) { return syscall(SYS_close_range, 0u, ~0u, UNSHARE_FIRST) == 0; }

bool kernel_start(void (*ended)(struct table *tables)) {
    at_end = ended;
    return pthread_key_create(&key, thread_ends) == 0;
}

static struct os_thread *this_thread(void) {
    if (!here) {
        struct os_thread *thread = calloc(1, sizeof *thread);
        if (!thread)
            return NULL;
        if (pthread_setspecific(key, thread) != 0) {
            free(thread);
            return NULL;
        }
        pthread_mutex_lock(&threads_lock);
        thread->next = all_threads;
        thread->place = &all_threads;
        if (all_threads)
            all_threads->place = &thread->next;
        all_threads = thread;
        pthread_mutex_unlock(&threads_lock);
        here = thread;
    }
    return here;
}

struct table **kernel_tables_here(void) {
    struct os_thread *thread = this_thread();
    return thread ? &thread->tables : NULL;
}

void kernel_close_all(struct table *(*left)(struct table *tables)) {
    pthread_mutex_lock(&threads_lock);
    for (struct os_thread *thread = all_threads; thread; thread = thread->next) {
        close_files(thread);
        if (left)
            thread->tables = left(thread->tables);
    }
    pthread_mutex_unlock(&threads_lock);
}

struct table **kernel_forget_others(void) {
    pthread_mutex_init(&threads_lock, NULL); /* another thread of the parent may have held it */
    all_threads = here;
    if (!here)
        return NULL;
    here->next = NULL;
    here->place = &all_threads;
    close_files(here);
    return &here->tables;
}

/* Open a file, unless open, with a descriptor out of the program's way; false if impossible. */
static bool is_open(struct kernel_file *file, const char *path) {
    struct stat status;
    if (file->opened && still_ours(file))
        return true;
    file->opened = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC), high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    if (fd < 0)
        return false;
    if (fstat(fd, &status) != 0) {
        close(fd);
        return false;
    }
    *file = (struct kernel_file){true, fd, status.st_dev, status.st_ino};
    return true;
}

static bool text_in(int fd, char *text, size_t room) {
    ssize_t size = pread(fd, text, room - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    return size > 0;
}

static bool parse_wait(int fd, int64_t *wait) {
    char text[80];
    if (!text_in(fd, text, sizeof text))
        return false;
    char *run_end, *wait_end;
    strtoull(text, &run_end, 10);
    if (run_end == text || *run_end != ' ')
        return false;
    unsigned long long value = strtoull(run_end + 1, &wait_end, 10);
    if (wait_end == run_end + 1 || *wait_end != ' ')
        return false;
    *wait = (int64_t)value;
    return true;
}

static bool cpu_time(clockid_t clock, int64_t *ns) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        return false;
    *ns = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    return true;
}

bool kernel_cpu_time(pid_t thread, int64_t *ns) { return cpu_time(CPU_CLOCK_OF(thread), ns); }

static bool read_at_once(int fd, clockid_t clock, struct reading *reading) {
    for (int i = 0; i < TRIES; i++) {
        int64_t begin = clock_monotonic_ns();
        if (!cpu_time(clock, &reading->run) || !parse_wait(fd, &reading->wait))
            return false;
        reading->at = clock_monotonic_ns();
        if (reading->at - begin < AT_ONCE_NS)
            break;
    }
    return true;
}

bool kernel_read_own(struct reading *reading) {
    struct os_thread *thread = this_thread();
    return thread && is_open(&thread->schedstat, "/proc/thread-self/schedstat") &&
           read_at_once(thread->schedstat.descriptor, CLOCK_THREAD_CPUTIME_ID, reading);
}

static bool open_of(pid_t thread, const char *name, struct kernel_file *file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)thread, name);
    return is_open(file, path);
}

bool kernel_read_other(pid_t thread, struct reading *reading) {
    struct kernel_file schedstat = {0};
    bool done = open_of(thread, "schedstat", &schedstat) && read_at_once(schedstat.descriptor, CPU_CLOCK_OF(thread), reading);
    kernel_close(&schedstat);
    return done;
}

ssize_t kernel_read_memory(uintptr_t from, void *to, size_t bytes) {
    struct os_thread *thread = this_thread();
    if (!thread || !is_open(&thread->memory, "/proc/self/mem"))
        return -1;
    return pread(thread->memory.descriptor, to, bytes, (off_t)from);
}

void kernel_close_memory(void) {
    if (here)
        kernel_close(&here->memory);
}

bool kernel_wait_of(pid_t thread, struct kernel_file *schedstat, int64_t *ns) {
    return open_of(thread, "schedstat", schedstat) && parse_wait(schedstat->descriptor, ns);
}

bool kernel_text_of(pid_t thread, const char *name, struct kernel_file *file, char *text, size_t room) {
    return open_of(thread, name, file) && text_in(file->descriptor, text, room);
}

/* The state is the first word after the name in brackets, the CPU the 37th. */
#define WORDS_TO_CPU 36

bool kernel_state_of(pid_t thread, struct kernel_file *stat, char *state, int *cpu) {
    char text[512];
    if (!kernel_text_of(thread, "stat", stat, text, sizeof text))
        return false;
    const char *word = strrchr(text, ')');
    if (!word || word[1] != ' ')
        return false;
    *state = word[2];
    word += 2;
    for (int i = 0; i < WORDS_TO_CPU && word; i++) {
        word = strchr(word, ' ');
        word = word ? word + 1 : NULL;
    }
    *cpu = word ? atoi(word) : -1;
    return true;
}
