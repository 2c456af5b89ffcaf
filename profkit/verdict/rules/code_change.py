"""Rules of ``code-change``: a changed function with its callees holds the loss, or only one got slower."""

from __future__ import annotations

from profkit.verdict.rule import Condition, Rule, less, more, no, yes

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
    confidence=0.65,
    # A loop that runs more often may as well have another setting, or more data.
    doubts=(((no("code.other-callee"),), 0.6),),
    evidence=("origin-in-code", "top-calls", "wall"),
    advice=("git-log", "compare-inputs"),
    subject="code.subject",
    numbers=("account.code", "code.other-callee"),
)

#: One function that only computes got slower per call, and no other did.
ONE_SLOWER: tuple[Condition, ...] = (
    more("function.part", "one-function.part"),
    more("function.gain", "code.of-baseline"),
    no("function.source-known"),
    # A lack of CPUs slows native code that has threads of its own, or waits, far more than other functions.
    no("function.may-wait"),
    more("function.apart", "one-function.apart"),
    less("others.moved", "others-same"),
)
#: Shown by calls of which scatter is known, without queueing.
SHOWN_BY_CALLS = (
    ((yes("pair.plain"),), (less("main.wait", "wait.much"),)),
    # A few calls show no scatter: such a loss must be beyond that of clean repeats.
    ((more("function.calls", "one-function.calls"),), (more("time.over-drift", "time.drift-or-own"),)),
    # A lack of CPUs slows functions by different factors, but none by so much more than the others.
    ((less("spread", "spread.twice"),), (more("function.apart", "one-function.alone"),)),
)

ONE_FUNCTION = Rule(
    id="one-function",
    cause="code-change",
    about="one function of the project got slower per call, no other did, and its source is not known",
    bucket="code",
    unless=("changed-source",),
    conditions=(*ONE_SLOWER, yes("function.of-project")),
    alternatives=SHOWN_BY_CALLS,
    confidence=0.85,
    # Right in 5 of 12 labelled pairs of plain profiles of one second, so shown as a possibility only.
    doubts=(((yes("pair.plain"), less("function.apart", "one-function.far")), 0.45),),
    evidence=("top-function", "top-function-calls", "top-function-per-call"),
    subject="function.subject",
    numbers=("function.part",),
)
