"""Roles of ranges by the words of their names, unless the user specifies them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from profkit.errors import UsageError
from profkit.measure.range_stats import pattern_of

NO_ROLE, ITERATION, LOAD, COMPUTE, WAIT = range(5)
#: A name that means an iteration if computing happens inside it, otherwise loading.
_BATCH = 5

#: An acronym, a word, or remaining capitals: ``DataLoader`` is data and loader.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Order matters: ``optimizer step`` is computing, ``wait for batch`` waiting, ``load batch`` loading, and
# ``validation step`` has no role.
_WORDS: tuple[tuple[int, frozenset[str]], ...] = (
    (
        NO_ROLE,
        _words("validation validate valid val eval evaluate evaluation test checkpoint epoch"),
    ),
    (WAIT, _words("wait waiting next dequeue starved")),
    (
        LOAD,
        _words(
            "load loading loader loaders dataloader data dataset fetch fetching prefetch decode augment "
            "augmentation augmentations collate preprocess preprocessing"
        ),
    ),
    (
        COMPUTE,
        _words(
            "forward fwd backward bwd backprop optimizer optimiser optim optimize optimise loss compute "
            "inference infer predict"
        ),
    ),
    (ITERATION, _words("iteration iter step trainstep")),
    (_BATCH, _words("batch minibatch")),
)


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
    pairs = list(around)
    holds_compute = {outer for outer, inner in pairs if roles[inner] == COMPUTE}
    return {
        name: role if role != _BATCH else ITERATION if name in holds_compute else LOAD
        for name, role in roles.items()
    }


#: Names that a message lists.
_SHOWN = 12


def _by_words(name: str) -> int:
    words = {word.lower() for word in _WORD.findall(name)}
    return next((role for role, known in _WORDS if words & known), NO_ROLE)


def _means(pattern: str, name: str) -> bool:
    return pattern_of(pattern) == pattern_of(name) or fnmatchcase(name, pattern)
