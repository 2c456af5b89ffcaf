"""A regular pstats dump as columns, parsed with numpy over all tokens at once; second stage after
`marshal_scan`. The twin of the compiled reader (`pstats_native`), for where that was not built.

Regular is what cProfile, pstats and yappi write: a dictionary from ``(file, line, name)`` to
``(cc, nc, tt, ct, callers)``. Every token is checked; for any other form the result is ``None``, and the
slow, general `pstats_objects` returns the same `Columns`. Merging, warnings and errors are in `pstats_file`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.formats.marshal_scan import LONGEST_STRING, PADDING, Bytes, Positions, token_starts
from profkit.formats.pstats_native import Columns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]


_FLAG_REF, _CODE = 0x80, 0x7F

# Classes of tokens. The first five are what the structure check sees once all operands are taken out.
_OPEN, _CLOSE, _KEY, _ENTRY, _CALLER, _INT, _FLOAT, _TEXT, _TUPLE, _REF, _OTHER = range(11)
_CLASS_OF = {"{": _OPEN, "0": _CLOSE, "i": _INT, "g": _FLOAT, ")": _TUPLE, "(": _TUPLE, "r": _REF}
_CLASS_OF.update(dict.fromkeys("zZaAuts", _TEXT))


def _class_table() -> Codes:
    table = np.full(256, _OTHER, np.uint8)
    for code, kind in _CLASS_OF.items():
        table[ord(code)] = kind
        # A close mark and a reference are no objects, so they cannot be referred to.
        if kind not in (_CLOSE, _REF):
            table[ord(code) | _FLAG_REF] = kind
    return table


def _follow_table() -> npt.NDArray[np.bool_]:
    """Return which structural token may follow which, at ``[before * 8 + after]``."""
    table = np.zeros((8, 8), bool)
    for before, after in (
        (_OPEN, _KEY),
        (_OPEN, _CLOSE),
        (_KEY, _ENTRY),
        (_KEY, _CALLER),
        (_ENTRY, _OPEN),
        (_CALLER, _KEY),
        (_CALLER, _CLOSE),
        (_CLOSE, _KEY),
        (_CLOSE, _CLOSE),
    ):
        table[before, after] = True
    return table.ravel()


#: For `bytes.translate`, which is faster than an index.
_CLASS = _class_table().tobytes()
_FOLLOWS = _follow_table()


def decode_text(raw: bytes) -> str:
    """Decode a string as Python 3 marshals it (surrogates allowed) or as raw bytes of Python 2.
    Bytes that are not UTF-8 become lone surrogates, as in Python's file names."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape")


class _Irregular(Exception):  # noqa: N818 - control flow inside this module, never seen outside
    """The dump is not of the regular form."""


def parse_columns(padded: Bytes, *, edges: bool) -> Columns | None:
    """Return the columns of a uint8 dump that is padded by `marshal_scan.PADDING` bytes; ``None`` if it is
    not regular.
    Without `edges` the edge columns are empty."""
    try:
        return _Parser(padded).columns(edges)
    except _Irregular:
        return None


def _require(condition: Any) -> None:
    if not condition:
        raise _Irregular


class _Parser:
    """The token arrays of one dump; its methods are the steps of parsing."""

    def __init__(self, padded: Bytes) -> None:
        self.padded = padded
        size = len(padded) - PADDING
        _require(size >= 2 and padded[0] & _CODE == ord("{"))
        self.at: Positions = token_starts(padded)
        _require(self.at[-1] == size - 1)
        self.code: Codes = padded[self.at]
        self.kind: Codes = np.frombuffer(bytearray(self.code.tobytes().translate(_CLASS)), np.uint8)
        _require(not (self.kind == _OTHER).any())
        # A longer text was taken as one byte, so what follows it is not the stream.
        long = np.flatnonzero(
            (self.kind == _TEXT) & (self.code & _CODE != ord("z")) & (self.code & _CODE != ord("Z"))
        )
        _require((self._word("<u4", long) <= LONGEST_STRING).all())
        self.source = self._resolve()

    def _word(self, dtype: str, tokens: Positions, offset: int = 1) -> npt.NDArray[Any]:
        """Return the numbers that follow the type codes of `tokens`."""
        width = np.dtype(dtype).itemsize
        shape = (len(self.padded) - width - offset + 1,)
        view: npt.NDArray[Any] = np.ndarray(shape, dtype, self.padded.data, offset, (1,))
        return view[self.at[tokens]]

    def _resolve(self) -> Positions:
        """Return for each token the token that holds its value: itself, or the target of a reference."""
        source = np.arange(len(self.at))
        (references,) = np.nonzero(self.kind == _REF)
        if len(references):
            (flagged,) = np.nonzero(self.code >= _FLAG_REF)
            which = self._word("<u4", references)
            _require(which.max() < len(flagged))
            target = flagged[which]
            _require((target < references).all())
            source[references] = target
        return source

    def columns(self, edges: bool) -> Columns:
        """Check the structure, then gather the columns."""
        structure = self._structure(edges)
        entries, own, of_caller = structure.entries, structure.own, structure.of_caller
        used = np.zeros(len(self.at), bool)
        used[own] = used[of_caller] = True
        (keys,) = np.nonzero(used)
        strings, file, line, name = self._key_parts(keys)
        identity = _identities(len(strings), file, line, name)

        ordinal = np.empty(len(self.at), np.intp)
        ordinal[keys] = np.arange(len(keys))
        rows = ordinal[own]
        row_of = np.full(len(keys), -1, np.int64)
        row_of[identity[rows]] = np.arange(len(rows))
        # A dictionary cannot have a key twice; what a file means by it is left to the general decoder.
        _require(np.count_nonzero(row_of >= 0) == len(rows))

        called_by = identity[ordinal[of_caller]]
        missing = called_by[row_of[called_by] < 0]
        extra = 0
        if len(missing):
            without_entry, where = np.unique(missing, return_index=True)
            without_entry = without_entry[np.argsort(where)]
            extra = len(without_entry)
            row_of[without_entry] = len(rows) + np.arange(extra)
            some_key = np.empty(len(keys), np.intp)
            some_key[identity] = np.arange(len(keys))
            rows = np.concatenate([rows, some_key[without_entry]])

        callers = structure.callers
        return Columns(
            strings=strings,
            file=file[rows].astype(np.int32),
            line=line[rows].astype(np.int32),
            name=name[rows].astype(np.int32),
            first=_extended(self._counts(entries + 1), extra),
            second=_extended(self._counts(entries + 2), extra),
            tottime=_extended(self._times(entries + 3), extra),
            cumtime=_extended(self._times(entries + 4), extra),
            extra=extra,
            caller=row_of[called_by].astype(np.int32),
            callee=structure.callee.astype(np.int32),
            edge_first=self._counts(callers + 1),
            edge_second=self._counts(callers + 2),
            edge_tottime=self._times(callers + 3),
            edge_cumtime=self._times(callers + 4),
        )

    def _structure(self, edges: bool) -> _Structure:
        """Find entries and, if requested, callers; check every token between them in either case.
        Without the operands of tuples, a regular dump is the regular language
        ``{ (key entry { (key caller)* 0 )* 0``: which token may follow which, and the depth, decide it."""
        kind, source, n = self.kind, self.source, len(self.at)
        (tuples,) = np.nonzero(kind == _TUPLE)
        size = self._word("u1", tuples).astype(np.int64)
        wide = self.code[tuples] & _CODE == ord("(")
        if wide.any():
            size[wide] = self._word("<u4", tuples[wide])
        free = np.ones(n, bool)
        groups = []
        for length, role, operands in (
            (3, _KEY, ((_TEXT,), (_INT,), (_TEXT,))),
            (4, _CALLER, ((_INT, _FLOAT),) * 4),
            (5, _ENTRY, ((_INT, _FLOAT),) * 4),
        ):
            heads = tuples[size == length]
            _require(len(heads) == 0 or heads[-1] + length < n)
            for offset, allowed in enumerate(operands, 1):
                operand = heads + offset
                free[operand] = False
                found = kind[source[operand]]
                good = found == allowed[0]
                for other in allowed[1:]:
                    good |= found == other
                _require(good.all())
            groups.append((role, heads))
        _require(sum(len(heads) for _, heads in groups) == len(tuples))
        for role, heads in groups:
            kind[heads] = role

        (structural,) = np.nonzero(free)
        seen = kind[structural]
        seen[seen == _REF] = _KEY
        _require(seen.max() <= _CALLER and seen[0] == _OPEN and seen[-1] == _CLOSE)
        _require(_FOLLOWS[seen[:-1] * np.uint8(8) + seen[1:]].all())
        is_key, is_entry, is_caller = seen == _KEY, seen == _ENTRY, seen == _CALLER
        depth = np.cumsum((seen == _OPEN).view(np.int8) - (seen == _CLOSE).view(np.int8), dtype=np.int32)
        _require(depth[-1] == 0 and depth[:-1].min() == 1 and depth.max() <= 2)
        _require((depth[is_entry] == 1).all() and (depth[is_caller] == 2).all())
        keys = source[structural[is_key]]
        _require((kind[keys] == _KEY).all())
        inside = depth[is_key] == 2
        none = np.zeros(0, np.intp)
        return _Structure(
            entries=structural[is_entry],
            callers=structural[is_caller] if edges else none,
            callee=np.cumsum(is_entry, dtype=np.int64)[is_caller] - 1 if edges else none,
            own=keys[~inside],
            of_caller=keys[inside] if edges else none,
        )

    def _key_parts(self, keys: Positions) -> tuple[tuple[str, ...], Ints, Ints, Ints]:
        """Return the string table, and for each key tuple its file, line and name."""
        file, name = self.source[keys + 1], self.source[keys + 3]
        used = np.zeros(len(self.at), bool)
        used[file] = used[name] = True
        (tokens,) = np.nonzero(used)
        texts = ["", *self._texts(tokens)]
        # Where each text occurs first, by one loop in C: there are more texts than functions.
        table: dict[str, int] = {}
        first = np.array(list(map(table.setdefault, texts, range(len(texts)))))
        number = np.cumsum(first == np.arange(len(texts))) - 1
        ids = np.empty(len(self.at), np.int64)
        ids[tokens] = number[first[1:]]
        line = self._word("<i4", self.source[keys + 2]).astype(np.int64)
        return tuple(table), ids[file], line, ids[name]

    def _texts(self, tokens: Positions) -> list[str]:
        code = self.code[tokens] & _CODE
        start, length = self.at[tokens] + 2, self._word("u1", tokens).astype(np.intp)
        long = (code != ord("z")) & (code != ord("Z"))
        if long.any():
            start[long] += 3
            length[long] = self._word("<u4", tokens[long])
        _require((start + length <= len(self.padded) - PADDING).all())
        # Types z, Z, a and A hold Latin-1 whatever their name says: that is how Python reads them.
        whole = str(self.padded.data, "latin-1")
        starts, stops = start.tolist(), (start + length).tolist()
        texts = list(map(whole.__getitem__, map(slice, starts, stops)))
        if long.any():
            encoded = (code == ord("u")) | (code == ord("t")) | (code == ord("s"))
            for i in np.nonzero(encoded)[0].tolist():
                if not texts[i].isascii():
                    texts[i] = decode_text(texts[i].encode("latin-1"))
        return texts

    def _counts(self, tokens: Positions) -> Ints:
        """Read counts; a float among them is left to the general decoder."""
        tokens = self.source[tokens]
        _require((self.kind[tokens] == _INT).all())
        return self._word("<i4", tokens).astype(np.int64)

    def _times(self, tokens: Positions) -> Floats:
        """Read times, which may be stored as integers."""
        tokens = self.source[tokens]
        is_float = self.kind[tokens] == _FLOAT
        if is_float.all():
            times = self._word("<f8", tokens).astype(np.float64, copy=False)
        else:
            times = np.empty(len(tokens), np.float64)
            times[is_float] = self._word("<f8", tokens[is_float])
            times[~is_float] = self._word("<i4", tokens[~is_float])
        _require(np.isfinite(times).all())
        return times


@dataclass(frozen=True, slots=True, eq=False)
class _Structure:
    """Token numbers: heads of entry and caller tuples, their key tuples; rows of the callers' entries."""

    entries: Positions
    callers: Positions
    callee: Ints
    own: Positions
    of_caller: Positions


def _identities(n_strings: int, file: Ints, line: Ints, name: Ints) -> Ints:
    """Number keys by content: equal keys get the same number below ``len(file)``."""
    if not len(file):
        return np.zeros(0, np.int64)
    low = int(line.min())
    span = int(line.max()) - low + 1
    if n_strings * n_strings * span < 1 << 62:
        packed = (file * n_strings + name) * span + (line - low)
    else:
        _, names = np.unique(np.stack([name, line], axis=1), axis=0, return_inverse=True)
        packed = file * (len(file) + 1) + names.reshape(-1)
    _, identity = np.unique(packed, return_inverse=True)
    numbers: Ints = identity.reshape(-1).astype(np.int64, copy=False)
    return numbers


def _extended(values: npt.NDArray[Any], extra: int) -> npt.NDArray[Any]:
    """Append zeros for the rows of callers without an entry."""
    return np.concatenate([values, np.zeros(extra, values.dtype)]) if extra else values
