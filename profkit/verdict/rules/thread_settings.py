"""Rules of ``thread-settings``: fewer threads or workers than before leave CPUs idle."""

from __future__ import annotations

from profkit.verdict.rule import Condition, Rule, less, more
from profkit.verdict.rules.slower_machine import NO_QUEUE


def _fewer(what: str) -> tuple[Condition, ...]:
    """Return that there are fewer, and that the program needs no more CPU time but keeps fewer CPUs busy."""
    return (
        less("pair.residue", "programs.residue"),
        more("time.slowdown", "time.slower"),
        less(f"{what}.factor", "threads.fewer"),
        less("cores.factor", "threads.fewer"),
        less("cpu.factor", "time.noticed"),
        more("account.speed", "part.most"),
    )


_UNLESS = ("changed-source", "throttling", "run-queue-wait", "call-counts")
_EVIDENCE = ("cores-used", "cpu-time", "main-wait", "wall")

NARROWER_POOLS = Rule(
    id="narrower-pools",
    cause="thread-settings",
    about=(
        "the pools of libraries have fewer threads than in the baseline; the program needs no more CPU time, but "
        "keeps fewer CPUs busy"
    ),
    bucket="speed",
    requires=("pair.counters",),
    unless=_UNLESS,
    conditions=_fewer("pools"),
    alternatives=(NO_QUEUE,),
    confidence=0.85,
    strength="time.log-slowdown",
    evidence=("pool-widths", *_EVIDENCE),
    advice=("same-settings", "more-cpus"),
    numbers=("pools.threads", "pools.threads-before", "cores.factor", "cpus.factor"),
)

FEWER_WORKERS = Rule(
    id="fewer-workers",
    cause="thread-settings",
    about="the same of processes that work at once",
    bucket="speed",
    requires=("pair.counters",),
    unless=(*_UNLESS, "narrower-pools"),
    conditions=_fewer("workers"),
    alternatives=(NO_QUEUE,),
    confidence=0.85,
    strength="time.log-slowdown",
    evidence=("workers-at-once", *_EVIDENCE),
    advice=("same-settings", "more-workers"),
    numbers=("workers", "workers-before", "cores.factor", "cpus.factor"),
)
