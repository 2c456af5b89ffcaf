/* Each thread writes records into its own chunk without a lock, and leaves the rest to another thread at its end. A
 * forked child begins again, with its own files. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "names.h"
#include "threads.h"

/* Small at first, as a program may have a thousand threads with few ranges; then four times the previous size, as
 * mapping costs microseconds. */
enum { FIRST_CHUNK = 1 << 14, LARGEST_CHUNK = 1 << 22 };

/* A rest of a chunk with room for fewer records is dropped. */
enum { LEAST_REST = 16 };

struct rest {
    struct rest *next;
    struct chunk chunk;
    struct record *free;
};

_Thread_local struct thread *thread_self;

static struct thread *all;
static struct rest *rests;
static uint32_t serials;
static pthread_key_t at_exit;
static uint32_t forking;

static struct record *end_of(const struct chunk *chunk)
{
    return chunk->begin + chunk->bytes / sizeof(struct record);
}

static void unlink_thread(struct thread *thread)
{
    if (thread->before != NULL)
        thread->before->after = thread->after;
    else
        all = thread->after;
    if (thread->after != NULL)
        thread->after->before = thread->before;
}

static void thread_ended(void *argument)
{
    struct thread *thread = argument;
    thread_self = NULL;
    pthread_mutex_lock(&collector_lock);
    unlink_thread(thread);
    struct rest *rest = NULL;
    if (thread->chunk.begin != NULL && thread->end - thread->next >= LEAST_REST)
        rest = malloc(sizeof *rest);
    if (rest != NULL) {
        *rest = (struct rest){rests, thread->chunk, thread->next};
        rests = rest;
    } else {
        files_drop_chunk(&thread->chunk);
    }
    pthread_mutex_unlock(&collector_lock);
    free(thread->depth);
    free(thread);
}

static struct thread *thread_begins(void)
{
    struct thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL)
        return NULL;
    thread->chunk_bytes = FIRST_CHUNK;
    pthread_mutex_lock(&collector_lock);
    thread->serial = ++serials;
    thread->after = all;
    if (all != NULL)
        all->before = thread;
    all = thread;
    pthread_mutex_unlock(&collector_lock);
    thread_self = thread;
    pthread_setspecific(at_exit, thread);
    return thread;
}

static void put(struct thread *thread, enum record_kind kind, uint32_t string, uint64_t now, uint64_t payload)
{
    struct record *record = thread->next++;
    record->time_ns = now;
    record->payload = payload;
    atomic_store_explicit(&record->head, (uint64_t)kind | (uint64_t)string << 32, memory_order_release);
}

/* Give a thread room, with the lock held: the rest of an ended thread's chunk, or a new chunk. */
static bool take_room(struct thread *thread)
{
    files_drop_chunk(&thread->chunk);
    thread->chunk = (struct chunk){0};
    thread->next = thread->end = NULL;
    struct rest *rest = rests;
    if (rest != NULL) {
        rests = rest->next;
        thread->chunk = rest->chunk;
        thread->next = rest->free;
        free(rest);
    } else {
        if (!names_open_files() || !files_chunk(thread->chunk_bytes, &thread->chunk))
            return false;
        thread->next = thread->chunk.begin;
        if (thread->chunk_bytes < LARGEST_CHUNK)
            thread->chunk_bytes *= 4;
    }
    thread->end = end_of(&thread->chunk);
    return true;
}

struct record *threads_slow_slot(void)
{
    uint64_t now = now_ns();
    struct thread *self = thread_self != NULL ? thread_self : thread_begins();
    bool room = false;
    if (self != NULL && now >= self->retry_ns) {
        pthread_mutex_lock(&collector_lock);
        room = take_room(self);
        pthread_mutex_unlock(&collector_lock);
        if (!room)
            self->retry_ns = now + RETRY_NS;
    }
    if (!room) {
        if (self != NULL)
            self->lost++;
        files_count_lost();
        return NULL;
    }
    put(self, RECORD_SEGMENT, self->serial, now, (uint64_t)syscall(SYS_gettid));
    if (self->lost != 0) {
        put(self, RECORD_GAP, 0, now, self->lost);
        self->lost = 0;
    }
    return self->next++;
}

/* Return the calling thread's number of open ranges in a domain; NULL without memory. */
int32_t *threads_depth(uint16_t domain)
{
    struct thread *self = thread_self != NULL ? thread_self : thread_begins();
    if (self == NULL)
        return NULL;
    if (domain >= self->depths) {
        unsigned more = domain + 8u;
        int32_t *depth = realloc(self->depth, more * sizeof *depth);
        if (depth == NULL)
            return NULL;
        memset(depth + self->depths, 0, (more - self->depths) * sizeof *depth);
        self->depth = depth;
        self->depths = more;
    }
    return &self->depth[domain];
}

static void before_fork(void)
{
    pthread_mutex_lock(&collector_lock);
    forking = (uint32_t)getpid();
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&collector_lock);
}

/* The child has one thread, a copy of the forking one, with its open ranges. */
static void after_fork_in_child(void)
{
    for (struct thread *thread = all, *next; thread != NULL; thread = next) {
        next = thread->after;
        files_drop_chunk(&thread->chunk);
        if (thread == thread_self)
            continue;
        free(thread->depth);
        free(thread);
    }
    while (rests != NULL) {
        struct rest *rest = rests;
        rests = rest->next;
        files_drop_chunk(&rest->chunk);
        free(rest);
    }
    all = thread_self;
    if (thread_self != NULL) {
        thread_self->before = thread_self->after = NULL;
        thread_self->chunk = (struct chunk){0};
        thread_self->next = thread_self->end = NULL;
        thread_self->chunk_bytes = FIRST_CHUNK;
        thread_self->lost = thread_self->retry_ns = 0;
    }
    files_forget(forking);
    collector_generation++;
    pthread_mutex_unlock(&collector_lock);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool ready;

static void prepare(void)
{
    ready = files_configure() && pthread_key_create(&at_exit, thread_ended) == 0 &&
           pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

bool threads_ready(void)
{
    pthread_once(&once, prepare);
    return ready;
}
