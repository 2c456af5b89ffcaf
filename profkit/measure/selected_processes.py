"""The part of a run that is compared: all processes and threads summed, or those that the user named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from profkit.errors import UsageError
from profkit.identity.rooted_paths import joined_roots
from profkit.measure.pause_seconds import awaited_seconds
from profkit.measure.side_facts import first_thread
from profkit.model import Process, Profile, Roots, Run, Thread
from profkit.model.arrays import Floats, Index
from profkit.model.merge import merge_with_rows

#: What functions can be ranked by: self time, and time including callees.
RANKED_BY = ("tottime", "cumtime")
#: Selector of the first process of a run: the main process, or rank 0.
FIRST = "first"
#: Selector of all processes, where the default is one process.
ALL = "all"


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """The compared part of one run; `threads` have their process and their rows in the summed `profile`."""

    processes: tuple[Process, ...]
    profile: Profile
    roots: Roots
    threads: tuple[tuple[Process, Thread, Index], ...]


def check_ranked_by(by: str) -> None:
    """Raise `UsageError` unless `by` is among `RANKED_BY`."""
    if by not in RANKED_BY:
        raise UsageError(f"functions are ranked by {' or '.join(RANKED_BY)}", parameter="by", value=by)


def select_processes(run: Run, process: str | None) -> tuple[Process, ...]:
    """Return the processes of a selector; raise `UsageError` for none.

    Selectors are ``all`` (as ``None``), ``main``, ``rank:N``, ``pid:N``, and `FIRST`.
    """
    if process is None or process == ALL:
        return run.processes
    if process == FIRST:
        return run.processes[:1]
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


def select(run: Run, process: str | None = None, *, edges: bool = True) -> Selected:
    """Sum the threads of the selected processes of a run; see `select_processes` and `summed`."""
    return summed(select_processes(run, process), edges=edges)


def summed(processes: tuple[Process, ...], *, edges: bool = True) -> Selected:
    """Sum the threads of some processes of one run, by file, line, name and qualified name."""
    threads = [(process, thread) for process in processes for thread in process.threads]
    profile, places = merge_with_rows([thread.profile for _, thread in threads], edges=edges)
    placed = tuple((*thread, rows) for thread, rows in zip(threads, places, strict=True))
    if profile.blocked is not None:
        profile = replace(profile, blocked=profile.blocked - _awaited(placed, len(profile)))
    return Selected(processes, profile, joined_roots(process.roots for process in processes), placed)


def _awaited(threads: Sequence[tuple[Process, Thread, Index]], n: int) -> Floats:
    """Return for how long functions of first threads waited for threads without functions; shape (n,)."""
    result = np.zeros(n)
    for process, thread, rows in threads:
        if thread is first_thread(process) and (awaited := awaited_seconds(process, thread)) is not None:
            result += np.bincount(rows, awaited, n)
    return result


def is_foreign(run: Run) -> bool:
    """Return whether a run was read from a plain profile, which has no manifest."""
    return run.manifest is None


def _existing(run: Run) -> str:
    names = []
    for process in run.processes:
        if process.rank is not None:
            names.append(f"rank:{process.rank}")
        elif process.pid is not None:
            names.append(f"pid:{process.pid}")
    return ", ".join(dict.fromkeys(["main", *names[:20]])) + (", …" if len(names) > 20 else "")
