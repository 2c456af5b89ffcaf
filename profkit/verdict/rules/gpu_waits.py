"""Rules for time lost in functions that wait for a GPU: others use it, or it is given more to do."""

from __future__ import annotations

from profkit.verdict.rule import Rule, more, no, yes

#: The GPU took longer, and that is most of the lost time.
_WAITED = (
    more("time.slowdown", "time.noticed"),
    more("account.gpu", "part.most"),
    yes("gpu.beyond"),
)

SHARED = Rule(
    id="gpu-shared",
    cause="contention",
    about="most of the lost time is waiting for a GPU, which other programs used more than during the baseline",
    bucket="gpu",
    kind="kind.gpu",
    requires=("pair.counters",),
    conditions=(*_WAITED, yes("gpu.shared")),
    evidence=("gpu-wait", "gpu-others"),
    advice=("gpu-alone", "gpu-processes", "not-the-code"),
    numbers=("account.gpu", "gpu.others", "gpu.waited", "gpu.waited-before"),
)

CHANGED_CODE = Rule(
    id="gpu-code",
    cause="code-change",
    about=(
        "most of the lost time is waiting for a GPU, and code changed: functions only start work of a GPU, "
        "and others wait for it"
    ),
    bucket="gpu",
    requires=("pair.counters",),
    unless=("gpu-shared",),
    conditions=(*_WAITED, yes("code.source-known"), no("command.differs")),
    confidence=0.75,
    evidence=("gpu-wait", "code-function", "code-source", "gpu-others"),
    advice=("git-log",),
    subject="code.subject",
    numbers=(
        "account.gpu",
        "gpu.function",
        "gpu.waited",
        "gpu.waited-before",
    ),
)

MORE_WORK = Rule(
    id="gpu-work",
    cause="workload-change",
    about="most of the lost time is waiting for a GPU, and the command lines differ, but no source does",
    bucket="gpu",
    requires=("pair.counters",),
    unless=("gpu-shared",),
    conditions=(*_WAITED, yes("sources.same"), yes("command.differs"), yes("machine.one")),
    confidence=0.75,
    evidence=("command", "gpu-wait", "gpu-others"),
    advice=("compare-inputs",),
    subject="gpu.function",
    numbers=("account.gpu", "gpu.waited", "gpu.waited-before"),
)

UNDECIDED = Rule(
    id="gpu-waits",
    cause="inconclusive",
    about="most of the lost time is waiting for a GPU, and nothing says why it took longer",
    conditions=_WAITED,
    evidence=("gpu-wait", "gpu-others", "wall"),
    advice=("gpu-processes",),
    numbers=("account.gpu", "gpu.waited", "gpu.waited-before"),
)
