"""A repeated job in words: whether it changed for good, when, and by how much."""

from __future__ import annotations

import math

from profkit.measure.changepoints import LEAST_RUNS
from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.study.history import Change, History, HistoryRun

#: What a series is made of, by the metrics of `profkit.study.history`.
METRIC_TITLES = {"wall": "wall", "own": "wall less queueing", "iteration": "iteration"}


def when(run: HistoryRun) -> str:
    """Return the start of a run to the minute, UTC: ``2026-03-01 09:30``."""
    return run.started[:16].replace("T", " ")


def change_size(ratio: float) -> str:
    """Return a change in percent, with its sign."""
    return f"{100 * (ratio - 1):+.1f} %"


def history_verdict(study: History) -> VerdictBlock:
    """Return the answer; of several changes the last one, still in effect."""
    title = METRIC_TITLES[study.metric]
    noise = f" One run scatters by {units.share(study.spread)}." if math.isfinite(study.spread) else ""
    count = f"{len(study.runs):,} runs, {when(study.runs[0])} to {when(study.runs[-1])}"
    if not study.changes:
        if len(study.runs) < 2 * LEAST_RUNS:
            least = f"A change needs {LEAST_RUNS} runs on each side."
            return VerdictBlock("Too few runs to find a change", f"{count}. {least}", "unsure")
        smaller = f"No change for good of {units.share(study.least_change)} or more.{noise}"
        return VerdictBlock(f"No change of the {title}", f"{count}. {smaller}", "good")
    last = study.changes[-1]
    worse = last.ratio > 1
    others = len(study.changes) - 1
    earlier = "" if not others else " 1 earlier change." if others == 1 else f" {others} earlier changes."
    size = change_size(last.ratio)
    return VerdictBlock(
        f"{'Slower' if worse else 'Faster'} since {when(study.runs[last.at])}: {_walls(last)} ({size})",
        f"{_why(last)} {count}.{earlier}{noise}",
        "bad" if worse else "good",
    )


def _walls(change: Change) -> str:
    return units.from_to(change.before_s, change.after_s)


def _why(change: Change) -> str:
    """How a typical run before a change differs from one after it."""
    kind = f" ({change.kind})" if change.kind else ""
    sure = "" if change.confidence is None else f", confidence {units.confidence(change.confidence)}"
    return f"Runs before and behind it compared: {change.cause}{kind}{sure}."


def history_notes(study: History) -> list[str]:
    """Return what a reader must know of the runs."""
    notes = []
    if study.failed:
        runs = "1 run that failed is" if study.failed == 1 else f"{study.failed} runs that failed are"
        notes.append(f"{runs} left out.")
    if study.others:
        runs = (
            "1 run of another command is"
            if study.others == 1
            else f"{study.others} runs of other commands are"
        )
        notes.append(f"{runs} left out: the history is that of the command that ran most often.")
    lacking = [run for run in study.runs if run.cause]
    if lacking:
        runs = "1 run" if len(lacking) == 1 else f"{len(lacking)} runs"
        notes.append(f"{runs} lacked CPUs, data or what they wait for by themselves; see profkit show.")
    return notes
