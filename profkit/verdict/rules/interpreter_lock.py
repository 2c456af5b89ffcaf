"""Rules of ``interpreter-lock``: threads of one process wait for each other to run Python."""

from __future__ import annotations

from profkit.verdict.rule import Rule, alone, more

GIL = Rule(
    id="gil",
    cause="interpreter-lock",
    about="most of the lost time is waiting for the interpreter's lock while functions of other threads held it",
    bucket="gil",
    requires=("pair.counters",),
    unless=("more-ranges",),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("account.gil", "part.most"),
        more("gil.held", "part.most"),
        more("gil.looks", "waits.looks"),
    ),
    evidence=("gil", "gil-holders", "blocked-on"),
    advice=("release-gil", "fewer-python-threads"),
    numbers=("account.gil",),
)

GIL_ALONE = alone(
    GIL,
    "the critical path waited for the interpreter's lock for a large part of the wall",
    more("account.gil", "alone.waits"),
    more("gil.held", "part.most"),
    more("gil.looks", "waits.looks"),
    confidence=0.8,
    strength="account.gil",
)
