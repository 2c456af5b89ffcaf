/*
 * Drives the NVTX collector as C programs do: `nvtx_client SCENARIO [NUMBER]`. What the calls return is checked
 * here; what they leave in the files is checked by tests/integration/test_nvtx_native.py, which runs this under
 * AddressSanitizer and valgrind too.
 */
#define _GNU_SOURCE
#include "nvtx_client.h"

#include "../../profkit/capture/native/nvtx/listener.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                    \
            _exit(9);                                                                                          \
        }                                                                                                      \
    } while (0)

static long number;

static void every_kind(void)
{
    nv_category(7, "loading");
    nv_thread((uint32_t)getpid(), "the main one");
    void *domain = nv_domain("my library");
    CHECK(domain != NULL && nv_domain("my library") == domain);
    CHECK(nv_domain_wide(L"h\u00e9") != domain);
    CHECK(nv_domain("TSL") == NULL);
    nv_domain_category(domain, 7, "storing");
    void *epoch = nv_register(domain, "epoch");
    CHECK(epoch != NULL && nv_register(domain, "epoch") == epoch);

    CHECK(nv_push("outer") == 0);
    CHECK(nv_push_wide(L"\u5185\U0001F600") == 1);
    event_t event = event_registered(epoch);
    event.category = 7;
    event.color_type = 1;
    event.color = 0xFF112233u;
    event.payload_type = 5;
    event.payload.u64 = ~0ull;
    event.payload.i32 = -5;
    CHECK(nv_domain_push(domain, &event) == 0); /* each domain has its own stack */
    CHECK(nv_domain_pop(domain) == 0);
    CHECK(nv_domain_pop(domain) == -2);
    CHECK(nv_pop() == 1);
    CHECK(nv_pop() == 0);
    CHECK(nv_pop() == -2);

    uint64_t first = nv_start("first"), second = nv_domain_start(domain, &event);
    CHECK(first != 0 && second != 0 && first != second);
    nv_end(first);
    nv_domain_end(domain, second);
    nv_end(first);         /* ended twice */
    nv_end(123456789);     /* no range at all */
    nv_mark("here");
    nv_mark_wide(L"there");
    event.payload_type = 3;
    event.payload.f64 = 0.25;
    nv_domain_mark(domain, &event);
    nv_domain_destroy(domain);

    event.size = 20; /* of an age before NVTX 3: counted, but not read */
    CHECK(nv_push_event(&event) == 0);
    CHECK(nv_pop() == 0);
    nv_mark(NULL);
    CHECK(nv_push("never popped") == 0);
    CHECK(nv_start("never ended") != 0);
}

static void *few_ranges(void *argument)
{
    char name[48];
    snprintf(name, sizeof name, "thread %ld", (long)(intptr_t)argument);
    for (int i = 0; i < 3; i++) {
        nv_push(name);
        nv_pop();
    }
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[64];
    for (long done = 0; done < number; done += 8) {
        for (long i = 0; i < 8; i++)
            CHECK(pthread_create(&threads[i], NULL, few_ranges, (void *)(intptr_t)(done + i)) == 0);
        for (long i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
}

static volatile int stop;

static void *busy(void *argument)
{
    long n = 0;
    char name[48];
    while (!stop) {
        snprintf(name, sizeof name, "%s %ld", (const char *)argument, n++ % 100);
        nv_push(name);
        nv_pop();
    }
    return NULL;
}

static void forks_beside_threads(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, busy, "beside") == 0);
    void *handle = nv_register(NULL, "registered before the fork");
    nv_category(3, "named before the fork");
    CHECK(nv_push("open across the fork") == 0);
    uint64_t across = nv_start("started in the parent");
    for (long i = 0; i < number; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            event_t event = event_registered(handle);
            CHECK(nv_push_event(&event) == 1);
            CHECK(nv_pop() == 1);
            CHECK(nv_pop() == 0); /* what the parent pushed */
            nv_end(across);
            few_ranges((void *)(intptr_t)i);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    nv_end(across);
    CHECK(nv_pop() == 0);
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void ranges(void)
{
    for (long i = 0; i < number; i++) {
        nv_push("range");
        nv_pop();
    }
}

static void unique_names(void)
{
    char name[48];
    for (long i = 0; i < number; i++) {
        snprintf(name, sizeof name, "step %ld of run", i);
        nv_push(name);
        nv_pop();
    }
}

/* Programs that become daemons close what they do not know. */
static void closes_descriptors(void)
{
    nv_mark("before");
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    char path[] = "/tmp/profkit-nvtx-client-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd == 3 && write(fd, "mine", 4) == 4);
    for (long i = 0; i < number; i++) {
        char name[48];
        snprintf(name, sizeof name, "after %ld", i);
        nv_mark(name);
    }
    char back[8] = "";
    CHECK(lseek(fd, 0, SEEK_END) == 4 && pread(fd, back, 4, 0) == 4 && strcmp(back, "mine") == 0);
    unlink(path);
}

static void nothing(void)
{
    nv_category(1, "named, but there is no event");
}

static void killed(void)
{
    ranges();
    nv_push("killed in it");
    kill(getpid(), SIGKILL);
}

static void crashes(void)
{
    ranges();
    nv_push("crashed in it");
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

/* What the listener was told: b(egins), e(nds), l(eft). */
static char heard[64];

static void hear_push(uint32_t domain, uint32_t name) { (void)domain, (void)name; }
static void hear_pop(uint32_t domain) { (void)domain; }
static void hear_watched(bool begins) { heard[strlen(heard)] = begins ? 'b' : 'e'; }
static void hear_left(void) { heard[strlen(heard)] = 'l'; }

static void *pushes_one(void *argument)
{
    nv_push("request");
    nv_pop();
    return argument;
}

static void *leaves_one_open(void *argument)
{
    nv_push("request");
    return argument;
}

static void in_thread(void *(*function)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void starts_one(void)
{
    nv_end(nv_start("request"));
}

static void tell(void)
{
    printf("%s\n", heard);
    fflush(stdout);
    memset(heard, 0, sizeof heard);
}

/* Watches a range that several threads have at once: all of them, if the number is 1. */
static void watched(void)
{
    static const struct range_listener listener = {sizeof listener, hear_push, hear_pop, hear_watched, hear_left};
    void *library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
    nvtx_listen_function listen = (nvtx_listen_function)dlsym(library, NVTX_LISTEN_NAME);
    nvtx_watch_function watch = (nvtx_watch_function)dlsym(library, NVTX_WATCH_NAME);
    listen(&listener);
    CHECK(watch("request", NULL, number == 1));
    nv_push("request"); /* the first is pushed */
    in_thread(pushes_one);
    pushes_one(NULL); /* inside one of its thread: none of its own */
    starts_one();
    nv_pop();
    tell();
    uint64_t id = nv_start("request"); /* the first is started */
    pushes_one(NULL);
    nv_end(id);
    tell();
    in_thread(leaves_one_open);
    pushes_one(NULL);
    tell();
    id = nv_start("request");
    pid_t child = fork();
    if (child == 0) {
        memset(heard, 0, sizeof heard);
        pushes_one(NULL);
        starts_one();
        nv_end(id); /* the parent's */
        tell();
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    nv_end(id);
    tell();
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"nothing", nothing},
    {"every-kind", every_kind},
    {"threads", many_threads},
    {"forks", forks_beside_threads},
    {"ranges", ranges},
    {"unique", unique_names},
    {"descriptors", closes_descriptors},
    {"kill", killed},
    {"segfault", crashes},
    {"watched", watched},
};

int main(int count, char **words)
{
    CHECK(count >= 2);
    number = count > 2 ? atol(words[2]) : 0;
    CHECK(client_load() == 1);
    CHECK(told_version == 3);
    CHECK(client_load() == 1); /* as every library of a process does that contains NVTX */
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (strcmp(words[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    return 2;
}
