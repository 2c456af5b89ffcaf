"""Rules of ``interpreter-lock``: threads of one process wait for each other to run Python."""

from __future__ import annotations

from profkit.verdict.rule import Rule, more, no

GIL = Rule(
    id="gil",
    cause="interpreter-lock",
    about="most of the loss is waiting for the interpreter's lock, which other threads of the process held",
    bucket="gil",
    requires=("pair.counters",),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("account.gil", "part.most"),
        # If its source changed, its code is the reason that it held the lock longer.
        no("gil.holder-changed"),
    ),
    confidence=0.9,
    evidence=("gil", "gil-holders", "blocked-on"),
    advice=("release-gil", "fewer-python-threads"),
    numbers=("account.gil",),
)

GIL_ALONE = Rule(
    id="gil",
    cause="interpreter-lock",
    about="the path waited for the interpreter's lock for a large part of the wall",
    bucket="gil",
    requires=("pair.counters",),
    conditions=(
        more("wall", "alone.wall"),
        more("account.gil", "alone.waits"),
    ),
    confidence=0.8,
    strength="account.gil",
    evidence=("gil", "gil-holders", "blocked-on"),
    advice=("release-gil", "fewer-python-threads"),
    numbers=("account.gil",),
)
