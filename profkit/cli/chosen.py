"""Choose the process for ``profkit view`` and ``profkit extract``: by default the main one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profkit.cli import say
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.model import Process, Profile, Run


def chosen_profile(run: Run, process: str | None) -> Profile:
    """Return the profile of a process, and say which if the user chose none.

    Raises `UsageError` if there is no such process, or it has no function.
    """
    from profkit.measure.selected_processes import select

    chosen = select(run, process or "main")
    if not len(chosen.profile):
        raise UsageError(f"{run.path}: this process has no functions; profkit show lists the others")
    others = [p for p in run.processes if p.profiled and p not in chosen.processes]
    if process is None and others:
        taken = ", ".join(_name(p) for p in chosen.processes)
        say(
            f"took {taken} of {len(others) + len(chosen.processes)} processes; --process all takes all of them"
        )
    return chosen.profile


def _name(process: Process) -> str:
    parts = [] if process.rank is None else [f"rank {process.rank}"]
    parts += [] if process.pid is None else [f"pid {process.pid}"]
    return f"the {process.role} process" + (f" ({', '.join(parts)})" if parts else "")
