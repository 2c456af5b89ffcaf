"""`Ranks`: the processes of one job against each other, with their reports."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from profkit import model
from profkit.api.reported import Reported
from profkit.report.ranksdoc import RanksReport
from profkit.study.rank_table import expand, rank_table
from profkit.study.ranks import study_ranks
from profkit.study.workers import crew

if TYPE_CHECKING:
    from profkit.report.reports import Report
    from profkit.study.rank_read import Member
    from profkit.study.ranks import RankStudy

__all__ = ["Ranks", "machines_of", "read_ranks"]


class Ranks(Reported):
    """The processes of one job; made by `read_ranks`."""

    def __init__(self, paths: Sequence[str], study: RankStudy) -> None:
        self._paths = paths
        self._study = study

    @property
    def study(self) -> RankStudy:
        """Stragglers, imbalance, efficiencies, and the table behind them (`profkit.study.ranks`)."""
        return self._study

    def laid_out(
        self, full_paths: bool, drawn: bool, attachment: str = "", *, explain: bool = False
    ) -> Report:
        """See `Reported`."""
        if full_paths:
            return RanksReport(self._study)
        return RanksReport(self._masker_of(machines_of(self._study.members)).value(self._study))

    def runs(self, full_paths: bool) -> Mapping[str, model.Run]:
        """See `Reported`: an archive has none of them."""
        return {}

    def inputs(self) -> Iterable[str]:
        """See `Reported`."""
        return self._paths


def machines_of(members: Sequence[Member]) -> list[model.Run]:
    """Return runs that say of the machines what a masker must know: hosts, directories, commands."""
    known = {(m.host, m.projects, m.command): m.path for m in members}
    return [
        model.Run(
            path,
            (
                model.Process(
                    command=command, host=model.Host(name=host), roots=model.Roots(project=projects)
                ),
            ),
        )
        for (host, projects, command), path in known.items()
    ]


def read_ranks(
    runs: Sequence[str | os.PathLike[str]],
    *,
    waits: Sequence[str] = (),
    jobs: int = 1,
    dask: str | None = None,
) -> Ranks:
    """Compare the processes of one job.

    Parameters
    ----------
    runs
        One run with several processes, or the files of a job: files, directories, patterns, addresses for fsspec.
    waits
        Names of functions in which processes wait for each other, beside MPI's and those that are called like its
        operations; ``*`` matches anything.
    jobs
        Processes of this machine that read. The result does not depend on it.
    dask
        Address of a Dask scheduler, whose workers read instead.

    Raises
    ------
    FormatError
        No file can be read.
    UsageError
        They are not several processes of one job, or the reading cannot be done so.
    """
    paths = expand(runs)
    with crew(paths, jobs=jobs, dask=dask) as workers:
        table = rank_table(paths, workers, waits=tuple(waits))
    return Ranks(paths, study_ranks(table, waits=tuple(waits)))
