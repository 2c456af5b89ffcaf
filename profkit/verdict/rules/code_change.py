"""Rules of ``code-change``: a changed function holds the loss with what it calls, or only one got slower."""

from __future__ import annotations

from profkit.verdict.rule import Condition, Rule, less, more, no, yes
from profkit.verdict.rules.slower_machine import AS_FAST, NOT_BY_QUEUE, OTHER_REASONS

CHANGED_SOURCE = Rule(
    id="changed-source",
    cause="code-change",
    about="functions whose source changed, and their callees, make up a large part of the lost time",
    bucket="code",
    conditions=(
        yes("code.source-known"),
        more("account.code", "code.part"),
        more("account.code-of-baseline", "code.of-baseline"),
    ),
    confidence=0.95,
    evidence=("code-function", "code-calls", "code-source", "origin-in-code", "per-call-function"),
    advice=("git-log",),
    subject="code.subject",
    numbers=("account.code", "code.new", "code.place", "revision-before", "revision"),
)

CHANGED_ABOVE = Rule(
    id="changed-above",
    cause="code-change",
    about=(
        "on one machine whose CPU was as fast as before, most of the added time is in one function, and the source "
        "of a function above it changed, which may pass it other objects"
    ),
    bucket="speed",
    part="account.calls-and-cost",
    requires=("pair.counters",),
    unless=(
        *("changed-source", "throttling", "run-queue-wait", "larger-input", "one-factor", "call-counts"),
        *("more-ranges", *OTHER_REASONS),
    ),
    conditions=(
        yes("code.above"),
        *AS_FAST,
        more("account.calls-and-cost", "speed.part"),
        less("pair.residue", "programs.residue"),
    ),
    alternatives=(NOT_BY_QUEUE,),
    confidence=0.8,
    # An option may select more to do as well.
    doubts=(((yes("command.differs"),), 0.6),),
    evidence=("code-source", "top-function", "fixed-work", "main-wait", "others", "wall"),
    advice=("git-log",),
    subject="code.subject",
    numbers=("function.subject", "function.part", "code.new", "code.place", "revision-before", "revision"),
)

CALLS_PER_CALL = Rule(
    id="calls-per-call",
    cause="code-change",
    about="sources are not known, and one function calls others more often each time it runs",
    bucket="code",
    conditions=(
        no("code.source-known"),
        yes("code.loop"),
        more("account.code", "part.most"),
        more("account.code-of-baseline", "code.of-baseline"),
        less("pair.residue", "programs.threads"),
        no("pair.python-differs"),
    ),
    # A loop that runs more often may as well have another setting, or more data; a plain profile does not say
    # with which options the program ran, which may select another branch.
    doubts=(((no("code.other-callee"),), 0.6), ((yes("pair.plain"),), 0.85)),
    evidence=("origin-in-code", "top-calls", "wall"),
    advice=("git-log", "compare-inputs"),
    subject="code.subject",
    numbers=("account.code", "code.other-callee"),
)

#: One function got slower per call, and no other did.
ONE_SLOWER: tuple[Condition, ...] = (
    more("function.part", "one-function.part"),
    more("function.gain", "code.of-baseline"),
    # Of what was lost, most may be waiting.
    more("function.of-lost", "code.part"),
    no("function.source-known"),
    # A lack of CPUs slows what has threads of its own, or waits, up to 170 times as much as other functions.
    no("function.may-wait"),
    more("function.apart", "one-function.apart"),
    less("others.moved", "others-same"),
    less("spread", "spread.twice"),
)
#: Nothing shows a lack of CPUs, and enough calls, or a loss beyond that of clean repeats, speak for it.
BY_CALLS = (
    ((yes("pair.plain"),), (less("main.wait", "wait.much"),)),
    ((more("function.calls", "one-function.calls"),), (more("time.over-drift", "time.drift-or-own"),)),
)

ONE_FUNCTION = Rule(
    id="one-function",
    cause="code-change",
    about="one function of the project got slower per call, no other did, and its source is not known",
    bucket="code",
    unless=("changed-source",),
    conditions=(*ONE_SLOWER, yes("function.of-project")),
    alternatives=BY_CALLS,
    confidence=0.85,
    # Right in 5 of 12 labelled pairs of plain profiles of one second, so shown as a possibility only.
    doubts=(((yes("pair.plain"), less("function.apart", "one-function.far")), 0.45),),
    evidence=("top-function", "top-function-calls", "top-function-per-call"),
    subject="function.subject",
    numbers=("function.part",),
)
