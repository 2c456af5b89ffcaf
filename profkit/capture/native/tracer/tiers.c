#include "tiers.h"

#include <stdatomic.h>

#include "clock.h"
#include "hook.h"
#include "kept.h"
#include "own_threads.h"
#include "store.h"
#include "table.h"

/* Time between two checks of the budget, ns. */
#define CHECK_EVERY_NS 5000000

/* Credit of tracing beyond the budget, ns: for programs of a few dozen ms, and, if sampled before, to see that it
 * should have stayed so. */
#define FIRST_CREDIT_NS 8000000
#define NEXT_CREDIT_NS 20000000

/* Limits of COLD (tiers.h). */
#define COLD_LEAST 1.0
#define COLD_MOST 2.5

/* A sampled process is traced again if that would have taken less than this part of the budget. */
#define PROMOTES 0.5

/* After so many changes a process stays sampled, so that repeats change alike. */
#define LAST_CHANGE 5

/* A process that changes before this time, ns, has called nothing: it simply begins in the other tier. */
#define NOTHING_YET_NS 100000

/* Averaging time of queueing and running, ns. */
#define LATELY_NS 5e8

/* Least pace per wall time. */
#define PACE_LEAST 0.02

/* Taking the GIL costs its holder two thread switches. */
#define GIL_SWITCH_NS 30000

struct probe tiers_python, tiers_c;
int64_t tiers_site;
int64_t tiers_due = INT64_MAX;

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
static int64_t used_before;

struct tier_store *tiers_stored(void) { return store_header ? &store_header->tiers : NULL; }

static int64_t ticks_of(double seconds) { return seconds > 0 ? clock_ticks_in((int64_t)(seconds * 1e9)) : 0; }

void tiers_measured(const struct probe_costs *costs) {
    tiers_python = (struct probe){ticks_of(costs->python_outside), ticks_of(costs->python_inside)};
    tiers_c = (struct probe){ticks_of(costs->c_outside), ticks_of(costs->c_inside)};
    tiers_site = ticks_of(costs->site);
}

enum tier tiers_now(void) { return now_in; }
enum tier tiers_wanted(void) { return wanted; }

void tiers_want(enum tier tier) {
    const struct tier_store *store = tiers_stored();
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

double tiers_paced(void) { return pace; }

static void store_effect(void) {
    struct tier_store *store = tiers_stored();
    if (!store)
        return;
    store->effect_ns = effect * (double)clock_ns_in(1 << 20) / (1 << 20);
    store->least_ns = least * (double)clock_ns_in(1 << 20) / (1 << 20);
    store->most_ns = most * (double)clock_ns_in(1 << 20) / (1 << 20);
}

void tiers_add_effect(double likely, double at_least, double at_most) {
    effect += likely;
    least += at_least;
    most += at_most;
    spent += likely;
}

static void enter(enum tier tier) {
    struct tier_store *store = tiers_stored();
    now_in = wanted = tier;
    spent = 0;
    pass(0);
    in_tier = (struct passed){0};
    atomic_store(&in_byte_code, 0);
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
    const struct tier_store *store = tiers_stored();
    if (!store || store->n >= MOST_TIERS)
        return false;
    enter(tier);
    if (tier == TIER_SAMPLED)
        used_before = own_threads_used();
    return true;
}

void tiers_forget(void) {
    now_in = wanted = TIER_EXACT;
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
    const struct tier_store *store = tiers_stored();
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
    tiers_add_effect(likely, low < likely ? low : likely / 2, high < ran ? high : ran);
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

void tiers_sampled(int64_t queued) {
    struct tier_store *store = tiers_stored();
    if (!store || now_in != TIER_SAMPLED)
        return;
    store->sampled_ns += pass(queued);
    int64_t used_ns = own_threads_used();
    double used = (double)clock_ticks_in(used_ns > used_before ? used_ns - used_before : 0);
    used_before = used_ns;
    tiers_add_effect(used, used / 2, 1.5 * used); /* looks take the CPU of the thread they look at */
    store_effect();
}

void tiers_counted(int64_t ticks) {
    tiers_add_effect((double)ticks, (double)ticks / 2, 1.5 * (double)ticks);
}

void tiers_held_gil(int64_t ns) {
    double held = (double)clock_ticks_in(ns + GIL_SWITCH_NS);
    tiers_add_effect(held / 2, 0, held);
}

bool tiers_fits(double added, double ran) {
    const struct tier_store *store = tiers_stored();
    if (budget <= 0 || !store || store->n >= LAST_CHANGE)
        return false;
    return added * in_tier.run < PROMOTES * budget * ran * in_tier.pace;
}
