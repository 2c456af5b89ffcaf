"""Roles of ranges by the words of their names, unless the user specifies them, and the ranges that have one.

Marks and ranges without an end are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from profkit.errors import UsageError
from profkit.measure.range_stats import fold_names, pattern_of
from profkit.model import Process, Run
from profkit.model.arrays import Bools, Floats, Ints
from profkit.model.paths import below
from profkit.model.ranges import MARK, Ranges

NO_ROLE, ITERATION, LOAD, COMPUTE, WAIT = range(5)
#: A name that means an iteration if computing happens inside it, otherwise loading.
_BATCH = 5

#: An acronym, a word, or remaining capitals: ``DataLoader`` is data and loader.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

#: Words of names by role. Order matters: ``optimizer step`` is computing, ``wait for batch`` waiting,
#: ``load batch`` loading, and ``validation step`` has no role.
_WORDS = {
    NO_ROLE: "validation validate valid val eval evaluate evaluation test checkpoint epoch",
    WAIT: "wait waiting next dequeue starved",
    LOAD: "load loading loader loaders dataloader data dataset fetch fetching prefetch decode augment "
    "augmentation augmentations collate preprocess preprocessing",
    COMPUTE: "forward fwd backward bwd backprop optimizer optimiser optim optimize optimise loss compute "
    "inference infer predict",
    ITERATION: "iteration iter step trainstep",
    _BATCH: "batch minibatch",
}


@dataclass(frozen=True, slots=True)
class IterationNames:
    """What the user specified about ranges: names with numbers (``step 17`` is ``step {n}``) or ``*``."""

    iteration: tuple[str, ...] = ()
    load: tuple[str, ...] = ()
    compute: tuple[str, ...] = ()
    batch_size: int | None = None


def roles_of(
    names: Sequence[str], around: Iterable[tuple[str, str]], said: IterationNames
) -> Mapping[str, int]:
    """Return the role of each name; raise `UsageError` if the user named a range that does not exist."""
    roles = {name: _by_words(name) for name in names}
    for parameter, role, wanted in (
        ("iteration", ITERATION, said.iteration),
        ("load", LOAD, said.load),
        ("compute", COMPUTE, said.compute),
    ):
        if not wanted:
            continue
        # Ranges that the user specifies for a role replace all others.
        roles = {name: NO_ROLE if found == role else found for name, found in roles.items()}
        for pattern in wanted:
            meant = [name for name in names if _means(pattern, name)]
            if not meant:
                known = ", ".join(sorted(names)[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
                raise UsageError(
                    f"no NVTX range has that name, there are: {known or 'none'}",
                    parameter=parameter,
                    value=pattern,
                )
            roles.update(dict.fromkeys(meant, role))
    holds_compute = {outer for outer, inner in around if roles[inner] == COMPUTE}

    def of_batch(name: str) -> int:
        role, wanted = (ITERATION, said.iteration) if name in holds_compute else (LOAD, said.load)
        return NO_ROLE if wanted else role

    return {name: of_batch(name) if role == _BATCH else role for name, role in roles.items()}


#: Names that a message lists.
_SHOWN = 12


def _by_words(name: str) -> int:
    words = {word.lower() for word in _WORD.findall(name)}
    return next((role for role, known in _WORDS.items() if not words.isdisjoint(known.split())), NO_ROLE)


def _means(pattern: str, name: str) -> bool:
    # As written, too: in ``conv1*`` and ``[0-9]`` the digits are no number.
    wanted, known = pattern_of(pattern), pattern_of(name)
    return wanted == known or fnmatchcase(known, wanted) or fnmatchcase(name, pattern)


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

    def of(self, *roles: int) -> RolePart:
        """Return the ranges with one of these roles."""
        return self.take(np.isin(self.role, roles))

    def take(self, rows: Bools | npt.NDArray[np.intp]) -> RolePart:
        columns = ("label", "role", "thread", "begin", "end", "batch")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def names(self) -> tuple[str, ...]:
        """Return the distinct labels, in order of appearance."""
        return tuple(dict.fromkeys(self.label.tolist()))


def role_parts(run: Run, said: IterationNames) -> list[RolePart]:
    """Return each process's ranges with a role; raise `UsageError` if the user named an unknown one."""
    parts = [(process, process.ranges) for process in run.processes if process.ranges is not None]
    folded = fold_names(part.strings[i] for _, part in parts for i in np.unique(part.name[part.ended]))
    around = {pair for _, part in parts for pair in _around(part, folded)}
    roles = roles_of(list(dict.fromkeys(folded.values())), around, said)
    if not any(roles.values()):
        return []
    return [_part(process, part, folded, roles) for process, part in parts]


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
    role[(load & below(part.parent, compute)) | (compute & below(part.parent, load))] = NO_ROLE
    rows = np.flatnonzero((role != NO_ROLE) & part.ended)
    rows = rows[np.argsort(part.begin_ns[rows], kind="stable")]
    batch = np.full(len(rows), np.nan)
    for at, payloads in part.payloads(rows):
        batch[at] = payloads
    return RolePart(
        process=process,
        host=process.host.name if process.host is not None else "",
        label=labels[part.name[rows]],
        role=role[rows],
        thread=part.thread[rows],
        begin=part.begin_ns[rows],
        end=part.end_ns[rows],
        batch=batch,
    )


def new_time(begin: Ints, end: Ints) -> Ints:
    """Return the part of each range, by begin, that earlier ranges do not cover, so that sums add up."""
    if not len(begin):
        return np.zeros(0, np.int64)
    covered = np.concatenate([begin[:1], np.maximum.accumulate(end)[:-1]])
    new: Ints = np.maximum(end - np.maximum(begin, covered), 0)
    return new
