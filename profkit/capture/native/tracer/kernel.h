/* What the kernel knows of a thread: time on a CPU, time queued for one; and the end of threads, and forks. */
#ifndef PROFKIT_KERNEL_H
#define PROFKIT_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct table;

/* One reading, nanoseconds: `at` by CLOCK_MONOTONIC, `run` and `wait` since the thread began. */
struct reading {
    int64_t at, run, wait;
};

/* A file that stays open, and what it is known by: the target may close it and reuse its number. */
struct kernel_file {
    bool opened;
    int descriptor;
    dev_t device;
    ino_t inode;
};

/* Counts the forks between the process that loaded the module and this one. */
extern unsigned kernel_generation;

#if defined(__GLIBC__)
/* A fixed offset from the thread pointer instead of a function call; glibc keeps room for a few of these. */
#define FAST_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) _Thread_local
#else
#define FAST_THREAD_LOCAL _Thread_local
#endif

/* The table that the calling thread's last event went to, for one who looks there first; NULL after its end. */
extern FAST_THREAD_LOCAL struct table *kernel_last_table;

/* Once a process: register for the end of threads and for forks. False if the system refuses. */
bool kernel_start(void);

pid_t kernel_thread_id(void);

/* Give the calling thread a table of descriptors of its own, which is empty: what it opens takes no number from the program. False
 * before Linux 5.9, and where the system refuses it. */
bool kernel_own_descriptors(void);

/* Read the calling thread's counters; false where the kernel does not report them. */
bool kernel_read_own(struct reading *reading);

/* The same for another thread of this process; slower by a factor of five. */
bool kernel_read_other(pid_t thread, struct reading *reading);

/* The CPU time of a thread of this process, ns; false where it has ended. */
bool kernel_cpu_time(pid_t thread, int64_t *ns);

/* The time in the run queue of a thread of this process, ns, by a file that stays open (zeroed at first); false where it is not
 * known. */
bool kernel_wait_of(pid_t thread, struct kernel_file *schedstat, int64_t *ns);
void kernel_close(struct kernel_file *file);

/* What /proc has of a thread of this process under a name, by a file as above; false where it has nothing. */
bool kernel_text_of(pid_t thread, const char *name, struct kernel_file *file, char *text, size_t room);

/* The state of a thread of this process as the kernel's letter (R where it runs, or would run if it had a CPU), and the CPU that it
 * is on, by a file as above; false where that is not known. */
bool kernel_state_of(pid_t thread, struct kernel_file *stat, char *state, int *cpu);

/* Copy memory of this process as pread(2) does, by a file of the calling thread's that stays open: −1 where it cannot be read. */
ssize_t kernel_read_memory(uintptr_t from, void *to, size_t bytes);
void kernel_close_memory(void);

/* Have `table` marked as ended when the calling thread ends. False when memory is exhausted. */
bool kernel_follow(struct table *table);

/* The process goes on without the tracer, which is off: let go of the file of the tables, and close all descriptors. The
 * memory of the tables stays, since threads that go on refer to it. With the GIL. */
void kernel_let_go(void);

#endif
