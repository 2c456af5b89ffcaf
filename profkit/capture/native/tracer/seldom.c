/* See seldom.h. */
#include "seldom.h"

#include <stdint.h>
#include <time.h>

#include "clock.h"
#include "hook.h"
#include "names.h"
#include "sampler.h"
#include "stacks.h"
#include "store.h"
#include "tables.h"
#include "tiers.h"

/* Counting may take this part of the budget for all functions together, and for one of them this part of that. */
#define COUNTING_PART 0.1
#define FUNCTION_PART 0.25

/* A call is taken to cost the events of one that is traced, times this for caches that are not warm (as in tiers.c); and so many ns at
 * least and at most, as the machine may be busy when events are measured. */
#define COLD 1.6
#define LEAST_CALL_NS 200
#define MOST_CALL_NS 1000

/* Calls that are allowed beyond that: of one function, so that a group of them is no rate, and of all. */
#define FUNCTION_CREDIT 200
#define CREDIT 20000

/* A call that its thread has not made before takes as long as so many more, and so many frames around a call as one more. */
#define FIRST_CALL 10
#define FRAMES_A_CALL 64

/* Where all together are too many, what is allowed is halved, so often at most, and seen again after so much CPU time, ns. */
#define MOST_HALVINGS 10
#define HALVES_EVERY_NS 100000000

/* What counting has really taken, with the last calls of functions that are counted no longer: beyond the budget's part and
 * this, ns, it ends. Events may come that cannot be had for single functions: of compiled code, or of code that is made anew. */
#define ENDS_BEYOND_NS 50000000

/* An event takes no longer, ns: the thread was not running meanwhile. */
#define LONGEST_NS 100000

static unsigned generation; /* the process's that began */
static double share, per_second; /* of one function */
static bool on, missed;
static int64_t began_ns, halved_ns;  /* of CPU time */
static unsigned halvings;
static int64_t allowed;              /* calls of one function so far */
static int64_t counted;              /* of functions that are counted */
static int64_t taken, taken_before;  /* ticks */
static int64_t interpreter;          /* ticks that it takes for an event */

static int64_t cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

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
    began_ns = cpu_ns();
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
    int64_t run = cpu_ns() - began_ns;
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
