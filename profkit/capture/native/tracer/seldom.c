#include "seldom.h"

#include <stdint.h>

#include "clock.h"
#include "hook.h"
#include "names.h"
#include "sampler.h"
#include "stacks.h"
#include "store.h"
#include "tables.h"
#include "tiers.h"

/* Part of the budget for all counted functions together, and part of that for one function. */
#define COUNTING_PART 0.1
#define FUNCTION_PART 0.25

/* A call is assumed to cost COLD times the measured events, within these limits, ns, as the machine may have been
 * busy. */
#define LEAST_CALL_NS 200
#define MOST_CALL_NS 1000

/* Calls allowed beyond that, per function and in total: a short series of calls is not a rate. */
#define FUNCTION_CREDIT 200
#define CREDIT 20000

/* Cost of the first call on an edge, in further calls, and number of stack frames that cost as much as one call. */
#define FIRST_CALL 10
#define FRAMES_A_CALL 64

/* If all functions exceed their part, each one's allowance is halved, at most so often, once per this CPU time. */
#define MOST_HALVINGS 10
#define HALVES_EVERY_NS 100000000

/* Counting ends when its measured cost exceeds its budget by this much, ns. The assumed cost misses code objects
 * that are created over and over, each with one event. */
#define ENDS_BEYOND_NS 50000000

/* Longest time booked for one event, ns; beyond it the thread had no CPU. */
#define LONGEST_NS 100000

static unsigned generation; /* of the process that began */
static double share, per_second; /* of one function */
static bool on, missed;
static int64_t began_ns, halved_ns;  /* CPU time */
static unsigned halvings;
static int64_t allowed;              /* calls allowed per function so far */
static int64_t counted;              /* calls of functions still counted */
static int64_t taken, taken_before;  /* ticks */
static int64_t interpreter;          /* the interpreter's ticks per event */

static void allow(int64_t run_ns) {
    allowed = (int64_t)(FUNCTION_CREDIT + per_second * (double)run_ns / 1e9) >> halvings;
}

void seldom_begin(double budget) {
    double call_ns = COLD * (double)clock_ns_in(tiers_python.outside + tiers_python.inside);
    call_ns = call_ns < LEAST_CALL_NS ? LEAST_CALL_NS : call_ns > MOST_CALL_NS ? MOST_CALL_NS : call_ns;
    generation = kernel_generation;
    share = budget * COUNTING_PART;
    per_second = share * FUNCTION_PART * 1e9 / call_ns;
    interpreter = (tiers_python.outside + tiers_python.inside) / 2;
    on = missed = false;
    began_ns = tiers_program_ran();
    halved_ns = halvings = 0;
    counted = taken = taken_before = 0;
    allow(0);
}

bool seldom_count(bool to) {
    on = to && generation == kernel_generation && !missed && per_second >= 1;
    return on;
}

bool seldom_counts(void) {
    missed |= !on;
    return on;
}

void seldom_missed(void) {
    missed = true;
    if (store_header)
        store_header->tiers.counted = 0;
}

static bool count(PyObject *code) {
    bool within;
    int64_t frames;
    struct table *table;
    uintptr_t caller = stacks_caller_beyond(&within, &frames);
    struct edge *edge = tiers_edge(caller, code, code, NULL, &table);
    struct name *name = edge ? edge->callee->name : NULL;
    if (!name) {
        seldom_missed();
        return true;
    }
    if (name->uncounted)
        return false;
    if (name->counted_in != generation + 1) {
        name->counted_in = generation + 1;
        name->counting = 0;
    }
    int64_t as_many = 1 + frames / FRAMES_A_CALL + (edge->counted == 0 ? FIRST_CALL : 0);
    edge->counted++;
    edge->callee->counted_recursive += within;
    name->counting += as_many;
    counted += as_many;
    if (name->counting <= allowed)
        return true;
    counted -= name->counting;
    names_leave(name);
    return false;
}

bool seldom_call(PyObject *code) {
    if (!on || generation != kernel_generation || sampler_is_here())
        return true;
    int64_t begun = clock_ticks();
    const struct name *name = names_known(code);
    bool goes_on = !(name && name->uncounted) && count(code);
    int64_t took = clock_ticks() - begun, longest = clock_ticks_in(LONGEST_NS);
    took = took < longest ? took : longest;
    taken += took + interpreter;
    if (tiers_burst_until)
        tiers_burst_taken += took;
    return goes_on;
}

void seldom_look(void) {
    if (!on)
        return;
    int64_t run = tiers_program_ran() - began_ns;
    double all = CREDIT + per_second / FUNCTION_PART * (double)run / 1e9;
    if ((double)counted > all && halvings < MOST_HALVINGS && run - halved_ns > HALVES_EVERY_NS) {
        halvings++;
        halved_ns = run;
    }
    allow(run);
    tiers_counted(taken - taken_before);
    taken_before = taken;
    if ((double)clock_ns_in(taken) > ENDS_BEYOND_NS + share * (double)run) {
        seldom_missed();
        hook_count(false);
        on = false;
    }
}
