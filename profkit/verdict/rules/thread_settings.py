"""Rules of ``thread-settings``: the pools of libraries have fewer threads than pays."""

from __future__ import annotations

from profkit.verdict.rule import Rule, less, more
from profkit.verdict.rules.slower_machine import NO_QUEUE

NARROWER = Rule(
    id="narrower-pools",
    cause="thread-settings",
    about=(
        "the pools of libraries have fewer threads than in the baseline; the program needs no more CPU time, but "
        "keeps fewer CPUs busy"
    ),
    bucket="speed",
    requires=("pair.counters",),
    unless=("changed-source", "throttling", "run-queue-wait", "call-counts"),
    conditions=(
        less("pair.residue", "programs.residue"),
        more("time.slowdown", "time.slower"),
        less("pools.factor", "pools.narrower"),
        less("cores.factor", "pools.narrower"),
        less("cpu.factor", "time.noticed"),
        more("account.speed", "part.most"),
    ),
    alternatives=(NO_QUEUE,),
    confidence=0.85,
    strength="time.log-slowdown",
    evidence=("pool-widths", "cores-used", "cpu-time", "main-wait", "wall"),
    advice=("same-settings", "more-cpus"),
    numbers=("pools.threads", "pools.threads-before", "cores.factor", "cpus.factor"),
)
