"""What a verdict or finding says: by rule, one or two sentences with the deciding numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from profkit.report import units
from profkit.report.text import clean
from profkit.report.wording.accounts import WAITED_FOR
from profkit.report.wording.evidence import value_text
from profkit.report.wording.functions import display_name
from profkit.report.wording.verdict_sentences import (
    VerdictNumbers,
    above,
    added_calls,
    by_instructions,
    calls_per_call,
    calls_unknown,
    code,
    ended,
    fewer_python_threads,
    fewer_threads,
    fewer_workers,
    more_threads,
    more_work,
    other_function,
    stood_still,
    undecided,
    work,
)
from profkit.verdict.thresholds import value
from profkit.verdict.types import Finding, Verdict


def summary_of(found: Verdict | Finding, *, alone: bool = False) -> str:
    """Return what a verdict or finding says, in a sentence or two."""
    parts = VerdictNumbers(found.kind, found.subject, found.numbers, alone)
    summary = SUMMARIES[found.rule]
    said = summary if isinstance(summary, str) else summary(parts)
    if found.rule != "capture-itself" and "account.capture" in found.numbers:
        said += f" Capture overhead is {parts.share('account.capture')} of the wall-time change."
    return said


def _by_whom(p: VerdictNumbers) -> str:
    if p.kind == "self-oversubscription":
        others = p.numbers.get("contention.others") or p.numbers.get("contention.beside")
        return f"by its own threads and processes{', and by other programs too' if others else ''}"
    if p.kind == "external-load":
        itself = p.numbers.get("contention.itself")
        also = ", and by its own threads and processes too" if itself else ""
        return f"by other programs on the machine{also}"
    return "by something that the counters do not show"


def _queue(p: VerdictNumbers) -> str:
    who = p.numbers.get("contention.who")
    side = "run" if p.alone else "candidate"
    name, of = {
        "main": ("its main thread", "main.wait"),
        "rank": ("one rank", "rank.wait"),
        "helpers": ("the workers and threads that its main thread waits for", "helpers.wait"),
    }[str(who)]
    against = "" if p.alone else _against(p, of)
    tail = ", and the other ranks wait for it" if who == "rank" and not p.alone else ""
    starts = f" {_starting(p)}" if (p.number("account.starts") or 0.0) >= value("part.most") else ""
    return (
        f"The {side} was starved of CPU {_by_whom(p)}: {name} queued for a CPU for {p.share(of)} of the "
        f"active time{against}{tail}.{starts}"
    )


def _starting(p: VerdictNumbers) -> str:
    part = f"{p.share('account.starts')} of the {'wall' if p.alone else 'lost time'}"
    return f"Starting and feeding its processes, queueing included, makes up {part}."


def _against(p: VerdictNumbers, of: str) -> str:
    before = p.number(f"{of}-before") or 0.0
    # A baseline with fewer workers may queue for as large a part of a shorter time: evidence has the seconds.
    return f", against {units.share(before)} in the baseline" if before < (p.number(of) or 0.0) else ""


def _no_capture(p: VerdictNumbers) -> str:
    """Say that a factor is not that of the walls, which are printed above."""
    walls = p.number("time.walls")
    apart = walls is not None and units.factor(walls) != p.factor("time.slowdown")
    return " without capture overhead" if apart else ""


def _within(p: VerdictNumbers) -> str:
    total = f"the total ({p.factor('time.slowdown')}{_no_capture(p)}) is within the drift of clean repeats"
    if not p.numbers.get("pair.counters"):
        return f"No reordering beyond noise, and {total}; waiting for a CPU was not measured."
    return f"No reordering beyond noise, {total}, and the {_main_queued(p)}."


def _main_queued(p: VerdictNumbers) -> str:
    before = p.share("main.wait-before")
    return f"main thread queued for a CPU for {p.share('main.wait')} of its active time, against {before}"


def _more_started(p: VerdictNumbers) -> str:
    found = [
        f"{units.count(after)} {what} instead of {units.count(before)}"
        for what in ("processes", "threads")
        for before, after in ((p.number(f"started.{what}-before"), p.number(f"started.{what}")),)
        if before is not None and after is not None and after > before
    ]
    return (
        f"The candidate starts {' and '.join(found)} and takes longer: {p.share('started.part')} of the "
        "lost time is in functions that start them or wait for them. Try the baseline's number, or one per CPU. "
        "Plain profiles do not show the number of CPUs."
    )


def _on_gpu(p: VerdictNumbers) -> str:
    return (
        f"The candidate waited {units.seconds(p.number('gpu.waited'))} for the GPU, against "
        f"{units.seconds(p.number('gpu.waited-before'))}: that makes up {p.share('account.gpu')} of the lost time."
    )


def _waited_for(p: VerdictNumbers) -> str:
    what = WAITED_FOR.get(str(p.numbers.get("blocked.on")))
    return f"most of it waiting for {what}" if what else ""


_LOST_SLICES = (
    "The candidate lost CPU in time slices, as under contention: equal calls slowed by very different "
    "factors. Plain profiles show neither what took the CPUs, nor whether it was a quota or a stopped "
    "process."
)


def _reading(p: VerdictNumbers) -> str:
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
    part = p.share("account.reading")
    if p.alone:
        return f"Reading files takes {part} of the wall.{storage}"
    return f"Reading files makes up {part} of the lost time, and no more is read than before.{storage}"


_COMPILED = (
    " Modules were compiled: their byte code (.pyc) was missing, as in the first run after an "
    "installation, or Python may not write it."
)
#: Sentences by rule, or functions that return them.
SUMMARIES: Mapping[str, str | Callable[[VerdictNumbers], str]] = {
    "identical": "Both sides are the same capture.",
    "within-noise": _within,
    "same-total": lambda p: (
        "Time moved between functions, but none was lost: the candidate takes "
        f"{p.factor('time.slowdown')} the baseline's time{_no_capture(p)}, and its {_main_queued(p)}."
    ),
    "nothing-beyond": lambda p: (
        "No part of the time changed more than between repeats: the candidate takes "
        f"{p.factor('time.slowdown')} the baseline's time{_no_capture(p)}, and its {_main_queued(p)}."
    ),
    "call-counts": work,
    "other-function": other_function,
    "fewer-threads": fewer_threads,
    "fewer-python-threads": fewer_python_threads,
    "more-threads": more_threads,
    "fewer-workers": fewer_workers,
    "more-calls": lambda p: added_calls(p, p.subject),
    "longer-loops": lambda p: (
        f"The candidate has more data: {p.count('loops.functions')} functions, such as {display_name(p.subject)}, "
        f"are called as often as before, but their loops make {p.factor('loops.factor')} the calls."
    ),
    "more-ranges": lambda p: (
        f"The candidate has more to do: its NVTX ranges, such as “{clean(p.subject)}”, ran "
        f"{p.factor('ranges.factor')} as often."
    ),
    "larger-input": lambda p: more_work(
        p,
        f"The same calls take {p.factor('time.slowdown')} the time on the same kind of CPU",
        "each has more data to work on",
    ),
    "more-per-call": lambda p: more_work(
        p,
        f"The same calls of the same source take {p.factor('time.slowdown')} the time on one machine, whose CPU "
        "was as fast as before",
        "each has more to do",
    ),
    "some-more-per-call": lambda p: (
        f"The same calls of {p.count('per-call.several')} functions take longer, while those of other functions in "
        f"Python take {p.factor('machine.python')} the time, so the CPU is as fast as before: these calls have more "
        "to do. Another version of a library, or code whose source is not known, would look the same."
    ),
    "more-to-do": lambda p: more_work(
        p,
        f"The same source takes {p.factor('time.slowdown')} the time on one machine, whose CPU was as fast as "
        "before",
        "there is more to do, in more calls or in each of them",
    ),
    "throttling": lambda p: (
        f"A CPU quota throttled the {'run' if p.alone else 'candidate'} in {p.share('throttled')} of its periods."
    ),
    "run-queue-wait": _queue,
    "shared-hardware": lambda p: (
        f"The same calls cost {p.factor('per-call')} the CPU time, in functions that hold "
        f"{p.share('per-call.everywhere')} of it, on the same machine and without queueing, while other "
        f"programs used {p.number('others.added') or 0:.2f} more cores: they share caches, memory, "
        "cores and clock with it."
    ),
    "gpu-shared": lambda p: (
        f"{_on_gpu(p)} Other programs kept the GPU busy for {p.share('gpu.others')} of the time."
    ),
    "gpu-code": lambda p: (
        f"{_on_gpu(p)} The source of {display_name(p.subject)} changed: it starts the GPU's work, and "
        f"{display_name(str(p.numbers.get('gpu.function') or ''))} waits for that."
    ),
    "gpu-work": lambda p: f"{_on_gpu(p)} The command lines differ: the GPU has more to do.",
    "gpu-waits": lambda p: (
        f"{_on_gpu(p)} Nothing here says why: another program may use the GPU, its clock may be lower, or it has "
        "more to do."
    ),
    "waits": lambda p: (
        f"{p.share('account.waits')} of the lost time is in functions that wait, mainly "
        f"{display_name(p.subject)}. "
        + (
            "It waits for something outside of itself, unless its own processes talk by sockets. "
            if p.numbers.get("started.any")
            else "The program started neither processes nor threads, so it waits for something outside itself. "
        )
        + "Plain profiles do not show what."
    ),
    "more-started": _more_started,
    "quota-lumps": lambda p: (
        f"{stood_still(p)}, as under a CPU quota, whose period is 100 ms. Stop signals at such intervals look the "
        "same."
    ),
    "stops": lambda p: (
        f"{stood_still(p)}: longer than a CPU quota's period, and too uniformly for scheduler slices. Stop "
        "signals, or its container was frozen."
    ),
    "starved": _LOST_SLICES,
    "starved-repeats": _LOST_SLICES,
    "loading": lambda p: (
        f"The main thread waited for its data loaders or workers for {p.share('account.loading')} of the wall "
        "time, not for a CPU."
        if p.alone
        else "The candidate's main thread waited for its data loaders or workers, not for a CPU: "
        f"{units.seconds(p.number('delivery'))} against {units.seconds(p.number('delivery-before'))}."
    ),
    "off-cpu": lambda p: (
        f"The main thread was off-CPU, not queueing, for {p.share('off')} of its time: "
        f"{_waited_for(p) or 'I/O, locks or sleep'}."
        if p.alone
        else f"The candidate was off-CPU, not queueing, for {p.share('off')} of its time, against "
        f"{p.share('off-before')}: {_waited_for(p) or 'I/O, locks, or it was stopped'}."
    ),
    "child-programs": lambda p: (
        f"Processes that the program starts, most of which run {clean(p.subject)}, "
        + (
            f"used {units.seconds(p.number('children'))} of CPU time"
            # Several at once can use more than the wall.
            + (
                f", {p.share('children.of-wall')} of the wall,"
                if (p.number("children.of-wall") or 0.0) < 1
                else ""
            )
            + " while it waited for them."
            if p.alone
            else f"used {units.seconds(p.number('children'))} of CPU time, against "
            f"{units.seconds(p.number('children-before'))}: {p.share('children.of-lost')} of the lost time."
        )
        + " They were not profiled, so their functions are not known."
    ),
    "more-programs": lambda p: (
        f"The program starts {p.number('children.number'):.0f} processes, most of which run {clean(p.subject)}, "
        + (
            f"against {p.number('children.number-before'):.0f}, and each uses about as much CPU time as before: "
            if p.number("children.number-before")
            else "and none in the baseline: "
        )
        + f"{p.share('children.of-lost')} of the lost time."
    ),
    "own-locks": lambda p: (
        f"Each worker or thread that takes a lock in {display_name(p.subject)} waited "
        f"{units.seconds(p.number('locked'))} for it"
        + (
            f" on average, {p.share('locked.of-wall')} of the wall."
            if p.alone
            else f" on average, against {units.seconds(p.number('locked-before'))}: they work one after the other, "
            f"and keep {p.factor('cores.factor')} as many CPUs busy."
        )
    ),
    "stopped": lambda p: (
        f"The whole process was stopped for {p.share('account.stopped')} of the wall: by a signal, with its "
        "container, or with the machine."
    ),
    "worker-imports": lambda p: (
        f"For {p.share('account.imports')} of the wall the program waited while other processes imported "
        "modules."
        if p.alone
        else "The program waited while other processes imported modules: that makes up "
        f"{p.share('account.imports')} of the lost time."
    ),
    "process-starts": lambda p: (
        f"The run has {p.count('processes')} processes in all: starting them takes {p.share('account.starts')} of "
        "the wall, queueing included."
        if p.alone
        else f"The candidate has {p.count('processes')} processes in all, the baseline "
        f"{p.count('processes-before')}: starting and feeding them, queueing included, makes up "
        f"{p.share('account.starts')} of the lost time."
    ),
    "slowing-settings": lambda p: (
        f"Only the candidate has {clean(str(p.numbers['settings.named']))}, which makes the same code slower: "
        f"the work takes {p.factor('time.slowdown')} the time."
    ),
    "reading": _reading,
    "compiling": lambda p: (
        f"{clean(str(p.numbers['jit.named']))} compiled functions while the program ran: that makes up "
        f"{p.share('jit.part')} of the lost time. The baseline had them compiled, or fewer of them."
    ),
    "other-library-code": lambda p: (
        f"Modules of {clean(str(p.numbers['library.named']))} that the baseline did not run make up "
        f"{p.share('library.new')} of the added time, although the program and its command are the same: a "
        "compiled part of it is missing, or settings or inputs select other code."
    ),
    "imports": lambda p: (
        f"The start makes up {p.share('account.startup')} of the lost time, and imports of libraries are most of it."
        + (_COMPILED if (p.number("imports.compiled") or 0.0) >= value("part.most") else "")
    ),
    "gil": lambda p: (
        f"Threads of one Python process run in turns: for {p.share('account.gil')} of the wall the program "
        "waited for its turn."
        if p.alone
        else "Threads of one Python process take turns (GIL): waiting for a turn makes up "
        f"{p.share('account.gil')} of the lost time."
    ),
    "collections": lambda p: (
        f"Garbage collections take {p.share('account.gc')} of the wall, mostly in {display_name(p.subject)}."
        if p.alone
        else f"Garbage collections took {units.seconds(p.number('gc.seconds'))}, against "
        f"{units.seconds(p.number('gc.seconds-before'))}: that makes up {p.share('account.gc')} of the lost time, "
        f"mostly in {display_name(p.subject)}."
    ),
    "changed-source": code,
    "changed-above": above,
    "calls-per-call": calls_per_call,
    "one-function": lambda p: (
        f"Only {display_name(p.subject)} got slower per call; it makes up {p.share('function.part')} of the "
        "added time of all functions. Its source is not known: a setting or more data would look the same."
    ),
    "one-library-function": lambda p: (
        f"Only {display_name(p.subject)} got slower per call; it makes up {p.share('function.part')} of the added "
        "time of all functions. It is of Python's own library: its calls have more to do."
    ),
    "slower-cpu": lambda p: (
        f"The program takes {p.factor('time.slowdown')} the time, without waiting for a CPU, and its "
        "environment selects other instructions."
        if by_instructions(p.numbers)
        else f"The same calls take {p.factor('time.slowdown')} the time on another CPU model, without waiting "
        "for a CPU."
    ),
    "one-factor": lambda p: (
        f"Every function takes about {p.factor('per-call')} the CPU time for the same calls, without waiting "
        "for a CPU: the CPU did less per second (clock, memory, other guests on the host)."
    ),
    "less-time": lambda p: (
        f"The candidate takes {p.factor('time.slowdown')} the baseline's time{_no_capture(p)}."
    ),
    "another-program": (
        "The two sides seem to be different programs: few functions are in both. Compare runs of one program."
    ),
    "unfinished": ended,
    "sampled": (
        "A sampling profiler does not count calls, so the cause is not judged: this shows which functions "
        "changed their share of the time."
    ),
    "capture-itself": lambda p: (
        "Capture overhead changed the wall times more than the program did "
        f"({p.share('account.capture')} of both): their difference says nothing about the program."
    ),
    "calls-unknown": calls_unknown,
    "nothing-decides": undecided,
}
