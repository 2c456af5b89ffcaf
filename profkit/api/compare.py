"""`ComparedRuns`: several runs or configurations, with their reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from profkit import model
from profkit.api.reported import Reported
from profkit.errors import UsageError
from profkit.formats.load import load_side
from profkit.report.comparedoc import ComparisonsReport
from profkit.study.compare import compare_runs

if TYPE_CHECKING:
    from profkit.report.reports import Report
    from profkit.study.compare import Comparisons

__all__ = ["ComparedRuns", "read_compared"]


class ComparedRuns(Reported):
    """Several runs or configurations; made by `read_compared`."""

    def __init__(self, runs: Sequence[model.Run], study: Comparisons) -> None:
        self._runs = runs
        self._study = study

    @property
    def study(self) -> Comparisons:
        """One row each, with the verdict against the reference (`profkit.study.compare`)."""
        return self._study

    def laid_out(
        self, full_paths: bool, drawn: bool, attachment: str = "", *, explain: bool = False
    ) -> Report:
        """See `Reported`."""
        return ComparisonsReport(
            self._study if full_paths else self._masker_of(self._runs).value(self._study)
        )

    def runs(self, full_paths: bool) -> Mapping[str, model.Run]:
        """See `Reported`: an archive has none of them."""
        return {}

    def inputs(self) -> Iterable[str]:
        """See `Reported`."""
        return [run.path for run in self._runs]


def read_compared(
    runs: Sequence[str | os.PathLike[str]], *, by: str = "auto", against: str = "first"
) -> ComparedRuns:
    """Compare several runs or configurations.

    Parameters
    ----------
    runs
        Files, directories or patterns.
    by, against
        As for `profkit.study.compare.compare_runs`.

    Raises
    ------
    FormatError
        Something cannot be read.
    UsageError
        There are less than two rows, or no such grouping or reference.
    """
    if not runs:
        raise UsageError("name runs: files, directories or quoted patterns")
    sides = [load_side(run) for run in runs]
    return ComparedRuns(
        [run for side in sides for run in side.runs], compare_runs(sides, by=by, against=against)
    )
