"""Rules of ``thread-settings``: fewer threads or workers than before leave CPUs idle; more threads than pay."""

from __future__ import annotations

from functools import partial

from profkit.verdict.rule import Condition, Rule, less, more
from profkit.verdict.rules.slower_machine import NO_QUEUE


def _fewer(what: str, by: str = "threads.fewer") -> tuple[Condition, ...]:
    """Return that there are fewer, and that the program keeps fewer CPUs busy."""
    return (
        less("pair.residue", "programs.residue"),
        more("time.slowdown", "time.slower"),
        less(f"{what}.factor", by),
        less("cores.factor", "threads.fewer"),
    )


_UNLESS = ("changed-source", "throttling", "run-queue-wait", "call-counts")
_EVIDENCE = ("cores-used", "cpu-time", "main-wait", "wall")

_rule = partial(
    Rule,
    cause="thread-settings",
    bucket="speed",
    requires=("pair.counters",),
    alternatives=(NO_QUEUE,),
    confidence=0.85,
    strength="time.log-slowdown",
)

FEWER_WORKERS = _rule(
    id="fewer-workers",
    about=(
        "there are fewer processes at once than in the baseline; the program needs no more CPU time, but keeps fewer "
        "CPUs busy"
    ),
    # Where the main process waits for its workers, it waits longer for fewer of them.
    part="account.cost-and-off",
    unless=_UNLESS,
    conditions=(
        *_fewer("workers"),
        less("cpu.factor", "time.noticed"),
        less("time.beyond-fewer", "time.noticed"),
        more("account.cost-and-off", "part.most"),
    ),
    evidence=("workers-at-once", *_EVIDENCE),
    advice=("same-settings", "more-workers"),
    numbers=("workers", "workers-before", "cores.factor", "cpus.factor"),
)

FEWER_THREADS = _rule(
    id="fewer-threads",
    about="fewer threads work, such as those of the libraries' pools: fewer CPUs busy for no more CPU time",
    unless=(*_UNLESS, "fewer-workers", "own-locks"),
    conditions=(
        *_fewer("threads-at-work"),
        less("cpu.factor", "time.noticed"),
        more("account.speed", "part.most"),
    ),
    evidence=("threads-at-work", "pool-widths", *_EVIDENCE),
    advice=("same-settings", "more-cpus"),
    numbers=("threads-at-work", "threads-at-work-before", "cores.factor", "cpus.factor"),
)

FEWER_PYTHON_THREADS = _rule(
    id="fewer-python-threads",
    about=(
        "fewer threads run Python than in the baseline, which wait for something themselves; the main thread waits "
        "longer for what they deliver"
    ),
    bucket="loading",
    part="account.off",
    unless=(*_UNLESS, "fewer-workers", "own-locks"),
    conditions=(
        *_fewer("python-threads", "python-threads.fewer"),
        less("time.beyond-fewer-threads", "time.noticed"),
        more("account.off", "part.most"),
        more("loading.of-off", "part.most"),
    ),
    # One thread more or less may be a library's own, such as a progress bar's.
    alternatives=(
        (
            (more("python-threads-before", "python-threads.pool"),),
            (less("pooled-threads.factor", "python-threads.fewer"),),
        ),
    ),
    evidence=("python-threads", "delivery", *_EVIDENCE),
    advice=("same-settings", "more-threads"),
    numbers=("python-threads", "python-threads-before"),
)

MORE_THREADS = _rule(
    id="more-threads",
    about=(
        "the pools of libraries are wider than in the baseline; the same work keeps more CPUs busy without a lack "
        "of them, and takes longer"
    ),
    # A slower CPU can have more cores.
    unless=(*_UNLESS, "slower-cpu"),
    conditions=(
        less("pair.residue", "programs.residue"),
        more("time.slowdown", "time.slower"),
        more("pools.factor", "threads.more"),
        more("threads-at-work.factor", "threads.more"),
        more("cores.factor", "threads.more"),
        # Threads on all CPUs queue behind each other at times.
        more("account.cost-and-queue", "part.most"),
    ),
    evidence=("pool-widths", "threads-at-work", *_EVIDENCE),
    advice=("as-wide",),
    numbers=("threads-at-work", "threads-at-work-before", "cores.factor", "cpu.factor"),
)
