"""Rule of ``faster``: the candidate took less time."""

from __future__ import annotations

from profkit.verdict.rule import Rule, less, more, yes

#: The baseline lacked CPUs.
_FREED = (more("main.wait-before", "wait.much"), more("main.wait-fell", "wait.growth"))

LESS_TIME = Rule(
    id="less-time",
    cause="faster",
    about="the candidate was faster by more than the noise",
    unless=("identical",),
    conditions=(less("pair.residue", "programs.residue"), yes("time.surely-less")),
    alternatives=(
        (
            (*_FREED, more("time.speedup", "time.noticed")),
            (yes("order.any"), more("time.speedup", "time.slower")),
            # Queueing, waiting, calls and code do not drift like a CPU's speed.
            (more("account.saved", "part.most"), more("time.speedup", "time.noticed")),
            (more("time.under-drift", "time.drift-or-own"),),
        ),
    ),
    evidence=("wall", "main-wait-before"),
    numbers=(
        "time.slowdown",
        "time.walls",
    ),
)
