#include "seldom.h"

#include <stdint.h>

#include "bursts.h"
#include "clock.h"
#include "hook.h"
#include "names.h"
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

/* Calls of a function allowed beyond that: a short series of calls is not a rate. */
#define FUNCTION_CREDIT 200

/* Cost of the first call on an edge, in further calls. */
#define FIRST_CALL 10

/* If all functions exceed their part by this much, ns, each one's allowance is halved, and again after so much more, at
 * most so often. A halving is undone after this CPU time, ns, in which they did not exceed it. */
#define HALVED_BEYOND_NS 12500000
#define HALVED_EVERY_NS 2000000
#define MOST_HALVINGS 8
#define UNDONE_AFTER_NS 100000000

/* First calls of functions may take as much, and this much beyond it, ns; above that, new functions of libraries are
 * not counted, and from twice as much on none is. Imports call thousands, once each, and a new one costs as much as
 * dozens of calls. */
#define NEW_BEYOND_NS 20000000

/* Counting ends when it exceeds its budget by this much, ns: code objects that are created over and over have one
 * event each. */
#define ENDS_BEYOND_NS 100000000

/* Flag of code that is no body of a module or a class. */
#define OPTIMIZED 1

/* Longest time booked for one event, ns; beyond it the thread had no CPU. */
#define LONGEST_NS 100000

static unsigned generation; /* of the process that began */
static double share, per_second; /* of one function */
static bool on, missed;
static int64_t began_ns, looked_ns;  /* CPU time */
static unsigned halvings;
static int64_t allowed;              /* calls allowed per function so far, without its credit */
static int64_t taken, taken_before;  /* ticks */
static int64_t taken_then;           /* at `looked_ns` */
static int64_t halved_at;            /* `taken` at the next halving */
static int64_t new_taken, new_most;  /* by first calls, ticks */
static int64_t by_python;            /* the ticks of the interpreter per event */

static int64_t part_of(int64_t run_ns) { return (int64_t)(share * (double)run_ns); }

static void allow(int64_t run_ns) {
    allowed = (int64_t)(per_second * (double)run_ns / 1e9) >> halvings;
    new_most = clock_ticks_in(NEW_BEYOND_NS + part_of(run_ns));
}

void seldom_begin(double budget) {
    double call_ns = COLD * (double)clock_ns_in(tiers_python.outside + tiers_python.inside);
    call_ns = call_ns < LEAST_CALL_NS ? LEAST_CALL_NS : call_ns > MOST_CALL_NS ? MOST_CALL_NS : call_ns;
    generation = kernel_generation;
    share = budget * COUNTING_PART;
    per_second = share * FUNCTION_PART * 1e9 / call_ns;
    by_python = (tiers_python.outside + tiers_python.inside) / 2;
    on = missed = false;
    began_ns = tiers_program_ran();
    looked_ns = halvings = 0;
    taken = taken_before = taken_then = new_taken = 0;
    halved_at = clock_ticks_in(HALVED_BEYOND_NS);
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

static void seldom_missed(void) {
    missed = true;
    if (store_header)
        store_header->tiers.counted = 0;
}

static bool count(PyObject *code) {
    bool within;
    struct table *table;
    uintptr_t caller = stacks_caller_beyond(&within);
    struct edge *edge = bursts_edge(caller, code, code, NULL, &table);
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
    int64_t as_many = 1 + (edge->counted == 0 ? FIRST_CALL : 0);
    edge->counted++;
    edge->callee->counted_recursive += within;
    name->counting += as_many;
    /* Imports leave the program's own functions their credit. */
    if (name->counting <= allowed + (name->of_program ? FUNCTION_CREDIT : FUNCTION_CREDIT >> halvings))
        return true;
    names_leave(name);
    return false;
}

static bool is_of_program(PyObject *code) {
    PyObject *file = attribute(code, "co_filename");
    const char *text = text_of(file, NULL);
    bool found = text && names_of_program(text);
    Py_XDECREF(file);
    return found;
}

/* Whether calls of code without a name are to be counted: not those of modules and classes, which run once. */
static bool is_worth_it(PyObject *code) {
    if (new_taken > 2 * new_most || !(attribute_number(code, "co_flags") & OPTIMIZED))
        return false;
    return new_taken < new_most || is_of_program(code);
}

/* Do not count calls of code without a name. */
static bool leave_new(const PyObject *code) {
    if (!names_leave_unnamed(code))
        seldom_missed();
    return false;
}

bool seldom_call(PyObject *code) {
    if (!on || generation != kernel_generation)
        return true;
    int64_t begun = clock_ticks();
    const struct name *name = names_known(code);
    bool is_new = !name && is_worth_it(code);
    bool goes_on = name || is_new ? !(name && name->uncounted) && count(code) : leave_new(code);
    int64_t took = clock_ticks() - begun, longest = clock_ticks_in(LONGEST_NS);
    took = took < longest ? took : longest;
    taken += took + by_python;
    new_taken += is_new ? took + by_python : 0;
    if (UNLIKELY(taken > halved_at) && halvings < MOST_HALVINGS) {
        halvings++;
        allowed /= 2;
        halved_at += clock_ticks_in(HALVED_EVERY_NS);
    }
    if (bursts_until)
        bursts_taken += took;
    return goes_on;
}

void seldom_look(void) {
    if (!on || !tiers_stored() || tiers_now() != TIER_SAMPLED)
        return;
    int64_t run = tiers_program_ran() - began_ns;
    int64_t beyond = clock_ns_in(taken) - part_of(run), next = clock_ticks_in(HALVED_BEYOND_NS + part_of(run));
    halved_at = next > halved_at ? next : halved_at;
    if (run - looked_ns > UNDONE_AFTER_NS) {
        halvings -= halvings > 0 && clock_ns_in(taken - taken_then) < part_of(run - looked_ns);
        looked_ns = run;
        taken_then = taken;
    }
    allow(run);
    tiers_counted(taken - taken_before);
    taken_before = taken;
    if (beyond > ENDS_BEYOND_NS) {
        seldom_missed();
        hook_count(false);
        on = false;
    }
}
