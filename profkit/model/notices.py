"""Warnings as data: a code, a subject, and numbers. ``profkit.report.notices`` has the codes and makes sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeAlias, cast

#: Types of a notice's numbers. Texts are for pairs, such as two versions.
Number: TypeAlias = "float | int | str | tuple[int, ...] | tuple[str, ...]"

#: Most process ids that a notice lists; ``pids_total`` counts the others too.
MOST_PIDS = 4
#: Most ranks that a notice lists.
MOST_RANKS = 8

#: What a notice applies to, with the unit of each. Any notice may have these beside its own numbers.
WHERE: Mapping[str, str] = {
    "file": "file?",  # the run file
    "pids": "ids?",  # process ids, at most `MOST_PIDS`
    "pids_total": "count?",  # number of processes if `pids` does not list all
}

_CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+){0,15}")
#: Bound of integers: 64 bits hold them.
_MOST = 1 << 64


@dataclass(frozen=True, slots=True)
class Notice:
    """One fact that limits what a result means.

    Attributes
    ----------
    code
        Stable identifier in kebab case; files of later versions may have others than this one knows.
    subject
        A file, an error's text, a side, …; empty if the code says all.
    numbers
        By name, read-only. Any notice may have, beside its own, those of `WHERE`.
    """

    code: str
    subject: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))

    def __hash__(self) -> int:
        return hash((self.code, self.subject, frozenset(self.numbers.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be copied or pickled.
        return Notice, (self.code, self.subject, dict(self.numbers))

    def at(self, *, file: str = "", pids: Iterable[int | None] = (), pids_total: int = 0) -> Notice:
        """Return the notice with the file and processes that it applies to.

        `pids_total` is the number of processes if `pids` does not list all.
        """
        where: dict[str, Number] = {"file": file} if file else {}
        known = [pid for pid in pids if pid is not None]
        if known:
            where["pids"] = tuple(known[:MOST_PIDS])
        total = max(pids_total, len(known))
        if total > min(len(known), MOST_PIDS):
            where["pids_total"] = total
        return Notice(self.code, self.subject, {**self.numbers, **where})

    def anywhere(self) -> Notice:
        """Return the notice without file and processes."""
        own = {name: value for name, value in self.numbers.items() if name not in WHERE}
        return Notice(self.code, self.subject, own)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of a notice: ``code``, ``subject``, ``numbers``."""
        return {
            "code": self.code,
            "subject": self.subject,
            "numbers": {k: list(v) if isinstance(v, tuple) else v for k, v in self.numbers.items()},
        }

    @classmethod
    def from_json(cls, value: object) -> Notice:
        """Check and convert what `as_json` returned; ``subject`` and ``numbers`` may be absent.

        Raises
        ------
        ValueError
            It is something else; the message names the field.
        """
        if not isinstance(value, Mapping):
            raise ValueError("is not an object")
        code, subject, numbers = value.get("code"), value.get("subject", ""), value.get("numbers", {})
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            raise ValueError("has no code")
        if not isinstance(subject, str):
            raise ValueError("has a subject that is not a string")
        if not isinstance(numbers, Mapping):
            raise ValueError("has numbers that are not an object")
        return cls(code, subject, {str(name): _number(name, number) for name, number in numbers.items()})


def _number(name: object, value: object) -> Number:
    if isinstance(value, str) or _is_number(value):
        return cast(Number, value)
    if isinstance(value, list | tuple):
        whole = all(type(item) is int and _is_number(item) for item in value)
        if whole or all(isinstance(item, str) for item in value):
            return tuple(value)
    raise ValueError(f"has no usable number in {str(name)[:40]!r}")


def _is_number(value: object) -> bool:
    """Return whether `value` is a finite number that a file may hold."""
    if type(value) is int:
        return abs(value) < _MOST
    return type(value) is float and math.isfinite(value)


def grouped(said: Iterable[tuple[int | None, Notice]]) -> list[Notice]:
    """Join equal notices of several processes, in order of first occurrence.

    `said` are process ids with a notice about each. A process that replaced its program occurs several times,
    and is listed once.
    """
    pids: dict[Notice, list[int | None]] = {}
    for pid, notice in said:
        pids.setdefault(notice, []).append(pid)
    return [notice.at(pids=dict.fromkeys(which)) for notice, which in pids.items()]


def missing_ranks(code: str, present: Iterable[int | None], size: int) -> Notice | None:
    """Return a notice of missing ranks, the first `MOST_RANKS` by number; ``None`` if none is missing.

    `size` is the number of ranks according to the launcher, unchecked.
    """
    size = min(size, _MOST - 1)
    known = {rank for rank in present if rank is not None and 0 <= rank < size}
    missing = size - len(known)
    if missing <= 0:
        return None
    first = tuple(islice((rank for rank in range(size) if rank not in known), MOST_RANKS))
    return Notice(code, "", {"ranks": first, "missing": missing, "size": size})
