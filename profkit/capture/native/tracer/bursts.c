#include "bursts.h"

#include <stdatomic.h>

#include "clock.h"
#include "hook.h"
#include "kept.h"
#include "names.h"
#include "stacks.h"
#include "store.h"
#include "tables.h"
#include "threads.h"
#include "tiers.h"

/* Bursts from which it is told whether a process can be traced again. */
#define PROMOTING_BURSTS 5

/* The booking thread begins a burst that the main thread has not begun for so many gaps. */
#define MOST_LATE_GAPS 1.0

/* A burst that lacks less than this is over. */
#define ABOUT_OVER_NS 20000

int64_t bursts_from, bursts_until = 0, bursts_taken;

static _Atomic int64_t looked_in[2]; /* ns found in C and in byte code since the last burst */

/* The next burst and the gap are measured by the pace. */
static int64_t burst_began, burst_ran_from, burst_ran;
static double next_burst, burst_gap;
static _Atomic bool burst_asked; /* of the main thread */
static int64_t burst_calls[2]; /* in this burst: Python, C */
static struct {
    double added, ran; /* what tracing would have added, and the program's run time */
} last_bursts[PROMOTING_BURSTS];
static unsigned n_bursts;

void bursts_forget(void) {
    bursts_until = 0;
    burst_asked = false;
    n_bursts = 0;
}

void bursts_plan(void) {
    burst_gap = (double)hook_traits.first_gap_ns;
    next_burst = tiers_paced() + burst_gap / 2;
}

void bursts_ran_in(bool byte_code, int64_t ns) { looked_in[byte_code] += ns; }

/* Run time of the program in a burst, including the uncounted part, ns. */
#define LONGEST_BURST (hook_traits.warms_ns + hook_traits.burst_ns)

/* Switch on events for the rest of a burst, of which the program has run `ran` ns. */
static void have_events(int64_t ran) {
    int64_t cold = hook_traits.warms_ns - ran, now;
    burst_calls[0] = burst_calls[1] = bursts_taken = 0;
    bursts_until = INT64_MAX;
    if (!hook_burst(true)) {
        bursts_until = 0;
        next_burst = tiers_paced() + burst_gap;
        return;
    }
    now = clock_ticks();
    bursts_from = cold > 0 ? now + clock_ticks_in(cold) : now;
    bursts_until = now + clock_ticks_in(cold + hook_traits.burst_ns);
}

static void begin_counting(void) {
    burst_ran_from = tiers_program_ran();
    burst_began = clock_ticks();
}

/* Runs in the main thread at its first Python instruction after the request; CPU time since then is part of the
 * burst. */
static int begin_asked(void *Py_UNUSED(nothing)) {
    if (!burst_asked || bursts_until || tiers_now() != TIER_SAMPLED)
        return 0;
    int64_t ran = tiers_program_ran() - burst_ran_from;
    if (ran < LONGEST_BURST - ABOUT_OVER_NS) {
        burst_asked = false;
        have_events(ran);
    }
    return 0;
}

void bursts_ask(void) {
    if (!hook_traits.ends_bursts || burst_asked || bursts_until || tiers_paced() < next_burst ||
        tiers_now() != TIER_SAMPLED)
        return;
    begin_counting();
    burst_asked = hook_ask_main(begin_asked);
}

void bursts_begin(void) {
    double late = hook_traits.ends_bursts ? MOST_LATE_GAPS * burst_gap : 0;
    if (burst_asked || bursts_until || tiers_paced() < next_burst + late || tiers_now() != TIER_SAMPLED)
        return;
    begin_counting();
    have_events(0);
}

bool bursts_over(int64_t now) {
    if (bursts_until <= 0)
        return true;
    burst_ran = tiers_program_ran() - burst_ran_from;
    int64_t cold = hook_traits.warms_ns - burst_ran, left = cold + hook_traits.burst_ns;
    if (left < ABOUT_OVER_NS) {
        bursts_until = BURST_IS_OVER;
        return true;
    }
    bursts_from = cold > 0 ? now + clock_ticks_in(cold) : bursts_from;
    bursts_until = now + clock_ticks_in(left);
    return false;
}

int64_t bursts_left(void) {
    int64_t until = *(volatile int64_t *)&bursts_until;
    if (hook_traits.ends_bursts || until == 0 || until == INT64_MAX)
        return INT64_MAX;
    int64_t left = until - clock_ticks();
    return left > 0 ? clock_ns_in(left) : 0;
}

/* Whether all calls could be traced within the budget. */
static bool promotes(void) {
    if (n_bursts < PROMOTING_BURSTS)
        return false;
    double added = 0, ran = 0;
    for (unsigned i = 0; i < PROMOTING_BURSTS; i++) {
        added += last_bursts[i].added;
        ran += last_bursts[i].ran;
    }
    return tiers_fits(added, ran);
}

static void note_bursts(struct table *table, void *Py_UNUSED(about)) {
    for (struct edge *edge = table->first_seen; edge; edge = edge->next_seen) {
        double calls = (double)(edge->seen - edge->seen_before);
        edge->seen_squares += calls * calls;
        edge->seen_before = edge->seen;
    }
    table->first_seen = NULL;
}

void bursts_end(void) {
    struct tier_store *store = tiers_stored();
    if (burst_asked && !bursts_until && tiers_program_ran() - burst_ran_from > LONGEST_BURST - ABOUT_OVER_NS) {
        /* The main thread was in C code throughout: an empty burst. */
        burst_calls[0] = burst_calls[1] = bursts_taken = 0;
        burst_ran = LONGEST_BURST;
        bursts_until = BURST_IS_OVER;
    }
    if (!bursts_until)
        return;
    if (bursts_until != BURST_IS_OVER) {
        hook_burst(false);
        burst_ran = tiers_program_ran() - burst_ran_from;
    }
    double wall = (double)clock_ns_in(clock_ticks() - burst_began), threads = (double)burst_ran > wall ? (double)burst_ran / wall : 1;
    double counted = (double)(burst_ran - hook_traits.warms_ns), most_counted = threads * (double)hook_traits.burst_ns;
    if (hook_traits.ends_bursts && counted > most_counted)
        counted = most_counted; /* an event ended it late */
    double lasted = (double)clock_ticks_in((int64_t)(counted > 0 ? counted : 0));
    bursts_until = 0;
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
    double taken = (double)bursts_taken + hook_traits.interpreter_part * events;
    double rest = lasted - taken;
    rest = rest > OWN_LEAST * lasted ? rest : OWN_LEAST * lasted;
    double own = rest / (1 + slows); /* without tracing */
    last_bursts[n_bursts % PROMOTING_BURSTS].added = COLD * events + slows * own;
    last_bursts[n_bursts % PROMOTING_BURSTS].ran = own;
    n_bursts++;
    double whole = 1 + (double)hook_traits.warms_ns / (double)hook_traits.burst_ns;
    tiers_add_effect(whole * (lasted - own), 0, whole * lasted);
    kept_each_running(note_bursts, NULL);
    if (store) {
        store->bursts++;
        store->burst_ns += clock_ns_in((int64_t)own);
        store->slowed += (double)clock_ns_in((int64_t)(lasted - own));
    }
    double longest = (double)hook_traits.gap_ns;
    burst_gap = 1.5 * burst_gap > longest ? longest : 1.5 * burst_gap;
    next_burst = tiers_paced() + burst_gap / 2 + (double)((uint64_t)clock_ticks() % (uint64_t)burst_gap);
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

struct edge *bursts_edge(uintptr_t caller, const void *key, PyObject *object, PyObject *self, struct table **table) {
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

void bursts_count(uintptr_t caller, const void *key, PyObject *object, PyObject *self) {
    struct table *table;
    struct edge *edge = bursts_edge(caller, key, object, self, &table);
    if (!edge)
        return;
    if (edge->seen == edge->seen_before) {
        edge->next_seen = table->first_seen;
        table->first_seen = edge;
    }
    edge->seen++;
    burst_calls[is_in_c(edge->callee)]++;
}
