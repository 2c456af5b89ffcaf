"""Rules of ``blocked``: off the CPU without queueing for one, and not for lack of data."""

from __future__ import annotations

from functools import partial

from profkit.verdict.rule import Rule, alone, less, more, no
from profkit.verdict.rules.contention import PERIODIC, WAITED

_rule = partial(Rule, cause="blocked", bucket="blocked", requires=("pair.counters",))

READING = _rule(
    id="reading",
    about="most of the lost time is reading files, on a CPU or off it, and no more is read than before",
    kind="reading.kind",
    # The kernel copies what storage delivers while the thread runs, so some of it is cost per call.
    part="account.reading",
    unless=(
        "changed-source",
        "throttling",
        "run-queue-wait",
        "call-counts",
        "more-programs",
        "child-programs",
    ),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("account.reading", "part.most"),
        no("input.larger"),
        no("off.with-work"),
    ),
    confidence=0.85,
    evidence=("reading", "storage", "refaulted", "main-wait", "wall"),
    advice=("files",),
    numbers=("account.reading", "storage.added", "memory.refaulted", "memory.limit"),
)

OFF_CPU = _rule(
    id="off-cpu",
    about="most of the lost time is I/O, locks, sleep or a stopped process",
    unless=("loading", "more-ranges", "fewer-workers", "more-programs", "child-programs", "own-locks"),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("account.off", "part.most"),
        no("off.with-work"),
        less("settings.queue", "part.most"),
    ),
    doubts=(
        # Workers that were busy all along may be what it waited for.
        ((more("helpers.busy", "workers.busy"),), 0.6),
        ((less("time.slowdown", "time.slower"),), 0.75),
    ),
    evidence=("off", "blocked-on", "helpers-blocked-on", "gpu", "main-wait"),
    advice=("await",),
    numbers=("off", "off-before", "blocked.on"),
)

#: The program waits for processes that it starts and that were not profiled, and these use more CPU time.
AWAITED = (
    more("time.slowdown", "time.noticed"),
    more("children.of-lost", "part.most"),
    more("children.awaited", "part.most"),
)

CHILDREN = _rule(
    id="child-programs",
    about=(
        "the main thread, or threads that start them, wait for processes that the program starts, and these use more "
        "CPU time; they were not profiled, so their functions are not known"
    ),
    # What a child process does while it is waited for is on the critical path.
    part="children.of-lost",
    unless=("changed-source", "throttling", "run-queue-wait", "more-programs"),
    conditions=(*AWAITED, no("off.with-work")),
    confidence=0.85,
    evidence=("children", "main-wait", "wall"),
    advice=("child-commands",),
    subject="children.named",
    numbers=("children", "children-before", "children.of-lost"),
)

CHILDREN_ALONE = alone(
    CHILDREN,
    "the main thread waits for processes that the program starts, for most of the wall",
    more("children.of-wall", "alone.most"),
    more("children.awaited", "alone.most"),
    confidence=0.8,
    part="",
    strength="children.of-wall",
    evidence=("children",),
    numbers=("children", "children.of-wall"),
)

LOCKED = _rule(
    id="own-locks",
    about=(
        "workers or threads wait for a lock that the program's own code takes, and fewer CPUs are busy: they work "
        "one after the other"
    ),
    unless=("changed-source", "throttling", "run-queue-wait", "fewer-workers"),
    conditions=(
        more("time.slowdown", "time.slower"),
        more("locked.of-lost", "locked.part"),
        less("cores.factor", "threads.fewer"),
        more("account.off", "part.most"),
    ),
    confidence=0.85,
    evidence=("locked", "helpers-blocked-on", "cores-used", "cpu-time"),
    advice=("shorter-lock",),
    subject="locked.in",
    numbers=("locked", "locked-before", "cores.factor"),
)

LOCKED_ALONE = alone(
    LOCKED,
    "workers or threads wait for a lock that the program's own code takes, for a large part of the wall",
    more("locked.of-wall", "part.most"),
    more("off", "alone.waits"),
    # Who lacks CPUs while it has the lock keeps the others waiting.
    less("account.queued", "part.most"),
    confidence=0.8,
    part="",
    strength="locked.of-wall",
    evidence=("locked", "demand"),
    numbers=("locked", "locked.of-wall"),
)

WAITS = _rule(
    id="waits",
    about=(
        "without counters: most of the lost time is in functions that wait by design, for a socket, storage or a "
        "file's lock, or the program started no process or thread that it could wait for"
    ),
    requires=("pair.plain",),
    unless=("changed-source", "calls-per-call", "call-counts"),
    conditions=(*WAITED, more("account.waits", "speed.all")),
    alternatives=(((no("started.any"),), (more("waits.outside", "speed.all"),)),),
    confidence=0.75,
    evidence=("waited-function", "wall"),
    advice=("capture-both",),
    subject="waited.function",
    numbers=("account.waits", "started.any"),
)

STOPPED = _rule(
    id="stops",
    about="without counters: the candidate stalled repeatedly, each time for longer than a quota's period",
    bucket="speed",
    requires=("pair.plain",),
    unless=("changed-source", "calls-per-call"),
    conditions=(*PERIODIC, more("lumps.median", "lumps.period")),
    confidence=0.75,
    evidence=("lumps", "lumps-alike", "wall"),
    advice=("capture-both",),
    numbers=("lumps.median", "lumps.count"),
)

READING_ALONE = alone(
    READING,
    "most of the wall is reading files, on a CPU or off it, and not only from memory",
    more("account.reading", "alone.most"),
    more("storage.added", "input.larger-bytes"),
    confidence=0.85,
    evidence=("reading", "storage", "refaulted", "main-wait"),
)

STOPPED_ALONE = alone(
    OFF_CPU,
    "the whole process was stopped for long, but not for lack of a CPU: by a signal, or with its "
    "container or machine",
    more("account.stopped", "alone.waits"),
    confidence=0.9,
    strength="account.stopped",
    id="stopped",
    evidence=("off", "blocked-on"),
    numbers=("account.stopped",),
)

OFF_CPU_ALONE = alone(
    OFF_CPU,
    "the main thread was off the CPU most of the time, and no other part of the program ran meanwhile",
    more("off", "alone.most"),
    more("account.blocked", "alone.waits"),
    less("helpers.busy", "workers.busy"),
    less("helpers.queued", "wait.much"),
    confidence=0.8,
    strength="off",
    unless=("loading", "child-programs", "own-locks"),
)
