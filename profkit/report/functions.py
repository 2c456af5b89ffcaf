"""The functions of one profile or a whole run, ranked: what ``profkit show`` lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.compare.result_types import DiffTable, SideTable
from profkit.identity.function_keys import function_keys
from profkit.identity.lookup_columns import Keys
from profkit.measure.selected_processes import select
from profkit.measure.waits_by_name import only_waits
from profkit.model import FunctionKey, Profile, Roots, Run
from profkit.model.arrays import Bools, Floats
from profkit.model.estimates import estimates_of

#: Columns of a profile that a row copies.
_COLUMNS = ("ncalls", "primitive_calls", "tottime", "cumtime", "wait", "blocked", "cumwait", "cumblocked")


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One function as a report lists it; times in seconds, ``None`` if not measured.

    `active` is self time on a CPU, queueing, or waiting for busy native threads; `share` is of all active time.
    The last four fields are those of a `Profile`.
    """

    rank: int
    key: FunctionKey
    name: str
    file: str
    line: int
    ncalls: int
    primitive_calls: int
    tottime: float
    cumtime: float
    wait: float | None
    blocked: float | None
    cumwait: float | None
    cumblocked: float | None
    active: float
    share: float
    calls_low: float
    calls_high: float
    samples: int
    tottime_error: float

    @property
    def waits(self) -> bool:
        """Return whether it only waits by design."""
        return only_waits(self.name, self.key.root, measured=self.blocked is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A profile, the keys of its rows, and their order: int64, shape (n,), greatest first."""

    profile: Profile
    keys: Keys
    order: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.profile)

    def rows(self, limit: int = 0) -> Iterator[FunctionRow]:
        """Yield the first `limit` rows (0: all)."""
        p = self.profile
        active = active_seconds(p)
        total = float(active.sum())
        columns = {**{name: getattr(p, name) for name in _COLUMNS}, **estimates_of(p)}
        for rank, row in enumerate(map(int, self.order[: limit or None]), start=1):
            numbers: dict[str, Any] = {
                name: None if column is None else column[row].item() for name, column in columns.items()
            }
            yield FunctionRow(
                rank=rank,
                key=self.keys[row],
                name=name_of(p, row),
                file=p.strings[int(p.file[row])],
                line=int(p.line[row]),
                active=float(active[row]),
                share=float(active[row]) / total if total > 0 else 0.0,
                **numbers,
            )


def name_of(profile: Profile, row: int) -> str:
    """Return a function's qualified name, or its name if the profile has no other."""
    return profile.strings[int(profile.qualname[row])] or profile.strings[int(profile.name[row])]


def active_seconds(profile: Profile) -> Floats:
    """Return self times in seconds, less measured time off the CPU without queueing; see `selected_processes`."""
    if profile.blocked is None:
        return profile.tottime
    return np.maximum(profile.tottime - profile.blocked, 0.0)


def seconds_by(side: SideTable, by: str) -> Floats:
    """Return what a comparison ranks by: active self time, or ``cumtime``."""
    return side.cumtime if by == "cumtime" else side.active


def working(table: DiffTable, chosen: Bools) -> npt.NDArray[np.intp]:
    """Return the chosen rows of a comparison, without waits by design."""
    return np.array([i for i in np.flatnonzero(chosen).tolist() if not waits_only(table, i)], np.intp)


def waits_only(table: DiffTable, row: int) -> bool:
    """Return whether a function of a comparison only waits by design."""
    measured = table.baseline.wait is not None and table.candidate.wait is not None
    return only_waits(table.name[row], table.keys[row].root, measured=measured)


def ranked(profile: Profile, roots: Roots, by: str = "tottime") -> Ranked:
    """Rank functions by active self time or ``cumtime``; ties keep their order."""
    values = profile.cumtime if by == "cumtime" else active_seconds(profile)
    return Ranked(profile, function_keys(profile, roots), np.argsort(-values, kind="stable"))


def ranked_run(run: Run, by: str = "tottime", *, edges: bool = False) -> Ranked:
    """Rank a run's functions, summed over threads, so cumulative times may exceed the wall."""
    chosen = select(run, edges=edges)
    return ranked(chosen.profile, chosen.roots, by)
