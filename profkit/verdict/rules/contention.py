"""Rules of ``contention``: the program was ready to run but no CPU was free, or a quota stopped it."""

from __future__ import annotations

from functools import partial

from profkit.verdict.rule import Rule, alone, less, more, no, yes

#: Clear queueing of main threads or of one rank, or less queueing if it explains much of the loss.
_OWN_QUEUE = tuple(
    group
    for who in ("main", "rank")
    for group in (
        (more(f"{who}.wait", "wait.much"), more(f"{who}.wait-growth", "wait.growth")),
        (
            more(f"{who}.wait", "wait.some"),
            more(f"{who}.wait-growth", "wait.some-growth"),
            more("account.queue", "queue.much"),
        ),
        (
            more(f"{who}.wait", "wait.some"),
            more(f"{who}.wait-growth", "wait.some-growth"),
            more("account.queue", "queue.much-known"),
            yes("contention.known"),
        ),
    )
)
#: The same for helpers that the main thread waits for.
_HELPERS_QUEUE = (
    (
        more("helpers.wait", "wait.much"),
        more("helpers.wait-growth", "wait.growth"),
        more("account.helpers-queue", "queue.least-helpers"),
    ),
    (
        more("helpers.wait", "wait.some"),
        more("helpers.wait-growth", "wait.some-growth"),
        more("account.queue", "queue.much-known"),
        more("account.helpers-queue", "queue.least-helpers"),
    ),
)
#: More threads or workers than before, where the baseline may have queued as well.
_SETTINGS = (
    (yes("contention.itself"), more("helpers.wait", "wait.much"), more("settings.queue", "part.most")),
)

_rule = partial(Rule, cause="contention")

THROTTLING = _rule(
    id="throttling",
    about=(
        "the cgroup's CPU quota stopped the candidate, which cost time; evaluated before run-queue-wait, since "
        "throttled time counts as queueing too"
    ),
    bucket="queue",
    kind="kind.quota",
    conditions=(
        more("throttled", "throttled"),
        more("throttled-growth", "throttled"),
        yes("time.factor-above-1"),
    ),
    # A plain baseline has no queueing to compare.
    alternatives=(((yes("pair.plain"),), (more("account.queue", "queue.least"),)),),
    confidence=0.97,
    evidence=("throttled", "gpu", "demand"),
    advice=("raise-quota", "not-the-code"),
    numbers=("throttled",),
)

RUN_QUEUE_WAIT = _rule(
    id="run-queue-wait",
    about=(
        "the candidate queued for CPUs longer than the baseline; its demand and the CPU use of other "
        "programs show why"
    ),
    bucket="queue",
    kind="contention.kind",
    requires=("pair.counters",),
    unless=("throttling",),
    # Threads that pass the interpreter's lock to each other queue as well.
    conditions=(no("account.gil-over-queue"),),
    alternatives=(
        # Time was lost, or the candidate clearly queued while the baseline happened to be as slow.
        (
            (more("time.slowdown", "time.noticed"),),
            (
                more("account.queue-of-baseline", "queue.of-baseline"),
                yes("account.queue-beyond"),
                more("any.wait", "wait.much"),
                more("time.slowdown", "time.not-faster"),
            ),
        ),
        (*_OWN_QUEUE, *_HELPERS_QUEUE, *_SETTINGS),
        # It must explain most of the loss without a known cause, or if both sides queued with the same settings:
        # any cause that adds work adds queueing too.
        (
            (
                yes("contention.known"),
                yes("contention.grew"),
                no("both.lacked-cpus"),
                more("account.queue", "queue.least"),
                # What a few functions do more queues as well.
                no("contention.apart"),
            ),
            (
                yes("contention.known"),
                more("settings.queue", "part.most"),
                more("account.queue", "queue.least"),
            ),
            # If the baseline queued as much, queueing is booked with what needs CPU time, such as starting workers.
            (yes("workers.lack-cpus"), more("settings.queue", "part.most")),
            (yes("contention.known"), more("account.queue", "part.most")),
            (more("account.queue", "part.most"), yes("account.queue-beyond")),
        ),
    ),
    confidence=0.97,
    doubts=(((less("time.slowdown", "time.slower"),), 0.85),),
    evidence=(
        "queue",
        "gpu",
        "neighbours",
        "demand",
        "asked",
        "others",
        "steal",
        "pressure",
        "queue-functions",
        "queue-ranges",
    ),
    advice=("contention", "not-the-code"),
    numbers=(
        "contention.who",
        "contention.itself",
        "contention.others",
        "contention.beside",
        "main.wait",
        "main.wait-before",
        "rank.wait",
        "rank.wait-before",
        "helpers.wait",
        "helpers.wait-before",
        "account.starts",
    ),
)

SHARED_HARDWARE = _rule(
    id="shared-hardware",
    about=(
        "on one machine, the same calls of the same source took more CPU time in most functions, without "
        "queueing, while programs ran that did not run during the baseline: all share caches, memory, cores "
        "and clock"
    ),
    bucket="speed",
    kind="kind.hardware",
    requires=("pair.counters",),
    unless=("changed-source", "throttling", "run-queue-wait"),
    conditions=(
        yes("contention.others"),
        no("contention.itself"),
        yes("machine.one"),
        yes("calls.same"),
        no("input.larger"),
        no("command.differs"),
        less("pair.residue", "programs.threads"),
        less("main.wait", "wait.much"),
        more("account.speed", "speed.part"),
        more("per-call.everywhere", "part.most"),
    ),
    alternatives=(((yes("time.lost"),), (more("time.over-drift", "time.drift-or-own"),)),),
    confidence=0.75,
    evidence=("per-call", "others", "steal", "neighbours", "fixed-work", "main-wait", "wall"),
    advice=("contention",),
    numbers=("per-call", "per-call.everywhere", "others.added", "steal.growth"),
)

#: Two plain profiles of one program, with a slower candidate.
WAITED = (
    yes("pair.plain"),
    no("pair.python-differs"),
    more("time.slowdown", "time.slower"),
    less("pair.residue", "programs.threads"),
)

#: Two such profiles whose candidate stalled periodically.
PERIODIC = (
    yes("pair.plain"),
    yes("lumps.periodic"),
    no("pair.python-differs"),
    no("pair.sampled-differs"),
    more("time.slowdown", "time.slower"),
    yes("calls.same"),
    less("pair.residue", "programs.residue"),
    less("uncalled.part", "part.most"),
)

_PLAIN = (
    no("pair.python-differs"),
    no("pair.sampled-differs"),
    more("time.slowdown", "time.slower"),
    yes("calls.same"),
    less("pair.residue", "programs.residue"),
    no("starved.one-function"),
    # What only the candidate calls takes its time on any machine.
    less("uncalled.part", "part.most"),
    less("starved.beyond", "part.most"),
    no("lumps.periodic"),
    no("lumps.long"),
)

MORE_STARTED = _rule(
    id="more-started",
    about=(
        "without counters: the candidate started more processes or threads for the same work, and most of "
        "the lost time is in functions that start them or wait for them"
    ),
    bucket="loading",
    kind="kind.itself",
    requires=("pair.plain",),
    unless=("changed-source", "calls-per-call", "call-counts"),
    conditions=(*WAITED, more("started.growth", "threads.more"), more("started.part", "part.most")),
    confidence=0.75,
    evidence=("started", "waited-function", "wall"),
    advice=("start-once", "capture-both"),
    numbers=(
        "started.processes",
        "started.processes-before",
        "started.threads",
        "started.threads-before",
        "started.part",
    ),
)

#: What times of functions show.
_plain_rule = partial(
    _rule, bucket="speed", requires=("pair.plain",), unless=("changed-source", "calls-per-call")
)

QUOTA_LUMPS = _plain_rule(
    id="quota-lumps",
    about="without counters: the candidate stalled repeatedly, each time for as long as a CPU quota stops a program",
    kind="kind.quota",
    conditions=(
        *PERIODIC,
        more("lumps.median", "lumps.of-quota"),
        less("lumps.median", "lumps.period"),
    ),
    confidence=0.8,
    evidence=("lumps", "lumps-alike", "wall"),
    advice=("raise-quota", "capture-both"),
    numbers=("lumps.median", "lumps.count"),
)

STARVED_REPEATS = _plain_rule(
    id="starved-repeats",
    about="without counters, several runs a side: times of functions scatter more over the candidate's repeats",
    requires=("pair.plain", "repeats.known"),
    conditions=(yes("pair.plain"), yes("repeats.known"), more("repeats.noisier", "repeats.noisier"), *_PLAIN),
    strength="repeats.noisier",
    evidence=("scatter", "elsewhere", "lumps", "wall"),
    advice=("capture-both", "more-runs"),
)

STARVED = _plain_rule(
    id="starved",
    about=(
        "without counters, one run a side: there are signs of lost time slices, whose weights were learnt "
        "from labelled runs"
    ),
    conditions=(yes("pair.plain"), no("repeats.known"), yes("starved.holds"), *_PLAIN),
    strength="starved.probability",
    evidence=("signs", "elsewhere", "lumps", "wall"),
    advice=("capture-both", "more-runs"),
)

THROTTLED_ALONE = alone(
    THROTTLING,
    "the cgroup's CPU quota was used up in many of its periods",
    more("throttled", "throttled"),
    confidence=0.95,
    requires=(),
)

#: A thread that waits most of the time may queue for much of its active time, and lose little.
_QUEUED, _HELPERS_QUEUED = more("account.queued", "queue.least"), more("helpers.queued", "queue.least")

QUEUED_ALONE = alone(
    RUN_QUEUE_WAIT,
    "the run queued for CPUs, and it is known who took them",
    confidence=0.95,
    strength="most.wait",
    unless=("throttling", "own-locks"),
    alternatives=(
        # Threads that hand over data queue on an idle machine too, so someone must have taken the CPUs.
        (
            (yes("contention.known"), more("own.wait", "wait.some"), _QUEUED),
            (yes("contention.known"), more("hidden.wait", "wait.much"), _HELPERS_QUEUED),
            (yes("contention.unknown"), more("own.wait", "wait.much"), _QUEUED),
            (yes("contention.unknown"), more("hidden.wait", "wait.much"), _HELPERS_QUEUED),
        ),
    ),
    doubts=(((yes("contention.unknown"),), 0.6), ((less("most.wait", "wait.twice"),), 0.85)),
    evidence=("queue", "helpers-queue", "gpu", "neighbours", "demand", "others"),
)
