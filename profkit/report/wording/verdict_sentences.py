"""Sentences about verdicts, and the numbers they are made from: changed code, other work, what nothing decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profkit.compare.signals import signal_number
from profkit.report import units
from profkit.report.text import clean
from profkit.report.wording.evidence import number_of
from profkit.report.wording.functions import display_name
from profkit.verdict.thresholds import value
from profkit.verdict.types import Value


@dataclass(frozen=True, slots=True)
class VerdictNumbers:
    """What a sentence is made from; `alone`: it is of one run."""

    kind: str | None
    subject: str
    numbers: Mapping[str, Value]
    alone: bool

    def number(self, name: str) -> float | None:
        """Return a number by its name."""
        return number_of(self.numbers.get(name))

    def share(self, name: str) -> str:
        """Return it as a percentage."""
        return units.share(self.number(name))

    def factor(self, name: str) -> str:
        """Return it as a factor."""
        return units.factor(self.number(name))

    def count(self, name: str) -> str:
        """Return it as a count."""
        return units.count(self.number(name))


def by_instructions(numbers: Mapping[str, Value]) -> bool:
    """Whether variables chose other instructions, and the machine itself was as fast."""
    part = number_of(numbers.get("machine.part"))
    return bool(numbers.get("instructions.differ")) and (part is None or part < value("part.most"))


def _changed(p: VerdictNumbers) -> str:
    """Return which function changed, where, and between which revisions."""
    n = p.numbers
    name = display_name(p.subject) if p.subject else "A function"
    if n.get("code.place"):
        name += f" ({clean(str(n['code.place']))})"
    what = f"{name} is new" if n.get("code.new") else f"The source of {name} changed"
    before, after = (clean(str(n.get(f"revision{side}") or "")) for side in ("-before", ""))
    if before and after and before != after:
        what += f" between {before} and {after}"
    elif before and before == after:
        what += f" on top of revision {before}"
    return what


def code(p: VerdictNumbers) -> str:
    """Say what makes up the loss: changed functions and what they call."""
    return f"{_changed(p)}; changed functions and callees make up {p.share('account.code')} of the lost time."


def above(p: VerdictNumbers) -> str:
    """Say which changed function is above the one that holds most of the added time."""
    below = display_name(str(p.numbers.get("function.subject") or ""))
    return (
        f"{_changed(p)}. It calls {below}, directly or not, which makes up {p.share('function.part')} of the added "
        "time, and whose own source did not change."
    )


def work(p: VerdictNumbers) -> str:
    """Say how much more often functions are called, and where that starts."""
    often = "more often" if (p.number("calls.factor") or 1) > 1 else "less often"
    origin = f" The changed calls start in {display_name(p.subject)}." if p.subject else ""
    if (p.number("calls.everywhere") or 1) < value("work.everywhere") <= (p.number("account.work") or 0):
        return added_calls(p, "") + origin
    return (
        f"The candidate does {p.factor('calls.factor')} the work: the functions where the time is spent are called "
        f"{often}.{origin}"
    )


def added_calls(p: VerdictNumbers, most: object) -> str:
    """Say which part of the lost time is calls that the baseline lacks; `most` is the function with most of it."""
    mostly = f", mostly of {display_name(str(most))}" if most else ""
    return (
        "Calls that the baseline did not make, or made less often, make up "
        f"{p.share('account.work')} of the lost time{mostly}."
    )


def calls_per_call(p: VerdictNumbers) -> str:
    """Say which function calls others, or calls them more often."""
    name = display_name(p.subject)
    part = f"That makes up {p.share('account.code')} of the lost time"
    if p.numbers.get("code.other-callee"):
        return (
            f"{name} calls other functions each time it runs; no other caller changed. {part}. Its source is not in "
            "the files: an option that selects another branch would look the same."
        )
    return (
        f"{name} calls the same functions more often each time it runs; no other caller changed. {part}. Its source "
        "is not in the files: a setting, such as a batch size, or more data would look the same."
    )


def other_function(p: VerdictNumbers) -> str:
    """Say which function the baseline has and does not call."""
    return (
        f"{display_name(p.subject)} makes up {p.share('uncalled.part')} of the lost time, with what it "
        "calls. The baseline defines it too but spends hardly any time in it: an option, a setting or the data "
        "selects it."
    )


def more_work(p: VerdictNumbers, found: str, so: str) -> str:
    """Say that there is more work, and in which function if one has most of it."""
    other = " The command lines differ." if p.numbers.get("command.differs") is True else ""
    if not p.subject:
        return f"{found}: {so}.{other}"
    return (
        f"{display_name(p.subject)} makes up {p.share('function.part')} of the added time, and its "
        f"source did not change. {found}: {so}.{other}"
    )


def _fewer(p: VerdictNumbers, found: str) -> str:
    cpus = p.number("cpus.factor") or 1.0
    bound = f" It may use {units.factor(cpus)} as many CPUs." if cpus < 1 else ""
    return (
        f"{found}: it keeps {p.factor('cores.factor')} as many CPUs busy, and needs no more CPU time.{bound}"
    )


def _instead(p: VerdictNumbers, name: str, *what: str, doing: str) -> str:
    """Say how many of something the candidate has instead of how many."""
    has = units.counted(round(p.number(name) or 0.0), *what)
    return f"The candidate has {has} {doing} instead of {p.count(f'{name}-before')}"


def fewer_threads(p: VerdictNumbers) -> str:
    """Say how many threads work instead of how many."""
    return _fewer(p, _instead(p, "threads-at-work", "thread", doing="at work"))


def fewer_python_threads(p: VerdictNumbers) -> str:
    """Say how many threads run Python instead of how many."""
    return (
        f"{_instead(p, 'python-threads', 'thread', doing='of Python')}, the main one among them. The others mostly "
        "wait, so the main thread waits longer for fewer of them."
    )


def more_threads(p: VerdictNumbers) -> str:
    """Say how many threads work instead of how many, and what they cost."""
    return (
        f"{_instead(p, 'threads-at-work', 'thread', doing='at work')}: it keeps {p.factor('cores.factor')} as many "
        f"CPUs busy, without a lack of them, and needs {p.factor('cpu.factor')} the CPU time for the same work. So "
        "many threads cost more than they save."
    )


def fewer_workers(p: VerdictNumbers) -> str:
    """Say how many processes there are instead of how many."""
    return _fewer(p, _instead(p, "workers", "process", "processes", doing="at once"))


def undecided(p: VerdictNumbers) -> str:
    """Say what is known of two sides, and why that decides nothing."""
    n = p.numbers
    if n.get("waited.function"):
        return (
            f"{p.share('account.waits')} of the lost time is in functions that wait, mainly "
            f"{display_name(str(n['waited.function']))}. A plain profile holds one thread: it does not show "
            "what the program's other threads and processes did meanwhile."
        )
    if n.get("uncalled.function"):
        return (
            f"{display_name(str(n['uncalled.function']))} makes up {p.share('uncalled.part')} of the lost "
            "time, with what it calls. The baseline defines it but never calls it: an option, the data or an "
            "edit selects it."
        )
    if n.get("account.work"):
        return (
            f"{added_calls(p, n.get('work.most'))} An option, the data or an edit makes them, or another "
            "thread made them before."
        )
    if n.get("function.subject"):
        return (
            f"{display_name(str(n['function.subject']))} got slower per call "
            f"({p.factor('function.apart')} the factor of all functions) and makes up "
            f"{p.share('function.part')} of the added time. It is of a library, or native: more threads than "
            f"CPUs, more data or another build look alike in a plain profile.{_stalls_beside(p)}"
        )
    if n.get("lumps.periodic"):
        return (
            f"{stood_still(p)}, all alike: stop signals, a CPU quota with a short period, or neighbours that take "
            "equal time slices."
        )
    if n.get("reordered"):
        what = "The order of functions moved beyond noise"
    elif n.get("shifted"):
        what = "Time moved between functions beyond noise"
    elif p.subject:
        what = f"{display_name(p.subject)} moved beyond the noise"
    elif n.get("lost"):
        what = f"Every repeat takes longer (median {p.factor('factor')})"
    elif n.get("drifted"):
        what = f"Everything is slower by about the same factor ({p.factor('factor')})"
    else:
        what = "Little moved"
    queued = "the candidate did not wait for CPUs"
    if n.get("queued"):
        who, of = ("threads and processes other than the main one", "helpers.wait")
        if not n.get("helpers"):
            who, of = "main thread", "main.wait"
        queued = (
            f"its {who} queued for a CPU for {p.share(of)} of the active time, against "
            f"{p.share(f'{of}-before')}"
        )
    why = (
        f"{queued}, and neither call counts nor sources explain it"
        if n.get("counters")
        else "without kernel counters, contention, another machine and a larger input look alike"
    )
    return f"{what}, but {why}."


def _stalls_beside(p: VerdictNumbers) -> str:
    """Say that functions stalled, too, which more data or another build do not explain."""
    if not p.numbers.get("lumps.periodic"):
        return ""
    return f" {stood_still(p)}: more threads than CPUs, neighbours, a CPU quota or stop signals do that."


def calls_unknown(p: VerdictNumbers) -> str:
    """Say for which part of the time calls are known."""
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


def ended(p: VerdictNumbers) -> str:
    """Say how the two runs ended."""
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
    return f"{text[0].upper()}{text[1:]}: they may have done different work: their times cannot be compared."


def stood_still(p: VerdictNumbers) -> str:
    """Say for how long, and in how many functions, the program did not run."""
    return (
        f"The candidate stalled repeatedly for about {units.seconds(p.number('lumps.median'))} each (in "
        f"{units.count(p.number('lumps.count'))} short functions)"
    )
