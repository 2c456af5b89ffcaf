"""`ScalingRuns`: runs with different numbers of processes and nodes, with their reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from profkit import model
from profkit.api.reported import Reported
from profkit.errors import FormatError
from profkit.report.scalingdoc import ScalingReport
from profkit.study.rank_table import expand
from profkit.study.scaling import read_points, scaling
from profkit.study.workers import crew

if TYPE_CHECKING:
    from profkit.report.reports import Report
    from profkit.study.scaling import Scaling

__all__ = ["ScalingRuns", "read_scaling"]


class ScalingRuns(Reported):
    """Runs of one program; made by `read_scaling`."""

    def __init__(self, paths: Sequence[str], study: Scaling) -> None:
        self._paths = paths
        self._study = study

    @property
    def study(self) -> Scaling:
        """Times, speed-ups and efficiencies (`profkit.study.scaling`)."""
        return self._study

    def laid_out(
        self, full_paths: bool, drawn: bool, attachment: str = "", *, explain: bool = False
    ) -> Report:
        """See `Reported`."""
        return ScalingReport(self._study if full_paths else self._masker_of(()).value(self._study))

    def runs(self, full_paths: bool) -> Mapping[str, model.Run]:
        """See `Reported`: an archive has none of them."""
        return {}

    def inputs(self) -> Iterable[str]:
        """See `Reported`."""
        return self._paths


def read_scaling(
    runs: Sequence[str | os.PathLike[str]],
    *,
    weak: bool = False,
    waits: Sequence[str] = (),
    jobs: int = 1,
    dask: str | None = None,
) -> ScalingRuns:
    """Compare runs of one program with different numbers of processes and nodes.

    Parameters
    ----------
    runs
        Run files, or files of single ranks: files, directories, patterns, addresses for fsspec.
    weak
        Whether the work grows with the processes.
    waits, jobs, dask
        As for `profkit.api.ranks.read_ranks`.

    Raises
    ------
    FormatError
        No file can be read.
    UsageError
        All runs have the same numbers, or the reading cannot be done so.
    """
    paths = expand(runs)
    with crew(paths, jobs=jobs, dask=dask) as workers:
        points, notices = read_points(paths, workers, waits=tuple(waits))
    if not points:
        raise FormatError(
            paths[0], str(notices[0].numbers["problem"]), str(notices[0].numbers.get("hint", ""))
        )
    return ScalingRuns(paths, scaling(points, weak=weak, notices=notices))
