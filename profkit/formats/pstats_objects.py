"""General reader of pstats dumps, token by token: slow, and safe on hostile input.

It reads what the compiled reader does not: dumps of Python 2, of pure-Python ``profile`` (callers are bare
counts, and ``python -m profile`` has a code object as name) and of the sampling profiler, counts beyond 32
bits, bytes after the dump. `marshal.loads` is no choice: hashing a tuple that contains itself crashes the
interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from profkit.formats.limits import Budget
from profkit.formats.plain_data import END, MarshalReader, PlainDataError
from profkit.formats.pstats_native import KEY, Dump

#: Nesting of a profile: a dictionary of tuples with a dictionary of tuples of leaves.
_DEEPEST = 5
#: Nesting of code, which contains inner code and constants.
_DEEPEST_IN_CODE = 100
#: Longest tuple of a profile: an entry, plus one for what later versions may append.
_LONGEST_TUPLE = 6
_INT64_MAX = 2**63 - 1

_SAMPLED_KEY = ("__sampled__",)
#: As rows of the compiled reader, with counts of 64 bits.
_ROW = np.dtype(
    [("key", "i8"), ("callee", "i8"), ("first", "i8"), ("second", "i8"), ("tottime", "f8"), ("cumtime", "f8")]
)
_OPEN: Final = object()


def decode_text(raw: bytes | memoryview) -> str:
    """Decode a string of Python 3 (surrogates allowed) or 2; other bytes become lone surrogates."""
    try:
        return str(raw, "utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return str(raw, "utf-8", "surrogateescape")


class _Pairs(list[tuple[Any, Any]]):
    """A marshalled dictionary as stored: keys of a hostile file are never hashed."""


class _Reader(MarshalReader):
    data: bytes

    def __init__(self, data: bytes, budget: Budget) -> None:
        super().__init__(data)
        self.budget = budget
        self.references: list[Any] = []
        self.interned: list[str] = []  # numbered separately by Python 2's string references
        self.in_code = 0

    def object(self, depth: int = 0) -> Any:
        """Read one object; return `END` for the mark that closes a dictionary."""
        code = self.data[self.at] if self.at < len(self.data) else self.take(1)[0]
        self.at += 1
        flag, kind = code & 0x80, chr(code & 0x7F)
        read = _READERS.get(kind) or (_CONSTANTS.get(kind) if self.in_code else None)
        if read is None:
            raise PlainDataError(f"holds data that no profile has, at byte {self.at - 1}")
        if depth > (_DEEPEST_IN_CODE if self.in_code else _DEEPEST):
            raise PlainDataError(f"is nested deeper than a profile, at byte {self.at - 1}")
        if not flag or kind in "0rRNTF":
            return read(self, depth)
        # Containers are numbered before their contents.
        number = len(self.references)
        self.references.append(_OPEN)
        value = read(self, depth)
        # A profile has no dictionary in two places; a file with one could multiply its size.
        if not isinstance(value, _Pairs):
            self.references[number] = value
        return value

    def reference(self, depth: int) -> Any:
        number = self.size()
        if number >= len(self.references) or self.references[number] is _OPEN:
            raise PlainDataError(f"refers to data that it does not have, at byte {self.at - 5}")
        return self.references[number]

    def interned_text(self, depth: int) -> str:
        text = decode_text(self.take(self.size()))
        self.interned.append(text)
        return text

    def interned_reference(self, depth: int) -> str:
        """Read Python 2's reference to an interned string."""
        number = self.size()
        if number >= len(self.interned):
            raise PlainDataError(f"refers to a string that it does not have, at byte {self.at - 5}")
        return self.interned[number]

    def long(self, depth: int) -> int:
        if not self.in_code:
            return self.digits()
        self.take(2 * abs(self.number("i")))
        return 0

    def float_text(self, depth: int) -> float:
        """Read a float written as text (marshal versions 0 and 1)."""
        text = self.take(self.take(1)[0])
        try:
            return float(text)
        except ValueError:
            raise PlainDataError(f"holds a damaged number before byte {self.at}") from None

    def sequence(self, count: int, depth: int) -> tuple[Any, ...]:
        if count > _LONGEST_TUPLE and not self.in_code:
            raise PlainDataError(f"holds a tuple longer than those of a profile, before byte {self.at}")
        values = tuple([self.object(depth + 1) for _ in range(count)])
        self.budget.spend("objects of pstats data", 1 + count)
        if END in values:
            raise PlainDataError(f"is damaged before byte {self.at}")
        return values

    def pairs(self, depth: int) -> _Pairs:
        self.budget.spend("dictionaries of pstats data", 1)
        pairs = _Pairs()
        while (key := self.object(depth + 1)) is not END:
            value = self.object(depth + 1)
            if value is END:
                raise PlainDataError(f"is damaged before byte {self.at}")
            self.budget.spend("objects of pstats data", 3)
            pairs.append((key, value))
        return pairs

    def code(self, depth: int) -> str:
        """Read a code object of any Python version; only its name is kept."""
        self.in_code += 1
        self.take(4 * self.leading_numbers())
        code, _, _, _, kinds = (self.object(depth + 1) for _ in range(5))
        # Up to 3.10, names of free and cell variables are two tuples; from 3.11, one string holds the kinds.
        old = isinstance(kinds, tuple)
        if old:
            self.object(depth + 1)
        _, name = self.object(depth + 1), self.object(depth + 1)
        if not old:
            self.object(depth + 1)
        self.size()
        tables = [self.object(depth + 1) for _ in range(1 if old else 2)]
        self.in_code -= 1
        if not all(isinstance(text, str) for text in (code, name, *tables)):
            raise PlainDataError(f"holds damaged code before byte {self.at}")
        return f"<code object {name}>"

    def leading_numbers(self) -> int:
        """Return how many numbers precede the bytecode: 4 in Python 2, 6 from 3.8 to 3.10, else 5."""
        for count in (5, 6, 4):
            head = self.data[self.at + 4 * count : self.at + 4 * count + 5]
            if len(head) == 5 and head[0] & 0x7F == ord("s"):
                size = int.from_bytes(head[1:], "little")
                if size <= len(self.data) - self.at:
                    return count
        raise PlainDataError(
            f"holds damaged code, at byte {self.at - 1}", truncated=len(self.data) - self.at < 29
        )


_READERS: dict[str, Callable[[_Reader, int], Any]] = {
    "i": lambda r, _: r.number("i"),
    "I": lambda r, _: r.number("q"),
    "l": _Reader.long,
    "g": lambda r, _: r.number("d"),
    "f": _Reader.float_text,
    **dict.fromkeys("zZ", lambda r, _: str(r.take(r.take(1)[0]), "latin-1")),
    **dict.fromkeys("aA", lambda r, _: str(r.take(r.size()), "latin-1")),
    **dict.fromkeys("us", lambda r, _: decode_text(r.take(r.size()))),
    "t": _Reader.interned_text,
    "R": _Reader.interned_reference,
    "r": _Reader.reference,
    ")": lambda r, depth: r.sequence(r.take(1)[0], depth),
    "(": lambda r, depth: r.sequence(r.size(), depth),
    "{": _Reader.pairs,
    "0": lambda r, _: END,
    "N": lambda r, _: None,
    "T": lambda r, _: True,
    "F": lambda r, _: False,
    "c": _Reader.code,
}

#: Types that occur only in constants of code; their values are not needed.
_CONSTANTS: dict[str, Callable[[_Reader, int], Any]] = {
    **dict.fromkeys(".S", lambda r, _: None),
    "x": lambda r, _: (r.take(r.take(1)[0]), r.take(r.take(1)[0])),
    "y": lambda r, _: r.take(16),
    **dict.fromkeys("[<>", lambda r, depth: r.sequence(r.size(), depth)),
    ":": lambda r, depth: r.sequence(3, depth),
}


def _count(value: Any) -> int:
    """Return a count, which some tools write as a float."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or abs(value) > _INT64_MAX:
        raise PlainDataError("holds a call count that is not a whole number")
    return int(value)


def _time(value: Any) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise PlainDataError("holds a time that is not a number")
    return float(value)


def _is_key(value: Any) -> bool:
    return isinstance(value, tuple) and [*map(type, value)] == [str, int, str]


def decode_dump(data: bytes, budget: Budget, *, edges: bool) -> Dump:
    """Read any pstats dump; raise `PlainDataError` or `LimitError`."""
    reader = _Reader(data, budget)
    top = reader.object()
    if not isinstance(top, _Pairs):
        raise PlainDataError("is not a profile")
    sampled = plain = False
    keys: list[tuple[str, int, str]] = []
    rows: list[tuple[int, int, int, int, float, float]] = []
    callers: list[_Pairs] = []
    for key, value in top:
        if key == _SAMPLED_KEY:
            sampled = bool(value)
            continue
        if not isinstance(value, tuple) or len(value) != 5 or not isinstance(value[4], _Pairs):
            raise PlainDataError("is not a profile: an entry is not (calls, calls, time, time, callers)")
        cost = _count(value[0]), _count(value[1]), _time(value[2]), _time(value[3])
        if not _is_key(key):
            raise PlainDataError("is not a profile: a key is not (file, line, function)")
        rows.append((len(keys), -1, *cost))
        keys.append(key)
        callers.append(value[4])
    for callee, pairs in enumerate(callers):
        for key, value in pairs:
            if not _is_key(key):
                raise PlainDataError("is not a profile: a caller is not (file, line, function)")
            if isinstance(value, tuple) and len(value) == 4:
                cost = _count(value[0]), _count(value[1]), _time(value[2]), _time(value[3])
            else:
                plain = True
                cost = _count(value), _count(value), 0.0, 0.0
            if edges:
                rows.append((len(keys), callee, *cost))
                keys.append(key)
    limits = np.iinfo(np.int32)
    if not all(limits.min <= line <= limits.max for _, line, _ in keys):
        raise PlainDataError("holds an invalid line number")
    return Dump(
        [text for file, _, name in keys for text in (file, name)],
        np.array([(2 * i, 2 * i + 1, line) for i, (_, line, _) in enumerate(keys)], KEY),
        np.array(rows, _ROW),
        plain_callers=plain,
        sampled=sampled,
        trailing=len(data) - reader.at,
    )
