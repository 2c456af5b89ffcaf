"""The ranges of a run that have a role, by process; marks and ranges without an end are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from profkit.measure.range_roles import COMPUTE, LOAD, NO_ROLE, IterationNames, roles_of
from profkit.measure.range_stats import fold_names
from profkit.model import Process, Run
from profkit.model.arrays import Bools, Floats, Ints
from profkit.model.ranges import MARK, PAYLOAD_TYPES, Ranges


@dataclass(frozen=True, slots=True, eq=False)
class RolePart:
    """Ranges of one process that have a role, in the order in which they began; `begin` and `end` in ns."""

    process: Process
    host: str
    label: npt.NDArray[np.object_]
    role: Ints
    thread: Ints
    begin: Ints
    end: Ints
    batch: Floats

    def __len__(self) -> int:
        return len(self.role)

    def of(self, thread: int | None, *roles: int) -> RolePart:
        """Return the ranges with one of these roles, of one thread or of all."""
        chosen = np.isin(self.role, roles)
        if thread is not None:
            chosen &= self.thread == thread
        return self.take(chosen)

    def take(self, rows: Bools | npt.NDArray[np.intp]) -> RolePart:
        """Return these rows only."""
        columns = ("label", "role", "thread", "begin", "end", "batch")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def names(self) -> tuple[str, ...]:
        """Return the distinct labels, in order of appearance."""
        return tuple(dict.fromkeys(self.label.tolist()))


def role_parts(run: Run, said: IterationNames) -> list[RolePart]:
    """Return each process's ranges with a role; raise `UsageError` if the user named an unknown one."""
    processes = [process for process in run.processes if process.ranges is not None]
    ranges = [process.ranges for process in processes if process.ranges is not None]
    used = [np.flatnonzero(part.ended) for part in ranges]
    texts = {
        part.strings[i] for part, rows in zip(ranges, used, strict=True) for i in np.unique(part.name[rows])
    }
    folded = fold_names(texts)
    around = {pair for part in ranges for pair in _around(part, folded)}
    roles = roles_of(list(dict.fromkeys(folded.values())), around, said)
    if not any(roles.values()):
        return []
    return [_part(process, part, folded, roles) for process, part in zip(processes, ranges, strict=True)]


def _around(part: Ranges, folded: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return pairs of an outer and an inner range's name."""
    rows = np.flatnonzero((part.parent >= 0) & part.ended)
    outer = part.parent[rows]
    pairs: set[int] = set()
    n = len(part.strings)
    while len(rows):
        pairs.update(np.unique(part.name[outer].astype(np.int64) * n + part.name[rows]).tolist())
        outer = part.parent[outer]
        rows, outer = rows[outer >= 0], outer[outer >= 0]
    texts = [(part.strings[pair // n], part.strings[pair % n]) for pair in pairs]
    return [(folded[a], folded[b]) for a, b in texts if a in folded and b in folded]


def _part(process: Process, part: Ranges, folded: Mapping[str, str], roles: Mapping[str, int]) -> RolePart:
    labels = np.array([folded.get(text, "") for text in part.strings], object)
    role_of = np.array([roles.get(label, NO_ROLE) for label in labels], np.int64)
    role = np.where(part.kind == MARK, NO_ROLE, role_of[part.name])
    # Loading inside computing is part of it, and vice versa.
    load, compute = role == LOAD, role == COMPUTE
    role[(load & _inside(part, compute)) | (compute & _inside(part, load))] = NO_ROLE
    rows = np.flatnonzero((role != NO_ROLE) & part.ended)
    rows = rows[np.argsort(part.begin_ns[rows], kind="stable")]
    return RolePart(
        process=process,
        host=process.host.name if process.host is not None else "",
        label=labels[part.name[rows]],
        role=role[rows],
        thread=part.thread[rows],
        begin=part.begin_ns[rows],
        end=part.end_ns[rows],
        batch=_payloads(part)[rows],
    )


def _inside(part: Ranges, chosen: Bools) -> Bools:
    """Return which ranges have a chosen range around them."""
    inside = np.zeros(len(part), bool)
    outer = part.parent.astype(np.int64)
    while (outer >= 0).any():
        held = outer >= 0
        inside[held] |= chosen[outer[held]]
        outer[held] = part.parent[outer[held]]
    return inside


def _payloads(part: Ranges) -> Floats:
    """Return payloads as numbers, NaN where there is none."""
    values = np.full(len(part), np.nan)
    raw = np.ascontiguousarray(part.payload.astype("<u8"))
    for kind, dtype in enumerate(PAYLOAD_TYPES):
        rows = np.flatnonzero(part.payload_type == kind) if dtype else np.zeros(0, np.intp)
        if len(rows):
            step = 8 // np.dtype(dtype).itemsize
            values[rows] = raw[rows].view(dtype)[::step]
    return values


def new_time(begin: Ints, end: Ints) -> Ints:
    """Return the part of each range, by begin, that earlier ranges do not cover, so that sums add up."""
    if not len(begin):
        return np.zeros(0, np.int64)
    covered = np.concatenate([begin[:1], np.maximum.accumulate(end)[:-1]])
    new: Ints = np.maximum(end - np.maximum(begin, covered), 0)
    return new
