"""Rules of ``slower-machine``: the same calls cost more CPU time because the CPU differs."""

from __future__ import annotations

from profkit.verdict.rule import Rule, less, more, no, yes

#: Nothing shows a lack of CPUs.
NO_QUEUE = ((less("main.wait", "wait.much"),), (less("main.wait-growth", "wait.growth"),))
#: The same, or it is not what costs the time.
NOT_BY_QUEUE = (*NO_QUEUE, (yes("contention.apart"),))

#: Rules of settings and waits, which also make the same calls take longer.
OTHER_REASONS = (
    "fewer-workers",
    "fewer-threads",
    "fewer-python-threads",
    "more-threads",
    "child-programs",
    "own-locks",
)

#: The program takes longer on an equally fast machine.
AS_FAST = (
    yes("machine.same"),
    no("contention.of-loss"),
    more("time.over-drift", "time.drift-or-own"),
    more("cpu.part", "part.most"),
)

SLOWER_CPU = Rule(
    id="slower-cpu",
    cause="slower-machine",
    about=(
        "the same calls take longer, and so does the fixed work; or, in files without fixed work, the CPU "
        "models differ; or libraries use another instruction set"
    ),
    bucket="speed",
    requires=("pair.counters",),
    unless=("changed-source", "throttling", "run-queue-wait"),
    conditions=(
        less("pair.residue", "programs.residue"),
        more("time.slowdown", "time.slower"),
        more("cpu.part", "part.most"),
        more("account.speed", "speed.part"),
    ),
    alternatives=(
        # What variables say needs no number of calls, if the estimates allow that there are no more.
        ((yes("calls.same"),), (yes("instructions.differ"), yes("calls.undecided"))),
        (
            # Other programs that take caches and memory do not make the machine slower.
            (more("machine.part", "part.most"), no("contention.others")),
            (yes("instructions.differ"),),
            (yes("machines.differ"), no("machine.known")),
        ),
        NO_QUEUE,
        # Where the input grew too, only one factor common to all functions points to the machine.
        ((no("input.larger"), no("command.differs")), (less("spread", "spread.twice"),)),
    ),
    doubts=(((yes("calls.undecided"),), 0.75),),
    strength="time.log-slowdown",
    evidence=("machines", "per-call", "main-wait", "wall"),
    advice=("same-settings", "lscpu"),
    numbers=("time.slowdown", "instructions.differ", "machine.part", "models.differ"),
)

ONE_FACTOR = Rule(
    id="one-factor",
    cause="slower-machine",
    about="in files without fixed work: the CPU time of every function grew by the same factor",
    bucket="speed",
    requires=("pair.counters",),
    unless=("changed-source", "throttling", "run-queue-wait", "shared-hardware"),
    conditions=(
        no("machines.differ"),
        no("machine.known"),
        no("input.larger"),
        no("command.differs"),
        yes("calls.same"),
        less("pair.residue", "programs.residue"),
        more("time.over-drift", "time.drift-or-own"),
        more("cpu.part", "speed.all"),
        less("spread", "spread.clean"),
        less("order.tv", "moved.tv95"),
        no("order.moved"),
        more("per-call.functions", "machine.functions"),
    ),
    # A slower machine is slower at the program start's own work too.
    alternatives=(NO_QUEUE, ((no("yardstick.known"),), (less("yardstick.apart", "one-function.apart"),))),
    confidence=0.6,
    strength="time.log-slowdown",
    evidence=("per-call", "elsewhere", "wall"),
    advice=("more-runs",),
    numbers=("per-call",),
)
