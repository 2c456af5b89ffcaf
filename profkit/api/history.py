"""`HistoryRuns`: one job run again and again, with its reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from profkit import model
from profkit.api.reported import Reported
from profkit.errors import FormatError
from profkit.measure.changepoints import LEAST_CHANGE
from profkit.report.historydoc import HistoryReport
from profkit.study.history import history, read_history
from profkit.study.rank_table import expand
from profkit.study.workers import crew

if TYPE_CHECKING:
    from profkit.report.reports import Report
    from profkit.study.history import History

__all__ = ["HistoryRuns", "read_history_runs"]


class HistoryRuns(Reported):
    """Runs of one job over time; made by `read_history_runs`."""

    def __init__(self, paths: Sequence[str], study: History) -> None:
        self._paths = paths
        self._study = study

    @property
    def study(self) -> History:
        """The runs, and where they changed for good (`profkit.study.history`)."""
        return self._study

    def laid_out(
        self, full_paths: bool, drawn: bool, attachment: str = "", *, explain: bool = False
    ) -> Report:
        """See `Reported`."""
        return HistoryReport(self._study if full_paths else self._masker_of(()).value(self._study))

    def runs(self, full_paths: bool) -> Mapping[str, model.Run]:
        """See `Reported`: an archive has none of them."""
        return {}

    def inputs(self) -> Iterable[str]:
        """See `Reported`."""
        return self._paths


def read_history_runs(
    runs: Sequence[str | os.PathLike[str]],
    *,
    metric: str = "wall",
    least_change: float = LEAST_CHANGE,
    jobs: int = 1,
) -> HistoryRuns:
    """Find where a repeated job changed for good.

    Parameters
    ----------
    runs
        Its run files: files, directories, patterns.
    metric
        ``wall``, ``own`` (the wall less queueing for CPUs) or ``iteration``.
    least_change
        Part (1) below which a change is not reported.
    jobs
        Processes of this machine that read. The result does not depend on it.

    Raises
    ------
    FormatError
        No file can be read.
    UsageError
        There are not enough runs, or the metric is not known of them.
    """
    paths = expand(runs)
    with crew(paths, jobs=jobs) as workers:
        read, notices = read_history(paths, workers)
    if not read:
        numbers = notices[0].numbers
        raise FormatError(notices[0].subject, str(numbers["problem"]), str(numbers.get("hint", "")))
    return HistoryRuns(paths, history(read, metric=metric, least_change=least_change, notices=notices))
