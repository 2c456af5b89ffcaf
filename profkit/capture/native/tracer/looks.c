#define _GNU_SOURCE 1
#include "looks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bursts.h"
#include "clock.h"
#include "rank_calls.h"
#include "tables.h"
#include "tiers.h"

/* Size of PRECALL and its caches on Python 3.11. */
#define BEFORE_CALL_BYTES 4

/* After this many failed looks in a row at a thread that keeps running, a look counts anyway. */
#define MOST_MISSED 10

/* Intervals of listing threads: of checking the list's head (sampled, exact), and of following the whole list. */
#define LIST_EVERY_NS 10000000
#define LIST_EXACT_NS 50000000
#define LIST_WHOLE_NS 100000000

/* A thread that has stood still this long is charged nevertheless. */
#define STOOD_NS 1000000000

/* A thread that has not run for this long is looked at less often. */
#define STILL_NS 1000000000
#define STILL_EVERY 4

/* A shorter time off the CPU is no wait, as the three counters are not read at one instant. */
#define NO_WAIT_NS 50000

/* Where several C functions are called in turn, as by a wrapper, it is unknown which one runs, unless the last one was
 * called this often since. */
#define SURE_CALLS 8

enum { MOST_THREADS = 2048, MOST_CHARGES = 1024, MOST_CODES = 1 << 17, MOST_SPOTS = 4096, SITES = 1 << 13 };

/* Places where a C function was seen to be called. Read without the GIL: a half-written entry equals no place. */
static struct site {
    uintptr_t code;
    int64_t instruction;
    const void *key;
    bool several;   /* another one was called there before */
    unsigned again; /* calls since it changed, if `several` */
} sites[SITES];

pthread_mutex_t looks_lock = PTHREAD_MUTEX_INITIALIZER;

static struct seen_thread **threads;
static size_t n_threads;
static struct seen sets[2], *fresh = &sets[0];
static PyThreadState *mine;
static pid_t my_number;
static bool was_stopped; /* since the last look: threads did not wait for what they were seen to wait for */

static struct site *site_of(uintptr_t code, int64_t instruction) {
    uint64_t mixed = (code >> 4) * 31 + (uint64_t)instruction;
    return &sites[(mixed * UINT64_C(0x9E3779B97F4A7C15)) >> 51];
}

void looks_saw_call(uintptr_t code, int64_t instruction, const void *key) {
    struct site *site = site_of(code, instruction);
    bool same = site->code == code && site->instruction == instruction;
    if (LIKELY(same && site->key == key)) {
        if (UNLIKELY(site->several) && site->again < SURE_CALLS)
            site->again++;
        return;
    }
    site->code = 0;
    atomic_thread_fence(memory_order_release);
    site->instruction = instruction;
    site->key = key;
    site->several = same;
    site->again = 0;
    atomic_thread_fence(memory_order_release);
    site->code = code;
}

static const void *called_at(uintptr_t code, int64_t instruction) {
    const struct site *site = site_of(code, instruction);
    bool known = site->code == code && site->instruction == instruction && (!site->several || site->again >= SURE_CALLS);
    const void *key = known ? site->key : NULL;
    atomic_thread_fence(memory_order_acquire);
    return site->code == code && site->instruction == instruction ? key : NULL;
}

/* Threads */

/* Called by the thread that looks, which has the descriptors. */
static void close_seen(struct seen_thread *seen) {
    kernel_close(&seen->schedstat);
    kernel_close(&seen->stat);
    kernel_close(&seen->call);
}

void looks_forget_thread(struct seen_thread *seen) {
    if (seen->table) {
        int64_t run;
        if (!seen->table->followed && !kernel_cpu_time(seen->native, &run))
            atomic_store(&seen->table->ended, true);
        table_release(seen->table);
    }
    stacks_free(&seen->stack);
    free(seen);
}

static bool listed_before; /* threads that are new in the list have begun since */

static struct seen_thread *thread_of(uintptr_t state, const struct seen_state *is) {
    for (size_t i = 0; i < n_threads; i++)
        if (threads[i]->state == state && threads[i]->native == is->native && threads[i]->ident == is->ident)
            return threads[i];
    struct seen_thread *seen = n_threads < MOST_THREADS ? calloc(1, sizeof *seen) : NULL;
    if (!seen)
        return NULL;
    *seen = (struct seen_thread){.state = state, .ident = is->ident, .native = is->native, .cpu = -1, .charge = -1, .spot = -1};
    int64_t run;
    if (listed_before && tiers_now() == TIER_SAMPLED && kernel_cpu_time(seen->native, &run)) {
        seen->there = true; /* just begun: all its run time is charged at the first look */
        seen->at = clock_monotonic_ns() - run;
    }
    return threads[n_threads++] = seen;
}

static uintptr_t newest; /* the head of the list when last followed, and its contents */
static struct seen_state newest_was;

/* Follow the list of thread states to one side of our own. */
static void list_side(bool before) {
    struct seen_state is;
    uintptr_t state = (uintptr_t)mine;
    for (size_t i = 0; i <= MOST_THREADS && stacks_state(state, &is); i++) {
        newest = before ? state : newest;
        if (state != (uintptr_t)mine) {
            struct seen_thread *seen = is.native > 0 && is.native != my_number ? thread_of(state, &is) : NULL;
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
    for (size_t i = 0; i < n_threads; i++)
        if (!threads[i]->listed)
            close_seen(threads[i]);
    listed_before = true;
    if (!stacks_state(newest, &newest_was))
        newest = 0;
}

static bool has_new_threads(void) {
    struct seen_state is;
    return !newest || !stacks_state(newest, &is) || is.before != newest_was.before || is.after != newest_was.after ||
           is.ident != newest_was.ident || is.native != newest_was.native;
}

static int64_t listed, followed; /* when that was last done */

void looks_list(int64_t now) {
    int64_t every = tiers_now() == TIER_EXACT ? LIST_EXACT_NS : LIST_EVERY_NS;
    if (now - followed > LIST_WHOLE_NS || (now - listed > every && has_new_threads())) {
        list_threads();
        followed = now;
    }
    if (now - listed > LIST_EVERY_NS)
        listed = now;
}

/* Charging */

/* Where a thread is: what its time is charged to, and of that the place in its innermost frame; NULL for none. */
struct where {
    struct charge *charge;
    struct spot *spot;
};

static const struct where NOWHERE;

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
    /* Two instructions call a C function; in an untraced frame it is mostly the first. */
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
    size_t slot = hash % MOST_SLOTS;
    for (; fresh->slots[slot]; slot = (slot + 1) % MOST_SLOTS) {
        struct charge *known = &fresh->charges[fresh->slots[slot] - 1];
        if (known->hash == hash && known->n == n && known->thread == seen)
            return known;
    }
    if (fresh->n_charges == MOST_CHARGES || fresh->n_codes + n > MOST_CODES)
        return NULL;
    struct charge *charge = &fresh->charges[fresh->n_charges++];
    *charge = (struct charge){.thread = seen, .table = seen->table, .context = context, .leaf = leaf, .place = place, .hash = hash, .what = what, .codes = fresh->codes + fresh->n_codes, .n = n, .certain = stack->certain};
    for (size_t i = 0; i < stack->n; i++)
        if (stack->frames[i].code)
            fresh->codes[fresh->n_codes++] = stack->frames[i].code;
    fresh->slots[slot] = (int32_t)fresh->n_charges;
    return charge;
}

static struct where where_of(struct seen_thread *seen, enum pause_kind what) {
    struct charge *charge = charge_of(seen, what);
    size_t innermost = 0;
    while (innermost < seen->stack.n && !seen->stack.frames[innermost].code)
        innermost++;
    if (charge && charge->freed < seen->stack.freed)
        charge->freed = seen->stack.freed; /* seen again, and alive */
    bool in_frame = charge && innermost < seen->stack.n;
    return (struct where){charge, in_frame ? spot_in(charge, seen->stack.frames[innermost].instruction) : NULL};
}

static void add(struct where to, int64_t run, int64_t wait, int64_t blocked, bool is_sample) {
    struct charge *charge = to.charge;
    double whole = (double)(run + wait + blocked);
    is_sample &= whole > 0;
    charge->run += run;
    charge->wait += wait;
    charge->blocked += blocked;
    charge->samples += is_sample;
    charge->squares += is_sample ? whole * whole : 0.0;
    if (to.spot) {
        to.spot->ns += run + wait + blocked;
        to.spot->n += is_sample;
    }
}

static struct where last_where(const struct seen_thread *seen) {
    return (struct where){
        seen->charge >= 0 ? &fresh->charges[seen->charge] : NULL,
        seen->spot >= 0 ? &fresh->spots[seen->spot] : NULL,
    };
}

static void set_where(struct seen_thread *seen, struct where is) {
    seen->charge = is.charge ? (int32_t)(is.charge - fresh->charges) : -1;
    seen->spot = is.spot ? (int32_t)(is.spot - fresh->spots) : -1;
}

/* A stack is read here, and becomes the thread's when it is charged. */
static struct stack trial;

static bool try_stack(const struct seen_thread *seen) {
    return stacks_copy_of(&seen->stack, &trial) && stacks_read(seen->state, &trial);
}

static void swap_stacks(struct seen_thread *seen) {
    struct stack before = seen->stack;
    seen->stack = trial;
    trial = before;
}

/* Whether a thread has not run since the last look, and so is where it was. `there` is false if it has ended. */
static bool stands_still(struct seen_thread *seen, int64_t *run, bool *there) {
    *there = kernel_cpu_time(seen->native, run);
    bool still = *there && seen->there && *run == seen->run && seen->charge >= 0 && !seen->running;
    if (still) {
        seen->stood = clock_monotonic_ns();
        seen->still_since = seen->still++ ? seen->still_since : seen->stood;
    }
    seen->ran = *there && !still && (!seen->there || *run > seen->run);
    return still;
}

/* Charge others' waiting for the GIL to the thread that holds it. */
static void charge_holder(int64_t waited) {
    uintptr_t state = waits_holder();
    for (size_t i = 0; state && waited > 0 && i < n_threads; i++)
        if (threads[i]->state == state && try_stack(threads[i])) {
            swap_stacks(threads[i]);
            struct where holds = where_of(threads[i], PAUSE_HELD_GIL);
            if (holds.charge)
                add(holds, 0, 0, waited, true);
            swap_stacks(threads[i]);
        }
}

/* Charge the part of a time off the CPU in which the process was stopped; return the rest. */
static int64_t charge_stop(struct seen_thread *seen, int64_t off) {
    int64_t stopped = seen->stopped < off ? seen->stopped : off;
    struct where was = stopped > 0 ? where_of(seen, PAUSE_STOPPED) : NOWHERE;
    seen->stopped = 0;
    if (!was.charge)
        return off;
    add(was, 0, 0, stopped, true);
    return off - stopped;
}

/* See what a thread waits for, in the exact tier, where the tracer measures for how long. */
static void see_wait(struct seen_thread *seen, int64_t ran) {
    int64_t now = clock_monotonic_ns(), off = seen->at ? now - seen->at - ran : 0;
    seen->at = now;
    if (ran > 0 || seen->charge < 0) {
        enum pause_kind what = waits_for(seen->native, &seen->call, &seen->stat);
        bool waits = what != PAUSE_NONE && stacks_read(seen->state, &seen->stack);
        set_where(seen, waits ? where_of(seen, what) : NOWHERE);
        seen->what = what;
    }
    if (seen->stopped && stacks_read(seen->state, &seen->stack))
        charge_stop(seen, seen->stopped);
    struct where is = last_where(seen);
    if (!is.charge || off <= 0 || was_stopped)
        return;
    add(is, 0, 0, off, true);
    if (is.charge->what == PAUSE_GIL)
        charge_holder(off);
}

/* Look at one thread, which is not running, as its turn has ended or this thread has its CPU. False if it has ended. */
static bool look(struct seen_thread *seen) {
    int64_t run, after, now = clock_monotonic_ns();
    bool there;
    char state;
    if (stands_still(seen, &run, &there) || !there)
        return there;
    int64_t ran = run - seen->run, elapsed = now - seen->at;
    if (!try_stack(seen) || !kernel_cpu_time(seen->native, &after) ||
        !kernel_state_of(seen->native, &seen->stat, &state, &seen->cpu))
        return true; /* the kernel or the next list says whether it has ended */
    if (after != run && ++seen->missed < MOST_MISSED)
        return true; /* its frames were not of one instant */
    swap_stacks(seen);
    seen->missed = 0;
    seen->still = 0;
    int64_t waited = seen->wait, off = elapsed - ran;
    if (seen->there && off <= NO_WAIT_NS) { /* the cost of a look */
        ran = elapsed;
        off = 0;
    }
    if ((!seen->there || off > NO_WAIT_NS) && !kernel_wait_of(seen->native, &seen->schedstat, &waited))
        waited = seen->wait;
    bool runs = state == 'R';
    enum pause_kind what = runs ? PAUSE_NONE : waits_for(seen->native, &seen->call, &seen->stat);
    struct where before = last_where(seen), is = where_of(seen, what);
    bool moved = is.charge != before.charge || is.spot != before.spot;
    if (runs && is.charge)
        bursts_ran_in(!is.charge->leaf && seen->stack.n && stacks_is_byte_code(&seen->stack.frames[0]), ran);
    bool running = runs, ran_before = seen->running;
    if (seen->there) {
        int64_t wait = waited - seen->wait;
        wait = wait < 0 ? 0 : wait > off ? (off < 0 ? 0 : off) : wait;
        int64_t blocked = off - wait > 0 ? off - wait : 0;
        if (running || !before.charge) {
            ran += seen->pending_run;
            seen->pending_run = 0;
            if (is.charge)
                add(is, ran, 0, 0, true);
            else
                seen->pending_run = ran;
        } else if (ran_before) {
            add(before, ran, 0, 0, true);
        } else {
            seen->pending_run += ran;
        }
        struct where queued = ran_before || !before.charge ? is : before;
        if (queued.charge && wait)
            add(queued, 0, wait, 0, true);
        blocked = charge_stop(seen, blocked + seen->pending_blocked);
        seen->pending_blocked = 0;
        if (!ran_before && before.charge && !running && is.charge && moved) {
            /* It ran in between, at an unknown time after `stood`: divide the time since then equally. */
            int64_t sure = seen->stood > seen->at ? seen->stood - seen->at : 0;
            sure = sure < blocked ? sure : blocked;
            add(before, 0, 0, sure + (blocked - sure) / 2, true);
            add(is, 0, 0, (blocked - sure) - (blocked - sure) / 2, true);
        } else if (!ran_before && before.charge) {
            add(before, 0, 0, blocked, blocked > NO_WAIT_NS);
        } else if (!running && is.charge) {
            add(is, 0, 0, blocked, blocked > NO_WAIT_NS);
        } else if (before.charge && is.charge) { /* a wait between looks, or a stop */
            add(before, 0, 0, blocked / 2, blocked > NO_WAIT_NS);
            add(is, 0, 0, blocked - blocked / 2, blocked > NO_WAIT_NS);
        } else {
            seen->pending_blocked = blocked;
        }
        if (what == PAUSE_GIL && !was_stopped)
            charge_holder(blocked);
    }
    set_where(seen, is);
    seen->at = now;
    seen->run = run;
    seen->wait = waited;
    seen->running = running;
    seen->what = what;
    seen->there = true;
    return true;
}

/* See in which lines a thread runs, in the exact tier, where the tracer measures the time of functions. */
static void see_run(struct seen_thread *seen, int64_t ran, bool moves) {
    bool in_call = !moves && rank_calls_possible(), runs = seen->what == PAUSE_NONE;
    struct where is = NOWHERE;
    seen->moves = moves;
    if ((runs || in_call) && stacks_read(seen->state, &seen->stack))
        is = where_of(seen, PAUSE_NONE);
    seen->moves = false;
    if (is.charge)
        add(is, ran + seen->pending_run, 0, 0, true);
    seen->pending_run = is.charge ? 0 : seen->pending_run + ran; /* as in look() */
}

/* See whether a thread beside this one runs byte code; return whether the budget should be checked. */
static bool watch_thread(struct seen_thread *seen) {
    int64_t run, after;
    if (!kernel_cpu_time(seen->native, &run)) {
        seen->listed = false;
        return false;
    }
    int64_t ran = seen->run ? run - seen->run : 0;
    seen->run = run;
    seen->ran = ran > 0;
    see_wait(seen, ran);
    if (ran <= 0)
        return false;
    bool moves = stacks_moves(seen->state);
    see_run(seen, ran, moves);
    return kernel_cpu_time(seen->native, &after) && after > run && tiers_ran(ran, moves);
}

static void charge_still(bool all) {
    int64_t now = clock_monotonic_ns();
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        struct where is = last_where(seen);
        if (!seen->still || !is.charge || (!all && now - seen->at < STOOD_NS))
            continue;
        int64_t waited = seen->wait;
        kernel_wait_of(seen->native, &seen->schedstat, &waited);
        int64_t off = now - seen->at, wait = waited - seen->wait;
        wait = wait < 0 ? 0 : wait > off ? off : wait;
        add(is, 0, wait, off - wait, false);
        seen->at = now;
        seen->wait = waited;
    }
}

void looks_charge_long(void) { charge_still(false); }

void looks_charge_all(void) { charge_still(true); }

void looks_begin_charging(void) {
    list_threads();
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        char state;
        bool known = kernel_state_of(seen->native, &seen->stat, &state, &seen->cpu) && stacks_read(seen->state, &seen->stack);
        seen->there = kernel_cpu_time(seen->native, &seen->run);
        seen->at = clock_monotonic_ns();
        seen->running = known && state == 'R';
        seen->what = known && !seen->running ? waits_for(seen->native, &seen->call, &seen->stat) : PAUSE_NONE;
        set_where(seen, known ? where_of(seen, seen->what) : NOWHERE);
        seen->still = seen->skip = 0;
        seen->pending_run = seen->pending_blocked = 0;
        if (!kernel_wait_of(seen->native, &seen->schedstat, &seen->wait))
            seen->wait = 0;
    }
}

struct seen_thread *looks_next(const struct seen_thread *last, int *cpu) {
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

bool looks_at_all(struct seen_thread *turn, bool *due) {
    bool any = false, exact = tiers_now() == TIER_EXACT;
    *due = false;
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        int64_t run;
        bool there = true;
        if (!seen->listed || (seen->still && seen->stood - seen->still_since > STILL_NS && ++seen->skip % STILL_EVERY))
            continue;
        if (exact) {
            *due |= watch_thread(seen);
        } else if (seen == turn || !turn) { /* if none ran, one that did since then mostly waits again */
            there = look(seen);
        } else {
            stands_still(seen, &run, &there);
        }
        seen->listed &= there;
        if (!seen->listed)
            close_seen(seen);
        any |= seen->ran;
    }
    return any;
}

bool looks_main_runs(const struct seen_thread *seen) { return seen->running && seen->missed == 0 && seen->native == getpid(); }

void looks_end(void) {
    for (size_t i = 0; i < n_threads; i++) {
        threads[i]->missed = MOST_MISSED;
        if (threads[i]->listed)
            look(threads[i]);
        struct where is = last_where(threads[i]);
        if (is.charge)
            add(is, threads[i]->pending_run, 0, threads[i]->pending_blocked, false);
    }
    charge_still(true);
}

void looks_let_go(void) {
    for (size_t i = 0; i < n_threads; i++)
        close_seen(threads[i]);
}

void looks_empty(struct seen *set) {
    set->n_charges = set->n_codes = set->n_spots = 0;
    memset(set->slots, 0, sizeof set->slots);
}

struct seen *looks_take(struct seen_thread **ended) {
    pthread_mutex_lock(&looks_lock);
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
            set_where(seen, where_of(seen, seen->what));
    }
    n_threads = left;
    pthread_mutex_unlock(&looks_lock);
    return taken;
}

void looks_stopped(int64_t ns) {
    was_stopped = ns > 0;
    if (!was_stopped)
        return;
    /* Threads did not wait for what they were seen to wait for. */
    for (size_t i = 0; i < n_threads; i++) {
        struct seen_thread *seen = threads[i];
        seen->stopped += seen->there || tiers_now() == TIER_EXACT ? ns : 0;
        set_where(seen, seen->charge >= 0 ? where_of(seen, PAUSE_NONE) : NOWHERE);
        seen->what = PAUSE_NONE;
    }
}

void looks_forget_all(void) {
    for (size_t i = 0; i < n_threads; i++)
        looks_forget_thread(threads[i]);
    n_threads = 0;
}

bool looks_have_charges(void) { return fresh->n_charges > 0; }

void looks_set_table(struct seen_thread *seen, struct table *table) {
    struct table *before = seen->table;
    pthread_mutex_lock(&looks_lock); /* looks read its open range */
    seen->table = table;
    pthread_mutex_unlock(&looks_lock);
    if (before)
        table_release(before);
}

bool looks_make_room(void) {
    threads = threads ? threads : calloc(MOST_THREADS, sizeof(struct seen_thread *));
    bool made = threads;
    for (int i = 0; i < 2; i++) {
        struct seen *set = &sets[i];
        set->charges = set->charges ? set->charges : calloc(MOST_CHARGES, sizeof *set->charges);
        set->codes = set->codes ? set->codes : malloc(MOST_CODES * sizeof *set->codes);
        set->spots = set->spots ? set->spots : malloc(MOST_SPOTS * sizeof *set->spots);
        made = made && set->charges && set->codes && set->spots;
    }
    return made;
}

void looks_start(PyThreadState *state, pid_t number) {
    mine = state;
    my_number = number;
    listed_before = false;
    listed = followed = 0;
}

void looks_forget(bool inherited) {
    if (inherited)
        looks_let_go();
    n_threads = 0;
    looks_empty(&sets[0]);
    looks_empty(&sets[1]);
    pthread_mutex_init(&looks_lock, NULL);
}
