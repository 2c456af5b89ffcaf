"""Advice by the names that rules use: commands as words, variables, and what each should win back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from profkit.measure.counters import SideFacts
from profkit.measure.settings import set_by_hand
from profkit.verdict.advice.limits import limit_advice
from profkit.verdict.readings import Case, code_row
from profkit.verdict.rule import Judged
from profkit.verdict.types import Advice

__all__ = ["PRODUCERS", "advise"]

#: Variables that size thread pools; those that the run had set come first, OpenMP's is always named.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: Runs a side from which replicates separate causes that one pair confuses (recall 0.89, false alarms 1.6 %).
ENOUGH_RUNS = 5

Found = Iterable[Advice]


def advise(names: Iterable[str], case: Judged, bucket: str, seconds: float) -> tuple[Advice, ...]:
    """Return the advice of some names, in their order.

    Parameters
    ----------
    names
        Keys of `PRODUCERS`.
    case
        What is known.
    bucket, seconds
        Bucket that a cure empties, and what it holds: the predicted gain of the advice that cures.
    """
    found = []
    for name in names:
        for advice in PRODUCERS[name](case):
            if advice.cures:
                gain = seconds if seconds > 0 else math.nan
                advice = replace(advice, cures=bucket, predicted_gain_s=gain)
            found.append(advice)
    return tuple(found)


def limit_threads(side: SideFacts) -> tuple[Advice, ...]:
    """Cut thread pools so that all processes together fit the CPUs they may use, by their inventory if known."""
    found = limit_advice(side.inventory, side.command, side.environment)
    if found:
        return found
    if not side.available_cpus:
        return ()
    each = max(1, int(side.available_cpus // max(1, side.processes)))
    names = [n for n in THREAD_VARIABLES if n in side.environment] or list(THREAD_VARIABLES[:2])
    advice = [Advice("limit-threads", side.command, dict.fromkeys(names, str(each)), cures="queue")]
    if side.processes > side.available_cpus:
        most = max(1, int(side.available_cpus))
        numbers = {"processes": side.processes, "cpus": side.available_cpus, "most": most}
        advice.append(Advice("start-fewer", cures="queue", numbers=numbers))
    return tuple(advice)


def _contention(case: Judged) -> Found:
    side = case.signals.candidate
    if case.read("contention.kind") == "self-oversubscription":
        yield from limit_threads(side)
        return
    yield Advice("list-processes", ("ps", "-eo", "pid,user,psr,pcpu,etime,comm", "--sort=-pcpu"))
    yield Advice("capture-idle", side.command, cures="queue")


def _raise_quota(case: Judged) -> Found:
    side = case.signals.candidate
    yield Advice("look-at-quota", ("cat", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu.stat"))
    if side.available_cpus:
        threads = str(max(1, int(side.available_cpus)))
        yield Advice("within-quota", side.command, {"OMP_NUM_THREADS": threads}, cures="queue")


def _capture_both(case: Case) -> Found:
    """Counters for the sides that have none."""
    for name, side in (("baseline", case.signals.baseline), ("candidate", case.signals.candidate)):
        if side.wait_fraction is None:
            yield Advice("capture-side", side.command, subject=name)


def _same_settings(case: Case) -> Found:
    """The candidate's command with the variables of the baseline, where they differ."""
    before, after = (
        set_by_hand(side.environment) for side in (case.signals.baseline, case.signals.candidate)
    )
    differing = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    command = case.signals.candidate.command
    if differing and command:
        unset = [word for name in differing if name not in before for word in ("-u", name)]
        argv = ("env", *unset, *command) if unset else command
        yield Advice("same-settings", argv, {name: before[name] for name in differing if name in before})


def _more_runs(case: Case) -> Found:
    """Replicates up to where they separate causes."""
    missing = ENOUGH_RUNS - case.signals.repeats
    if missing > 0:
        yield Advice("more-runs", numbers={"runs": missing})


def _run_to_end(case: Case) -> Found:
    for name, side, status in zip(
        ("baseline", "candidate"),
        (case.signals.baseline, case.signals.candidate),
        case.signals.exits,
        strict=True,
    ):
        if status:
            yield Advice("run-to-end", side.command, subject=name)


def _git_log(case: Case) -> Found:
    row = code_row(case)
    table = case.signals.table
    if row >= 0 and table.keys[row].path:
        before, after = (side.revision for side in (case.signals.baseline, case.signals.candidate))
        # With changes that are in no revision, the log says more than a difference of revisions.
        known = before.isalnum() and after.isalnum() and before != after
        words = ("diff", before, after) if known else ("log", "-p")
        yield Advice("git-log", ("git", *words, "--", table.keys[row].path), subject=table.name[row], cures="code")


def _show(kind: str, *options: str) -> Callable[[Judged], Found]:
    def found(case: Judged) -> Found:
        yield Advice(kind, ("profkit", "show", *options), files=(case.signals.candidate.file,))

    return found


#: By the name that rules use.
PRODUCERS: Mapping[str, Callable[[Any], Found]] = {
    "contention": _contention,
    "raise-quota": _raise_quota,
    "capture-both": _capture_both,
    "more-runs": _more_runs,
    "same-settings": _same_settings,
    "run-to-end": _run_to_end,
    "git-log": _git_log,
    "compare-inputs": lambda case: (Advice("compare-inputs"),),
    "lscpu": lambda case: (Advice("lscpu", ("lscpu",)),),
    "show-workers": _show("show-workers"),
    "show-waiting": _show("show-waiting", "--by", "cumtime"),
    "more-loaders": lambda case: (Advice("more-loaders", cures="loading"),),
}
