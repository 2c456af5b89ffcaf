"""The readers of pstats dumps, compiled and general, against each other and against `marshal` itself."""

from __future__ import annotations

import contextlib
import cProfile
import json
import marshal
import re
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.errors import FormatError
from profkit.formats import pstats_file, pstats_native
from profkit.formats.limits import Budget
from profkit.formats.pstats_native import Dump, read_regular_dump
from profkit.formats.pstats_objects import decode_dump
from profkit.model.columns import column_dtypes
from tests.requirements import require

COSTS = ("ncalls", "primitive_calls", "tottime", "cumtime")
COMPILED = pstats_native._COMPILED is not None


def general(data: bytes, edges: bool = True) -> Dump:
    return decode_dump(data, Budget(len(data)), edges=edges)


def read_alike(data: bytes, edges: bool = True) -> bool:
    """Return whether the compiled reader takes the data; then the general one reads the same."""
    compiled = read_regular_dump(data, edges=edges)
    if compiled is not None:
        assert listed(compiled, edges) == listed(general(data, edges), edges)
    return compiled is not None


def listed(dump: Dump, edges: bool = True) -> dict[str, Any]:
    """Return the profile of a dump as plain values, with strings instead of their numbers in the table."""
    profile = dump.profile(edges=edges)
    for record in (profile, profile.edges) if edges else (profile,):
        for name, dtype in column_dtypes(type(record)).items():
            assert getattr(record, name).dtype == dtype
    text = profile.strings
    assert text[0] == ""
    assert len(set(text)) == len(text)
    values: dict[str, Any] = {name: getattr(profile, name).tolist() for name in ("line", *COSTS)}
    values["file"] = [text[i] for i in profile.file.tolist()]
    values["name"] = [text[i] for i in profile.name.tolist()]
    if edges:
        assert profile.edges is not None
        names = ("caller", "callee", *COSTS)
        values["edges"] = {name: getattr(profile.edges, name).tolist() for name in names}
    values["flags"] = dump.plain_callers, dump.sampled, dump.trailing
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
    entries = [*stats.values(), *[(0, 0, 0.0, 0.0)] * len(strangers)]
    values = {
        "file": [key[0] for key in row],
        "line": [key[1] for key in row],
        "name": [key[2] for key in row],
        **summed(entries),
        "flags": (False, False, 0),
    }
    if edges:
        values["edges"] = {
            "caller": [row[caller] for caller, _, _ in links],
            "callee": [callee for _, callee, _ in links],
            **summed([cost for _, _, cost in links]),
        }
    return values


def summed(costs: list[Any]) -> dict[str, Any]:
    return {
        "ncalls": [max(cost[:2]) for cost in costs],
        "primitive_calls": [min(cost[:2]) for cost in costs],
        "tottime": [float(cost[2]) for cost in costs],
        "cumtime": [float(cost[3]) for cost in costs],
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
    copied = pool.map(lambda key: (*key,))  # equal, as an object of its own
    callers = st.one_of(pool, copied, st.tuples(texts, small, texts))
    cost = st.tuples(small, small, times, times)
    entry = st.tuples(small, small, times, times, st.dictionaries(callers, cost, max_size=5))
    return {key: draw(entry) for key in keys}, draw(st.integers(0, 4))


@settings(max_examples=60, deadline=None)
@given(dumps(), st.booleans())
def test_both_readers_agree(drawn: tuple[dict[Any, Any], int], edges: bool) -> None:
    stats, version = drawn
    data = marshal.dumps(stats, version)
    assert listed(general(data, edges), edges) == expected(data, edges)
    # Earlier versions write floats as text.
    assert read_alike(data, edges) or not (COMPILED and version >= 2)


def test_the_compiled_reader_is_there() -> None:
    require("native", COMPILED, "profkit is installed without its compiled reader of pstats dumps")


def test_one_text_in_two_encodings() -> None:
    """``é`` as Latin-1 and as UTF-8 is one string, of a function that two keys name."""

    def key(name: bytes) -> bytes:
        return b")\x03z\x04a.pyi\1\0\0\0" + name

    def entry(callers: bytes) -> bytes:
        return b")\5" + b"i\1\0\0\0" * 2 + b"g" + bytes(8) + b"g" + bytes(8) + b"{" + callers + b"0"

    cost = b")\4" + b"i\1\0\0\0" * 4
    data = b"{" + key(b"Z\x01\xe9") + entry(key(b"u\2\0\0\0\xc3\xa9") + cost) + b"0"
    assert listed(general(data)) == expected(data)
    assert expected(data)["edges"]["caller"] == [0]
    assert read_alike(data) == COMPILED


def test_every_cut_and_every_changed_byte_is_read_alike() -> None:
    data = marshal.dumps({("a.py", 1, "f"): (1, 1, 0.5, 1.0, {("b.py", 2, "é"): (1, 1, 0.5, 1.0)})})
    for end in range(len(data)):
        for edges in (True, False):
            assert read_regular_dump(data[:end], edges=edges) is None
    read = 0
    flagged = bytes(code | 0x80 for code in b"irgzu({0)")
    for at in range(len(data)):
        for value in b"\0\1\3\4\5\x7f\x80\xff" + b"irgzZsuat({0)" + flagged:
            read += read_alike(data[:at] + bytes([value]) + data[at + 1 :])
    assert read > 50 or not COMPILED


def test_both_readers_agree_on_real_dumps() -> None:
    tool = cProfile.Profile()
    tool.runcall(lambda: [json.loads("[1, {}]"), re.compile("a+[bc]*d" + "e"), json.dumps([1.5, None])])
    tool.create_stats()
    data = marshal.dumps(tool.stats)  # type: ignore[attr-defined]
    for edges in (True, False):
        assert read_alike(data, edges) == COMPILED
        assert listed(general(data, edges), edges) == expected(data, edges)
    assert len(expected(data)["edges"]["caller"]) > 30


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for start in (b"", b"{", b"\xfb)\x03"):
        with contextlib.suppress(FormatError):
            pstats_file.parse_pstats("x.prof", start + data)
