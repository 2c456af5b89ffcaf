"""Follow one job over many runs: its times in the order of their starts, and where they changed for good."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.errors import FormatError, UsageError
from profkit.formats.load import join_ranks, rank_groups, skipped
from profkit.measure.changepoints import LEAST_CHANGE, LEAST_RUNS, ChangePoint, change_points
from profkit.model import Notice, Run, RunSet
from profkit.study.run_facts import RunFacts, facts_of
from profkit.study.setting_results import pooled_spread
from profkit.study.workers import Crew, load
from profkit.verdict.diagnosis import diagnose

#: Metrics of a series: wall time, wall time without queueing for CPUs, time of one iteration.
METRICS = ("wall", "own", "iteration")


@dataclass(frozen=True, slots=True)
class Change(ChangePoint):
    """A lasting change in seconds; its cause comes from comparing the runs nearest to the medians."""

    before_file: str
    after_file: str
    cause: str
    kind: str
    confidence: float | None


@dataclass(frozen=True, slots=True)
class History:
    """A repeated job: its runs in the order of their starts, and its changes of `least_change` (1) or more.

    `failed` and `others` (other commands) count the runs left out. `spread`: standard deviation of ln(time)
    between changes, NaN if unknown.
    """

    runs: tuple[RunFacts, ...]
    metric: str
    changes: tuple[Change, ...]
    least_change: float
    spread: float
    failed: int
    others: int
    notices: tuple[Notice, ...]


def read_history(paths: Sequence[str], workers: Crew) -> tuple[list[RunFacts], list[Notice]]:
    """Return the runs of a job by start, ranks of one run together, and notices of skipped files."""
    heads, notices = [], []
    for path in paths:
        try:
            head = load(path, processes=False)
        except FormatError as error:
            notices.append(skipped(error))
            continue
        if head.manifest is None:
            notices.append(
                Notice("file-skipped", path, {"problem": "does not say when it ran: not a profkit capture"})
            )
        else:
            heads.append(head)
    runs = []
    for read in workers(_row, [tuple(run.path for run in group) for group in rank_groups(heads)]):
        if isinstance(read, Notice):
            notices.append(read)
        else:
            runs.append(read)
    return sorted(runs, key=lambda run: (run.started, run.files)), notices


def _row(files: tuple[str, ...]) -> RunFacts | Notice:
    try:
        run = _read(files)
    except FormatError as error:
        return skipped(error)
    return facts_of(run, files)


def history(
    runs: Sequence[RunFacts],
    *,
    metric: str = "wall",
    least_change: float = LEAST_CHANGE,
    notices: Sequence[Notice] = (),
) -> History:
    """Find changes of `least_change` (1) or more in a job, and their causes; `runs` are in order of start.

    Raises `UsageError` if there are too few runs, or one lacks the metric.
    """
    if metric not in METRICS:
        raise UsageError(f"is not known, use {', '.join(METRICS)}", "metric", metric)
    commands = Counter(run.command for run in runs if not run.failed)
    if not commands:
        raise UsageError("no run succeeded: there is no history to show")
    command = commands.most_common(1)[0][0]
    failed = sum(run.failed for run in runs)
    kept = [run for run in runs if not run.failed and run.command == command]
    others = len(runs) - failed - len(kept)
    values = [value for run in kept if (value := run.seconds(metric)) is not None and value > 0]
    if len(values) < len(kept):
        raise UsageError(
            f"{len(kept) - len(values)} of {len(kept)} runs do not have it: was every run captured with it?",
            "metric",
            metric,
        )
    if len(kept) < 2:
        raise UsageError(
            f"{kept[0].files[0]} is one run of the command; a history needs several, and a change at least "
            f"{2 * LEAST_RUNS}"
        )
    found = change_points(values, least_change=least_change)
    edges = [0, *(change.at for change in found), len(values)]
    changes = []
    for place, change in enumerate(found):
        typical = [_nearest(kept, values, edges[part], edges[part + 1]) for part in (place, place + 1)]
        sides = [_read(run.files) for run in typical]
        verdict = diagnose(*(RunSet(side.path, (side,)) for side in sides)).verdict
        changes.append(
            Change(
                *(change.at, change.before, change.after, change.p_value),
                before_file=typical[0].files[0],
                after_file=typical[1].files[0],
                cause=verdict.cause,
                kind=verdict.kind or "",
                confidence=verdict.confidence,
            )
        )
    spread = pooled_spread([np.array(values[a:b]) for a, b in itertools.pairwise(edges)])
    return History(tuple(kept), metric, tuple(changes), least_change, spread, failed, others, tuple(notices))


def _nearest(runs: Sequence[RunFacts], values: Sequence[float], begin: int, end: int) -> RunFacts:
    """Return the run whose value is nearest to the median of its part."""
    part = np.array(values[begin:end])
    return runs[begin + int(np.argmin(np.abs(part - np.median(part))))]


def _read(files: Sequence[str]) -> Run:
    found = [load(file, edges=True) for file in files]
    return found[0] if len(found) == 1 else join_ranks(found)
