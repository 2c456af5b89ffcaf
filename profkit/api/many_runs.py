"""Reports on several runs, or the processes of one job: ``ranks``, ``scaling``, ``compare``, ``history``.

`runs` are files, directories and patterns; `read_ranks` and `read_scaling` also take fsspec addresses. `jobs`
processes read them (``None``: one per CPU), or the workers of a Dask scheduler. All raise `FormatError` if no
file can be read, and `UsageError` if the runs cannot be compared.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeAlias

from profkit import model
from profkit.api.reported import Studied
from profkit.errors import UsageError
from profkit.formats.load import load_side, unreadable
from profkit.measure.changepoints import LEAST_CHANGE
from profkit.report.ranksdoc import RanksReport
from profkit.report.runsdoc import ComparisonsReport, HistoryReport, ScalingReport
from profkit.study.compare import Comparisons, compare_runs
from profkit.study.history import History, history, read_history
from profkit.study.rank_read import Member
from profkit.study.rank_study import RankStudy
from profkit.study.rank_table import expand, rank_table
from profkit.study.ranks import study_ranks
from profkit.study.scaling import Scaling, read_points, scaling
from profkit.study.workers import crew

Ranks: TypeAlias = Studied[RankStudy]
_Paths: TypeAlias = "Sequence[str | os.PathLike[str]]"


def read_ranks(
    runs: _Paths, *, waits: Sequence[str] = (), jobs: int | None = 1, dask: str | None = None
) -> Ranks:
    """Compare the processes of one job: one run with several, or the files of a job.

    `waits` names further functions in which processes wait for each other; ``*`` matches anything.
    """
    paths = expand(runs)
    with crew(paths, jobs=jobs, dask=dask) as workers:
        table = rank_table(paths, workers, waits=tuple(waits))
    study = study_ranks(table, waits=tuple(waits))
    return Studied(study, RanksReport(study), paths, _machines(study.members))


def _machines(members: Sequence[Member]) -> list[model.Run]:
    """Return runs with the hosts, directories and commands that a masker must know."""
    known = {(m.host, m.projects, m.command): m.path for m in members}
    found = []
    for (host, projects, command), path in known.items():
        roots = model.Roots(project=projects)
        process = model.Process(command=command, host=model.Host(name=host), roots=roots)
        found.append(model.Run(path, (process,)))
    return found


def read_scaling(
    runs: _Paths,
    *,
    weak: bool = False,
    waits: Sequence[str] = (),
    jobs: int | None = 1,
    dask: str | None = None,
) -> Studied[Scaling]:
    """Compare runs of one program with different numbers of processes and nodes.

    `weak`: the work grows with the processes. `waits`: as for `read_ranks`.
    """
    paths = expand(runs)
    with crew(paths, jobs=jobs, dask=dask) as workers:
        points, notices = read_points(paths, workers, waits=tuple(waits))
    if not points:
        raise unreadable(notices[0])
    study = scaling(points, weak=weak, notices=notices)
    return Studied(study, ScalingReport(study), paths)


def read_history_runs(
    runs: _Paths, *, metric: str = "wall", least_change: float = LEAST_CHANGE, jobs: int | None = 1
) -> Studied[History]:
    """Find where a repeated job changed for good.

    `metric`: ``wall``, ``own`` (the wall minus queueing for CPUs) or ``iteration``. `least_change`: smallest
    reported change, as a part (1).
    """
    paths = expand(runs)
    with crew(paths, jobs=jobs) as workers:
        read, notices = read_history(paths, workers)
    if not read:
        raise unreadable(notices[0])
    study = history(read, metric=metric, least_change=least_change, notices=notices)
    return Studied(study, HistoryReport(study), paths)


def read_compared(runs: _Paths, *, by: str = "auto", against: str = "first") -> Studied[Comparisons]:
    """Compare several configurations; `by` and `against` as for `profkit.study.compare.compare_runs`."""
    if not runs:
        raise UsageError("name runs: files, directories or quoted patterns")
    sides = [load_side(run) for run in runs]
    study = compare_runs(sides, by=by, against=against)
    read = [run for side in sides for run in side.runs]
    return Studied(study, ComparisonsReport(study), [run.path for run in read], read)
