"""Many runs in words: repeated jobs and their changes, configurations, numbers of processes and nodes."""

from __future__ import annotations

import math

from profkit.measure.changepoints import LEAST_RUNS
from profkit.report import units
from profkit.report.document import TrendMark, VerdictBlock
from profkit.report.text import clean
from profkit.study.compare import Compared, Comparisons, Configuration
from profkit.study.history import Change, History
from profkit.study.run_facts import RunFacts
from profkit.study.scaling import Place, Scaling, SlowDown

#: Titles of the metrics of `profkit.study.history`.
METRIC_TITLES = {"wall": "wall", "own": "wall minus queueing", "iteration": "iteration"}


def when(run: RunFacts) -> str:
    """Return the start of a run to the minute, UTC: ``2026-03-01 09:30``."""
    return run.started[:16].replace("T", " ")


def change_size(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def change_mark(at: int, ratio: float) -> TrendMark:
    return TrendMark(at, change_size(ratio), "bad" if ratio > 1 else "good")


def history_verdict(study: History) -> VerdictBlock:
    """Return the answer: the last change, which is still in effect."""
    title = METRIC_TITLES[study.metric]
    noise = f" Single runs scatter by {units.share(study.spread)}." if math.isfinite(study.spread) else ""
    count = f"{len(study.runs):,} runs, {when(study.runs[0])} to {when(study.runs[-1])}"
    if not study.changes:
        if len(study.runs) < 2 * LEAST_RUNS:
            least = f"A change needs {LEAST_RUNS} runs on each side."
            return VerdictBlock("Too few runs to find a change", f"{count}. {least}", "unsure")
        smaller = f"No lasting change of {units.share(study.least_change)} or more.{noise}"
        return VerdictBlock(f"No change in the {title}", f"{count}. {smaller}", "good")
    last = study.changes[-1]
    worse = last.ratio > 1
    others = len(study.changes) - 1
    earlier = f" {units.counted(others, 'earlier change')}." if others else ""
    size = change_size(last.ratio)
    return VerdictBlock(
        f"{'Slower' if worse else 'Faster'} since {when(study.runs[last.at])}: "
        f"{units.from_to(last.before, last.after)} ({size})",
        f"{_why(last)} {count}.{earlier}{noise}",
        "bad" if worse else "good",
    )


def _why(change: Change) -> str:
    sure = "" if change.confidence is None else f", confidence {units.confidence(change.confidence)}"
    return f"Comparing runs before and after it gives: {judged_text(change)}{sure}."


def history_notes(study: History) -> list[str]:
    notes = []
    if study.failed:
        runs = units.counted(study.failed, "run that failed is", "runs that failed are")
        notes.append(f"{runs} left out.")
    if study.others:
        runs = units.counted(study.others, "run of another command is", "runs of other commands are")
        notes.append(f"{runs} left out: the history is that of the command that ran most often.")
    lacking = [run for run in study.runs if run.cause]
    if lacking:
        runs = units.counted(len(lacking), "run")
        notes.append(f"{runs} lacked CPUs or data, or waited for I/O, locks or sleep; see profkit show.")
    return notes


def configuration_text(configuration: Configuration) -> str:
    """Return a row's name, with what distinguishes it from others of that name."""
    parts = [
        *(f"{name}={value}" for name, value in configuration.environment.items()),
        " ".join(configuration.words),
        "" if configuration.cpus is None else units.cpus(configuration.cpus),
        configuration.revision[:10],
        configuration.host,
    ]
    return clean(": ".join(filter(None, (configuration.argument, " ".join(filter(None, parts))))))


def judged_text(compared: Compared | Change) -> str:
    """Return the verdict of a row against the reference, or of runs after a change against those before."""
    return f"{compared.cause} ({compared.kind})" if compared.kind else compared.cause


def comparisons_verdict(study: Comparisons) -> VerdictBlock:
    best, reference = study.rows[study.best], study.rows[study.reference]
    name, of = configuration_text(best.configuration), configuration_text(reference.configuration)
    known = math.isfinite(study.spread)
    doubt = "" if known else " Nothing ran twice: repeat the runs before you rely on small differences."
    if not best.succeeded:
        return VerdictBlock("No run succeeded", "The times of runs that failed are not ranked.", "unsure")
    succeeded = [row for row in study.rows if row.succeeded]
    slowest = max(succeeded, key=lambda row: row.median_s)
    worst = f"The slowest is {configuration_text(slowest.configuration)}, {units.seconds(slowest.median_s)}"
    if slowest is not reference and slowest.cause not in ("", "no-change"):
        worst += f" ({judged_text(slowest)})"
    if len(succeeded) == 1:
        worst = "No run of another row succeeded"
    alike = sum(row.fastest for row in study.rows) - 1
    others = ""
    if known and alike:
        others = f" {units.counted(alike, 'other row')} cannot be told apart from the fastest by these runs."
    took = units.seconds(best.median_s)
    if not reference.succeeded:
        failed = f"No run of the reference, {of}, succeeded."
        return VerdictBlock(f"Fastest: {name}, {took}", f"{failed} {worst}.{others}{doubt}", "unsure")
    if best is reference:
        return VerdictBlock(
            f"Fastest: {name}, {took}",
            f"It is the reference. {worst}.{others}{doubt}",
            "good" if known else "unsure",
        )
    if known and reference.fastest:
        return VerdictBlock(
            f"Nothing is faster than {of} beyond the noise",
            f"The lowest median is that of {name}, {took}. {worst}.{doubt}",
            "good",
        )
    times = units.factor(reference.median_s / best.median_s)
    change = units.from_to(reference.median_s, best.median_s)
    return VerdictBlock(
        f"Fastest: {name}, {times} as fast as {of}",
        f"{change}. {worst}.{others}{doubt}",
        "good" if known else "unsure",
    )


def comparisons_notes(study: Comparisons) -> list[str]:
    notes = []
    for row in study.rows:
        if row.failed:
            runs = units.counted(row.failed, "run")
            more = "left out" if row.succeeded else "none succeeded, so all are measured"
            notes.append(f"{configuration_text(row.configuration)}: {runs} failed ({more}).")
    return notes


#: Global efficiency (0 to 1) from which POP calls a program's scaling acceptable.
ACCEPTABLE = 0.8
#: Speed-up from which more processes are said to help.
NOTICEABLE = 1.1


def place_name(place: Place) -> str:
    """Return ``8 processes on 2 nodes``."""
    return f"{units.counted(place.processes, 'process', 'processes')} on {units.counted(place.nodes, 'node')}"


def slowdown_text(study: Scaling, slow: SlowDown) -> str:
    fewer, more = study.places[slow.fewer], study.places[slow.more]
    falls = [
        (after / before, name)
        for before, after, name in (
            (fewer.balance, more.balance, "load balance"),
            (fewer.communication, more.communication, "communication efficiency"),
            (fewer.computation, more.computation, "computation scaling"),
        )
        if before > 0 and math.isfinite(after)
    ]
    why = ""
    if falls and min(falls)[0] < 1:
        why = f" The {min(falls)[1]} fell most, to {units.factor(min(falls)[0])} of its earlier value."
    doubt = "" if math.isfinite(more.low_s) else " Nothing ran twice: repeat the runs before you rely on it."
    return f"{place_name(more)}: {units.factor(slow.factor)} as long as {place_name(fewer)}.{why}{doubt}"


def scaling_verdict(study: Scaling) -> VerdictBlock:
    best = min(study.places, key=lambda place: place.median_s)
    reference = study.places[0]
    if study.slowdowns:
        slow = study.slowdowns[0]
        fewer, more = study.places[slow.fewer], study.places[slow.more]
        changed = (
            f"From {fewer.nodes} to {more.nodes} nodes"
            if fewer.nodes != more.nodes
            else f"From {fewer.processes} to {more.processes} processes"
        )
        return VerdictBlock(
            f"{changed} the run gets {units.factor(slow.factor)} slower",
            f"{slowdown_text(study, slow)} The fastest is {place_name(best)}: {units.seconds(best.median_s)}.",
            "bad",
        )
    last = study.places[-1]
    good = last.whole >= ACCEPTABLE
    gains = study.weak or last.speedup > NOTICEABLE
    if study.weak:
        said = (
            f"{place_name(last)} take {units.factor(1 / last.speedup)} the time of {place_name(reference)}."
        )
    else:
        said = (
            f"{place_name(last)} are {units.factor(last.speedup)} as fast as {place_name(reference)}; ideal is "
            f"{units.factor(last.ideal)}."
        )
    return VerdictBlock(
        "It scales well" if good else "It scales, with losses" if gains else "More processes hardly help",
        f"{said} Global efficiency {units.share(last.whole)}.",
        "good" if good else "unsure",
    )
