"""The readers of pstats dumps, compiled, vectorised and general, against each other and against `marshal` itself."""

from __future__ import annotations

import contextlib
import cProfile
import json
import marshal
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.errors import FormatError
from profkit.formats import marshal_scan, pstats_file, pstats_native
from profkit.formats.limits import Budget
from profkit.formats.marshal_scan import PADDING, token_starts
from profkit.formats.pstats_columns import parse_columns
from profkit.formats.pstats_native import Columns, read_columns
from profkit.formats.pstats_objects import MalformedError, decode_columns
from tests.requirements import require

NUMBERS = ("line", "first", "second", "tottime", "cumtime", "caller", "callee", "edge_first", "edge_second")
NUMBERS += ("edge_tottime", "edge_cumtime")


COMPILED = pstats_native._COMPILED is not None


def array(data: bytes) -> Any:
    # The bytes behind the data may be anything; these look like tokens.
    return np.frombuffer(data + b"g{0)" * (PADDING // 4), np.uint8)


def fast(data: bytes, edges: bool = True) -> Columns | None:
    """Read with NumPy; the compiled reader, where it was built, gives the same columns or the same refusal.

    It may leave to NumPy what has other text than ASCII: one text in two encodings.
    """
    columns = parse_columns(array(data), edges=edges)
    if COMPILED:
        compiled = read_columns(data, edges=edges)
        if compiled is None:
            assert columns is None or not all(map(str.isascii, columns.strings))
        else:
            assert compiled.strings == columns.strings
            assert listed(compiled) == listed(columns)
    return columns


def general(data: bytes, edges: bool = True) -> Columns:
    return decode_columns(memoryview(data), Budget(len(data)), edges=edges)


def listed(columns: Columns) -> dict[str, Any]:
    """Return columns as plain values, with strings instead of their numbers in the table."""
    text = columns.strings
    assert text[0] == ""
    assert len(set(text)) == len(text)
    values = {name: getattr(columns, name).tolist() for name in NUMBERS}
    values["file"] = [text[i] for i in columns.file.tolist()]
    values["name"] = [text[i] for i in columns.name.tolist()]
    values["extra"] = columns.extra
    values["flags"] = columns.plain_callers, columns.sampled, columns.trailing
    for name in ("line", "file", "caller"):
        assert getattr(columns, name).dtype in (np.int32, np.int64)
    for name in ("first", "edge_second"):
        assert getattr(columns, name).dtype == np.int64
    for name in ("tottime", "edge_cumtime"):
        assert getattr(columns, name).dtype == np.float64
    return values


def expected(data: bytes, edges: bool = True) -> dict[str, Any]:
    """Build the same from what `marshal` loads, the plain way."""
    stats = marshal.loads(data)
    keys = list(stats)
    links = [
        (caller, callee, cost)
        for callee, (key, entry) in enumerate(stats.items())
        for caller, cost in entry[4].items()
        if edges and key in stats
    ]
    strangers = list(dict.fromkeys(caller for caller, _, _ in links if caller not in stats))
    row = {key: i for i, key in enumerate(keys + strangers)}
    zeros = [0] * len(strangers)
    return {
        "file": [key[0] for key in row],
        "line": [key[1] for key in row],
        "name": [key[2] for key in row],
        "first": [entry[0] for entry in stats.values()] + zeros,
        "second": [entry[1] for entry in stats.values()] + zeros,
        "tottime": [float(entry[2]) for entry in stats.values()] + zeros,
        "cumtime": [float(entry[3]) for entry in stats.values()] + zeros,
        "caller": [row[caller] for caller, _, _ in links],
        "callee": [callee for _, callee, _ in links],
        "edge_first": [cost[0] for _, _, cost in links],
        "edge_second": [cost[1] for _, _, cost in links],
        "edge_tottime": [float(cost[2]) for _, _, cost in links],
        "edge_cumtime": [float(cost[3]) for _, _, cost in links],
        "extra": len(strangers),
        "flags": (False, False, 0),
    }


texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["~", "a.py", "é", "\udce9.py", "日本.py", "x" * 255, "y" * 256, "é" * 200, "g" * 4096]),
)
small = st.integers(-(2**31), 2**31 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
times = st.one_of(finite, st.integers(0, 9), st.sampled_from([0.0, 0.5]))


@st.composite
def dumps(draw: Callable[[Any], Any]) -> tuple[dict[Any, Any], int]:
    """Draw a dump as profilers write it: keys shared as objects or only equal, any marshal version."""
    keys = draw(st.lists(st.tuples(texts, small, texts), max_size=12, unique=True))
    pool = st.sampled_from(keys) if keys else st.nothing()
    callers = st.one_of(
        pool,
        pool.map(lambda key: (*key,)),  # equal, as an object of its own
        st.tuples(texts, small, texts),
    )
    cost = st.tuples(small, small, times, times)
    entry = st.tuples(small, small, times, times, st.dictionaries(callers, cost, max_size=5))
    return {key: draw(entry) for key in keys}, draw(st.integers(0, 4))


@settings(max_examples=60, deadline=None)
@given(dumps(), st.booleans())
def test_three_readers_agree(drawn: tuple[dict[Any, Any], int], edges: bool) -> None:
    stats, version = drawn
    data = marshal.dumps(stats, version)
    want = expected(data, edges)
    assert listed(general(data, edges)) == want
    columns = fast(data, edges)
    if version >= 2:  # earlier versions write floats as text
        assert columns is not None
    if columns is not None:
        assert listed(columns) == want


def test_the_compiled_reader_is_there() -> None:
    require("native", COMPILED, "profkit is installed without its compiled reader of pstats dumps")


def test_one_text_in_two_encodings_is_left_to_the_twin() -> None:
    """``é`` as Latin-1 and as UTF-8 is one string, of a function that two keys name."""

    def key(name: bytes) -> bytes:
        return b")\x03z\x04a.pyi\1\0\0\0" + name

    def entry(callers: bytes) -> bytes:
        return b")\5" + b"i\1\0\0\0" * 2 + b"g" + bytes(8) + b"g" + bytes(8) + b"{" + callers + b"0"

    cost = b")\4" + b"i\1\0\0\0" * 4
    data = b"{" + key(b"Z\x01\xe9") + entry(key(b"u\2\0\0\0\xc3\xa9") + cost) + b"0"
    columns = parse_columns(array(data), edges=True)
    assert listed(columns) == listed(general(data)) == expected(data)
    assert columns.caller.tolist() == [0]
    assert read_columns(data, edges=True) is None


def test_every_cut_and_every_changed_byte_is_read_alike() -> None:
    data = marshal.dumps({("a.py", 1, "f"): (1, 1, 0.5, 1.0, {("b.py", 2, "é"): (1, 1, 0.5, 1.0)})})
    for end in range(len(data)):
        for edges in (True, False):
            assert fast(data[:end], edges) is None
    read = 0
    for at in range(len(data)):
        for value in (
            *(0, 1, 3, 4, 5, 0x7F, 0x80, 0xFF),
            *b"irgzZsuat({0)",
            *(code | 0x80 for code in b"irgzu({0)"),
        ):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            read += fast(changed, edges=bool(at % 2)) is not None
    assert read > 50


def real_dump() -> bytes:
    tool = cProfile.Profile()
    tool.runcall(
        lambda: [json.loads("[1, {}]"), re.compile("a+[bc]*d" + "e"), json.dumps({"a": [1.5, None]})]
    )
    tool.create_stats()
    return marshal.dumps(tool.stats)  # type: ignore[attr-defined]


def test_three_readers_agree_on_real_dumps() -> None:
    data = real_dump()
    for edges in (True, False):
        columns = fast(data, edges)
        assert columns is not None
        assert listed(columns) == listed(general(data, edges)) == expected(data, edges)
    assert len(fast(data).caller) > 30  # type: ignore[union-attr]


def test_three_readers_agree_over_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(5)
    keys = [(f"/src/m{i % 7}.py", i, f"f{i}") for i in range(400)]
    stats = {
        key: (
            i,
            i + 1,
            random.random(),
            i,
            {random.choice(keys): (1, 1, random.random(), 2.0) for _ in range(3)},
        )
        for i, key in enumerate(keys)
    }
    for version in (2, 3, 4):
        data = marshal.dumps(stats, version)
        want = expected(data)
        for smallest in (1, 7, 64, 1000):
            monkeypatch.setattr(marshal_scan, "_SMALLEST_BLOCK", smallest)
            monkeypatch.setattr(marshal_scan, "_BLOCK_FACTOR", 0)
            columns = fast(data)
            assert columns is not None
            assert listed(columns) == want


def chain(data: bytes) -> list[int]:
    """Walk the tokens one by one, by the rules of marshal."""
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        code = chr(data[at] & 0x7F)
        rest = data[at + 1 : at + 5] + b"g{0)"
        if code in "zZ":
            at += 2 + rest[0]
        elif code in "aAuts":
            size = int.from_bytes(rest[:4], "little")
            at += 5 + size if size <= marshal_scan.LONGEST_STRING else 1
        else:
            at += {"i": 5, "g": 9, "I": 9, "r": 5, "R": 5, "(": 5, ")": 2}.get(code, 1)
    return starts


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(list(b"\xe9\xfagirzZau)({0\0\1\2\x7f")), max_size=400), st.integers(1, 64))
def test_token_starts_are_the_chain(data: list[int], smallest: int) -> None:
    raw = bytes(data)
    was = marshal_scan._SMALLEST_BLOCK, marshal_scan._BLOCK_FACTOR
    marshal_scan._SMALLEST_BLOCK, marshal_scan._BLOCK_FACTOR = smallest, 0
    try:
        assert token_starts(array(raw)).tolist() == chain(raw)
    finally:
        marshal_scan._SMALLEST_BLOCK, marshal_scan._BLOCK_FACTOR = was


def damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
        # Mostly codes and small sizes: what a structure check can be fooled by.
        changed[rng.randrange(len(changed))] = rng.choice(
            (rng.randrange(256), rng.choice(b"irgzZ)({0\0\1\3\4\5"))
        )
    if rng.random() < 0.3:
        del changed[rng.randrange(len(changed)) :]
    if rng.random() < 0.2:
        at = rng.randrange(len(changed) + 1)
        changed[at:at] = rng.choice((b"{0", b"0", b"r\0\0\0\0", b"i\1\0\0\0", bytes(rng.randrange(9))))
    return bytes(changed)


def test_damage_is_read_alike_or_refused(tmp_path: Path) -> None:
    """The fast path may not accept what the general one refuses, nor read it differently."""
    rng = random.Random(11)
    tool = cProfile.Profile()
    tool.runcall(json.dumps, [1, 2.5, {"a": None}])
    tool.create_stats()
    stats = tool.stats  # type: ignore[attr-defined]
    accepted = refused = 0
    for version in (2, 3, 4):
        data = marshal.dumps(stats, version)
        for _ in range(250):
            bad = damaged(data, rng)
            columns = fast(bad)
            try:
                want = listed(general(bad))
            except MalformedError:
                refused += 1
                assert columns is None
                continue
            accepted += 1
            if columns is not None:
                assert listed(columns) == want
            with contextlib.suppress(FormatError):
                pstats_file.parse_pstats("x.prof", bad)
    assert accepted > 80
    assert refused > 80


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for start in (b"", b"{", b"\xfb)\x03"):
        with contextlib.suppress(FormatError):
            pstats_file.parse_pstats("x.prof", start + data)
