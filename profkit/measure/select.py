"""Which rows of a run are compared: all processes and threads summed, or those that the user named.

Stands between the readers and the comparison. It selects and sums; what a process did is not judged here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.errors import UsageError
from profkit.model import Notice, Process, Profile, Roots, Run
from profkit.model.merge import merge_with_rows

#: What functions can be ranked by: self time, and time including callees.
RANKED_BY = ("tottime", "cumtime")
#: Selector of the first process of a run: the main process, or rank 0.
FIRST = "first"
#: Selector of every process, where the default is one of them.
ALL = "all"


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """The part of one run that is compared.

    Attributes
    ----------
    processes
        Those that were selected.
    profile
        All their threads, summed.
    roots
        Directories of all of them.
    rows
        For each process and each of its threads, the row of `profile` that each function was added to.
    """

    processes: tuple[Process, ...]
    profile: Profile
    roots: Roots
    rows: tuple[tuple[npt.NDArray[np.int32], ...], ...]


def check_ranked_by(by: str) -> None:
    """Refuse what functions cannot be ranked by.

    Raises
    ------
    UsageError
        ``by`` is not among `RANKED_BY`.
    """
    if by not in RANKED_BY:
        raise UsageError(f"functions are ranked by {' or '.join(RANKED_BY)}", parameter="by", value=by)


def select_processes(run: Run, process: str | None) -> tuple[Process, ...]:
    """Find the processes that a selector names.

    Parameters
    ----------
    run
        Any run.
    process
        ``None`` or ``all`` for all, ``main``, ``rank:N``, ``pid:N``, or `FIRST` for the one that viewers see.

    Returns
    -------
    tuple of Process

    Raises
    ------
    UsageError
        Nothing in the run is called so, or the selector cannot be understood.
    """
    if process in (None, ALL):
        return run.processes
    if process == FIRST:
        return run.processes[:1]
    assert process is not None
    kind, _, number = process.partition(":")
    found: Sequence[Process] = ()
    if process == "main":
        found = [p for p in run.processes if p.role == "main"] or run.processes[:1]
    elif kind in ("rank", "pid") and number.isdecimal():
        found = [p for p in run.processes if (p.rank if kind == "rank" else p.pid) == int(number)]
    else:
        raise UsageError("not understood, use all, main, rank:N or pid:N", parameter="process", value=process)
    if not found:
        raise UsageError(
            f"{run.path} has no such process, it has {_existing(run)}", parameter="process", value=process
        )
    return tuple(found)


def select_profile(run: Run, process: str | None = None, *, edges: bool = True) -> tuple[Profile, Roots]:
    """Sum the profiles of the selected processes, all their threads.

    Parameters
    ----------
    run
        Any run.
    process
        As for `select_processes`.
    edges
        Keep caller–callee sums where the profiles have them.

    Returns
    -------
    profile : Profile
        Rows are summed by file, line, name and qualified name.
    roots : Roots
        Directories of all selected processes.

    Raises
    ------
    UsageError
        As for `select_processes`.
    """
    chosen = select(run, process, edges=edges)
    return chosen.profile, chosen.roots


def select(run: Run, process: str | None = None, *, edges: bool = True) -> Selected:
    """Sum the profiles of the selected processes, and keep where each thread's functions went.

    Parameters and errors are those of `select_profile`.
    """
    processes = select_processes(run, process)
    profile, places = merge_with_rows([t.profile for p in processes for t in p.threads], edges=edges)
    left = iter(places)
    rows = tuple(tuple(next(left) for _ in p.threads) for p in processes)
    return Selected(processes, profile, _together(processes), rows)


def select_pair(
    baseline: Run, candidate: Run, process: str | None
) -> tuple[str | None, str | None, tuple[Notice, ...]]:
    """Choose selectors under which two runs hold the same part of a job.

    A foreign file holds the main thread of the main process only; set against the sum over every process of a
    captured run it would look as if the others were new.

    Parameters
    ----------
    baseline, candidate
        First runs of either side.
    process
        What the user asked for, ``None`` for the default.

    Returns
    -------
    baseline_process, candidate_process : str or None
        Selectors for `select_profile`.
    warnings : tuple of Notice
    """
    if process is not None:
        # A foreign file is one process, whatever the user calls it.
        alike = is_foreign(baseline) == is_foreign(candidate)
        return (
            process if alike or not is_foreign(baseline) else FIRST,
            process if alike or not is_foreign(candidate) else FIRST,
            (),
        )
    if is_foreign(baseline) == is_foreign(candidate):
        return None, None, ()
    captured, side = (candidate, "candidate") if is_foreign(baseline) else (baseline, "baseline")
    others = sum(process.profiled for process in captured.processes) - 1
    if others < 1:
        return None, None, ()
    warning = Notice("one-process-compared", side, {"processes": others + 1})
    return (FIRST, None, (warning,)) if side == "baseline" else (None, FIRST, (warning,))


def is_foreign(run: Run) -> bool:
    """Whether a run was read from a plain profile, which has no manifest."""
    return run.manifest is None


def _together(processes: Sequence[Process]) -> Roots:
    """Directories of several processes, each once, in order."""
    return Roots(
        tuple(dict.fromkeys(d for p in processes for d in p.roots.stdlib)),
        tuple(dict.fromkeys(d for p in processes for d in p.roots.site)),
        tuple(dict.fromkeys(d for p in processes for d in p.roots.project)),
    )


def _existing(run: Run) -> str:
    names = []
    for process in run.processes:
        if process.rank is not None:
            names.append(f"rank:{process.rank}")
        elif process.pid is not None:
            names.append(f"pid:{process.pid}")
    return ", ".join(dict.fromkeys(["main", *names[:20]])) + (", …" if len(names) > 20 else "")
