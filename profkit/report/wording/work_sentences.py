"""Sentences about changed code, other work, and other numbers of threads and workers."""

from __future__ import annotations

from profkit.report import units
from profkit.report.text import clean
from profkit.report.wording.functions import display_name
from profkit.report.wording.verdict_numbers import VerdictNumbers


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
        "calls. The baseline defines it too but spends no time in it: an option, a setting or the data selects it."
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


def fewer_threads(p: VerdictNumbers) -> str:
    """Say how many threads work instead of how many."""
    threads = units.counted(round(p.number("threads-at-work") or 0.0), "thread")
    return _fewer(p, f"The candidate has {threads} at work instead of {p.count('threads-at-work-before')}")


def more_threads(p: VerdictNumbers) -> str:
    """Say how many threads work instead of how many, and what they cost."""
    threads = units.counted(round(p.number("threads-at-work") or 0.0), "thread")
    return (
        f"The candidate has {threads} at work instead of {p.count('threads-at-work-before')}: it keeps "
        f"{p.factor('cores.factor')} as many CPUs busy, without a lack of them, and needs {p.factor('cpu.factor')} "
        "the CPU time for the same work. So many threads cost more than they save."
    )


def fewer_workers(p: VerdictNumbers) -> str:
    """Say how many processes work instead of how many."""
    workers = units.counted(round(p.number("workers") or 0.0), "process", "processes")
    return _fewer(p, f"The candidate has {workers} at work instead of {p.count('workers-before')}")
