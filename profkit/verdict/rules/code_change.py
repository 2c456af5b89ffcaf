"""Rules of ``code-change``: a changed function with its callees holds the loss, or only one got slower."""

from __future__ import annotations

from profkit.verdict.rule import Rule, less, more, no, yes

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
    evidence=("origin-in-code", "top-calls", "wall"),
    advice=("git-log",),
    subject="code.subject",
    numbers=("account.code",),
)

ONE_FUNCTION = Rule(
    id="one-function",
    cause="code-change",
    about="one Python function got slower per call, no other did, and its source is not known",
    bucket="code",
    unless=("changed-source",),
    conditions=(
        more("function.part", "one-function.part"),
        more("function.gain", "code.of-baseline"),
        # Native code has no source here: its threads or its input may as well have changed.
        no("function.source-known"),
        no("function.native"),
        more("function.apart", "one-function.apart"),
        less("others.moved", "others-same"),
        less("spread", "spread.twice"),
    ),
    alternatives=(((yes("pair.plain"),), (less("main.wait", "wait.much"),)),),
    confidence=0.85,
    # Right in 5 of 12 labelled pairs of plain profiles of one second, so shown as a possibility only.
    doubts=(((yes("pair.plain"), less("function.apart", "one-function.far")), 0.45),),
    evidence=("top-function", "top-function-calls", "top-function-per-call"),
    subject="function.subject",
    numbers=("function.part",),
)
