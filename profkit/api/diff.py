"""`Diff` and `diff`: two sides compared, and why one is slower than the other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from profkit import model
from profkit.api.columns import Column, Columns, columns_of, flags, numbers, texts, wholes
from profkit.api.reported import Layout, Reported
from profkit.api.run import Run, iteration_names, range_columns
from profkit.compare.result_types import DiffTable, SideTable
from profkit.errors import UsageError
from profkit.formats.load import load_side, ranks_joined
from profkit.measure.import_table import Imports
from profkit.measure.intervals import Estimate
from profkit.measure.selected_processes import check_ranked_by
from profkit.model import PROJECT, RunSet
from profkit.report.reports import DiffReport
from profkit.verdict.account import Account
from profkit.verdict.diagnosis import diagnose
from profkit.verdict.types import Diff as Result
from profkit.verdict.types import Verdict

#: A side of a comparison.
Side: TypeAlias = "str | os.PathLike[str] | Run | Sequence[str | os.PathLike[str] | Run]"


def diff(
    baseline: Side,
    candidate: Side,
    *,
    by: str = "tottime",
    process: str | None = None,
    iteration: Sequence[str] = (),
    load: Sequence[str] = (),
    compute: Sequence[str] = (),
    batch_size: int | None = None,
    calls: bool = False,
) -> Diff:
    """Compare two sides.

    Parameters
    ----------
    baseline, candidate
        A file, a directory (its ``*.prof`` files), a glob, a `Run`, or a list of these. Several runs of a
        side are repeats; rank files of one job are one run.
    by, process, iteration, load, compute, batch_size
        As for `profkit.read`. All processes of a `Run` are compared, even if it was read for one.
    calls
        Whether to compute callers and callees now, which only pages and pictures show; by default on demand.

    Raises
    ------
    FormatError
        A side cannot be read, or has no file.
    UsageError
        A side is empty, `by` or `batch_size` is invalid, or a run has no such process or range.
    """
    check_ranked_by(by)
    first, second = _side(baseline), _side(candidate)
    asked: dict[str, Any] = {
        "by": by,
        "process": process,
        "iterations": iteration_names(iteration, load, compute, batch_size),
    }
    return Diff((first, second), asked, diagnose(first, second, calls=calls, **asked))


def _side(side: Side) -> RunSet:
    if isinstance(side, Run):
        return RunSet(side.path, (side.whole,))
    if isinstance(side, str | os.PathLike):
        return load_side(side)
    if not isinstance(side, Sequence) or isinstance(side, bytes):
        raise TypeError(f"a side is a path, a glob, a Run or a list of those, not {type(side).__name__}")
    parts = [_side(part) for part in side]
    if not parts:
        raise UsageError("a side is an empty list: there is no run to compare")
    label = parts[0].label if len(parts) == 1 else f"{parts[0].label} and {len(parts) - 1} more"
    return RunSet(
        label,
        tuple(ranks_joined([run for part in parts for run in part.runs])),
        tuple(skipped for part in parts for skipped in part.skipped),
    )


class Diff(Reported):
    """Two sides compared; made by `diff`. Only its reports are masked.

    `asked` are the options of `profkit.verdict.diagnosis.diagnose`, and `result` is its result.
    """

    def __init__(self, sides: tuple[RunSet, RunSet], asked: Mapping[str, Any], result: Result) -> None:
        self._sides = sides
        self._asked = asked
        self._result = result

    @property
    def verdict(self) -> Verdict:
        """Why the candidate is slower, with confidence and evidence."""
        return self._result.verdict

    @property
    def account(self) -> Account:
        """Where the added time went: ``buckets`` of seconds that add up to it (`profkit.verdict.account`)."""
        return self._result.account

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        from profkit.report.wording.summaries import summary_of

        return summary_of(self.verdict)

    @property
    def slowdown(self) -> Estimate:
        """The candidate's time over the baseline's: ``value``, ``low``, ``high`` and ``p_value``.

        Compares walls, or self times if a wall is unknown. The interval (95 %) and the p-value are NaN with
        too few runs per side.
        """
        return self._result.slowdown

    @property
    def imports(self) -> tuple[Imports | None, Imports | None]:
        """Imports of each side, medians over its runs: ``seconds`` and ``packages``; ``None`` if unknown."""
        return self._result.imports

    @property
    def warnings(self) -> tuple[Any, ...]:
        """What limits trust in the result: differences between the sides, and warnings of runs."""
        return (*self._result.comparability.warnings, *self._result.warnings)

    def functions(self) -> Columns:
        """Return the functions of both sides, the greatest change in seconds first.

        Returns
        -------
        Columns
            ``name, file, line, root, path, match, same_source, anomalous, reason, per_call_ratio, p_value``,
            and with the prefixes ``baseline_`` and ``candidate_`` ``rank, ncalls, primitive_calls, tottime,
            active, cumtime, share, wait, cumwait, calls_low, calls_high, samples, tottime_error``, null where
            the side lacks the function. The last four are as in `profkit.Run.functions`. Unknown calls are
            null; calls and the last four are null if another profiler sampled a side. `match` says how the
            two were matched (docs/identity.md), or ``new`` or ``gone``; `anomalous` marks functions that
            moved beyond the noise, and `reason` says how.
        """
        from profkit.report.wording.functions import moved_text

        table = self._result.table
        reasons = [
            moved_text(table, row) if moved else "" for row, moved in enumerate(table.anomalous.tolist())
        ]
        return Columns(
            {
                "name": texts(table.name),
                "file": texts(table.file),
                "line": wholes(table.line),
                "root": texts(key.root for key in table.keys),
                "path": texts(key.path for key in table.keys),
                "match": texts(table.match),
                "same_source": flags(table.same_source),
                "anomalous": flags(table.anomalous),
                "reason": texts(reasons),
                "per_call_ratio": numbers(table.per_call_ratio),
                "p_value": numbers(table.p_value),
                **_side_columns("baseline_", table.baseline, by_share=table.by_share),
                **_side_columns("candidate_", table.candidate, by_share=table.by_share),
            }
        )

    def ranges(self) -> Columns:
        """Return the NVTX ranges of both sides, the greatest change of the total first.

        Returns
        -------
        Columns
            ``name, domain, kind, median_ratio, p95_ratio, total_ratio, slower``, and the measured columns of
            `Run.ranges` with the prefixes ``baseline_`` and ``candidate_``. `slower` is the probability (1)
            that a range of the candidate is longer than one of the baseline.
        """
        changes = self._result.ranges
        return Columns(
            {
                **columns_of(
                    changes,
                    "name=key.name:text domain=key.domain:text kind:text median_ratio:number p95_ratio:number "
                    "total_ratio:number slower:number",
                    kind=["mark" if change.key.mark else "range" for change in changes],
                ),
                **range_columns([change.baseline for change in changes], "baseline_"),
                **range_columns([change.candidate for change in changes], "candidate_"),
            }
        )

    def __repr__(self) -> str:
        sides = (os.path.basename(side.label) or side.label for side in self._sides)
        ratio = self.slowdown.value
        times = "" if np.isnan(ratio) else f", {ratio:.2f} times the time"
        kind = f" ({self.verdict.kind})" if self.verdict.kind else ""
        return f"<profkit.Diff {' → '.join(sides)}: {self.verdict.cause}{kind}{times}>"

    # For profkit's own packages

    @property
    def table(self) -> DiffTable:
        """All functions of both sides, as compared; not masked."""
        return self._result.table

    def changed(self) -> list[int]:
        """Return the rows of functions of the program whose source changed."""
        table = self.table
        return [
            r for r, key in enumerate(table.keys) if key.root == PROJECT and table.same_source[r] is False
        ]

    def said(self, full_paths: bool) -> tuple[str, str]:
        """Return headline and summary of the verdict, masked unless `full_paths`."""
        from profkit.report.wording.verdicts import comparison_block

        laid = self.laid_out(Layout(full_paths))
        assert isinstance(laid, DiffReport)
        block = comparison_block(laid.diff)
        return block.headline, block.summary

    def unmasked(self, layout: Layout) -> DiffReport:
        if layout.drawn and self._result.calls is None:
            drawn_too = diagnose(*self._sides, calls=True, **self._asked)
            self._result = replace(self._result, calls=drawn_too.calls, stacks=drawn_too.stacks)
        shown = self._result
        if layout.full_paths and shown.lines is not None:
            from profkit.api.source_lines import with_text

            shown = replace(shown, lines=with_text(shown.lines, *(side.runs for side in self._sides)))
        # Masking runs is expensive, so only drawn reports have them.
        pictured = self.pictured if layout.drawn else ()
        return DiffReport(shown, pictured, layout.attachment, layout.explain)

    def whole_runs(self) -> Mapping[str, model.Run]:
        baseline, candidate = self._sides
        return {**_members("baseline", baseline.runs), **_members("candidate", candidate.runs)}

    @property
    def pictured(self) -> tuple[model.Run, model.Run]:
        """The run of each side that is drawn."""
        baseline, candidate = self._sides
        return baseline.runs[0], candidate.runs[0]


def _members(name: str, runs: Sequence[model.Run]) -> dict[str, model.Run]:
    """Name the runs of a side: ``baseline.prof``, or ``baseline/1.prof`` … for repeats."""
    if len(runs) == 1:
        return {f"{name}.prof": runs[0]}
    width = len(str(len(runs)))
    return {f"{name}/{number:0{width}}.prof": run for number, run in enumerate(runs, 1)}


def _side_columns(prefix: str, side: SideTable, *, by_share: bool) -> dict[str, Column]:
    known = side.present
    columns = {"rank": wholes(side.rank, known)}
    low, high, samples, error = side.estimates
    timed, counted = known & (not by_share), known & (not by_share) & ~np.isnan(low)
    for name in ("ncalls", "primitive_calls"):
        columns[name] = wholes(getattr(side, name), counted)
    for name in ("tottime", "active", "cumtime", "share", "wait", "cumwait"):
        values = getattr(side, name)
        columns[name] = numbers(np.where(known, np.nan if values is None else values, np.nan))
    columns["calls_low"], columns["calls_high"] = (
        numbers(np.where(counted, values, np.nan)) for values in (low, high)
    )
    columns["samples"] = wholes(samples, timed)
    columns["tottime_error"] = numbers(np.where(timed, error, np.nan))
    return {prefix + name: column for name, column in columns.items()}
