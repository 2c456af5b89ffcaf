"""What a pstats dump holds, and the compiled reader, fifty times as fast as `pstats_objects`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model import Edges, Profile
from profkit.model.arrays import distinct
from profkit.model.merge import groups_of

#: As in ``native/pstats/reader.h``.
KEY = np.dtype([("file", "u4"), ("name", "u4"), ("line", "i4")])
_ROW = np.dtype(
    [
        ("key", "u4"),
        ("callee", "i4"),
        ("first", "i4"),
        ("second", "i4"),
        ("tottime", "f8"),
        ("cumtime", "f8"),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Dump:
    """A pstats dump in file order; equal texts and keys may be there repeatedly.

    `keys` have the fields of `KEY`: indices into `texts`, and a line. `rows` have those of `_ROW`: entries,
    whose `callee` is −1, and callers of the entry `callee`. `first` and `second` are an entry's ``cc`` and
    ``nc``, or a caller's ``nc`` and ``cc``; times are seconds. `plain_callers`: a caller is a bare count.
    `sampled`: the dump has the sampling profiler's mark. `trailing`: bytes after the dump.
    """

    texts: Sequence[str]
    keys: npt.NDArray[Any]
    rows: npt.NDArray[Any]
    _: KW_ONLY
    plain_callers: bool = False
    sampled: bool = False
    trailing: int = 0

    def profile(self, *, edges: bool) -> Profile:
        """Return its profile, not validated: the entries, then with `edges` the callers without an entry."""
        strings: dict[str, int] = {"": 0}
        place = np.array([strings.setdefault(text, len(strings)) for text in self.texts], np.int32)
        file, name, line = place[self.keys["file"]], place[self.keys["name"]], self.keys["line"]
        group, first = groups_of([file, line, name])
        own = self.rows["callee"] < 0
        entries, links = self.rows[own], self.rows[~own]
        row = np.full(len(first), -1, np.int32)
        # Back to front: callers refer to the first of two entries with one key.
        row[group[entries["key"]][::-1]] = np.arange(len(entries), dtype=np.int32)[::-1]
        callers = group[links["key"]]
        strange = distinct(callers[row[callers] < 0])
        row[strange] = np.arange(len(entries), len(entries) + len(strange))
        shown = np.concatenate([entries["key"], first[strange]])
        none, unknown = np.zeros(len(strange), np.int64), np.zeros(len(shown), np.int32)
        ncalls, primitive = (np.concatenate([counts, none]) for counts in _counts(entries))
        tottime, cumtime = (np.concatenate([entries[name], none]) for name in ("tottime", "cumtime"))
        linked = None
        if edges:
            times = links["tottime"].copy(), links["cumtime"].copy()
            linked = Edges(row[callers], links["callee"].astype(np.int32), *_counts(links), *times)
        named = tuple(strings), file[shown], line[shown], name[shown], unknown, unknown, unknown
        return Profile(*named, ncalls, primitive, tottime, cumtime, edges=linked)


def _counts(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return calls and primitive calls: cProfile writes (cc, nc), yappi (nc, cc).

    Calls include primitive ones, so the larger number is all calls. Primitive calls may be negative.
    """
    first, second = rows["first"].astype(np.int64), rows["second"].astype(np.int64)
    return np.maximum(first, second), np.minimum(first, second)


try:
    _COMPILED: Any = importlib.import_module("profkit.formats.native.lib._pstats")
except (ImportError, MemoryError):  # it was not built, or cannot be loaded
    _COMPILED = None


def read_regular_dump(data: bytes, *, edges: bool) -> Dump | None:
    """Return a dump, without `edges` only its entries; ``None`` if irregular or the reader was not built."""
    parts = None if _COMPILED is None else _COMPILED.read(data, edges)
    if parts is None:
        return None
    texts, keys, rows = parts
    return Dump(texts, np.frombuffer(keys, KEY), np.frombuffer(rows, _ROW))
