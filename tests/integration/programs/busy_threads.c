/* busy_threads THREADS CPU_SECONDS: every thread computes for so long, then sleeps; when all are done, the program
 * waits until somebody who looks now and then must have looked, prints the CPU seconds that it used, and ends. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double limit;
static volatile double sink;
static int done;

static void *work(void *unused) {
    struct timespec used;
    double x = 0;
    do {
        for (int i = 0; i < 1000; i++)
            x += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    } while (used.tv_sec + used.tv_nsec * 1e-9 < limit);
    sink = x;
    __atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv) {
    int threads = argc > 2 ? atoi(argv[1]) : 0;
    limit = argc > 2 ? atof(argv[2]) : 0;
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL))
            return 1;
    }
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < threads)
        usleep(20000);
    sleep(3); /* longer than the launcher ever waits between two looks */
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%.6f\n", usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6);
    fflush(stdout);
    _exit(0);
}
