"""Sentences about pairs that nothing decides: what is known, and what is not."""

from __future__ import annotations

from profkit.compare.signals import signal_number
from profkit.report import units
from profkit.report.wording.functions import display_name
from profkit.report.wording.verdict_numbers import VerdictNumbers
from profkit.report.wording.work_sentences import added_calls


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
    if n.get("lumps.periodic"):
        return (
            f"{stood_still(p)}, all alike: stop signals, a CPU quota with a short period, or neighbours that take "
            "equal time slices."
        )
    if n.get("function.subject"):
        return (
            f"{display_name(str(n['function.subject']))} alone got slower per call "
            f"({p.factor('function.apart')} the factor of all functions) and makes up "
            f"{p.share('function.part')} of the added time. It is of a library, or native: more threads than "
            "CPUs, more data or another build look alike in a plain profile."
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
    return (
        f"Stacks were sampled, {counts}: more calls and a higher cost per call look alike. "
        "`profkit capture --exact` on both sides counts the calls."
    )


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
