/* Times are in ns. */
#define _GNU_SOURCE 1
#include "sampler.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "booking.h"
#include "bursts.h"
#include "clock.h"
#include "hook.h"
#include "kernel.h"
#include "looks.h"
#include "names.h"
#include "own_threads.h"
#include "rank_calls.h"
#include "seldom.h"
#include "slices.h"
#include "stacks.h"
#include "store.h"
#include "tiers.h"
#include "waits.h"
#include "windows.h"

/* Mean time between looks, and the share of the process's pace that they may take: otherwise many processes on one
 * CPU would spend it on looks. While nothing runs it grows to an eighth of the idle time. Charges do not depend on
 * it. */
#define LOOK_EVERY_NS 1000000
#define LOOK_MOST_NS 100000000
#define LOOK_SHARE 0.01
#define LOOK_IDLE_PART 8

/* The same in the exact tier. */
#define WATCH_EVERY_NS 10000000

/* Time between bookings: by the pace of the process; at most, if something ran; and if nothing ran. */
#define BOOK_EVERY_NS 40000000
#define BOOK_LATEST_NS 250000000
#define BOOK_IDLE_NS 1000000000

/* If the booker waits so long for the GIL, others wait as well. The agent's record, which takes the GIL many times,
 * would then take seconds, and is postponed. */
#define FIGHT_NS 2000000
#define FIGHT_PUTS_OFF_NS 10000000000

/* A look that is this late, without having queued, means that the process was stopped. */
#define STOPPED_NS 20000000

/* Until windows are followed, and after an error. */
#define FOLLOW_FIRST_NS 50000000
#define FOLLOW_AGAIN_NS 1500000000

/* Known to profkit/capture/agent/settings.py. */
#define THREAD_NAME "profkit-tracer"

static bool changing; /* the tier: looks wait meanwhile */

/* One thread looks, another takes the GIL, for which it may wait seconds if others release it often. */
static pthread_t booker, looker;
static bool started, joinable, wanted_again;
static int forking; /* threads about to fork, which must not find ours running */
static pthread_mutex_t ending = PTHREAD_MUTEX_INITIALIZER;
static PyThreadState *mine;
static PyObject *change_function;
static void *(*work)(void *of); /* of the booker: to book, or to follow windows */
static int64_t follows_at; /* the time of its next call */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell, orders;  /* for the looker, for the booker */
static atomic_bool stopping;
static bool woken;
static bool ordered, looked_last;    /* book what was seen; no more looks follow */
static void (*errand)(void);         /* the looker's next task */

static _Atomic bool unrecorded; /* something ran since the agent last looked: idle processes are left alone */
static _Atomic int64_t booked; /* end of the last booking */
static int64_t looks;

void sampler_threads(pid_t numbers[2]) {
    numbers[0] = own_threads.booker;
    numbers[1] = own_threads.looker;
}

/* Random times, so that looks do not run in step with the program (Mytkowicz et al., "Evaluating the accuracy of
 * Java profilers", 2010). */
static uint64_t random_state;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int64_t around(int64_t mean) { return mean / 2 + (int64_t)(next_random() % (uint64_t)(mean | 1)); }

static int64_t own_cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

static void ring(bool stop) {
    pthread_mutex_lock(&lock);
    stopping = stopping || stop;
    woken = true;
    pthread_cond_signal(&bell);
    pthread_mutex_unlock(&lock);
}

/* With the GIL */

static void book_all(void) {
    bool sampled = tiers_now() == TIER_SAMPLED;
    int64_t queued = booking_take();
    if (sampled) {
        seldom_look();
        tiers_sampled(queued);
    }
}

/* Enter a tier; false if impossible, and it stays. */
static bool enter_tier(enum tier tier) {
    if (tier == tiers_now())
        return true;
    if (!tiers_enter(tier))
        return false;
    bursts_forget();
    if (tier == TIER_SAMPLED) {
        tiers_stored()->counted = seldom_counts();
        bursts_plan();
    }
    return true;
}

static void hold_looks(bool on) {
    pthread_mutex_lock(&looks_lock);
    changing = on;
    pthread_mutex_unlock(&looks_lock);
}

/* Have the looker do something now, unless it has ended: only it has the descriptors of /proc. */
static void have_looker(void (*what)(void)) {
    pthread_mutex_lock(&lock);
    errand = looked_last ? NULL : what;
    pthread_cond_signal(&bell);
    while (errand)
        pthread_cond_wait(&orders, &lock);
    pthread_mutex_unlock(&lock);
}

/* Looks pause only here, where the GIL is not released: in Python code of the agent the program can take it, and keep
 * it for as long as a call of C code lasts. */
bool sampler_enter(enum tier tier) {
    if (tier == tiers_now())
        return true;
    hold_looks(true);
    if (tier == TIER_EXACT)
        have_looker(looks_charge_all);
    book_all(); /* of the tier that ends now */
    bool entered = enter_tier(tier);
    if (tiers_now() == TIER_SAMPLED)
        have_looker(looks_begin_charging);
    hold_looks(false);
    return entered;
}

static void change_tier(void) {
    PyObject *done = change_function ? PyObject_CallFunctionObjArgs(change_function, NULL) : NULL;
    Py_XDECREF(done);
    PyErr_Clear();
    tiers_want(tiers_now()); /* if the change was impossible */
}

static void end_state(void) {
    PyThreadState_Clear(mine);
    PyEval_ReleaseThread(mine);
    PyThreadState_Delete(mine);
    mine = NULL;
}

static void with_gil(bool last) {
    int64_t asked = clock_monotonic_ns();
    PyEval_AcquireThread(mine);
    bool fought_for = clock_monotonic_ns() - asked > FIGHT_NS;
    int64_t used = own_cpu_ns(); /* the agent's Python releases the GIL when others want it */
    bool sampled = tiers_now() == TIER_SAMPLED;
    if (sampled)
        bursts_end();
    if (waits_unlearnt())
        waits_learn((uintptr_t)mine);
    rank_calls_look(names_each_code);
    book_all();
    if (last) {
        if (!sampled)
            tiers_look();
        hook_burst_over();
        end_state();
        return;
    }
    int64_t overdue = clock_ticks() - agent_due; /* negative if not due */
    if (sampled && unrecorded && overdue > (fought_for ? clock_ticks_in(FIGHT_PUTS_OFF_NS) : 0)) {
        unrecorded = false;
        agent_remind(NULL);
    }
    if (!sampled)
        tiers_look();
    if (tiers_wanted() != tiers_now())
        change_tier();
    else if (sampled)
        bursts_begin();
    if (bursts_left() != INT64_MAX)
        ring(false);
    tiers_held_gil(own_cpu_ns() - used);
    PyEval_ReleaseThread(mine);
}

/* The threads */

/* Time to the next look, at most to the end of a burst. */
static int64_t until_look(int64_t mean) {
    int64_t asked = around(mean), left = bursts_left();
    return left > 0 && left < asked ? left : asked;
}

static int64_t own_queueing(struct kernel_file *schedstat) {
    int64_t wait;
    return kernel_wait_of(own_threads.looker, schedstat, &wait) ? wait : 0;
}

static bool sleep_ns(int64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&lock);
    while (!stopping && !woken && !errand && pthread_cond_timedwait(&bell, &lock, &until) != ETIMEDOUT) {
    }
    woken = false;
    bool goes_on = !stopping;
    pthread_mutex_unlock(&lock);
    return goes_on;
}

/* Where the looker runs: on its initial CPUs, or on the CPU of the thread to look at, which then cannot run. */
static cpu_set_t everywhere;
static int own_cpu = -1; /* -1: all of them; -2: all but one */

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

/* Leave the CPU of a thread that should run meanwhile; without another CPU it cannot be watched. */
static void move_away_from(int cpu) {
    cpu_set_t others = everywhere;
    if (cpu >= 0 && cpu < CPU_SETSIZE)
        CPU_CLR(cpu, &others);
    move_to(-1);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        own_cpu = -2;
}

/* Have short turns on a CPU (sched_setattr(2), Linux 6.12 and later; as many as before): then this thread interrupts
 * the one to look at wherever that is. With turns of equal length it waits for the end of that one's, which the kernel
 * ends in certain system calls: a loop that asked for its CPU time every 60 us was found in that call three times of four. */
static void take_short_turns(void) {
    enum { SHORTEST_NS = 100000 };
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {.size = sizeof attributes};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER)
        return;
    attributes.runtime = SHORTEST_NS;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static void looker_does(void (*what)(void)) {
    pthread_mutex_lock(&looks_lock);
    what();
    pthread_mutex_unlock(&looks_lock);
}

static void do_errand(void) {
    pthread_mutex_lock(&lock);
    void (*what)(void) = errand;
    pthread_mutex_unlock(&lock);
    if (!what)
        return;
    looker_does(what);
    pthread_mutex_lock(&lock);
    errand = NULL;
    pthread_cond_signal(&orders);
    pthread_mutex_unlock(&lock);
}

static void order_booking(bool last) {
    pthread_mutex_lock(&lock);
    ordered = true;
    looked_last |= last;
    errand = last ? NULL : errand;
    pthread_cond_signal(&orders);
    pthread_mutex_unlock(&lock);
}

/* Whether a forked child does not have the looker's descriptors. */
static bool descriptors_are_own;

static void *look_on(void *Py_UNUSED(nothing)) {
    own_threads.looker = kernel_thread_id();
    prctl(PR_SET_NAME, THREAD_NAME);
    descriptors_are_own = kernel_own_descriptors();
    take_short_turns();
    int64_t every = WATCH_EVERY_NS;
    struct seen_thread *turn = NULL, *last;
    bool ran = false, any = false, due = false;
    sched_getaffinity(0, sizeof everywhere, &everywhere);
    own_cpu = -1;
    struct kernel_file schedstat = {0};
    int64_t queued = own_queueing(&schedstat), asked = around(every), slept = clock_monotonic_ns();
    int64_t last_ran = slept;
    for (; sleep_ns(asked); asked = until_look(every), slept = clock_monotonic_ns()) {
        int64_t now = clock_monotonic_ns(), late = now - slept - asked, since = now - booked;
        double pace = tiers_pace();
        int64_t stood = late > STOPPED_NS ? late - (own_queueing(&schedstat) - queued) : 0;
        int cpu = -1;
        do_errand();
        pthread_mutex_lock(&looks_lock);
        bool exact = tiers_now() == TIER_EXACT;
        looks_stopped(stood > STOPPED_NS ? stood : 0);
        looks_list(now);
        if (!changing)
            any = looks_at_all(turn, &due);
        if (!exact && !changing && turn && looks_main_runs(turn))
            bursts_ask();
        looks += !changing;
        last = turn;
        turn = looks_next(last, &cpu);
        bool has_charges = looks_have_charges();
        pthread_mutex_unlock(&looks_lock);
        if (turn && cpu >= 0)
            exact ? move_away_from(cpu) : move_to(cpu);
        turn = exact ? NULL : turn;
        ran |= any;
        unrecorded |= any;
        bool burst_over = bursts_left() == 0;
        bool is_time = ran && (pace * (double)since > BOOK_EVERY_NS || since > BOOK_LATEST_NS);
        bool to_book = burst_over || (exact ? has_charges && ran && since > BOOK_IDLE_NS : is_time || since > BOOK_IDLE_NS);
        if (due || tiers_wanted() != tiers_now() || to_book || (waits_unlearnt() && has_charges)) {
            if (!exact)
                looker_does(looks_charge_long);
            order_booking(false); /* also removes ended threads */
            queued = own_queueing(&schedstat);
            ran = false;
        }
        int64_t mean = (int64_t)((double)own_cpu_ns() / (double)looks / (LOOK_SHARE * pace));
        int64_t fewest = exact ? WATCH_EVERY_NS : LOOK_EVERY_NS;
        last_ran = any ? now : last_ran;
        int64_t idle = (now - last_ran) / LOOK_IDLE_PART;
        every = mean < idle ? idle : mean < fewest ? fewest : mean;
        every = every < LOOK_MOST_NS ? every : LOOK_MOST_NS;
    }
    pthread_mutex_lock(&looks_lock);
    if (tiers_now() == TIER_SAMPLED)
        looks_end();
    looks_let_go();
    pthread_mutex_unlock(&looks_lock);
    kernel_close(&schedstat);
    own_threads.looker = 0;
    own_threads.used_by_ended += own_cpu_ns();
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

typedef void (*enter_function)(PyThreadState *state);

/* Begin the thread that has the GIL at times, with a state that is made here, as it belongs to this thread. The target's
 * tools do not see what it calls: from Python 3.12 on they would, as they get the events of all threads. */
static bool begin_booker(void *of) {
    own_threads.booker = kernel_thread_id();
    prctl(PR_SET_NAME, THREAD_NAME);
    hook_leave_thread();
    mine = PyThreadState_New(of);
#ifdef PROFKIT_ABI3
    enter_function enter = (enter_function)dlsym(RTLD_DEFAULT, "PyThreadState_EnterTracing");
    if (mine && enter) /* it is not in the limited API */
        enter(mine);
#endif
    return mine != NULL;
}

static void *end_booker(void) {
    own_threads.booker = 0;
    own_threads.used_by_ended += own_cpu_ns();
    return NULL;
}

/* The booker, which does all that needs the GIL. */
static void *book_on(void *of) {
    if (!begin_booker(of))
        return NULL;
    looks_start(mine, own_threads.booker);
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
        ordered = looked_last && !last; /* later requests are repeated, except for the end */
        pthread_mutex_unlock(&lock);
    }
    pthread_join(looker, NULL);
    return end_booker();
}

/* In place of the above where windows are captured: call the agent when they change, or the clock may change them. */
static void *follow_on(void *of) {
    if (!begin_booker(of))
        return NULL;
    while (windows_wait(&stopping, follows_at)) {
        PyEval_AcquireThread(mine);
        PyObject *seconds = PyObject_CallFunctionObjArgs(change_function, NULL);
        double pause = seconds ? PyFloat_AsDouble(seconds) : -1.0;
        Py_XDECREF(seconds);
        PyErr_Clear();
        follows_at = clock_monotonic_ns() + (pause >= 0 ? (int64_t)(pause * 1e9) : FOLLOW_AGAIN_NS);
        PyEval_ReleaseThread(mine);
    }
    PyEval_AcquireThread(mine);
    end_state();
    return end_booker();
}

static void make_locks(void) {
    pthread_condattr_t attributes;
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&ending, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&bell, &attributes);
    pthread_cond_init(&orders, &attributes);
    pthread_condattr_destroy(&attributes);
}

static bool start_threads(void) {
    stopping = woken = ordered = looked_last = changing = false;
    errand = NULL;
    looks = 0;
    random_state = (uint64_t)clock_monotonic_ns() * UINT64_C(0x9E3779B97F4A7C15) | 1;
    return started = joinable = create(&booker, work, PyInterpreterState_Get());
}

static void wake(void) {
    if (started && !pthread_equal(booker, pthread_self()))
        ring(false);
}

static bool start(void *(*what)(void *of), PyObject *function) {
    static bool has_locks = false;
    if (!has_locks)
        make_locks();
    has_locks = true;
    exchange(&change_function, function);
    own_threads.wake = wake;
    work = what;
    wanted_again = forking > 0;
    return started || wanted_again || start_threads();
}

bool sampler_start(PyObject *change) { return stacks_start() && looks_make_room() && start(book_on, change); }

bool sampler_follow(PyObject *follow) {
    if (!follows_at)
        follows_at = clock_monotonic_ns() + FOLLOW_FIRST_NS;
    return start(follow_on, follow);
}

/* A fork and the end of the session may both come here: each returns when the threads have ended. */
static void stop_threads(void) {
    ring(true);
    windows_end_wait();
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
    hook_count_over();
    looks_forget_all();
}

static int start_again(void *Py_UNUSED(nothing)) {
    if (wanted_again && !started && !forking)
        start_threads();
    return 0;
}

void sampler_resume(void) {
    forking -= forking > 0;
    if (wanted_again && !forking && !hook_after_fork(start_again))
        Py_AddPendingCall(start_again, NULL);
}

void sampler_forget(void) {
    stopping = false;
    started = joinable = wanted_again = false;
    forking = 0;
    own_threads.booker = own_threads.looker = 0;
    own_threads.used_by_ended = follows_at = 0;
    looks_forget(!descriptors_are_own);
    slices_forget();
    make_locks();
    mine = NULL;
}
