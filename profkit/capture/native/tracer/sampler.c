/* See sampler.h. Times are nanoseconds. */
#define _GNU_SOURCE 1
#include "sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "clock.h"
#include "fold.h"
#include "hook.h"
#include "kernel.h"
#include "lines.h"
#include "names.h"
#include "paths.h"
#include "rank_calls.h"
#include "ranges.h"
#include "slices.h"
#include "stacks.h"
#include "store.h"
#include "tables.h"
#include "tiers.h"
#include "waits.h"

/* The mean time between two looks, at least; it is longer where looks take more than this part of a CPU. */
#define LOOK_EVERY_NS 1000000
#define LOOK_MOST_NS 20000000
#define LOOK_IDLE_NS 50000000
#define LOOK_SHARE 0.01

/* The same in the exact tier. */
#define WATCH_EVERY_NS 10000000
#define LIST_EXACT_NS 50000000

/* Looks of which one sees whether a thread runs byte code. */
#define WATCH_EVERY 8

/* Of PRECALL and what belongs to it, on Python 3.11. */
#define BEFORE_CALL_BYTES 4

/* Looks in a row at which a thread went on, after which one counts all the same. */
#define MOST_MISSED 10

/* Threads come and go, and what was seen is booked, so often. New ones are at the head of the interpreter's list. */
#define LIST_EVERY_NS 10000000
#define LIST_WHOLE_NS 100000000
#define BOOK_EVERY_NS 40000000
#define BOOK_IDLE_NS 1000000000

/* Waiting for the GIL that long, others wait as well: the agent's record, for which it is given up and taken again many times,
 * would take seconds, and is put off by so much. */
#define FIGHT_NS 2000000
#define FIGHT_PUTS_OFF_NS 10000000000

/* Looks in a row at which a thread had not run, after which it is looked at less often. */
#define STILL 16
#define STILL_EVERY 8

/* A look that is so much too late, and not for want of a CPU, was kept from looking with all others: the process was stopped. */
#define STOPPED_NS 20000000

/* Off the CPU for no longer than this, a thread has not waited: three counters are not read at one instant. */
#define NO_WAIT_NS 50000

enum { MOST_THREADS = 2048, SLOTS = 2048, MOST_CHARGES = 1024, MOST_CODES = 1 << 17, MOST_SPOTS = 4096, SITES = 1 << 13 };

/* A call of a C function was seen here. Read without the GIL: an entry that is being written is not equal to any place. */
static struct site {
    uintptr_t code;
    int64_t instruction;
    const void *key;
} sites[SITES];

struct seen_thread {
    struct seen_thread *next; /* of those that have ended */
    uintptr_t state;
    unsigned long ident;
    pid_t native;
    struct kernel_file schedstat, stat, call;
    int cpu;                 /* that it was on when that was last asked; -1 for not known */
    unsigned missed;         /* looks in a row at which it went on meanwhile */
    struct table *table;     /* retained; NULL until something is booked */
    struct stack stack;
    int64_t at, run, wait;   /* the counters at the last look */
    int64_t stood;           /* when it was last found not to have run since then */
    bool running;            /* at the last look, */
    enum pause_kind what;    /* or what it waited for */
    bool ran;                /* since the look before that */
    bool there, listed;      /* it has been looked at; it was in the last list */
    int32_t charge;          /* what its stack at the last look was charged with, -1 for none */
    unsigned still, skip;
    bool moves;              /* set while it is charged with time in which it ran byte code */
    int64_t pending_run, pending_blocked; /* without a stack so far */
    int64_t stopped;         /* ns for which the process was stopped, that are charged with nothing yet */
};

/* What of a charge its innermost frame was at one place for. */
struct spot {
    struct spot *next; /* of the same charge */
    int64_t instruction, ns, n;
};

/* What one stack of one thread was charged with since the last booking. */
struct charge {
    struct seen_thread *thread;
    struct context *context;
    const void *leaf; /* the definition of a C function that was running, NULL for none */
    int64_t place;    /* in its innermost code, where that may call what waits for other ranks; else -1 */
    uint64_t hash;
    enum pause_kind what; /* it waited for; or PAUSE_HELD_GIL, of which `blocked` is what others waited */
    const uintptr_t *codes; /* innermost first */
    uint32_t n;
    bool certain; /* as of the stack */
    int64_t run, wait, blocked, samples;
    double squares;
    struct spot *spots, *spot; /* all of them, and the one of the last look; NULL for none */
};

/* What looks have seen since the last booking, and what is being booked. */
struct seen {
    struct charge *charges;
    uintptr_t *codes;
    struct spot *spots;
    uint32_t n_charges, n_codes, n_spots;
    int32_t slots[SLOTS];
};

/* Held for a look and while what was seen is taken, and never while Python runs or the GIL is waited for. It guards all that the two
 * threads share: those that are seen, and `fresh`. */
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static struct seen_thread **threads;
static size_t n_threads;
static struct seen sets[2], *fresh = &sets[0];
static bool changing; /* the tier: looks wait meanwhile */

/* One thread looks, one takes the GIL: a thread that waits for it sees nothing, for seconds where others let go of it often. */
static pthread_t booker, looker;
static pid_t booker_number, looker_number;
static bool started, joinable, wanted_again;
static int forking; /* threads that are about to fork: none of them finds it running */
static pthread_mutex_t ending = PTHREAD_MUTEX_INITIALIZER;
static PyThreadState *mine;
static PyObject *change_function;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell, orders;  /* for the looker, for the booker */
static bool stopping, woken;
static bool ordered, looked_last;    /* what was seen is to be booked; no look comes any more */

static bool was_stopped; /* since the last look: nobody waited for what it was seen to wait for */
static _Atomic bool unrecorded; /* something ran since the agent has last looked: a process that does nothing is left alone */
static _Atomic int64_t looker_ns, booked; /* the looker's CPU time; when the last booking ended */
static int64_t looks;                     /* how often it has looked */

void sampler_threads(pid_t numbers[2]) {
    numbers[0] = booker_number;
    numbers[1] = looker_number;
}

static struct site *site_of(uintptr_t code, int64_t instruction) {
    uint64_t mixed = (code >> 4) * 31 + (uint64_t)instruction;
    return &sites[(mixed * UINT64_C(0x9E3779B97F4A7C15)) >> 51];
}

void sampler_saw_call(uintptr_t code, int64_t instruction, const void *key) {
    struct site *site = site_of(code, instruction);
    if (LIKELY(site->code == code && site->instruction == instruction && site->key == key))
        return;
    site->code = 0;
    atomic_thread_fence(memory_order_release);
    site->instruction = instruction;
    site->key = key;
    atomic_thread_fence(memory_order_release);
    site->code = code;
}

static const void *called_at(uintptr_t code, int64_t instruction) {
    const struct site *site = site_of(code, instruction);
    const void *key = site->code == code && site->instruction == instruction ? site->key : NULL;
    atomic_thread_fence(memory_order_acquire);
    return site->code == code && site->instruction == instruction ? key : NULL;
}

/* Random times, so that looks do not keep step with the program (Mytkowicz et al., "Evaluating the accuracy of Java
 * profilers", 2010). */
static uint64_t random_state;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int64_t around(int64_t mean) { return mean / 2 + (int64_t)(next_random() % (uint64_t)(mean | 1)); }

/* Threads */

static void forget_thread(struct seen_thread *seen) {
    kernel_close(&seen->schedstat);
    kernel_close(&seen->stat);
    kernel_close(&seen->call);
    if (seen->table) {
        int64_t run;
        if (!seen->table->followed && !kernel_cpu_time(seen->native, &run))
            atomic_store(&seen->table->ended, true);
        table_release(seen->table);
    }
    stacks_free(&seen->stack);
    free(seen);
}

static bool listed_before; /* a thread that is new in the list has begun since */

static struct seen_thread *thread_of(uintptr_t state, const struct seen_state *is) {
    for (size_t i = 0; i < n_threads; i++)
        if (threads[i]->state == state && threads[i]->native == is->native && threads[i]->ident == is->ident)
            return threads[i];
    struct seen_thread *seen = n_threads < MOST_THREADS ? calloc(1, sizeof *seen) : NULL;
    if (!seen)
        return NULL;
    *seen = (struct seen_thread){.state = state, .ident = is->ident, .native = is->native, .cpu = -1, .charge = -1};
    int64_t run;
    if (listed_before && tiers_now() == TIER_SAMPLED && kernel_cpu_time(seen->native, &run)) {
        seen->there = true; /* it has begun just now: all that it has run is charged at the first look */
        seen->at = clock_monotonic_ns() - run;
    }
    return threads[n_threads++] = seen;
}

static uintptr_t newest; /* the state at the head of the list when that was last followed, and what it said */
static struct seen_state newest_was;

/* Follow the list of thread states to one side of our own, which stays. */
static void list_side(bool before) {
    struct seen_state is;
    uintptr_t state = (uintptr_t)mine;
    for (size_t i = 0; i <= MOST_THREADS && stacks_state(state, &is); i++) {
        newest = before ? state : newest;
        if (state != (uintptr_t)mine) {
            struct seen_thread *seen = is.native > 0 && is.native != booker_number ? thread_of(state, &is) : NULL;
            if (seen)
                seen->listed = true;
        }
        state = before ? is.before : is.after;
        if (!state)
            break;
    }
}

static void list_threads(void) {
    for (size_t i = 0; i < n_threads; i++)
        threads[i]->listed = false;
    newest = (uintptr_t)mine;
    list_side(true);
    list_side(false);
    listed_before = true;
    if (!stacks_state(newest, &newest_was))
        newest = 0;
}

static bool has_new_threads(void) {
    struct seen_state is;
    return !newest || !stacks_state(newest, &is) || is.before != newest_was.before || is.after != newest_was.after ||
           is.ident != newest_was.ident || is.native != newest_was.native;
}

/* Charging */

static struct spot *spot_in(struct charge *charge, int64_t instruction) {
    struct spot *spot = charge->spots;
    while (spot && spot->instruction != instruction)
        spot = spot->next;
    if (!spot && fresh->n_spots < MOST_SPOTS) {
        spot = &fresh->spots[fresh->n_spots++];
        *spot = (struct spot){.next = charge->spots, .instruction = instruction};
        charge->spots = spot;
    }
    return spot;
}

static struct charge *charge_of(struct seen_thread *seen, enum pause_kind what) {
    const struct stack *stack = &seen->stack;
    const void *leaf = stack->n ? called_at(stack->frames[0].code, stack->frames[0].instruction) : NULL;
#if !defined(PROFKIT_ABI3) && PY_VERSION_HEX >= 0x030B0000
    /* What calls a C function there is one of two instructions; where the frame is not traced, most often the first. */
    if (!leaf && stack->n)
        leaf = called_at(stack->frames[0].code, stack->frames[0].instruction + BEFORE_CALL_BYTES);
#endif
    int64_t place = !leaf && stack->n && !seen->moves && rank_calls_possible() ? stack->frames[0].instruction : -1;
    struct context *context = seen->table ? *(struct context *volatile *)&seen->table->context : NULL;
    uint64_t hash = stack->certain + 2 * (uint64_t)what + 977 * (uint64_t)place + (uint64_t)(uintptr_t)seen + (uint64_t)(uintptr_t)leaf * 3 + (uint64_t)(uintptr_t)context * 5;
    uint32_t n = 0;
    for (size_t i = 0; i < stack->n; i++)
        if (stack->frames[i].code) {
            hash = (hash ^ stack->frames[i].code) * UINT64_C(0x9E3779B97F4A7C15);
            hash ^= hash >> 29;
            n++;
        }
    size_t slot = hash % SLOTS;
    for (; fresh->slots[slot]; slot = (slot + 1) % SLOTS) {
        struct charge *known = &fresh->charges[fresh->slots[slot] - 1];
        if (known->hash == hash && known->n == n && known->thread == seen)
            return known;
    }
    if (fresh->n_charges == MOST_CHARGES || fresh->n_codes + n > MOST_CODES)
        return NULL;
    struct charge *charge = &fresh->charges[fresh->n_charges++];
    *charge = (struct charge){.thread = seen, .context = context, .leaf = leaf, .place = place, .hash = hash, .what = what, .codes = fresh->codes + fresh->n_codes, .n = n, .certain = stack->certain};
    for (size_t i = 0; i < stack->n; i++)
        if (stack->frames[i].code)
            fresh->codes[fresh->n_codes++] = stack->frames[i].code;
    fresh->slots[slot] = (int32_t)fresh->n_charges;
    return charge;
}

/* What is charged for the last stack of a thread, at the place where it is in its innermost function. */
static struct charge *charge_for(struct seen_thread *seen, enum pause_kind what) {
    struct charge *charge = charge_of(seen, what);
    size_t innermost = 0;
    while (innermost < seen->stack.n && !seen->stack.frames[innermost].code)
        innermost++;
    if (charge)
        charge->spot = innermost < seen->stack.n ? spot_in(charge, seen->stack.frames[innermost].instruction) : NULL;
    return charge;
}

static void add(struct charge *charge, int64_t run, int64_t wait, int64_t blocked, bool is_sample) {
    double whole = (double)(run + wait + blocked);
    is_sample &= whole > 0;
    charge->run += run;
    charge->wait += wait;
    charge->blocked += blocked;
    charge->samples += is_sample;
    charge->squares += is_sample ? whole * whole : 0.0;
    if (charge->spot) {
        charge->spot->ns += run + wait + blocked;
        charge->spot->n += is_sample;
    }
}

static struct charge *last_charge(const struct seen_thread *seen) {
    return seen->charge >= 0 ? &fresh->charges[seen->charge] : NULL;
}

static void set_charge(struct seen_thread *seen, const struct charge *charge) {
    seen->charge = charge ? (int32_t)(charge - fresh->charges) : -1;
}

/* A stack is read apart, and becomes that of its thread where it is charged: what was charged last stays known until then. */
static struct stack trial;

static bool try_stack(const struct seen_thread *seen) {
    return stacks_copy_of(&seen->stack, &trial) && stacks_read(seen->state, &trial);
}

static void swap_stacks(struct seen_thread *seen) {
    struct stack before = seen->stack;
    seen->stack = trial;
    trial = before;
}

/* Whether a thread has not run since the last look, and so is where it was: off the CPU, or queueing, which its counter says when it
 * runs again. False in `there` where it has ended. */
static bool stands_still(struct seen_thread *seen, int64_t *run, bool *there) {
    *there = kernel_cpu_time(seen->native, run);
    bool still = *there && seen->there && *run == seen->run && seen->charge >= 0 && !seen->running;
    seen->still += still;
    if (still)
        seen->stood = clock_monotonic_ns();
    seen->ran = *there && !still && (!seen->there || *run > seen->run);
    return still;
}

/* Others have waited for the GIL: it is charged to what the thread does that has it. */
static void charge_holder(int64_t waited) {
    uintptr_t state = waits_holder();
    for (size_t i = 0; state && waited > 0 && i < n_threads; i++)
        if (threads[i]->state == state && try_stack(threads[i])) {
            swap_stacks(threads[i]);
            struct charge *charge = charge_for(threads[i], PAUSE_HELD_GIL);
            if (charge)
                add(charge, 0, 0, waited, true);
            swap_stacks(threads[i]);
        }
}

/* Charge what of a time off the CPU the process was stopped for to where the thread is; returns the rest. */
static int64_t charge_stop(struct seen_thread *seen, int64_t off) {
    int64_t stopped = seen->stopped < off ? seen->stopped : off;
    struct charge *charge = stopped > 0 ? charge_for(seen, PAUSE_STOPPED) : NULL;
    seen->stopped = 0;
    if (!charge)
        return off;
    add(charge, 0, 0, stopped, true);
    return off - stopped;
}

/* The process was stopped for so long. What threads stood in goes on without what they waited for. */
static void note_stop(int64_t ns) {
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        seen->stopped += seen->there || tiers_now() == TIER_EXACT ? ns : 0;
        set_charge(seen, seen->charge >= 0 ? charge_for(seen, PAUSE_NONE) : NULL);
        seen->what = PAUSE_NONE;
    }
}

/* In the exact tier a thread's waiting is measured by the tracer; here is seen what for. */
static void see_wait(struct seen_thread *seen, int64_t ran) {
    int64_t now = clock_monotonic_ns(), off = seen->at ? now - seen->at - ran : 0;
    seen->at = now;
    if (ran > 0 || seen->charge < 0) {
        enum pause_kind what = waits_for(seen->native, &seen->call, &seen->stat);
        set_charge(seen, what != PAUSE_NONE && stacks_read(seen->state, &seen->stack) ? charge_for(seen, what) : NULL);
        seen->what = what;
    }
    if (seen->stopped && stacks_read(seen->state, &seen->stack))
        charge_stop(seen, seen->stopped);
    struct charge *charge = last_charge(seen);
    if (!charge || off <= 0 || was_stopped)
        return;
    add(charge, 0, 0, off, true);
    if (charge->what == PAUSE_GIL)
        charge_holder(off);
}

/* Look at one thread, which does not run meanwhile: it has ended its turn, or this thread has taken its CPU. False where it has ended. */
static bool look(struct seen_thread *seen) {
    int64_t run, after, now = clock_monotonic_ns();
    bool there;
    char state;
    if (stands_still(seen, &run, &there) || !there)
        return there;
    int64_t ran = run - seen->run, elapsed = now - seen->at;
    if (!try_stack(seen) || !kernel_cpu_time(seen->native, &after) ||
        !kernel_state_of(seen->native, &seen->stat, &state, &seen->cpu))
        return true; /* the kernel, or the next list, says whether it has ended */
    if (after != run && ++seen->missed < MOST_MISSED)
        return true; /* its frames were not of one instant */
    swap_stacks(seen);
    seen->missed = 0;
    seen->still = 0;
    int64_t waited = seen->wait, off = elapsed - ran;
    if (seen->there && off <= NO_WAIT_NS) { /* what a look itself takes of its time */
        ran = elapsed;
        off = 0;
    }
    if ((!seen->there || off > NO_WAIT_NS) && !kernel_wait_of(seen->native, &seen->schedstat, &waited))
        waited = seen->wait;
    bool runs = state == 'R';
    enum pause_kind what = runs ? PAUSE_NONE : waits_for(seen->native, &seen->call, &seen->stat);
    struct charge *before = last_charge(seen), *charge = charge_for(seen, what);
    if (runs && charge)
        tiers_ran_in(charge->leaf != NULL, ran);
    bool running = runs, ran_before = seen->running;
    if (seen->there) {
        int64_t wait = waited - seen->wait;
        wait = wait < 0 ? 0 : wait > off ? (off < 0 ? 0 : off) : wait;
        int64_t blocked = off - wait > 0 ? off - wait : 0;
        if (running || !before) {
            ran += seen->pending_run;
            seen->pending_run = 0;
            if (charge)
                add(charge, ran, 0, 0, true);
            else
                seen->pending_run = ran;
        } else if (ran_before) {
            add(before, ran, 0, 0, true);
        } else {
            seen->pending_run += ran;
        }
        struct charge *queued = ran_before || !before ? charge : before;
        if (queued && wait)
            add(queued, 0, wait, 0, true);
        blocked = charge_stop(seen, blocked + seen->pending_blocked);
        seen->pending_blocked = 0;
        if (!ran_before && before && !running && charge && charge != before) {
            /* It ran in between: nothing says when, but for how long it surely had not. */
            int64_t sure = seen->stood > seen->at ? seen->stood - seen->at : 0;
            sure = sure < blocked ? sure : blocked;
            add(before, 0, 0, sure + (blocked - sure) / 2, true);
            add(charge, 0, 0, (blocked - sure) - (blocked - sure) / 2, true);
        } else if (!ran_before && before) {
            add(before, 0, 0, blocked, blocked > NO_WAIT_NS);
        } else if (!running && charge) {
            add(charge, 0, 0, blocked, blocked > NO_WAIT_NS);
        } else if (before && charge) { /* a wait that no look has met, or it was stopped */
            add(before, 0, 0, blocked / 2, blocked > NO_WAIT_NS);
            add(charge, 0, 0, blocked - blocked / 2, blocked > NO_WAIT_NS);
        } else {
            seen->pending_blocked = blocked;
        }
        if (what == PAUSE_GIL && !was_stopped)
            charge_holder(blocked);
    }
    set_charge(seen, charge);
    seen->at = now;
    seen->run = run;
    seen->wait = waited;
    seen->running = running;
    seen->what = what;
    seen->there = true;
    return true;
}

/* Threads that stand still are charged, so that what is booked goes up to now: those that have stood for long, or all. */
static void charge_still(bool all) {
    int64_t now = clock_monotonic_ns();
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        struct charge *charge = last_charge(seen);
        if (!seen->still || !charge || (!all && now - seen->at < BOOK_IDLE_NS))
            continue;
        int64_t waited = seen->wait;
        kernel_wait_of(seen->native, &seen->schedstat, &waited);
        int64_t off = now - seen->at, wait = waited - seen->wait;
        wait = wait < 0 ? 0 : wait > off ? off : wait;
        add(charge, 0, wait, off - wait, false);
        seen->at = now;
        seen->wait = waited;
    }
}

static int64_t own_cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Booking, with the GIL */

static struct table *table_of(struct seen_thread *seen, bool may_make) {
    int64_t run;
    bool runs = kernel_cpu_time(seen->native, &run);
    if (seen->table && seen->table->folded == 0 && (!runs || !table_ended(seen->table)))
        return seen->table;
    struct table *table = runs ? tables_running(seen->native, seen->ident) : tables_last(seen->native, seen->ident);
    if (!table && !may_make)
        return NULL; /* it was never seen to run Python */
    if (!table)
        table = table_new(TABLE_OF_SAMPLES, seen->native, seen->ident);
    else
        table_retain(table);
    struct table *before = seen->table;
    pthread_mutex_lock(&seen_lock); /* looks ask it for the range that is open */
    seen->table = table;
    pthread_mutex_unlock(&seen_lock);
    if (before)
        table_release(before);
    if (table)
        agent_name_thread(table);
    return table;
}

/* The innermost function of a charge that its table knows. */
static struct function *innermost_known(const struct table *table, const struct charge *charge) {
    for (uint32_t i = 0; i < charge->n + (charge->leaf != NULL); i++) {
        const void *key = charge->leaf && i == 0 ? charge->leaf : (const void *)charge->codes[i - (charge->leaf != NULL)];
        const struct name *name = names_known(key);
        const struct edge *edge = name ? edges_find(&table->functions, name) : NULL;
        if (edge)
            return edge->callee;
    }
    return table->base;
}

/* Book the time of a charge in a sampled process; returns the function that it is booked in. */
static struct function *book_time(struct table *table, const struct charge *charge) {
    struct edge *inside[STACK_MOST + 1], *edge = NULL;
    size_t n = 0;
    int64_t whole = clock_ticks_in(charge->run + charge->wait + charge->blocked);
    struct function *caller = table->base;
    struct path *path = table->stack->path;
    for (uint32_t i = charge->n + (charge->leaf != NULL); i-- > 0;) {
        bool leaf = charge->leaf && i == 0;
        const void *key = leaf ? charge->leaf : (const void *)charge->codes[i - (charge->leaf != NULL)];
        struct edge *found = edges_find(&caller->callees, key);
        if (!found && leaf)
            found = table_known_edge(table, caller, key);
        else if (!found && !charge->certain)
            break; /* nothing else has seen that call */
        else if (!found && (names_known(key) || stacks_is_code((uintptr_t)key)))
            found = table_add_edge(table, caller, key, (PyObject *)key, NULL);
        if (!found)
            continue; /* it is gone, or the interpreter's own: the time is its caller's */
        edge = found;
        struct function *function = edge->callee;
        path = path_of(table, path, edge);
        if (function->open++ == 0) {
            function->total += whole;
            function->sampled += whole;
            function->cumulative_wait += charge->wait;
            function->cumulative_blocked += charge->blocked;
        }
        if (edge->open++ == 0) {
            edge->total += whole;
            edge->cumulative_wait += charge->wait;
            edge->cumulative_blocked += charge->blocked;
        }
        inside[n++] = edge;
        caller = function;
    }
    if (edge) {
        edge->own += whole;
        edge->wait += charge->wait;
        edge->blocked += charge->blocked;
        edge->samples += charge->samples;
        edge->squares += charge->squares;
        edge->sampled += whole;
        path->own += whole;
        path->wait += charge->wait;
        path->blocked += charge->blocked;
        if (charge->context)
            ranges_sampled(table, charge->context, edge->callee, whole, charge->wait, charge->blocked);
    }
    while (n > 0) {
        inside[--n]->open--;
        inside[n]->callee->open--;
    }
    table->wait += charge->wait;
    table->blocked += charge->blocked;
    table->last = clock_ticks();
    return caller;
}

/* Book in which lines the time of a charge was; it was booked in a function. */
static void book_lines(struct table *table, struct function *function, const struct charge *charge) {
    PyObject *code = charge->n ? (PyObject *)charge->codes[0] : NULL;
    const struct name *name = code ? names_known(code) : NULL; /* it keeps the code */
    const struct edge *edge = name ? edges_find(&table->functions, name) : NULL;
    if (!edge || !(edge->callee == function || charge->leaf) || function == table->base)
        return;
    for (const struct spot *spot = charge->spots; spot; spot = spot->next) {
        int line = spot->ns > 0 ? lines_at(code, lines_byte(spot->instruction)) : -1;
        if (line > 0)
            lines_add(table, function, edge->callee->number, (uint32_t)line, spot->ns, spot->n);
    }
}

static void book(const struct charge *charge, bool sampled) {
    struct table *table = table_of(charge->thread, sampled);
    if (!table)
        return;
    bool is_time = sampled && charge->what != PAUSE_HELD_GIL && table->top == table->stack;
    struct function *function = is_time ? book_time(table, charge) : innermost_known(table, charge);
    if (charge->what != PAUSE_HELD_GIL) {
        book_lines(table, function, charge);
        if (function != table->base)
            slices_add(table, function, charge->run + charge->wait + charge->blocked);
    }
    PyObject *code = charge->place >= 0 && charge->n ? (PyObject *)charge->codes[0] : NULL;
    if (charge->what != PAUSE_HELD_GIL && code && rank_calls_at(code, charge->place))
        pause_add(table, function, PAUSE_RANKS, charge->run + charge->blocked, charge->samples);
    else if (charge->what != PAUSE_NONE && charge->blocked > 0)
        pause_add(table, function, charge->what, charge->blocked, charge->samples);
}

static void empty(struct seen *set) {
    set->n_charges = set->n_codes = set->n_spots = 0;
    memset(set->slots, 0, sizeof set->slots);
}

/* Take what was seen, and the threads that have ended. Looks go on with the other set, which is empty. */
static struct seen *take_seen(struct seen_thread **ended) {
    struct seen *taken = fresh;
    size_t left = 0;
    fresh = taken == &sets[0] ? &sets[1] : &sets[0];
    *ended = NULL;
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        if (!seen->listed) {
            seen->next = *ended;
            *ended = seen;
            continue;
        }
        threads[left++] = seen;
        if (seen->charge >= 0) /* it may stay there for long */
            set_charge(seen, charge_for(seen, seen->what));
    }
    n_threads = left;
    return taken;
}

static void book_all(bool last) {
    int64_t samples = 0;
    bool sampled = tiers_now() == TIER_SAMPLED;
    struct seen_thread *ended, *next;
    pthread_mutex_lock(&seen_lock);
    if (sampled)
        charge_still(last);
    struct seen *taken = take_seen(&ended);
    pthread_mutex_unlock(&seen_lock);
    slices_booked(clock_monotonic_ns());
    for (uint32_t i = 0; i < taken->n_charges; i++) {
        const struct charge *charge = &taken->charges[i];
        samples += charge->what == PAUSE_HELD_GIL ? 0 : charge->samples;
        if (charge->run + charge->wait + charge->blocked > 0)
            book(charge, sampled);
    }
    empty(taken);
    for (; ended; ended = next) {
        next = ended->next;
        forget_thread(ended);
    }
    if (sampled)
        tiers_sampled(samples, looker_ns + own_cpu_ns());
}

/* Nothing that was opened for them stays open. */
static void forget_all(void) {
    for (size_t i = 0; i < n_threads; i++)
        forget_thread(threads[i]);
    n_threads = 0;
}

/* From here on threads are charged. The GIL is held: what stands still now may do so for long, and is where it is. */
static void begin_charging(void) {
    list_threads();
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        char state;
        bool known = kernel_state_of(seen->native, &seen->stat, &state, &seen->cpu) && stacks_read(seen->state, &seen->stack);
        seen->there = kernel_cpu_time(seen->native, &seen->run);
        seen->at = clock_monotonic_ns();
        seen->running = known && state == 'R';
        seen->what = known && !seen->running ? waits_for(seen->native, &seen->call, &seen->stat) : PAUSE_NONE;
        set_charge(seen, known ? charge_for(seen, seen->what) : NULL);
        seen->still = seen->skip = 0;
        seen->pending_run = seen->pending_blocked = 0;
        if (!kernel_wait_of(seen->native, &seen->schedstat, &seen->wait))
            seen->wait = 0;
    }
}

static void hold_looks(bool on) {
    pthread_mutex_lock(&seen_lock);
    changing = on;
    pthread_mutex_unlock(&seen_lock);
}

static void change_tier(void) {
    enum tier before = tiers_now();
    hold_looks(true);
    book_all(true); /* what was seen was seen in this tier */
    PyObject *done = change_function ? PyObject_CallFunctionObjArgs(change_function, NULL) : NULL;
    Py_XDECREF(done);
    PyErr_Clear();
    if (before == TIER_EXACT && tiers_now() == TIER_SAMPLED) {
        pthread_mutex_lock(&seen_lock);
        begin_charging();
        pthread_mutex_unlock(&seen_lock);
    } else {
        tiers_want(tiers_now()); /* it was not possible */
    }
    hold_looks(false);
}

static void end_state(void) {
    PyThreadState_Clear(mine);
    PyEval_ReleaseThread(mine);
    PyThreadState_Delete(mine);
    mine = NULL;
}

/* Take the GIL, and do all that needs it. */
static void with_gil(bool last) {
    int64_t asked = clock_monotonic_ns();
    PyEval_AcquireThread(mine);
    bool fought_for = clock_monotonic_ns() - asked > FIGHT_NS;
    int64_t used = own_cpu_ns(); /* the agent's Python gives the GIL up in between, when others want it */
    bool sampled = tiers_now() == TIER_SAMPLED;
    if (sampled)
        tiers_end_burst();
    if (waits_unlearnt())
        waits_learn((uintptr_t)mine);
    rank_calls_look();
    book_all(last);
    if (last) {
        if (!sampled)
            tiers_look();
        hook_burst_over();
        end_state();
        return;
    }
    int64_t overdue = clock_ticks() - agent_due; /* negative where it is not */
    if (sampled && unrecorded && overdue > (fought_for ? clock_ticks_in(FIGHT_PUTS_OFF_NS) : 0)) {
        unrecorded = false;
        agent_remind(NULL);
    }
    if (!sampled)
        tiers_look();
    if (tiers_wanted() != tiers_now())
        change_tier();
    else if (sampled)
        tiers_begin_burst();
    tiers_held_gil(own_cpu_ns() - used);
    PyEval_ReleaseThread(mine);
}

/* The thread */

/* For how long this thread has queued. */
static int64_t own_queueing(void) {
    struct reading reading;
    return kernel_read_other(looker_number, &reading) ? reading.wait : 0;
}

/* Sleep; false when it is to end. */
static bool sleep_ns(int64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&lock);
    while (!stopping && !woken && pthread_cond_timedwait(&bell, &lock, &until) != ETIMEDOUT) {
    }
    woken = false;
    bool goes_on = !stopping;
    pthread_mutex_unlock(&lock);
    return goes_on;
}

/* In the exact tier the time of functions is measured by the tracer; here is seen in which lines a thread runs. */
static void see_run(struct seen_thread *seen, int64_t ran, bool moves) {
    bool in_call = !moves && rank_calls_possible(), runs = seen->what == PAUSE_NONE;
    struct charge *charge = NULL;
    seen->moves = moves;
    if ((runs || in_call) && stacks_read(seen->state, &seen->stack))
        charge = charge_for(seen, PAUSE_NONE);
    seen->moves = false;
    if (charge)
        add(charge, ran + seen->pending_run, 0, 0, true);
    seen->pending_run = charge ? 0 : seen->pending_run + ran; /* as in look() */
}

/* See whether a thread that runs beside this one runs byte code; whether the budget is to be looked at. */
static bool watch_thread(struct seen_thread *seen, int64_t *last) {
    int64_t run, after;
    if (!kernel_cpu_time(seen->native, &run)) {
        seen->listed = false;
        return false;
    }
    int64_t ran = *last ? run - *last : 0;
    *last = run;
    seen->ran = ran > 0;
    if (tiers_now() == TIER_EXACT)
        see_wait(seen, ran);
    if (ran <= 0)
        return false;
    bool moves = stacks_moves(seen->state);
    if (tiers_now() == TIER_EXACT)
        see_run(seen, ran, moves);
    return kernel_cpu_time(seen->native, &after) && after > run && tiers_ran(ran, moves);
}

/* Where this thread may run: where it could when it began, or where the one is that it is to look at, which does not run then. */
static cpu_set_t everywhere;
static int own_cpu = -1; /* −1 for everywhere, −2 for all but one */

static void move_to(int cpu) {
    cpu_set_t one;
    if (cpu == own_cpu)
        return;
    CPU_ZERO(&one);
    if (cpu >= 0 && cpu < CPU_SETSIZE)
        CPU_SET(cpu, &one);
    bool moved = sched_setaffinity(0, sizeof one, cpu >= 0 && cpu < CPU_SETSIZE ? &one : &everywhere) == 0;
    own_cpu = moved ? cpu : -1;
}

/* Leave the CPU of a thread that is to run meanwhile; where there is no other, it cannot be watched. */
static void move_away_from(int cpu) {
    cpu_set_t others = everywhere;
    if (cpu >= 0 && cpu < CPU_SETSIZE)
        CPU_CLR(cpu, &others);
    move_to(-1);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        own_cpu = -2;
}

/* The thread that is looked at next, and its CPU: those that run take turns. NULL where none runs. */
static struct seen_thread *next_to_see(const struct seen_thread *last, int *cpu) {
    static size_t turn;
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[(turn + i) % n_threads];
        if (seen->listed && (seen->ran || seen->charge < 0)) {
            char state;
            turn = (turn + i + 1) % n_threads;
            if (seen != last && !kernel_state_of(seen->native, &seen->stat, &state, &seen->cpu))
                seen->cpu = -1;
            *cpu = seen->cpu;
            return seen;
        }
    }
    return NULL;
}

/* Look at the one whose turn it is, and see which others run; whether any has. In the exact tier all are watched, and `due` says
 * whether the budget is to be looked at. */
static bool look_at_all(struct seen_thread *turn, bool *due) {
    bool any = false, exact = tiers_now() == TIER_EXACT;
    *due = false;
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        int64_t run, watched = seen->run;
        bool there = true;
        if (!seen->listed || (seen->still > STILL && ++seen->skip % STILL_EVERY))
            continue;
        if (exact) {
            *due |= watch_thread(seen, &seen->run);
        } else if (seen == turn) {
            there = look(seen);
        } else if (!stands_still(seen, &run, &there) && there && !turn) {
            watch_thread(seen, &watched);
        }
        seen->listed &= there;
        any |= seen->ran;
    }
    looks++;
    return any;
}

/* The last time: what is pending is charged to where the threads are. */
static void look_at_rest(void) {
    for (size_t i = 0; i < n_threads; i++) {
        threads[i]->missed = MOST_MISSED;
        if (threads[i]->listed)
            look(threads[i]);
        struct charge *charge = last_charge(threads[i]);
        if (charge)
            add(charge, threads[i]->pending_run, 0, threads[i]->pending_blocked, false);
    }
}

static void order_booking(bool last) {
    pthread_mutex_lock(&lock);
    ordered = true;
    looked_last |= last;
    pthread_cond_signal(&orders);
    pthread_mutex_unlock(&lock);
}

/* The thread that looks. */
static void *look_on(void *Py_UNUSED(nothing)) {
    looker_number = kernel_thread_id();
    prctl(PR_SET_NAME, "profkit");
    int64_t listed = 0, followed = 0, every = WATCH_EVERY_NS;
    struct seen_thread *turn = NULL, *last;
    bool ran = false, any = false, due = false;
    sched_getaffinity(0, sizeof everywhere, &everywhere);
    own_cpu = -1;
    int64_t queued = own_queueing(), asked = around(every), slept = clock_monotonic_ns();
    for (; sleep_ns(asked); asked = around(every), slept = clock_monotonic_ns()) {
        int64_t now = clock_monotonic_ns(), late = now - slept - asked, since = now - booked;
        int64_t stood = late > STOPPED_NS ? late - (own_queueing() - queued) : 0;
        int cpu = -1;
        pthread_mutex_lock(&seen_lock);
        bool exact = tiers_now() == TIER_EXACT;
        was_stopped = stood > STOPPED_NS;
        if (was_stopped)
            note_stop(stood);
        if (now - followed > LIST_WHOLE_NS || (now - listed > (exact ? LIST_EXACT_NS : LIST_EVERY_NS) && has_new_threads())) {
            list_threads();
            followed = now;
        }
        if (now - listed > LIST_EVERY_NS)
            listed = now;
        if (!changing)
            any = look_at_all(turn, &due);
        last = turn;
        turn = next_to_see(last, &cpu);
        bool watches = exact || looks % WATCH_EVERY == 0, has_charges = fresh->n_charges > 0;
        pthread_mutex_unlock(&seen_lock);
        if (turn && cpu >= 0)
            watches ? move_away_from(cpu) : move_to(cpu);
        turn = watches ? NULL : turn;
        ran |= any;
        unrecorded |= any;
        bool to_book = exact ? has_charges && ran && since > BOOK_IDLE_NS : since > BOOK_EVERY_NS && (ran || since > BOOK_IDLE_NS);
        if (due || tiers_wanted() != tiers_now() || to_book || (waits_unlearnt() && has_charges)) {
            order_booking(false); /* threads that have ended go as well */
            queued = own_queueing();
            ran = false;
        }
        looker_ns = own_cpu_ns();
        int64_t mean = (int64_t)((double)looker_ns / (double)looks / LOOK_SHARE);
        int64_t fewest = exact ? WATCH_EVERY_NS : LOOK_EVERY_NS;
        mean = mean < fewest ? fewest : mean > LOOK_MOST_NS ? LOOK_MOST_NS : mean;
        /* Where nothing runs it may take a while. */
        every = any ? mean : 2 * every > LOOK_IDLE_NS ? LOOK_IDLE_NS : 2 * every < mean ? mean : 2 * every;
    }
    pthread_mutex_lock(&seen_lock);
    if (tiers_now() == TIER_SAMPLED)
        look_at_rest();
    pthread_mutex_unlock(&seen_lock);
    looker_ns = own_cpu_ns();
    order_booking(true);
    return NULL;
}

static bool create(pthread_t *thread, void *(*run)(void *), void *of) {
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 << 10);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool created = pthread_create(thread, &attributes, run, of) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return created;
}

/* The thread that books what was seen, and does all else that needs the GIL. */
static void *book_on(void *of) {
    booker_number = kernel_thread_id();
    prctl(PR_SET_NAME, "profkit");
    mine = PyThreadState_New(of); /* here, as it is of the thread that makes it */
    if (!mine)
        return NULL;
    booked = clock_monotonic_ns();
    slices_booked(booked);
    if (!create(&looker, look_on, NULL)) {
        PyEval_AcquireThread(mine);
        end_state();
        return NULL;
    }
    for (bool last = false; !last;) {
        pthread_mutex_lock(&lock);
        while (!ordered)
            pthread_cond_wait(&orders, &lock);
        last = looked_last;
        pthread_mutex_unlock(&lock);
        with_gil(last);
        booked = clock_monotonic_ns();
        pthread_mutex_lock(&lock);
        ordered = looked_last && !last; /* what was asked for meanwhile is asked for again, but for the end */
        pthread_mutex_unlock(&lock);
    }
    pthread_join(looker, NULL);
    booker_number = looker_number = 0;
    return NULL;
}

static void make_locks(void) {
    pthread_condattr_t attributes;
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&seen_lock, NULL);
    pthread_mutex_init(&ending, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&bell, &attributes);
    pthread_cond_init(&orders, &attributes);
    pthread_condattr_destroy(&attributes);
}

static bool make_room(void) {
    static bool known = false;
    if (known)
        return true;
    make_locks();
    threads = calloc(MOST_THREADS, sizeof(struct seen_thread *));
    known = threads;
    for (int i = 0; i < 2; i++) {
        sets[i].charges = calloc(MOST_CHARGES, sizeof *sets[i].charges);
        sets[i].codes = malloc(MOST_CODES * sizeof *sets[i].codes);
        sets[i].spots = malloc(MOST_SPOTS * sizeof *sets[i].spots);
        known = known && sets[i].charges && sets[i].codes && sets[i].spots;
    }
    return known;
}

static PyInterpreterState *interpreter(void) {
#if !defined(PROFKIT_ABI3) && PY_VERSION_HEX < 0x03090000
    return _PyInterpreterState_Get();
#else
    return PyInterpreterState_Get();
#endif
}

static bool start_threads(void) {
    stopping = woken = ordered = looked_last = changing = false;
    looker_ns = looks = 0;
    listed_before = false;
    random_state = (uint64_t)clock_monotonic_ns() * UINT64_C(0x9E3779B97F4A7C15) | 1;
    return started = joinable = create(&booker, book_on, interpreter());
}

bool sampler_start(PyObject *change) {
    PyObject *before = change_function;
    Py_XINCREF(change);
    change_function = change;
    Py_XDECREF(before);
    wanted_again = forking > 0;
    return started || (stacks_start() && make_room() && (wanted_again || start_threads()));
}

static void ring(bool stop) {
    pthread_mutex_lock(&lock);
    stopping |= stop;
    woken = true;
    pthread_cond_signal(&bell);
    pthread_mutex_unlock(&lock);
}

void sampler_wake(void) {
    if (started && !pthread_equal(booker, pthread_self()))
        ring(false);
}

/* One that forks and one that ends the session may both come here: each returns when the threads have ended. */
static void stop_threads(void) {
    ring(true);
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&ending);
    if (joinable) {
        pthread_join(booker, NULL);
        joinable = started = false;
    }
    pthread_mutex_unlock(&ending);
    Py_END_ALLOW_THREADS
}

void sampler_pause(void) {
    forking++;
    if (!started)
        return;
    wanted_again |= !stopping;
    stop_threads();
}

void sampler_stop(void) {
    wanted_again = false;
    if (started)
        stop_threads();
    forget_all();
}

static int start_again(void *Py_UNUSED(nothing)) {
    if (wanted_again && !started && !forking)
        start_threads();
    return 0;
}

void sampler_resume(void) {
    forking -= forking > 0;
    if (wanted_again && !forking)
        Py_AddPendingCall(start_again, NULL);
}

void sampler_forget(void) {
    started = joinable = wanted_again = stopping = false;
    forking = 0;
    booker_number = looker_number = 0;
    for (size_t i = 0; i < n_threads; i++) {
        kernel_close(&threads[i]->schedstat);
        kernel_close(&threads[i]->stat);
        kernel_close(&threads[i]->call);
    }
    n_threads = 0;
    empty(&sets[0]);
    empty(&sets[1]);
    slices_forget();
    make_locks();
    mine = NULL;
}
