"""What a verdict or finding says: by rule, one or two sentences with the deciding numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, TypeAlias

from profkit.compare.signals import signal_number
from profkit.report import units
from profkit.report.text import clean
from profkit.report.wording.accounts import WAITED_FOR
from profkit.report.wording.evidence import number_of, value_text
from profkit.report.wording.functions import display_name
from profkit.verdict.thresholds import value
from profkit.verdict.types import Finding, Value, Verdict


class _Sentence(Formatter):
    """Makes sentences about a verdict or finding; `alone`: it is of one run.

    Names in braces are ``subject``, phrases, texts, and numbers with their unit, or with a noun if they count
    something; ``{name:function}`` is a function as reports show it.
    """

    def __init__(self, found: Verdict | Finding, *, alone: bool) -> None:
        self.kind, self.subject, self.numbers, self.alone = found.kind, found.subject, found.numbers, alone

    def number(self, name: str) -> float | None:
        return number_of(self.numbers.get(name))

    def said(self, template: _Template) -> str:
        return self.vformat(template if isinstance(template, str) else template(self), (), {})

    def get_field(self, name: str, args: Any, kwargs: Any) -> tuple[Value, str]:
        if name in _PHRASES:
            return self.said(_PHRASES[name]), name
        return (self.subject if name == "subject" else self.numbers.get(name)), name

    def format_field(self, found: Any, unit: str) -> str:
        if not unit:
            return clean(str(found))
        if unit == "function":
            return display_name(str(found or ""))
        number, (one, several, many) = number_of(found), unit.partition("|")
        if several:
            return units.counted(round(number or 0.0), one, many)
        return units.WRITTEN[unit](number) if unit in units.WRITTEN else f"{number or 0.0:{unit}}"


#: A sentence, or a function that chooses one.
_Template: TypeAlias = "str | Callable[[_Sentence], str]"


def summary_of(found: Verdict | Finding, *, alone: bool = False) -> str:
    sentence = _Sentence(found, alone=alone)
    template = SUMMARIES[found.rule]
    said = sentence.said(_ALONE.get(found.rule, template) if alone else template)
    if found.rule != "capture-itself" and "account.capture" in found.numbers:
        said += sentence.said(" Capture overhead is {account.capture:share} of the wall-time change.")
    return said


def by_instructions(numbers: Mapping[str, Value]) -> bool:
    """Whether variables chose other instructions, and the machine itself was as fast."""
    part = number_of(numbers.get("machine.part"))
    return bool(numbers.get("instructions.differ")) and (part is None or part < value("part.most"))


def _uncaptured(p: _Sentence) -> str:
    """Say that a factor is not that of the walls, which are printed above."""
    walls, slowdown = p.number("time.walls"), p.number("time.slowdown")
    apart = walls is not None and units.factor(walls) != units.factor(slowdown)
    return " without capture overhead" if apart else ""


def _changed(p: _Sentence) -> str:
    n = p.numbers
    name = "{subject:function}" if p.subject else "A function"
    if n.get("code.place"):
        name += " ({code.place})"
    what = f"{name} is new" if n.get("code.new") else f"The source of {name} changed"
    before, after = (clean(str(n.get(f"revision{side}") or "")) for side in ("-before", ""))
    if before and after and before != after:
        what += " between {revision-before} and {revision}"
    elif before and before == after:
        what += " on top of revision {revision-before}"
    return what


def _waited_for(p: _Sentence) -> str:
    what = WAITED_FOR.get(str(p.numbers.get("blocked.on")))
    if what:
        return f"most of it waiting for {what}"
    return "I/O, locks or sleep" if p.alone else "I/O, locks, or it was stopped"


#: Parts of several sentences, by their names in braces.
_PHRASES: Mapping[str, _Template] = {
    "side": lambda p: "run" if p.alone else "candidate",
    "uncaptured": _uncaptured,
    "main-queued": (
        "main thread queued for a CPU for {main.wait:share} of its active time, against {main.wait-before:share}"
    ),
    "fewer-busy": lambda p: (
        "it keeps {cores.factor:factor} as many CPUs busy, and needs no more CPU time."
        + (" It may use {cpus.factor:factor} as many CPUs." if (p.number("cpus.factor") or 1.0) < 1 else "")
    ),
    "most-in": lambda p: (
        "{subject:function} makes up {function.part:share} of the added time, and its source did not change. "
        if p.subject
        else ""
    ),
    "commands": lambda p: " The command lines differ." if p.numbers.get("command.differs") is True else "",
    "on-gpu": (
        "The candidate waited {gpu.waited:s} for the GPU, against {gpu.waited-before:s}: that makes up "
        "{account.gpu:share} of the lost time."
    ),
    "waited-for": _waited_for,
    # Several at once can use more than the wall.
    "of-wall": lambda p: (
        ", {children.of-wall:share} of the wall," if (p.number("children.of-wall") or 0.0) < 1 else ""
    ),
    "changed": _changed,
    "stalled": (
        "The candidate stalled repeatedly for about {lumps.median:s} each time (in {lumps.count:count} short "
        "functions)"
    ),
}


def _within(p: _Sentence) -> str:
    total = "the total ({time.slowdown:factor}{uncaptured}) is within the drift of clean repeats"
    if not p.numbers.get("pair.counters"):
        return f"No reordering beyond noise, and {total}; waiting for a CPU was not measured."
    return "No reordering beyond noise, " + total + ", and the {main-queued}."


_ADDED_CALLS = (
    "Calls that the baseline did not make, or made less often, make up {account.work:share} of the lost time"
)


def _work(p: _Sentence) -> str:
    often = "more often" if (p.number("calls.factor") or 1) > 1 else "less often"
    origin = " The changed calls start in {subject:function}." if p.subject else ""
    if (p.number("calls.everywhere") or 1) < value("work.everywhere") <= (p.number("account.work") or 0):
        return f"{_ADDED_CALLS}.{origin}"
    return (
        "The candidate does {calls.factor:factor} the work: the functions where the time is spent are called "
        f"{often}.{origin}"
    )


def _by_whom(p: _Sentence) -> str:
    if p.kind == "self-oversubscription":
        others = p.numbers.get("contention.others") or p.numbers.get("contention.beside")
        return f"by its own threads and processes{', and by other programs too' if others else ''}"
    if p.kind == "external-load":
        itself = p.numbers.get("contention.itself")
        also = ", and by its own threads and processes too" if itself else ""
        return f"by other programs on the machine{also}"
    return "by something that the counters do not show"


def _queue(p: _Sentence) -> str:
    who = p.numbers.get("contention.who")
    name, of = {
        "main": ("its main thread", "main.wait"),
        "rank": ("one rank", "rank.wait"),
        "helpers": ("the workers and threads that its main thread waits for", "helpers.wait"),
    }[str(who)]
    against = "" if p.alone else _against(p, of)
    tail = ", and the other ranks wait for it" if who == "rank" and not p.alone else ""
    starts = ""
    if (p.number("account.starts") or 0.0) >= value("part.most"):
        starts = (
            " Starting and feeding its processes, queueing included, makes up {account.starts:share} of the "
            f"{'wall' if p.alone else 'lost time'}."
        )
    return (
        f"The {{side}} was starved of CPU {_by_whom(p)}: {name} queued for a CPU for "
        f"{units.share(p.number(of))} of the active time{against}{tail}.{starts}"
    )


def _against(p: _Sentence, of: str) -> str:
    before = p.number(f"{of}-before") or 0.0
    # A baseline with fewer workers may queue for as large a part of a shorter time: evidence has the seconds.
    return f", against {units.share(before)} in the baseline" if before < (p.number(of) or 0.0) else ""


def _more_started(p: _Sentence) -> str:
    found = [
        f"{units.count(after)} {what} instead of {units.count(before)}"
        for what in ("processes", "threads")
        for before, after in ((p.number(f"started.{what}-before"), p.number(f"started.{what}")),)
        if before is not None and after is not None and after > before
    ]
    return (
        f"The candidate starts {' and '.join(found)} and takes longer: "
        "{started.part:share} of the lost time is in functions that start them or wait for them. Try the baseline's "
        "number, or one per CPU. Plain profiles do not show the number of CPUs."
    )


_LOST_SLICES = (
    "The candidate lost CPU in time slices, as under contention: equal calls slowed by very different "
    "factors. Plain profiles show neither what took the CPUs, nor whether it was a quota or a stopped "
    "process."
)


def _reading(p: _Sentence) -> str:
    added, again, limit = (p.number(n) for n in ("storage.added", "memory.refaulted", "memory.limit"))
    storage = ""
    if p.kind == "short-memory":
        limited = f" (its container is limited to {value_text('bytes', limit)})" if limit is not None else ""
        storage = (
            f" {value_text('bytes', again)} were read again after being dropped for lack of memory{limited}."
        )
    elif (added or 0.0) >= value("input.larger-bytes"):
        whence = "" if p.alone else " that were in memory for the baseline"
        storage = f" Storage delivered {value_text('bytes', added)}{whence}."
    if p.alone:
        return "Reading files takes {account.reading:share} of the wall." + storage
    return (
        "Reading files makes up {account.reading:share} of the lost time, and no more is read than before."
        + storage
    )


_COMPILED = (
    " Modules were compiled: their byte code (.pyc) was missing. This was the first run after an installation, or "
    "Python is not allowed to write it."
)


def _calls_per_call(p: _Sentence) -> str:
    calls, why = "the same functions more often", "a setting, such as a batch size, or more data"
    if p.numbers.get("code.other-callee"):
        calls, why = "other functions", "an option that selects another branch"
    return (
        f"{{subject:function}} calls {calls} each time it runs; no other caller changed. That makes up "
        f"{{account.code:share}} of the lost time. Its source is not in the files: {why} would look the same."
    )


def _ended(p: _Sentence) -> str:
    said = []
    for side in ("baseline", "candidate"):
        status = int(p.number(f"{side}-exit") or 0)
        signal = signal_number(status)
        if signal is not None:
            said.append(f"the {side} was killed by signal {signal}")
        else:
            said.append(
                f"the {side} ended with exit status {status}" if status else f"the {side} ended normally"
            )
    text = " and ".join(said)
    return (
        f"{text[0].upper()}{text[1:]}: they may have done different work, so their times cannot be compared."
    )


def _calls_unknown(p: _Sentence) -> str:
    known, low, high = (p.number(f"calls.{name}") for name in ("known", "low", "high"))
    if not known or units.share(known) == units.share(0.0):
        counts = "so no call counts are known well enough"
    else:
        counts = f"so call counts are known only for {units.share(known)} of the time"
        if low is not None and high is not None:
            one = units.factor(low) == units.factor(high)
            often = units.factor(low) if one else f"between {units.factor(low)} and {units.factor(high)}"
            counts += f" (functions are called {often} as often)"
    alike = f"{counts}: more calls and a higher cost per call look alike."
    if p.numbers.get("calls.traced"):
        return f"Python does not tell a profiler of calls into some compiled modules, {alike}"
    return f"Stacks were sampled, {alike} `profkit capture --exact` on both sides counts the calls."


def _undecided(p: _Sentence) -> str:
    """Say what is known of two sides, and why that decides nothing."""
    n = p.numbers
    if n.get("waited.function"):
        return (
            "{account.waits:share} of the lost time is in functions that wait, mainly {waited.function:function}. A "
            "plain profile holds one thread: it does not show what the program's other threads and processes did "
            "meanwhile."
        )
    if n.get("uncalled.function"):
        return (
            "{uncalled.function:function} makes up {uncalled.part:share} of the lost time, with what it calls. The "
            "baseline defines it but never calls it: an option, the data or an edit selects it."
        )
    if n.get("account.work"):
        most = ", mostly of {work.most:function}" if n.get("work.most") else ""
        why = "An option, the data or an edit makes them, or another thread made them before."
        return f"{_ADDED_CALLS}{most}. {why}"
    if n.get("function.subject"):
        # More data or another build do not explain stalls.
        beside = (
            " {stalled}: more threads than CPUs, neighbours, a CPU quota or stop signals do that."
            if n.get("lumps.periodic")
            else ""
        )
        return (
            "{function.subject:function} got slower per call ({function.apart:factor} the factor of all functions) "
            "and makes up {function.part:share} of the added time. It belongs to a library, or is native: more "
            f"threads than CPUs, more data or another build look alike in a plain profile.{beside}"
        )
    if n.get("lumps.periodic"):
        return (
            "{stalled}, all alike: stop signals, a CPU quota with a short period, or neighbours that take equal time "
            "slices."
        )
    if n.get("reordered"):
        what = "The order of functions moved beyond noise"
    elif n.get("shifted"):
        what = "Time moved between functions beyond noise"
    elif p.subject:
        what = "{subject:function} moved beyond the noise"
    elif n.get("lost"):
        what = "Every repeat takes longer (median {factor:factor})"
    elif n.get("drifted"):
        what = "Everything is slower by about the same factor ({factor:factor})"
    else:
        what = "Little moved"
    queued = "the candidate did not wait for CPUs"
    if n.get("queued"):
        who, of = ("threads and processes other than the main one", "helpers.wait")
        if not n.get("helpers"):
            who, of = "main thread", "main.wait"
        queued = (
            f"its {who} queued for a CPU for {units.share(p.number(of))} of the active time, against "
            f"{units.share(p.number(f'{of}-before'))}"
        )
    why = (
        f"{queued}, and neither call counts nor sources explain it"
        if n.get("counters")
        else "without kernel counters, contention, another machine and a larger input look alike"
    )
    return f"{what}, but {why}."


#: Sentences by rule.
SUMMARIES: Mapping[str, _Template] = {
    "identical": "Both sides are the same capture.",
    "within-noise": _within,
    "same-total": (
        "Time moved between functions, but none was lost: the candidate takes {time.slowdown:factor} the baseline's "
        "time{uncaptured}, and its {main-queued}."
    ),
    "nothing-beyond": (
        "No part of the time changed more than between repeats: the candidate takes {time.slowdown:factor} the "
        "baseline's time{uncaptured}, and its {main-queued}."
    ),
    "call-counts": _work,
    "other-function": (
        "{subject:function} makes up {uncalled.part:share} of the lost time, with what it calls. The baseline "
        "defines it too but spends hardly any time in it: an option, a setting or the data selects it."
    ),
    "fewer-threads": (
        "The candidate has {threads-at-work:thread|threads} at work instead of {threads-at-work-before:count}: "
        "{fewer-busy}"
    ),
    "fewer-python-threads": (
        "The candidate has {python-threads:thread|threads} of Python instead of {python-threads-before:count}, the "
        "main one included. The others mostly wait, so with fewer of them the main thread waits longer."
    ),
    "more-threads": (
        "The candidate has {threads-at-work:thread|threads} at work instead of {threads-at-work-before:count}: it "
        "keeps {cores.factor:factor} as many CPUs busy, without a lack of them, and needs {cpu.factor:factor} the "
        "CPU time for the same work. So many threads cost more than they save."
    ),
    "fewer-workers": (
        "The candidate has {workers:process|processes} at once instead of {workers-before:count}: {fewer-busy}"
    ),
    "more-calls": lambda p: _ADDED_CALLS + (", mostly of {subject:function}." if p.subject else "."),
    "longer-loops": (
        "The candidate has more data: {loops.functions:count} functions, such as {subject:function}, are called as "
        "often as before, but their loops make {loops.factor:factor} the calls."
    ),
    "more-ranges": (
        "The candidate has more to do: its NVTX ranges, such as “{subject}”, ran {ranges.factor:factor} as often."
    ),
    "larger-input": (
        "{most-in}The same calls take {time.slowdown:factor} the time on the same kind of CPU: each has more "
        "data to work on.{commands}"
    ),
    "more-per-call": (
        "{most-in}The same calls of the same source take {time.slowdown:factor} the time on one machine, whose "
        "CPU was as fast as before: each has more to do.{commands}"
    ),
    "some-more-per-call": (
        "The same calls of {per-call.several:count} functions take longer, while those of other functions in Python "
        "take {machine.python:factor} the time, so the CPU is as fast as before: these calls have more to do. "
        "Another version of a library, or code whose source is not known, would look the same."
    ),
    "more-to-do": (
        "{most-in}The same source takes {time.slowdown:factor} the time on one machine, whose CPU was as fast as "
        "before: there is more to do, in more calls or in each of them.{commands}"
    ),
    "throttling": "A CPU quota throttled the {side} in {throttled:share} of its periods.",
    "run-queue-wait": _queue,
    "shared-hardware": lambda p: (
        "The same calls cost {per-call:factor} the CPU time, in functions that hold {per-call.everywhere:share} of "
        "it, on the same machine and without queueing, while other "
        + (
            "guests of the host took {steal.growth:.2f}"
            if (p.number("steal.growth") or 0.0) > (p.number("others.added") or 0.0)
            else "programs used {others.added:.2f}"
        )
        + " more cores: they share caches, memory, cores and clock with it."
    ),
    "gpu-shared": "{on-gpu} Other programs kept the GPU busy for {gpu.others:share} of the time.",
    "gpu-code": (
        "{on-gpu} The source of {subject:function} changed: it starts the GPU's work, and {gpu.function:function} "
        "waits for that."
    ),
    "gpu-work": "{on-gpu} The command lines differ: the GPU has more to do.",
    "gpu-waits": (
        "{on-gpu} Nothing here says why: another program may use the GPU, its clock may be lower, or it has more to "
        "do."
    ),
    "waits": lambda p: (
        "{account.waits:share} of the lost time is in functions that wait, mainly {subject:function}. "
        + (
            "The program started neither processes nor threads, so it waits for something outside itself. "
            if p.numbers.get("started.any") is False
            else "The program waits for something outside itself, unless its own processes talk over sockets. "
        )
        + "Plain profiles do not show what."
    ),
    "more-started": _more_started,
    "quota-lumps": (
        "{stalled}, as under a CPU quota, whose period is 100 ms. Stop signals at such intervals look the same."
    ),
    "stops": (
        "{stalled}: longer than a CPU quota's period, and too uniformly for scheduler slices. Stop signals or a "
        "frozen container do that."
    ),
    "starved": _LOST_SLICES,
    "starved-repeats": _LOST_SLICES,
    "loading": lambda p: (
        "The candidate's main thread waited for its data loaders or workers, not for a CPU"
        + (
            ": {delivery:s} against {delivery-before:s}."
            if p.numbers.get("delivery")
            else ": {iterations.wait:share} of the time of its iterations."
            if p.numbers.get("iterations.wait")
            else "."
        )
    ),
    "off-cpu": (
        "The candidate was off-CPU, not queueing, for {off:share} of its time, against {off-before:share}: "
        "{waited-for}."
    ),
    "child-programs": (
        "Processes that the program starts, most of which run {subject}, used {children:s} of CPU time, against "
        "{children-before:s}: {children.of-lost:share} of the lost time. They were not profiled, so their functions "
        "are not known."
    ),
    "more-programs": lambda p: (
        "The program starts {children.number:.0f} processes, most of which run {subject}, "
        + (
            "against {children.number-before:.0f}, and each uses about as much CPU time as before: "
            if p.number("children.number-before")
            else "and none in the baseline: "
        )
        + "{children.of-lost:share} of the lost time."
    ),
    "own-locks": (
        "Each worker or thread that takes a lock in {subject:function} waited {locked:s} for it on average, against "
        "{locked-before:s}: they work one after the other, and keep {cores.factor:factor} as many CPUs busy."
    ),
    "stopped": (
        "The whole process was stopped for {account.stopped:share} of the wall: by a signal, with its container, or "
        "with the machine."
    ),
    "worker-imports": (
        "The program waited while other processes imported modules: that makes up {account.imports:share} of the "
        "lost time."
    ),
    "process-starts": (
        "The candidate has {processes:count} processes in all, the baseline {processes-before:count}: starting and "
        "feeding them, queueing included, makes up {account.starts:share} of the lost time."
    ),
    "slowing-settings": (
        "Only the candidate has {settings.named}, which makes the same code slower: the work takes "
        "{time.slowdown:factor} the time."
    ),
    "reading": _reading,
    "compiling": (
        "{jit.named} compiled functions while the program ran: that makes up {jit.part:share} of the lost time. In "
        "the baseline they were compiled already, or there were fewer of them."
    ),
    "other-library-code": (
        "Modules of {library.named} that the baseline did not run make up {library.new:share} of the added time, "
        "although the program and its command are the same: a compiled part of it is missing, or settings or inputs "
        "select other code."
    ),
    "imports": lambda p: (
        "The start makes up {account.startup:share} of the lost time, and imports of libraries are most of it."
        + (_COMPILED if (p.number("imports.compiled") or 0.0) >= value("part.most") else "")
    ),
    "gil": (
        "Threads of one Python process take turns (GIL): waiting for a turn makes up {account.gil:share} of the lost "
        "time."
    ),
    "collections": (
        "Garbage collections took {gc.seconds:s}, against {gc.seconds-before:s}: that makes up {account.gc:share} of "
        "the lost time, mostly in {subject:function}."
    ),
    "changed-source": "{changed}; changed functions and callees make up {account.code:share} of the lost time.",
    "changed-above": (
        "{changed}. It calls {function.subject:function}, directly or not, which makes up {function.part:share} of "
        "the added time, and whose own source did not change."
    ),
    "calls-per-call": _calls_per_call,
    "one-function": (
        "Only {subject:function} got slower per call; it makes up {function.part:share} of the added time of all "
        "functions. Its source is not known: a setting or more data would look the same."
    ),
    "one-library-function": (
        "Only {subject:function} got slower per call; it makes up {function.part:share} of the added time of all "
        "functions. It belongs to Python's standard library: its calls have more to do."
    ),
    "slower-cpu": lambda p: (
        "The program takes {time.slowdown:factor} the time, without waiting for a CPU, and its environment selects "
        "another instruction set."
        if by_instructions(p.numbers)
        else "The same calls take {time.slowdown:factor} the time on "
        + ("another CPU model" if p.numbers.get("models.differ") else "a slower CPU")
        + ", without waiting for a CPU."
    ),
    "one-factor": (
        "Every function takes about {per-call:factor} the CPU time for the same calls, without waiting for a CPU: "
        "the CPU did less per second (clock, memory, other guests on the host)."
    ),
    "less-time": "The candidate takes {time.slowdown:factor} the baseline's time{uncaptured}.",
    "another-program": (
        "The two sides seem to be different programs: few functions are in both. Compare runs of one program."
    ),
    "unfinished": _ended,
    "sampled": (
        "A sampling profiler does not count calls, so the cause is not judged: this shows which functions "
        "changed their share of the time."
    ),
    "capture-itself": (
        "Capture overhead changed the wall times more than the program did ({account.capture:share} of both changes "
        "together): their difference says nothing about the program."
    ),
    "calls-unknown": _calls_unknown,
    "nothing-decides": _undecided,
}
#: Sentences of a run alone that differ from those of a pair.
_ALONE: Mapping[str, _Template] = {
    "loading": (
        "The main thread waited for its data loaders or workers for {account.loading:share} of the wall time, not "
        "for a CPU."
    ),
    "off-cpu": "The main thread was off-CPU, not queueing, for {off:share} of its time: {waited-for}.",
    "child-programs": (
        "Processes that the program starts, most of which run {subject}, used {children:s} of CPU time{of-wall} "
        "while it waited for them. They were not profiled, so their functions are not known."
    ),
    "own-locks": (
        "Each worker or thread that takes a lock in {subject:function} waited {locked:s} for it on average, "
        "{locked.of-wall:share} of the wall."
    ),
    "worker-imports": (
        "For {account.imports:share} of the wall the program waited while other processes imported modules."
    ),
    "process-starts": (
        "The run has {processes:count} processes in all: starting them takes {account.starts:share} of the wall, "
        "queueing included."
    ),
    "gil": (
        "Threads of one Python process run in turns: for {account.gil:share} of the wall the program waited for its "
        "turn."
    ),
    "collections": "Garbage collections take {account.gc:share} of the wall, mostly in {subject:function}.",
}
