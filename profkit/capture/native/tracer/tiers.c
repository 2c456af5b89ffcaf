#include "tiers.h"

#include <stdatomic.h>

#include "clock.h"
#include "hook.h"
#include "kept.h"
#include "names.h"
#include "own_threads.h"
#include "seldom.h"
#include "stacks.h"
#include "store.h"
#include "tables.h"
#include "threads.h"

/* Time between two checks of the budget, ns. */
#define CHECK_EVERY_NS 5000000

/* Credit of tracing beyond the budget, ns: for programs of a few dozen ms, and, if sampled before, to see that it
 * should have stayed so. */
#define FIRST_CREDIT_NS 8000000
#define NEXT_CREDIT_NS 20000000

/* Limits of COLD (tiers.h). */
#define COLD_LEAST 1.0
#define COLD_MOST 2.5

/* A sampled process is traced again if that would have taken less than this part of the budget in the last bursts. */
#define PROMOTES 0.5
#define PROMOTING_BURSTS 5

/* After so many changes a process stays sampled, so that repeats change alike. */
#define LAST_CHANGE 5

/* A process that changes before this time, ns, has called nothing: it simply begins in the other tier. */
#define NOTHING_YET_NS 100000

/* Least part of its run time that a traced program takes itself. */
#define OWN_LEAST 0.1

/* Averaging time of queueing and running, ns. */
#define LATELY_NS 5e8

/* Least pace per wall time. */
#define PACE_LEAST 0.02

/* The booking thread begins a burst that the main thread has not begun for so many gaps. */
#define MOST_LATE_GAPS 1.0

/* A burst that lacks less than this is over. */
#define ABOUT_OVER_NS 20000

/* Taking the GIL costs its holder two thread switches. */
#define GIL_SWITCH_NS 30000

struct probe tiers_python, tiers_c;
int64_t tiers_site;
int64_t tiers_due = INT64_MAX;
int64_t tiers_burst_from, tiers_burst_until = 0, tiers_burst_taken;

/* The process's pace so far, ns, and per wall time, with its inputs: recent ones, and those since this tier began. */
static double pace;
static _Atomic double pace_now = 1;
static struct passed {
    double wall, run, queued, pace;
} lately, in_tier;
static int64_t passed_at, ran_before;

static double budget; /* a share; 0 for none */
static _Atomic enum tier now_in = TIER_EXACT, wanted = TIER_EXACT; /* atomic, as looks read it without the GIL */
static double effect, least, most; /* ticks, of all that is over */
static double spent;               /* ticks, since this tier began */
static _Atomic int64_t in_byte_code; /* ns that threads ran in the exact tier since the last check */
static _Atomic int64_t looked_in[2]; /* ns found in C and in byte code since the last burst */
static int64_t used_before;

/* Bursts; the next one and the gap are measured by the pace. */
static int64_t burst_began, burst_ran_from, burst_ran;
static double next_burst, burst_gap;
static _Atomic bool burst_asked; /* of the main thread */
static int64_t burst_calls[2]; /* in this burst: Python, C */
static struct {
    double added, ran; /* what tracing would have added, and the program's run time */
} last_bursts[PROMOTING_BURSTS];
static unsigned n_bursts;

static int64_t ticks_of(double seconds) { return seconds > 0 ? clock_ticks_in((int64_t)(seconds * 1e9)) : 0; }

static struct tier_store *stored(void) { return store_header ? &store_header->tiers : NULL; }

void tiers_measured(const struct probe_costs *costs) {
    tiers_python = (struct probe){ticks_of(costs->python_outside), ticks_of(costs->python_inside)};
    tiers_c = (struct probe){ticks_of(costs->c_outside), ticks_of(costs->c_inside)};
    tiers_site = ticks_of(costs->site);
}

enum tier tiers_now(void) { return now_in; }
enum tier tiers_wanted(void) { return wanted; }

void tiers_want(enum tier tier) {
    const struct tier_store *store = stored();
    if (tier == wanted || !store || store->n >= MOST_TIERS)
        return;
    wanted = tier;
    own_threads_wake();
}

int64_t tiers_program_ran(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own_threads_used(); }

/* Advance the pace, as threads have queued for `queued` ns since the last call, and return the program's CPU time
 * since then, ns. The pace moves from wall time to CPU time as queueing grows up to the run time. */
static int64_t pass(int64_t queued) {
    int64_t now = clock_monotonic_ns(), ran = tiers_program_ran(), run = ran > ran_before ? ran - ran_before : 0;
    double wall = (double)(now - passed_at);
    lately.wall += wall;
    lately.run += (double)run;
    lately.queued += (double)queued;
    double ready = lately.run + lately.queued, contended = ready > 0 ? 2 * lately.queued / ready : 0;
    double gets = lately.wall > lately.run ? lately.run / lately.wall : 1;
    contended = contended < 1 ? contended : 1;
    double share = 1 - contended + contended * gets;
    share = share > PACE_LEAST ? share : PACE_LEAST;
    atomic_store(&pace_now, share);
    pace += wall * share;
    in_tier.pace += wall * share;
    in_tier.run += (double)run;
    if (lately.wall > LATELY_NS) {
        double kept = LATELY_NS / lately.wall;
        lately.wall *= kept;
        lately.run *= kept;
        lately.queued *= kept;
    }
    passed_at = now;
    ran_before = ran;
    return run;
}

double tiers_pace(void) { return pace_now; }

static void store_effect(void) {
    struct tier_store *store = stored();
    if (!store)
        return;
    store->effect_ns = effect * (double)clock_ns_in(1 << 20) / (1 << 20);
    store->least_ns = least * (double)clock_ns_in(1 << 20) / (1 << 20);
    store->most_ns = most * (double)clock_ns_in(1 << 20) / (1 << 20);
}

static void add_effect(double likely, double at_least, double at_most) {
    effect += likely;
    least += at_least;
    most += at_most;
    spent += likely;
}

static void enter(enum tier tier) {
    struct tier_store *store = stored();
    now_in = wanted = tier;
    spent = 0;
    pass(0);
    in_tier = (struct passed){0};
    atomic_store(&in_byte_code, 0);
    tiers_burst_until = 0;
    burst_asked = false;
    n_bursts = 0;
    tiers_due = tier == TIER_EXACT ? clock_ticks() + clock_ticks_in(CHECK_EVERY_NS) : INT64_MAX;
    int64_t now_ns = clock_monotonic_ns();
    if (store && store->n == 1 && now_ns - store->spans[0].at_ns < NOTHING_YET_NS)
        store->n = 0;
    if (store && store->n < MOST_TIERS) {
        store->spans[store->n].at_ns = now_ns;
        store->spans[store->n].tier = tier;
        store->n++;
    }
}

void tiers_begin(double share) {
    budget = share;
    effect = least = most = 0;
    seldom_begin(share);
    pace = 0;
    atomic_store(&pace_now, 1);
    lately = (struct passed){0};
    passed_at = clock_monotonic_ns();
    ran_before = tiers_program_ran();
#ifdef PROFKIT_FREE_THREADED
    enter(TIER_SAMPLED); /* for good, as there are no events */
#else
    enter(TIER_EXACT);
#endif
}

bool tiers_enter(enum tier tier) {
    if (tier == now_in)
        return true;
    struct tier_store *store = stored();
    if (!store || store->n >= MOST_TIERS)
        return false;
    enter(tier);
    if (tier == TIER_SAMPLED) {
        store->counted = seldom_counts();
        burst_gap = (double)hook_traits.first_gap_ns;
        next_burst = pace + burst_gap / 2;
        used_before = own_threads_used();
    }
    return true;
}

void tiers_forget(void) {
    now_in = wanted = TIER_EXACT;
    tiers_burst_until = 0;
    burst_asked = false;
    tiers_due = INT64_MAX;
}

/* The exact tier */

struct since_look {
    int64_t taken, wait;
};

static void add_since(struct table *table, void *about) {
    struct since_look *all = about;
    all->taken += table->taken - table->taken_before;
    all->wait += table->wait - table->wait_before;
    table->taken_before = table->taken;
    table->wait_before = table->wait;
}

/* The part of byte code's time in traced frames that is due to tracing. */
static double slowed_part(void) { return hook_traits.slows / (1 + hook_traits.slows); }

static double credit(void) {
    const struct tier_store *store = stored();
    return (double)clock_ticks_in(store && store->n > 1 ? NEXT_CREDIT_NS : FIRST_CREDIT_NS) +
           budget * (double)clock_ticks_in((int64_t)in_tier.pace);
}

void tiers_look(void) {
    struct since_look all = {0};
    int64_t now = clock_ticks();
    kept_each_running(add_since, &all);
    double ran = (double)clock_ticks_in(pass(all.wait)), most_added = (1 - OWN_LEAST) * ran;
    double events = (double)all.taken;
    double slowed = (double)clock_ticks_in(atomic_exchange(&in_byte_code, 0)) * slowed_part();
    double likely = COLD * events + slowed, low = COLD_LEAST * events + slowed / 2;
    double high = COLD_MOST * events + 1.5 * slowed;
    likely = likely < most_added ? likely : most_added;
    add_effect(likely, low < likely ? low : likely / 2, high < ran ? high : ran);
    store_effect();
    if (budget > 0 && spent > credit())
        tiers_want(TIER_SAMPLED);
    tiers_due = now + clock_ticks_in(CHECK_EVERY_NS);
}

bool tiers_ran(int64_t ns, bool moves) {
    int64_t all = atomic_fetch_add(&in_byte_code, moves ? ns : 0) + (moves ? ns : 0);
    return budget > 0 && now_in == TIER_EXACT && spent + (double)clock_ticks_in(all) * slowed_part() > credit();
}

/* The sampled tier */

void tiers_ran_in(bool byte_code, int64_t ns) { looked_in[byte_code] += ns; }

void tiers_sampled(int64_t queued) {
    struct tier_store *store = stored();
    if (!store || now_in != TIER_SAMPLED)
        return;
    store->sampled_ns += pass(queued);
    int64_t used_ns = own_threads_used();
    seldom_look();
    double used = (double)clock_ticks_in(used_ns > used_before ? used_ns - used_before : 0);
    used_before = used_ns;
    add_effect(used, used / 2, 1.5 * used); /* looks take the CPU of the thread they look at */
    store_effect();
}

void tiers_counted(int64_t ticks) {
    add_effect((double)ticks, (double)ticks / 2, 1.5 * (double)ticks);
}

void tiers_held_gil(int64_t ns) {
    double held = (double)clock_ticks_in(ns + GIL_SWITCH_NS);
    add_effect(held / 2, 0, held);
}

/* Whether all calls could be traced within the budget. */
static bool promotes(void) {
    const struct tier_store *store = stored();
    if (budget <= 0 || !store || store->n >= LAST_CHANGE || n_bursts < PROMOTING_BURSTS)
        return false;
    double added = 0, ran = 0;
    for (unsigned i = 0; i < PROMOTING_BURSTS; i++) {
        added += last_bursts[i].added;
        ran += last_bursts[i].ran;
    }
    return added * in_tier.run < PROMOTES * budget * ran * in_tier.pace;
}

/* Bursts */

/* Run time of the program in a burst, including the uncounted part, ns. */
#define LONGEST_BURST (hook_traits.warms_ns + hook_traits.burst_ns)

/* Switch on events for the rest of a burst, of which the program has run `ran` ns. */
static void have_events(int64_t ran) {
    int64_t cold = hook_traits.warms_ns - ran, now;
    burst_calls[0] = burst_calls[1] = tiers_burst_taken = 0;
    tiers_burst_until = INT64_MAX;
    if (!hook_burst(true)) {
        tiers_burst_until = 0;
        next_burst = pace + burst_gap;
        return;
    }
    now = clock_ticks();
    tiers_burst_from = cold > 0 ? now + clock_ticks_in(cold) : now;
    tiers_burst_until = now + clock_ticks_in(cold + hook_traits.burst_ns);
}

static void begin_counting(void) {
    burst_ran_from = tiers_program_ran();
    burst_began = clock_ticks();
}

/* Runs in the main thread at its first Python instruction after the request; CPU time since then is part of the
 * burst. */
static int begin_asked(void *Py_UNUSED(nothing)) {
    if (!burst_asked || tiers_burst_until || now_in != TIER_SAMPLED)
        return 0;
    int64_t ran = tiers_program_ran() - burst_ran_from;
    if (ran < LONGEST_BURST - ABOUT_OVER_NS) {
        burst_asked = false;
        have_events(ran);
    }
    return 0;
}

void tiers_ask_for_burst(void) {
    if (!hook_traits.ends_bursts || burst_asked || tiers_burst_until || pace < next_burst || now_in != TIER_SAMPLED)
        return;
    begin_counting();
    burst_asked = hook_ask_main(begin_asked);
}

void tiers_begin_burst(void) {
    double late = hook_traits.ends_bursts ? MOST_LATE_GAPS * burst_gap : 0;
    if (burst_asked || tiers_burst_until || pace < next_burst + late || now_in != TIER_SAMPLED)
        return;
    begin_counting();
    have_events(0);
}

bool tiers_burst_over(int64_t now) {
    if (tiers_burst_until <= 0)
        return true;
    burst_ran = tiers_program_ran() - burst_ran_from;
    int64_t cold = hook_traits.warms_ns - burst_ran, left = cold + hook_traits.burst_ns;
    if (left < ABOUT_OVER_NS) {
        tiers_burst_until = BURST_IS_OVER;
        return true;
    }
    tiers_burst_from = cold > 0 ? now + clock_ticks_in(cold) : tiers_burst_from;
    tiers_burst_until = now + clock_ticks_in(left);
    return false;
}

int64_t tiers_burst_left(void) {
    int64_t until = *(volatile int64_t *)&tiers_burst_until;
    if (hook_traits.ends_bursts || until == 0 || until == INT64_MAX)
        return INT64_MAX;
    int64_t left = until - clock_ticks();
    return left > 0 ? clock_ns_in(left) : 0;
}

static void note_bursts(struct table *table, void *Py_UNUSED(about)) {
    for (struct edge *edge = table->first_seen; edge; edge = edge->next_seen) {
        double calls = (double)(edge->seen - edge->seen_before);
        edge->seen_squares += calls * calls;
        edge->seen_before = edge->seen;
    }
    table->first_seen = NULL;
}

void tiers_end_burst(void) {
    struct tier_store *store = stored();
    if (burst_asked && !tiers_burst_until && tiers_program_ran() - burst_ran_from > LONGEST_BURST - ABOUT_OVER_NS) {
        /* The main thread was in C code throughout: an empty burst. */
        burst_calls[0] = burst_calls[1] = tiers_burst_taken = 0;
        burst_ran = LONGEST_BURST;
        tiers_burst_until = BURST_IS_OVER;
    }
    if (!tiers_burst_until)
        return;
    if (tiers_burst_until != BURST_IS_OVER) {
        hook_burst(false);
        burst_ran = tiers_program_ran() - burst_ran_from;
    }
    double wall = (double)clock_ns_in(clock_ticks() - burst_began), threads = (double)burst_ran > wall ? (double)burst_ran / wall : 1;
    double counted = (double)(burst_ran - hook_traits.warms_ns), most_counted = threads * (double)hook_traits.burst_ns;
    if (hook_traits.ends_bursts && counted > most_counted)
        counted = most_counted; /* an event ended it late */
    double lasted = (double)clock_ticks_in((int64_t)(counted > 0 ? counted : 0));
    tiers_burst_until = 0;
    burst_asked = false;
    double events = (double)(burst_calls[0] * (tiers_python.outside + tiers_python.inside) +
                             burst_calls[1] * (tiers_c.outside + tiers_c.inside));
    /* Of the rest, byte code is slower in traced frames, and C is not. */
    double in_code = (double)looked_in[1], looked = in_code + (double)looked_in[0];
    double python = looked > 0 ? in_code / looked / STACKS_SURE_PART : 0;
    python = python < 1 ? python : 1;
    double slows = hook_traits.slows * python;
    looked_in[0] = looked_in[1] = 0;
    /* The time of counting is measured; the interpreter's part of an event is known for warm caches, as here. */
    double taken = (double)tiers_burst_taken + hook_traits.interpreter_part * events;
    double rest = lasted - taken;
    rest = rest > OWN_LEAST * lasted ? rest : OWN_LEAST * lasted;
    double own = rest / (1 + slows); /* without tracing */
    last_bursts[n_bursts % PROMOTING_BURSTS].added = COLD * events + slows * own;
    last_bursts[n_bursts % PROMOTING_BURSTS].ran = own;
    n_bursts++;
    double whole = 1 + (double)hook_traits.warms_ns / (double)hook_traits.burst_ns;
    add_effect(whole * (lasted - own), 0, whole * lasted);
    kept_each_running(note_bursts, NULL);
    if (store) {
        store->bursts++;
        store->burst_ns += clock_ns_in((int64_t)own);
        store->slowed += (double)clock_ns_in((int64_t)(lasted - own));
    }
    double longest = (double)hook_traits.gap_ns;
    burst_gap = 1.5 * burst_gap > longest ? longest : 1.5 * burst_gap;
    next_burst = pace + burst_gap / 2 + (double)((uint64_t)clock_ticks() % (uint64_t)burst_gap);
    if (promotes())
        tiers_want(TIER_EXACT);
}

static bool is_in_c(const struct function *function) { return !function->name || PyUnicode_Check(function->name->label); }

static struct function *function_of(struct table *table, uintptr_t code) {
    bool kept;
    struct name *name = code ? names_of((const void *)code, (PyObject *)code, NULL, &kept) : NULL;
    const struct edge *known = name ? edges_find(&table->functions, name) : NULL;
    if (name && !known)
        known = table_named_edge(table, table->base, name);
    return known ? known->callee : table->base;
}

struct edge *tiers_edge(uintptr_t caller, const void *key, PyObject *object, PyObject *self, struct table **table) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    *table = threads_table_here();
    struct function *function = *table ? function_of(*table, caller) : NULL;
    struct edge *edge = NULL;
    if (function) {
        edge = function->last_key == key ? function->last : edges_find(&function->callees, key);
        if (!edge)
            edge = table_add_edge(*table, function, key, object, self);
        (*table)->lost += !edge;
    }
    PyErr_Restore(type, value, traceback);
    return edge;
}

void tiers_count(uintptr_t caller, const void *key, PyObject *object, PyObject *self) {
    struct table *table;
    struct edge *edge = tiers_edge(caller, key, object, self, &table);
    if (!edge)
        return;
    if (edge->seen == edge->seen_before) {
        edge->next_seen = table->first_seen;
        table->first_seen = edge;
    }
    edge->seen++;
    burst_calls[is_in_c(edge->callee)]++;
}
