/* The kernel's counters of threads: time on a CPU and queued for one. Also what is kept of each thread to its end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct table;

/* One reading in ns: `at` by CLOCK_MONOTONIC, `run` and `wait` since the thread began. */
struct reading {
    int64_t at, run, wait;
};

/* An open file and its identity: the target may close it and reuse its number. */
struct kernel_file {
    bool opened;
    int descriptor;
    dev_t device;
    ino_t inode;
};

/* The number of forks between the process that loaded the module and this one. */
extern unsigned kernel_generation;

#if defined(__GLIBC__)
/* A fixed offset from the thread pointer, without a function call; glibc has room for a few of these. */
#define FAST_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) _Thread_local
#else
#define FAST_THREAD_LOCAL _Thread_local
#endif

/* The table of the calling thread's last event, as a shortcut; NULL after its end. */
extern FAST_THREAD_LOCAL struct table *kernel_last_table;

/* Have `ended` called at the end of a thread, with its list of tables and without the GIL, once per process; false if
 * the system refuses. */
bool kernel_start(void (*ended)(struct table *tables));

pid_t kernel_thread_id(void);

/* Give the calling thread its own, empty table of descriptors, so that its files take no numbers from the program;
 * false before Linux 5.9. */
bool kernel_own_descriptors(void);

/* Read the calling thread's counters; false if the kernel does not report them. */
bool kernel_read_own(struct reading *reading);

/* The same for another thread of this process, five times slower. */
bool kernel_read_other(pid_t thread, struct reading *reading);

/* Read the CPU time of a thread of this process, ns; false if it has ended. */
bool kernel_cpu_time(pid_t thread, int64_t *ns);

/* Read a thread's run-queue time, ns, through a file that stays open (zeroed at first); false if unknown. */
bool kernel_wait_of(pid_t thread, struct kernel_file *schedstat, int64_t *ns);
void kernel_close(struct kernel_file *file);

/* Read a /proc file of a thread of this process, through a file as above; false if it has none. */
bool kernel_text_of(pid_t thread, const char *name, struct kernel_file *file, char *text, size_t room);

/* Read a thread's state letter (R: runs or is ready to run) and its CPU, through a file as above; false if unknown. */
bool kernel_state_of(pid_t thread, struct kernel_file *stat, char *state, int *cpu);

/* Copy memory of this process like pread(2), through a file kept by the calling thread; -1 if unreadable. */
ssize_t kernel_read_memory(uintptr_t from, void *to, size_t bytes);
void kernel_close_memory(void);

/* Return the head of the calling thread's list of tables; NULL without memory. */
struct table **kernel_tables_here(void);

/* Close the descriptors of all threads, and set their lists of tables to what is `left` of them, if it is not NULL. */
void kernel_close_all(struct table *(*left)(struct table *tables));

/* In a forked child, forget the parent's other threads and close the descriptors of this one, which are the parent's;
 * return the head of its list of tables, NULL if it has none. */
struct table **kernel_forget_others(void);
