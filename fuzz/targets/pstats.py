"""Plain profiles: the readers of pstats dumps against each other and against the standard library's."""

from __future__ import annotations

import contextlib
import io
import marshal
import pstats
from typing import Any

import numpy as np

from fuzz.mutate import Mutation
from fuzz.target import Target, Wrong
from profkit.errors import FormatError
from profkit.formats.export.pstats_write import write_pstats
from profkit.formats.limits import Budget, LimitError
from profkit.formats.plain_data import PlainDataError
from profkit.formats.pstats_file import parse_pstats
from profkit.formats.pstats_native import Dump, read_regular_dump
from profkit.formats.pstats_objects import decode_dump
from profkit.model import Edges, Profile

Key = tuple[str, int, str]


#: Bytes of a token by its code; of a text, the size that it begins with.
_FIXED = {"i": 5, "I": 9, "g": 9, "r": 5, "R": 5, ")": 2, "(": 5}


def _tokens(data: bytes) -> list[bytes]:
    tokens, at = [], 0
    while at < len(data):
        kind = chr(data[at] & 0x7F)
        size = _FIXED.get(kind, 1)
        if kind in "zZ":
            size = 2 + sum(data[at + 1 : at + 2])
        elif kind in "aAuts":
            size = 5 + int.from_bytes(data[at + 1 : at + 5], "little")
        tokens.append(data[at : at + size])
        at += size
    return tokens


def _keys(strings: tuple[str, ...], table: Any) -> list[Key]:
    return [
        (strings[file], line, strings[name])
        for file, line, name in zip(
            table.file.tolist(), table.line.tolist(), table.name.tolist(), strict=True
        )
    ]


def _rows(dump: Dump, *, edges: bool) -> list[Any]:
    profile = dump.profile(edges=edges)
    keys = _keys(profile.strings, profile)
    own = int((dump.rows["callee"] < 0).sum())
    rows = list(zip(keys, *_costs(profile), strict=True))
    links: list[Any] = []
    if profile.edges is not None:
        callers = [keys[row] for row in profile.edges.caller.tolist()]
        links = sorted(zip(profile.edges.callee.tolist(), callers, *_costs(profile.edges), strict=True))
    return [rows[:own], sorted(rows[own:]), links, dump.plain_callers, dump.sampled]


def _costs(of: Profile | Edges) -> list[list[float]]:
    return [getattr(of, name).tolist() for name in ("ncalls", "primitive_calls", "tottime", "cumtime")]


class _Statistics:
    def __init__(self, stats: Any) -> None:
        self.stats = stats

    def create_stats(self) -> None:
        """They are there."""


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    if not data:
        return
    fast = read_regular_dump(data, edges=True)
    if fast is not None:
        try:
            slow = decode_dump(data, Budget(len(data)), edges=True)
        except LimitError:
            return  # its objects take more than the columns of the compiled reader
        except PlainDataError as error:
            raise Wrong(f"the compiled reader takes what the general one refuses: {error}") from None
        if _rows(fast, edges=True) != _rows(slow, edges=True):
            raise Wrong("the compiled reader and the general one read two things")
        bare = read_regular_dump(data, edges=False)
        if bare is None or _rows(bare, edges=False)[0] != _rows(slow, edges=True)[0]:
            raise Wrong("the compiled reader reads other rows without edges")
    try:
        plain = parse_pstats("x.prof", data, edges=False).profiles[0]
    except FormatError:
        plain = None
    try:
        read = parse_pstats("x.prof", data, edges=True)
    except FormatError:
        if plain is not None and fast is not None:
            return  # its edges are wrong, and were not looked at
        return
    profile = read.profiles[0]
    if plain is None:
        raise Wrong("a profile is read with edges and refused without")
    sampled = any(notice.code == "sampled-profile" for notice in read.warnings)
    if not sampled and not any(text.startswith("<code object ") for text in profile.strings):
        _compare_with_library(data, profile)
    _check_written(profile)


def _compare_with_library(data: bytes, profile: Profile) -> None:
    """Where the standard library reads the same file, it has the same rows."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it thinks of the numbers
            library: Any = pstats.Stats(_Statistics(marshal.loads(data))).stats  # type: ignore[arg-type]
    except Exception:  # it refuses what older versions wrote, in many ways
        return
    keys = _keys(profile.strings, profile)
    if len(set(keys)) != len(keys) or not all(_is_key(key) for key in library):
        return  # of two rows with one key it keeps the last, and names that are bytes it keeps as they are
    callers = {key for entry in library.values() for key in entry[4]}
    if not all(map(_is_key, callers)):
        return
    for key, *row in zip(
        keys,
        profile.ncalls.tolist(),
        profile.primitive_calls.tolist(),
        profile.tottime.tolist(),
        profile.cumtime.tolist(),
        strict=True,
    ):
        entry = library.get(key, (0, 0, 0.0, 0.0))
        if row != [max(entry[:2]), min(entry[:2]), *entry[2:4]] and key in library:
            raise Wrong(f"the standard library reads another row: {key} {row} {entry[:4]}")
    if not set(library) <= set(keys):
        raise Wrong("the standard library reads more rows")


def _is_key(key: Any) -> bool:
    return (
        isinstance(key, tuple)
        and len(key) == 3
        and isinstance(key[0], str)
        and type(key[1]) is int
        and isinstance(key[2], str)
    )


def _check_written(profile: Profile) -> None:
    """What is written of it is read again, by us and by the standard library, with the same totals."""
    written = write_pstats(profile)
    again = parse_pstats("y.prof", written).profiles[0]
    with contextlib.redirect_stdout(io.StringIO()):
        library: Any = pstats.Stats(_Statistics(marshal.loads(written))).stats  # type: ignore[arg-type]
    if set(_keys(again.strings, again)) != set(library):
        raise Wrong("a written profile has other rows for the standard library")
    for name in ("tottime", "ncalls"):
        before, after = (
            getattr(profile, name).sum(dtype=np.float64),
            getattr(again, name).sum(dtype=np.float64),
        )
        if not np.isclose(before, after, rtol=1e-6, atol=1e-300):
            raise Wrong(f"a written profile has another sum of {name}: {before} {after}")


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change one to four tokens of a dump, or their order; else any byte."""
    random = mutation.random
    if not data or random.random() < 0.4:
        return mutation.bytes_of(data, TARGET.most_bytes)
    tokens = _tokens(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(tokens))
        kind = random.randrange(8)
        if kind == 0:
            other = random.randrange(len(tokens))
            tokens[at] = tokens[other]
        elif kind == 1:
            tokens.insert(at, tokens[random.randrange(len(tokens))])
        elif kind == 2 and len(tokens) > 1:
            del tokens[at]
        elif kind == 3:
            first = random.randrange(len(tokens))
            tokens[at:at] = tokens[first : first + random.randint(1, 40)]
        else:
            tokens[at] = _token(tokens[at], mutation)
    return b"".join(tokens)


def _token(token: bytes, mutation: Mutation) -> bytes:
    code = token[:1]
    kind = bytes([code[0] & 0x7F])
    if kind == b"i" and len(token) == 5:
        value = mutation.integer(int.from_bytes(token[1:], "little", signed=True))
        return code + (value & 0xFFFFFFFF).to_bytes(4, "little")
    if kind == b"g" and len(token) == 9:
        return code + np.float64(mutation.number(float(np.frombuffer(token[1:], "<f8")[0]))).tobytes()
    if kind in (b"z", b"Z", b"u", b"a", b"A", b"t", b"s"):
        text = mutation.text().encode("utf-8", "surrogatepass")
        if kind in (b"z", b"Z"):
            return code + bytes([len(text[:255])]) + text[:255]
        return code + len(text).to_bytes(4, "little") + text
    if kind in (b"r", b"R") and len(token) == 5:
        return code + mutation.random.randrange(40).to_bytes(4, "little")
    scalars = (
        b"N",
        b"T",
        b"F",
        b"0",
        b"i\1\0\0\0",
        b"l\2\0\0\0\1\0\1\0",
        b"I" + b"\1" * 8,
        b"f\x0310.",
        b")\0",
        b"{0",
    )
    return mutation.random.choice(scalars)


TARGET = Target(
    check,
    mutate,
    4096,
    (b"\xe9", b"\xfa\x01~", b"__sampled__", b"{", b"0", b")\x05", b")\x03", b"r\x00\x00\x00\x00"),
    quick=1500,
)
