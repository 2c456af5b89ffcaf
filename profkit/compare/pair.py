"""Two sides prepared once for comparison: selected, folded, aligned, and in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from profkit.compare.call_table import CallTable, call_table
from profkit.compare.folded_comprehensions import fold_comprehensions, needs_folding
from profkit.compare.folded_functions import folded_alike
from profkit.compare.function_table import build_table
from profkit.compare.replicates import Replicates, gather
from profkit.compare.result_types import DiffTable
from profkit.compare.sampled_calls import unseen_seconds
from profkit.compare.time_shares import in_shares
from profkit.errors import UsageError
from profkit.identity.align import Alignment, Joined, align_joined, join
from profkit.identity.function_keys import infer_python
from profkit.measure.selected_processes import (
    FIRST,
    Selected,
    check_ranked_by,
    is_foreign,
    select_processes,
    summed,
)
from profkit.model import Notice, Process, Profile, Run, RunSet
from profkit.model.arrays import Index, Rows, distinct
from profkit.model.thread import Definition

Chosen = Sequence[tuple[Process, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of a `Pair`; `runs` are as read, `processes` the compared ones of each.

    `measured` are the runs whose functions are measured: `runs`, or the compared processes in shares of time.
    For each run, `selected` is what is compared, `profiles` the same with comprehensions folded, and `rows`
    maps rows of `selected` to `replicates`. `folded` rows of `replicates` took in comprehensions. `sampled`:
    by another profiler. `threads_mixed`: calls of all threads, where cProfile before 3.12 holds one thread's.
    `python` is empty where unknown. `definitions` are functions that samples missed, beside rows of `replicates`.
    """

    runs: RunSet
    processes: Chosen
    measured: RunSet
    selected: tuple[Selected, ...]
    profiles: tuple[Profile, ...]
    rows: tuple[Index, ...]
    folded: Index
    replicates: Replicates
    sampled: bool
    threads_mixed: bool
    python: str
    definitions: tuple[Definition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two sides under the rows of one table, ranked `by` ``tottime`` or ``cumtime``.

    `behind` maps table rows to rows of each side's `replicates`, `of_table` the reverse (−1: none).
    `by_share`: another profiler sampled a side, so only shares of time are compared.
    """

    baseline: Side
    candidate: Side
    by: str
    by_share: bool
    joined: Joined
    alignment: Alignment
    table: DiffTable
    behind: tuple[Rows, Rows]
    of_table: tuple[Rows, Rows]
    calls: CallTable | None
    folded: tuple[Notice, ...]
    narrowed: tuple[Notice, ...]

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.baseline, self.candidate

    @property
    def profiles(self) -> tuple[Profile, Profile]:
        """The medians over the runs of each side."""
        return self.baseline.replicates.profile, self.candidate.replicates.profile

    @property
    def exact(self) -> bool:
        """Whether all calls and times of both sides are exact."""
        return self.baseline.replicates.exact and self.candidate.replicates.exact

    @property
    def python_differs(self) -> bool:
        """Whether both sides' Python versions are known and differ in major or minor version."""
        first, second = (side.python.split(".")[:2] for side in self.sides)
        return first != [""] and second != [""] and first != second


def pair_of(baseline: RunSet, candidate: RunSet, *, by: str = "tottime", process: str | None = None) -> Pair:
    """Prepare two sides; raise `UsageError` for an empty side, an unknown `by`, or a missing process.

    `process` is ``None`` (all, summed), ``main``, ``rank:N`` or ``pid:N``.
    """
    check_ranked_by(by)
    for side in (baseline, candidate):
        if not side.runs:
            raise UsageError(f"{side.label}: there is no run to compare")
    baseline, candidate, folded = folded_alike(baseline, candidate)
    *selectors, narrowed = select_pair(baseline.runs[0], candidate.runs[0], process)
    runs = (baseline, candidate)
    processes = [
        [select_processes(run, selector) for run in side.runs]
        for side, selector in zip(runs, selectors, strict=True)
    ]
    by_share = any(_noted(side, "sampled-profile", "foreign-samples") for side in runs)
    # Facts of the runs still come from `runs`; only functions are measured in `measured`.
    measured = in_shares(runs, processes) if by_share else runs
    chosen = [[run.processes for run in side.runs] for side in measured] if by_share else processes
    selected = [[summed(of_run) for of_run in of_side] for of_side in chosen]
    merged = needs_folding(selected[0][0].profile, selected[1][0].profile)
    first, second = (
        _side(*of_side, merged=merged) for of_side in zip(runs, processes, measured, selected, strict=True)
    )
    a, b = first.replicates, second.replicates
    joined = join(a.profile, b.profile, a.roots, b.roots)
    alignment = align_joined(joined, a.profile, b.profile, (first.folded, second.folded))
    table, behind = build_table(joined, alignment, a, b, by, (first.definitions, second.definitions))
    of_table = _inverse(behind[0], len(a.profile)), _inverse(behind[1], len(b.profile))
    calls = call_table((first.profiles, second.profiles), (a.places, b.places), of_table, len(table))
    return Pair(
        first, second, by, by_share, joined, alignment, table, behind, of_table, calls, folded, narrowed
    )


def _inverse(behind: Rows, n: int) -> Rows:
    of_table = np.full(n, -1, np.int64)
    present = np.flatnonzero(behind >= 0)
    of_table[behind[present]] = present
    return of_table


def select_pair(
    baseline: Run, candidate: Run, process: str | None
) -> tuple[str | None, str | None, tuple[Notice, ...]]:
    """Return selectors for which the first runs of both sides hold the same part of a job, with warnings.

    A foreign file has the main thread alone: against a whole captured run, other functions would look new.
    """
    if is_foreign(baseline) == is_foreign(candidate):
        return process, process, ()
    if process is not None:
        # A foreign file is one process under any selector.
        return (FIRST, process, ()) if is_foreign(baseline) else (process, FIRST, ())
    captured, side = (candidate, "candidate") if is_foreign(baseline) else (baseline, "baseline")
    others = sum(process.profiled for process in captured.processes) - 1
    if others < 1:
        return None, None, ()
    warning = Notice("one-process-compared", side, {"processes": others + 1})
    return (FIRST, None, (warning,)) if side == "baseline" else (None, FIRST, (warning,))


def _noted(side: RunSet, *codes: str) -> bool:
    """Return whether a reader's notice says so; the columns do not show it."""
    return any(notice.code in codes for run in side.runs for notice in run.warnings)


def _python(side: RunSet, profile: Profile) -> str:
    known = next((process.python for process in side.runs[0].processes if process.python), None)
    if known:
        return known
    inferred = infer_python(profile)
    return f"{inferred[0]}.{inferred[1]}" if inferred else ""


def _side(
    runs: RunSet, processes: Chosen, measured: RunSet, selected: Sequence[Selected], *, merged: bool
) -> Side:
    """Bring the runs of a side under common rows, with comprehensions folded if `merged`."""
    found = [
        fold_comprehensions(one.profile) if merged else (one.profile, np.arange(len(one.profile)))
        for one in selected
    ]
    profiles = tuple(profile for profile, _ in found)
    unseen = [unseen_seconds(one.processes) for one in selected]
    whole = gather(profiles, [one.roots for one in selected], unseen)
    rows = [place[new_rows] for (_, new_rows), place in zip(found, whole.places, strict=True)]
    took_in = [
        place[np.bincount(new_rows) > 1] for (_, new_rows), place in zip(found, whole.places, strict=True)
    ]
    return Side(
        runs=runs,
        processes=processes,
        measured=measured,
        selected=tuple(selected),
        profiles=profiles,
        rows=tuple(rows),
        folded=distinct(np.concatenate(took_in)),
        replicates=whole,
        sampled=_noted(runs, "sampled-profile", "foreign-samples"),
        threads_mixed=_noted(runs, "threads-in-one-stack"),
        python=_python(runs, whole.profile),
        definitions=tuple(
            replace(found, beside=int(of_run[rows_of_thread[found.beside]]))
            for one, of_run in zip(selected, rows, strict=True)
            for _, thread, rows_of_thread in one.threads
            for found in thread.definitions
        ),
    )
