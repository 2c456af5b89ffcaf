/* See throttle.h. */
#include "throttle.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "clock.h"
#include "fold.h"
#include "hook.h"
#include "labels.h"
#include "names.h"
#include "ranges.h"

/* Time between two looks, ns, and the part of it that a look may take at most. */
#define LOOK_EVERY_NS 10000000
#define LOOK_SHARE 0.01

/* What may be spent before the first second is over, and most that is saved for later, ns. */
#define FIRST_CREDIT_NS 10000000
#define MOST_CREDIT_NS 100000000

/* Calls from which a function may be throttled. */
#define FEWEST_CALLS 1000

/* While what was spent is above the budget, so much of the budget may be spent on. */
#define REPAYING 0.5

/* A function is not worth it that brings less than this part of what is to be saved. */
#define LEAST_PART 0.02

/* Nor is throttling worth it where events that are left at once cost nearly as much: less than this part of it is saved. */
#define LEAST_SAVING 0.25


/* A function that is off the CPU, not queueing, for this part of its time is not throttled: where a program waits must be
 * known. */
#define BLOCKS 0.1

/* Calls of one function in turn after which a place is taken to call nothing else. */
#define SITE_CALLS 64
#define SITES 4096

struct probe throttle_python, throttle_quiet, throttle_c;
int64_t throttle_site;
int64_t throttle_due = INT64_MAX;
bool throttle_pressed = false;
struct keys throttle_left, throttle_silent;

static double budget;      /* a share */
static double credit;      /* ticks that may be spent; negative where more was */
static int64_t last_look;  /* ticks */

/* The names that are throttled, each with a use of its own, so that they never go. */
static struct name **throttled;
static size_t n_throttled, throttled_room;

static struct site {
    const void *code, *what;
    long offset;
    unsigned times;
} sites[SITES];

static int64_t ticks_of(double seconds) { return seconds > 0 ? clock_ticks_in((int64_t)(seconds * 1e9)) : 0; }

void throttle_measured(const struct probe_costs *costs) {
    throttle_python = (struct probe){ticks_of(costs->python_outside), ticks_of(costs->python_inside), ticks_of(costs->python_left)};
    throttle_c = (struct probe){ticks_of(costs->c_outside), ticks_of(costs->c_inside), ticks_of(costs->c_left)};
    throttle_quiet = (struct probe){ticks_of(costs->quiet_outside), ticks_of(costs->quiet_inside), 0};
    throttle_site = ticks_of(costs->site);
}

void throttle_begin(double share) {
    budget = share;
    credit = (double)clock_ticks_in(FIRST_CREDIT_NS);
    last_look = clock_ticks();
    throttle_pressed = false;
    throttle_due = share > 0 ? last_look + clock_ticks_in(LOOK_EVERY_NS) : INT64_MAX;
    for (size_t i = 0; i < n_throttled; i++)
        names_say_throttled(throttled[i]);
}

bool keys_add(struct keys *keys, const void *key) {
    if (keys_have(keys, key))
        return true;
    if (keys->n >= KEYS_MOST)
        return false;
    size_t i = keys_slot(key);
    while (keys->slots[i])
        i = (i + 1) & (KEYS_ROOM - 1);
    keys->slots[i] = key;
    keys->n++;
    return true;
}

void keys_remove(struct keys *keys, const void *key) {
    size_t i = keys_slot(key);
    while (keys->slots[i] && keys->slots[i] != key)
        i = (i + 1) & (KEYS_ROOM - 1);
    if (!keys->slots[i])
        return;
    keys->slots[i] = NULL;
    keys->n--;
    /* What stands behind it may have been moved on by it. */
    for (i = (i + 1) & (KEYS_ROOM - 1); keys->slots[i]; i = (i + 1) & (KEYS_ROOM - 1)) {
        const void *moved = keys->slots[i];
        keys->slots[i] = NULL;
        keys->n--;
        keys_add(keys, moved);
    }
}

void keys_clear(struct keys *keys) { *keys = (struct keys){.n = 0}; }

bool throttle_site_repeats(const void *code, long offset, const void *what) {
    uintptr_t mixed = ((uintptr_t)code >> 4) * 31 + (uintptr_t)offset;
    struct site *site = &sites[(size_t)((mixed * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (SITES - 1)];
    if (site->code != code || site->offset != offset || site->what != what) {
        *site = (struct site){.code = code, .offset = offset, .what = what};
        return false;
    }
    return ++site->times >= SITE_CALLS;
}

/* Choosing */

/* A function that may be throttled. */
struct candidate {
    struct function *function;
    double own;   /* what it takes itself, over what its events cost */
    double saved; /* ticks since the last look */
};

static int by_own(const void *one, const void *other) {
    double a = ((const struct candidate *)one)->own, b = ((const struct candidate *)other)->own;
    return a < b ? -1 : a > b;
}

static bool is_in_c(const struct function *function) { return PyUnicode_Check(function->name->label); }

static const struct probe *probe_of(const struct function *function) {
    return is_in_c(function) ? &throttle_c : function->name->quiet ? &throttle_quiet : &throttle_python;
}

/* What a function had since it was looked at last, by all ways to it. */
struct since {
    int64_t calls, own, blocked, recent;
};

static struct since *all_since(struct table *table) {
    struct since *all = calloc((size_t)table->n_functions + 1, sizeof *all);
    if (!all)
        return NULL;
    for (struct function *caller = table->base; caller; caller = caller->next)
        for (struct edge *edge = caller->first_callee; edge; edge = edge->next) {
            struct since *since = &all[edge->callee->number];
            since->calls += edge->calls;
            since->own += edge->own;
            since->blocked += edge->blocked;
            since->recent += edge->calls - edge->calls_before;
            edge->calls_before = edge->calls;
        }
    return all;
}

static bool opens_ranges(const struct table *table, const struct function *function) {
    for (const struct context *context = table->ranges ? table->ranges->first : NULL; context; context = context->next)
        if (context->opener == function)
            return true;
    return function->passes_on && !is_in_c(function);
}

/* `gross` are the ticks that it took with those of its events. */
static bool may_go(const struct table *table, const struct function *function, const struct since *since, double gross) {
    const struct name *name = function->name;
    /* Of one that is quiet it is seen when it waits: its calls are booked. In one without a call there is nothing to see. */
    return since->calls >= FEWEST_CALLS && !name->throttled && (!name->quiet || name->leaf) &&
           (double)clock_ticks_in(since->blocked) <= BLOCKS * gross && !opens_ranges(table, function) &&
           !label_is_needed(name->label);
}

static double cost_of(const struct probe *probe) { return (double)(probe->outside + probe->inside); }

static size_t candidates_of(struct table *table, const struct since *all, struct candidate *found, double *spent) {
    size_t n = 0;
    *spent = 0;
    for (struct function *function = table->base->next; function; function = function->next) {
        const struct since *since = &all[function->number];
        const struct probe *probe = function->name ? probe_of(function) : NULL;
        if (!probe)
            continue;
        double cost = cost_of(probe), saving = hook_can_silence() ? cost : cost - 2.0 * (double)probe->left;
        *spent += cost * (double)since->recent;
        if (saving < LEAST_SAVING * cost)
            continue;
        double taken = cost * (double)since->calls, own = (double)(since->own > 0 ? since->own : 0);
        /* One whose events cost no more of its time than the budget allows is within it by itself. */
        if (own * budget < taken && may_go(table, function, since, own + taken))
            found[n++] = (struct candidate){function, own / taken, saving * (double)since->recent};
    }
    qsort(found, n, sizeof *found, by_own);
    return n;
}

static void remove_from(struct table *table, void *name) { calls_remove(table, name); }

static void throttle(struct name *name) {
    if (n_throttled == throttled_room) {
        size_t room = throttled_room ? 2 * throttled_room : 64;
        struct name **grown = realloc(throttled, room * sizeof *grown);
        if (!grown)
            return;
        throttled = grown;
        throttled_room = room;
    }
    if (!names_throttle(name))
        return;
    throttled[n_throttled++] = name;
    tables_each_running(remove_from, name);
}

/* Whether a function calls something in C that is still counted. */
struct question {
    const struct name *name;
    bool answer;
};

static void calls_in_c(struct table *table, void *about) {
    struct question *question = about;
    const struct edge *known = edges_find(&table->functions, question->name);
    for (const struct edge *edge = known ? known->callee->first_callee : NULL; edge && !question->answer; edge = edge->next)
        question->answer = is_in_c(edge->callee) && !edge->callee->name->throttled;
}

/* Calls of a function, and those that it has made itself. */
static int64_t calls_around(const struct function *function, const struct since *since) {
    int64_t calls = since->calls;
    for (const struct edge *edge = function->first_callee; edge; edge = edge->next)
        calls += edge->calls;
    return calls;
}

/* What is called in C is known by what a function has called before it was quiet. When it runs or waits for long it may have called
 * something else: it is traced for as long as it was at first, and then it may run for longer. What it calls then is counted,
 * so that it stays traced; if nothing was called, it was the GIL, say, or a hypervisor. */
#define MORE_PATIENCE 4

void throttle_quiet_ran(struct name *name, int64_t ran) {
    if (!name->patience)
        name->patience = LONG_GAP_NS;
    if (name->leaf || ran < name->patience)
        return;
    name->patience *= MORE_PATIENCE;
    name->looked_at = -1;
    names_wake(name);
}

/* Whether enough was seen of a function, that has made and had so many calls. */
static bool is_known(struct name *name, int64_t calls) {
    if (name->looked_at < 0)
        name->looked_at = calls;
    return calls - name->looked_at >= FEWEST_CALLS;
}

/* Have all functions quiet that can be and are worth it. One that is throttled has no calls any more: what it called before counts. */
static void silence(const struct table *table, const struct since *all) {
    for (struct function *function = table->base->next; function; function = function->next) {
        const struct since *since = &all[function->number];
        struct name *name = function->name;
        if (!name || is_in_c(function) || name->quiet || !(name->throttled || is_known(name, calls_around(function, since))))
            continue;
        struct question question = {name, false};
        tables_each_running(calls_in_c, &question);
        if (!question.answer && !opens_ranges(table, function))
            names_quieten(name);
    }
}

/* Of the functions that take least themselves, throttle as many as have to go. */
static void choose(struct table *table, double window) {
    struct since *all = all_since(table);
    table->looked_at = clock_ticks();
    struct candidate *found = all ? calloc((size_t)table->n_functions + 1, sizeof *found) : NULL;
    if (found) {
        double spent;
        if (hook_can_silence())
            silence(table, all);
        size_t n = candidates_of(table, all, found, &spent);
        double excess = spent - REPAYING * budget * window;
        double least = LEAST_PART * excess;
        for (size_t i = 0; i < n && excess > 0; i++)
            if (found[i].saved >= least) {
                excess -= found[i].saved;
                throttle(found[i].function->name);
            }
        if (hook_can_silence())
            silence(table, all); /* those that have called what was throttled just now */
    }
    free(found);
    free(all);
}

void throttle_look(struct table *table) {
    int64_t begun = clock_ticks();
    if (throttle_silent.n && !hook_can_silence())
        keys_clear(&throttle_silent);
    double most = (double)clock_ticks_in(MOST_CREDIT_NS);
    credit += budget * (double)(begun - last_look) - (double)(table->taken - table->taken_before);
    table->taken_before = table->taken;
    if (credit > most)
        credit = most;
    throttle_pressed = credit < 0;
    if (throttle_pressed)
        choose(table, (double)(begun - table->looked_at));
    last_look = begun;
    int64_t now = clock_ticks(), took = now - begun;
    int64_t every = clock_ticks_in(LOOK_EVERY_NS), rest = (int64_t)((double)took / LOOK_SHARE);
    table->taken += took;
    table->last += took;
    throttle_due = now + (rest > every ? rest : every);
}
