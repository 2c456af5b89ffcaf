"""Rules of ``garbage-collection``: the collector takes the time of the path's thread."""

from __future__ import annotations

from profkit.verdict.rule import Rule, alone, more, yes

COLLECTIONS = Rule(
    id="collections",
    cause="garbage-collection",
    about="most of the lost time is garbage collection in the thread of the critical path",
    bucket="gc",
    requires=("pair.counters",),
    # What runs in place of something else also makes the objects that are collected.
    unless=("other-function",),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("account.gc", "part.most"),
        more("account.gc-of-baseline", "gc.of-baseline"),
        yes("account.gc-beyond"),
    ),
    evidence=("gc", "main-wait", "wall"),
    advice=("collect-less",),
    subject="gc.function",
    numbers=("account.gc", "gc.seconds", "gc.seconds-before"),
)

COLLECTIONS_ALONE = alone(
    COLLECTIONS,
    "garbage collection takes a large part of the wall",
    more("account.gc", "alone.waits"),
    confidence=0.85,
    strength="account.gc",
    evidence=("gc",),
    numbers=("account.gc",),
)
