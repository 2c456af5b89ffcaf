"""Rules of ``workload-change``: the same functions are called more often, or each call has more data."""

from __future__ import annotations

from functools import partial

from profkit.verdict.rule import Rule, less, more, no, yes
from profkit.verdict.rules.blocked import AWAITED
from profkit.verdict.rules.code_change import BY_CALLS, ONE_SLOWER
from profkit.verdict.rules.slower_machine import AS_FAST, NOT_BY_QUEUE, OTHER_REASONS

_rule = partial(Rule, cause="workload-change", bucket="speed", advice=("compare-inputs",))

CALL_COUNTS = _rule(
    id="call-counts",
    about="the functions that take most of the time are called more or less often, and their callers did not change",
    bucket="work",
    alternatives=(
        (
            (more("calls.factor", "work.calls"), more("account.work-of-baseline", "work.of-baseline")),
            # Less work makes no program slower.
            (
                less("calls.factor", "work.fewer"),
                less("account.work-of-baseline", "work.less-of-baseline"),
                less("time.slowdown", "time.noticed"),
            ),
        ),
    ),
    confidence=0.95,
    doubts=(
        # Further recorded threads, another profiler or another program have more calls for the same work.
        ((yes("pair.threads-differ"),), 0.4),
        ((more("pair.residue", "programs.threads"),), 0.4),
        # Another Python calls its library differently, above all in imports.
        ((yes("pair.python-differs"),), 0.6),
        ((less("calls.everywhere", "work.everywhere"),), 0.7),
    ),
    evidence=("calls", "calls-everywhere", "origin", "top-calls"),
    subject="work.subject",
    numbers=("calls.factor", "calls.everywhere", "account.work"),
)

OTHER_FUNCTION = _rule(
    id="other-function",
    about=(
        "most of the lost time is in a function that the baseline defines but spends no time in; no source "
        "differs, so an option, a setting or the data selects it"
    ),
    bucket="work",
    unless=("changed-source", "call-counts"),
    conditions=(
        yes("sources.same"),
        more("time.slowdown", "time.slower"),
        more("uncalled.part", "part.most"),
    ),
    # Samples miss a function that is called but takes no time; changed code may be what makes it slow.
    alternatives=(((more("calls.known", "calls.known"),), (yes("uncalled.same"),)),),
    evidence=("uncalled-function", "wall"),
    subject="uncalled.function",
    numbers=("uncalled.part",),
)

MORE_CALLS = _rule(
    id="more-calls",
    about="most of the lost time is calls that the baseline did not make, or made less often",
    bucket="work",
    unless=(
        *("changed-source", "call-counts", "other-function", "calls-per-call", "one-function"),
        *("compiling", "other-library-code"),
    ),
    conditions=(
        no("pair.python-differs"),
        less("pair.residue", "programs.threads"),
        more("time.slowdown", "time.slower"),
        more("account.work", "part.most"),
        yes("account.work-beyond"),
    ),
    # Otherwise an edit may make them.
    alternatives=(((yes("sources.same"),), (yes("work.by-library"),)),),
    confidence=0.85,
    evidence=("added-calls", "wall"),
    subject="work.most",
    numbers=("account.work",),
)

MORE_PROGRAMS = _rule(
    id="more-programs",
    about=(
        "the main thread, or threads that start them, wait for processes that the program starts; it starts more of "
        "them, and each uses about as much CPU time as before"
    ),
    bucket="blocked",
    part="children.of-lost",
    requires=("pair.counters",),
    unless=("changed-source", "throttling", "run-queue-wait", "call-counts"),
    conditions=(*AWAITED, yes("children.more")),
    confidence=0.85,
    evidence=("children", "children-number", "main-wait", "wall"),
    advice=("compare-inputs", "child-commands"),
    subject="children.named",
    numbers=("children.number", "children.number-before", "children.of-lost"),
)

ONE_LIBRARY_FUNCTION = _rule(
    id="one-library-function",
    about=(
        "one function of the standard library got slower per call, no other did, and its source is not known: its "
        "calls have more to do"
    ),
    unless=("changed-source",),
    conditions=(*ONE_SLOWER, no("function.of-project"), no("pair.python-differs")),
    # Beside busy programs, a native function that takes most of the time may seem to be the only slower one.
    alternatives=(
        *BY_CALLS,
        ((no("function.native"),), (more("function.apart", "one-function.alone"),)),
    ),
    confidence=0.75,
    # As of one function of the project.
    doubts=(((yes("pair.plain"), less("function.apart", "one-function.far")), 0.6),),
    evidence=("top-function", "top-function-calls", "top-function-per-call"),
    subject="function.subject",
    numbers=("function.part",),
)

LONGER_LOOPS = _rule(
    id="longer-loops",
    about=(
        "several functions that are called as often as before call others more often, so their loops run over "
        "more data"
    ),
    unless=("changed-source", "calls-per-call", "throttling", "run-queue-wait", "call-counts"),
    conditions=(
        # Another version of Python or of a library has other loops.
        no("pair.python-differs"),
        less("pair.residue", "programs.residue"),
        more("loops.functions", "loops.functions"),
        more("loops.alike", "speed.all"),
        more("time.slowdown", "time.slower"),
        less("loops.power", "loops.power"),
    ),
    alternatives=(((no("pair.counters"),), (more("account.speed", "speed.part"),)),),
    confidence=0.85,
    strength="time.log-slowdown",
    evidence=("loops", "top-function", "per-call", "wall"),
    subject="loops.subject",
    numbers=("loops.functions", "loops.factor"),
)

MORE_RANGES = _rule(
    id="more-ranges",
    about="NVTX ranges ran more often, all of them alike, and that explains most of the lost time",
    unless=("changed-source", "throttling", "run-queue-wait", "call-counts"),
    conditions=(
        more("ranges.factor", "work.calls"),
        more("ranges.alike", "part.ranges-alike"),
        more("ranges.of-growth", "part.most"),
        more("ranges.part", "part.most"),
        more("time.slowdown", "time.noticed"),
    ),
    evidence=("ranges-count", "iterations", "wall"),
    subject="ranges.name",
    numbers=("ranges.factor",),
)

#: More CPU time that no count of calls explains.
_more_time = partial(
    _rule, requires=("pair.counters",), strength="time.log-slowdown", subject="work.function"
)

LARGER_INPUT = _more_time(
    id="larger-input",
    about=(
        "the same calls take longer on the same CPU model, and memory, bytes read or the command line show a "
        "larger input"
    ),
    unless=("changed-source", "throttling", "run-queue-wait"),
    conditions=(
        yes("calls.same"),
        no("machines.differ"),
        less("pair.residue", "programs.residue"),
        more("cpu.part", "part.most"),
        more("account.speed", "speed.part"),
    ),
    alternatives=(
        (
            (yes("input.larger"), more("time.slowdown", "time.slower")),
            # Another command line alone proves nothing, so the difference itself must be beyond doubt.
            (yes("command.differs"), more("order.tv", "moved.tv"), more("time.slowdown", "time.slower")),
            (yes("command.differs"), more("time.over-drift", "time.drift-or-own")),
        ),
        ((no("machine.known"),), (less("machine.part", "part.most"),)),
        NOT_BY_QUEUE,
    ),
    confidence=0.8,
    evidence=("inputs", "command", "top-function", "per-call", "main-wait", "wall"),
    numbers=("time.slowdown", "function.part", "command.differs"),
)

#: The same source takes longer on an equally fast machine.
_MORE_OF_THE_SAME = (*AS_FAST, yes("sources.same"), less("pair.residue", "programs.threads"))

#: CPUs of a virtual machine may share what fixed work on one of them does not need.
_ON_SEVERAL_CPUS = (((more("cores", "cores.several"),), 0.65),)

MORE_PER_CALL = _more_time(
    id="more-per-call",
    about=(
        "the same calls of the same source take longer on one machine whose CPU was as fast as before, so "
        "each call does more work, although nothing else shows it"
    ),
    unless=(
        *("changed-source", "throttling", "run-queue-wait", "larger-input", "one-factor"),
        *OTHER_REASONS,
    ),
    conditions=(
        *_MORE_OF_THE_SAME,
        more("account.speed", "speed.part"),
        no("command.differs"),
        yes("calls.same"),
    ),
    alternatives=(
        NOT_BY_QUEUE,
        # One factor for many functions looks like a slower machine, whatever fixed work says.
        ((more("function.part", "part.most"),), (more("spread", "spread.clean"),)),
    ),
    confidence=0.75,
    doubts=_ON_SEVERAL_CPUS,
    evidence=("top-function", "per-call", "fixed-work", "main-wait", "others", "wall"),
    numbers=("time.slowdown", "function.part", "command.differs"),
)

SOME_MORE_PER_CALL = _more_time(
    id="some-more-per-call",
    about=(
        "in files without fixed work: calls of several functions take longer, and those of most functions in "
        "Python do not, so the CPU is as fast as before"
    ),
    unless=(
        *("changed-source", "one-function", "throttling", "run-queue-wait", "larger-input", "one-factor"),
        *("longer-loops", "slower-cpu", *OTHER_REASONS),
    ),
    conditions=(
        no("machines.differ"),
        no("machine.known"),
        no("contention.of-loss"),
        yes("calls.same"),
        less("pair.residue", "programs.threads"),
        more("time.over-drift", "time.drift-or-own"),
        more("cpu.part", "part.most"),
        more("account.speed", "speed.part"),
        less("machine.python", "machine.python"),
        more("per-call.several", "per-call.functions"),
    ),
    alternatives=(NOT_BY_QUEUE,),
    confidence=0.6,
    evidence=("top-function", "per-call", "main-wait", "others", "wall"),
    numbers=("machine.python", "per-call.several"),
)

MORE_TO_DO = _more_time(
    id="more-to-do",
    about=(
        "the calls of a sampled side are not known; the same source takes longer on one machine whose CPU "
        "was as fast as before, so there is more work, in more calls or in each call"
    ),
    unless=(
        *("changed-source", "throttling", "run-queue-wait", "larger-input", "one-factor", "call-counts"),
        *("more-ranges", *OTHER_REASONS),
    ),
    conditions=(
        *_MORE_OF_THE_SAME,
        yes("calls.undecided"),
        # A function that samples of the baseline missed may have changed.
        less("uncalled.part", "code.part"),
    ),
    alternatives=(
        NOT_BY_QUEUE,
        # Programs that it starts, and what it reads and sends, have as much more to do.
        ((more("account.calls-and-cost", "speed.part"),), (yes("off.with-work"),)),
    ),
    confidence=0.75,
    doubts=_ON_SEVERAL_CPUS,
    evidence=("command", "top-function", "calls-known", "fixed-work", "main-wait", "others", "wall"),
    advice=("compare-inputs", "capture-exact"),
    numbers=("time.slowdown", "function.part", "command.differs"),
)
