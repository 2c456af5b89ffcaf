"""Reading pstats files: every kind of file that profilers write, and every kind that they do not."""

from __future__ import annotations

import cProfile
import dataclasses
import marshal
import os
import profile as pure_profile
import pstats
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.target import finding_of, load
from profkit.errors import FormatError
from profkit.formats import pstats_native, read_pstats, write_pstats
from profkit.formats.limits import Budget
from profkit.formats.pstats_native import read_regular_dump
from profkit.formats.pstats_objects import decode_dump
from profkit.model import Edges, Notice, Profile, Run
from tests import builders
from tests.builders import Row
from tests.interpreters import interpreter
from tests.requirements import imported, require

PROGRAM = """
import sys
if "--threads" in sys.argv:
    import threading
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def work():
    fib(8)
    "a".upper()
    if "--threads" in sys.argv:
        thread = threading.Thread(target=fib, args=(3,))
        thread.start()
        thread.join()
if __name__ == "__main__":
    import cProfile
    p = cProfile.Profile()
    p.runcall(work)
    p.dump_stats(sys.argv[1])
"""


def rows(profile: Profile) -> dict[tuple[str, int, str], tuple[int, int, float, float]]:
    """Return a profile as a dictionary of ``(calls, primitive calls, tottime, cumtime)``."""
    names = ("file", "line", "name", "ncalls", "primitive_calls", "tottime", "cumtime")
    columns = (getattr(profile, name).tolist() for name in names)
    text = profile.strings
    return {(text[f], line, text[n]): tuple(cost) for f, line, n, *cost in zip(*columns, strict=True)}


def links(profile: Profile) -> dict[tuple[str, str], tuple[int, int, float, float]]:
    """Return edges as ``(caller, callee)`` names to ``(calls, primitive calls, tottime, cumtime)``."""
    columns = (getattr(profile.edges, field.name).tolist() for field in dataclasses.fields(Edges))
    name = [profile.strings[i] for i in profile.name.tolist()]
    return {(name[a], name[b]): tuple(cost) for a, b, *cost in zip(*columns, strict=True)}


def dump(path: Path, stats: Any, version: int = 4) -> Path:
    path.write_bytes(marshal.dumps(stats, version))
    return path


def profiled_by(python: str, directory: Path, *options: str, script: str | bytes = "program.py") -> Run:
    source = os.path.join(os.fsencode(directory), os.fsencode(script))
    with open(source, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    command: list[Any] = [python, source, str(directory / "out.prof"), *options]
    subprocess.run(command, check=True, timeout=60, env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"})
    return read_pstats(directory / "out.prof")


ENTRY = (1, 1, 0.25, 0.5, {})


@pytest.mark.parametrize("version", ["2.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15"])
def test_every_interpreter(version: str, tmp_path: Path) -> None:
    read = profiled_by(interpreter(version), tmp_path)
    by_name = {key[2]: (key, value) for key, value in rows(read.profiles[0]).items()}
    key, (ncalls, primitive, tottime, cumtime) = by_name["fib"]
    assert key == (str(tmp_path / "program.py"), 5, "fib")
    assert (ncalls, primitive) == (67, 1)
    assert 0 < tottime <= cumtime
    edges = links(read.profiles[0])
    assert (edges["work", "fib"][:2], edges["fib", "fib"][0]) == ((1, 1), 66)
    assert ("~", 0, by_name["<method 'upper' of 'str' objects>"][0][2]) in rows(read.profiles[0])
    assert read.warnings == ()
    if version > "3":
        # From 3.12 on cProfile sees all threads, in one stack.
        read = profiled_by(interpreter(version), tmp_path, "--threads")
        mixed = Notice("threads-in-one-stack", "", {"python": version})
        assert read.processes[0].python == version
        assert read.warnings == ((mixed,) if int(version.partition(".")[2]) >= 12 else ())


def test_python2_path_that_is_not_utf8(tmp_path: Path) -> None:
    read = profiled_by(interpreter("2.7"), tmp_path, script=b"caf\xe9.py")
    (key,) = [key for key in rows(read.profiles[0]) if key[2] == "fib"]
    assert os.fsencode(key[0]).endswith(b"/caf\xe9.py")


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def test_pure_python_profile(tmp_path: Path) -> None:
    tool = pure_profile.Profile()
    tool.runcall(fib, 5)
    tool.dump_stats(str(tmp_path / "pure.prof"))
    read = read_pstats(tmp_path / "pure.prof")
    assert links(read.profiles[0])["fib", "fib"] == (14, 14, 0.0, 0.0)
    assert Notice("pure-python-profile") in read.warnings
    assert {key[2]: value[:2] for key, value in rows(read.profiles[0]).items()}["fib"] == (15, 1)


@pytest.mark.parametrize("with_edges", [True, False])
def test_sampled_profile(tmp_path: Path, with_edges: bool) -> None:
    # As Python 3.15 writes it: a mark, callers as bare counts, and a row for each executed line.
    caller, module = ("/p/main.py", 9, "main"), ("/p/main.py", 20, "<module>")
    stats = {
        ("/p/main.py", 5, "Layer.work"): (2, 2, 0.2, 0.2, {caller: 2}),
        ("/p/main.py", 4, "Layer.work"): (3, 7, 0.3, 0.7, {caller: 7, ("/p/main.py", 5, "Layer.work"): 1}),
        # A function on two of its lines in one sample counts for each.
        ("/p/main.py", 6, "Layer.work"): (0, 9, 0.0, 0.9, {caller: 9}),
        ("/p/main.py", 12, "main.<locals>.<lambda>"): (1, 1, 0.1, 0.1, {caller: 1}),
        ("/p/main.py", 13, "main.<locals>.<lambda>"): (4, 4, 0.4, 0.4, {caller: 4}),
        ("/p/other.py", 4, "Layer.work"): (1, 1, 0.1, 0.1, {}),
        caller: (0, 9, 0.0, 0.9, {module: 9}),
        module: (0, 11, 0.0, 1.1, {}),
        ("__sampled__",): True,
    }
    read = read_pstats(dump(tmp_path / "sampled.prof", stats), edges=with_edges)
    assert [notice.code for notice in read.warnings][:1] == ["sampled-profile"]
    assert rows(read.profiles[0]) == {
        ("/p/main.py", 4, "work"): (11, 5, 0.5, pytest.approx(1.1)),
        ("/p/main.py", 12, "<lambda>"): (1, 1, 0.1, 0.1),
        ("/p/main.py", 13, "<lambda>"): (4, 4, 0.4, 0.4),
        ("/p/other.py", 4, "work"): (1, 1, 0.1, 0.1),
        ("/p/main.py", 9, "main"): (9, 0, 0.0, 0.9),
        ("/p/main.py", 20, "<module>"): (11, 0, 0.0, pytest.approx(1.1)),
    }
    qualified = [read.profiles[0].strings[i] for i in read.profiles[0].qualname.tolist()]
    nameless = "main.<locals>.<lambda>"
    assert qualified == ["Layer.work", nameless, nameless, "Layer.work", "main", "<module>"]
    if with_edges:
        assert links(read.profiles[0])["work", "work"] == (1, 1, 0.0, 0.0)
        assert links(read.profiles[0])["main", "work"] == (18, 18, 0.0, 0.0)
    assert read.warnings == (Notice("sampled-profile"),)


def test_yappi_export(tmp_path: Path) -> None:
    yappi = imported("yappi")
    yappi.set_clock_type("cpu")
    yappi.start(builtins=False, profile_threads=False)
    fib(6)
    yappi.stop()
    stats = yappi.get_func_stats()
    stats.save(str(tmp_path / "yappi.prof"), type="pstat")
    yappi.clear_stats()
    by_name = {key[2]: value for key, value in rows(read_pstats(tmp_path / "yappi.prof").profiles[0]).items()}
    # yappi writes its counts the other way round than cProfile.
    assert by_name["fib"][:2] == (25, 1)


def test_colliding_functions_are_summed_when_written() -> None:
    one, other = (
        Row("<string>", 2, "__init__", 5, 0.5, 1.0, qualname="A.__init__"),
        Row("<string>", 2, "__init__", 3, 0.25, qualname="B.__init__"),
    )
    written = marshal.loads(write_pstats(builders.profile([one, other])))
    assert written == {("<string>", 2, "__init__"): (8, 8, 0.75, 1.25, {})}


def test_caller_without_an_entry_becomes_a_row_of_zeros(tmp_path: Path) -> None:
    stranger = ("a.py", 9, "gone")
    stats = {("a.py", 1, "f"): (2, 3, 0.1, 0.3, {stranger: (3, 2, 0.1, 0.3)})}
    path = dump(tmp_path / "stranger.prof", stats)
    profile = read_pstats(path).profiles[0]
    assert rows(profile) == {("a.py", 1, "f"): (3, 2, 0.1, 0.3), stranger: (0, 0, 0.0, 0.0)}
    assert links(profile) == {("gone", "f"): (3, 2, 0.1, 0.3)}
    bare = read_pstats(path, edges=False).profiles[0]
    assert bare.edges is None
    assert rows(bare) == {("a.py", 1, "f"): (3, 2, 0.1, 0.3)}


def test_bytes_behind_the_profile(tmp_path: Path) -> None:
    path = dump(tmp_path / "tail.prof", {("a.py", 1, "f"): ENTRY})
    path.write_bytes(path.read_bytes() + b"trailing")
    read = read_pstats(path)
    assert (len(read.profiles[0]), read.warnings) == (1, (Notice("trailing-bytes", "", {"bytes": 8}),))


def test_primitive_calls_below_0_are_read_and_written(tmp_path: Path) -> None:
    """cProfile takes off too many recursive calls where it sees several threads in one stack."""
    path = dump(tmp_path / "threads.prof", {("a.py", 1, "f"): (-3, 5, 0.5, 0.5, {})})
    read = read_pstats(path).profiles[0]
    assert rows(read) == {("a.py", 1, "f"): (5, -3, 0.5, 0.5)}
    path.write_bytes(write_pstats(read))
    assert rows(read_pstats(path).profiles[0]) == rows(read)


BAD = {
    "empty": b"",
    "text": b"not a profile at all\n" * 10,
    "no functions": marshal.dumps({}),
    "a list": marshal.dumps([1, 2]),
    "other keys": marshal.dumps({"a": (1, 1, 0.0, 0.0, {})}),
    "negative calls": marshal.dumps({("a.py", 1, "f"): (-1, -1, 0.0, 0.0, {})}),
    "other values": marshal.dumps({("a.py", 1, "f"): 3}),
    "short values": marshal.dumps({("a.py", 1, "f"): (1, 1, 0.0, 0.0)}),
    "no callers": marshal.dumps({("a.py", 1, "f"): (1, 1, 0.0, 0.0, None)}),
    "text counts": marshal.dumps({("a.py", 1, "f"): ("1", 1, 0.0, 0.0, {})}),
    "half a call": marshal.dumps({("a.py", 1, "f"): (1.5, 1, 0.0, 0.0, {})}),
    "not a number": marshal.dumps({("a.py", 1, "f"): (1, 1, float("nan"), 0.0, {})}),
    "infinite": marshal.dumps({("a.py", 1, "f"): (1, 1, float("inf"), 0.0, {})}),
    "huge count": marshal.dumps({("a.py", 1, "f"): (2**80, 1, 0.0, 0.0, {})}),
    "huge line": marshal.dumps({("a.py", 2**40, "f"): ENTRY}),
    "code object": marshal.dumps({("a.py", 1, "f"): compile("1", "x", "eval")}),
    "cut key": marshal.dumps({("a.py", 1, "f"): ENTRY})[:9],
    # What crashes or exhausts an interpreter that trusts the stream.
    "huge tuple": b"{(\xff\xff\xff\x7f",
    "huge integer": b"{l\xff\xff\xff\x7f" + bytes(100),
    "tuple in itself": b"{\xa9\x01r\x00\x00\x00\x00N0",
    "reference ahead": b"{r\x05\x00\x00\x00N0",
    "deep nesting": b"{" + b")\x01" * 100_000,
    "shared dictionary": b"{" + b")\x03z\x01ai\x01\0\0\0z\x01f" + b")\x05" + b"i\1\0\0\0" * 4 + b"\xfb0"
    b")\x03z\x01bi\x01\0\0\0z\x01f" + b")\x05" + b"i\1\0\0\0" * 4 + b"r\0\0\0\0" + b"0",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_bad_content_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.prof"
    path.write_bytes(content)
    for edges in (True, False):
        with pytest.raises(FormatError) as caught:
            read_pstats(path, edges=edges)
        message = str(caught.value)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
        assert caught.value.hint


def test_bad_paths(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    for path, problem in (
        (tmp_path / "none.prof", "no such file"),
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "file" / "below", "cannot be opened: Not a directory"),
        (str(tmp_path / "nul\0"), "has an invalid name"),
    ):
        with pytest.raises(FormatError, match=problem):
            read_pstats(path)


def test_unreadable_file(tmp_path: Path) -> None:
    path = dump(tmp_path / "secret.prof", {("a.py", 1, "f"): ENTRY})
    path.chmod(0)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)  # root reads everything
    try:
        with pytest.raises(FormatError, match="cannot be opened: Permission denied"):
            read_pstats(path)
    finally:
        os.seteuid(was)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_written_profiles_are_read_by_pstats(version: int, tmp_path: Path) -> None:
    tool = cProfile.Profile()
    tool.runcall(lambda: [fib(6), sorted([3, 1]), os.path.join("a", "b")])
    tool.create_stats()
    f, g = ("a.py", 1, "f"), ("b.py", 2, "g")
    made = {f: (2, 5, 0.5, 1.5, {f: (3, 0, 0.25, 0.5), g: (2, 2, 0.25, 1.0)}), g: (1, 1, 0.125, 2.0, {})}
    for stats in (made, tool.stats):  # type: ignore[attr-defined]
        path = dump(tmp_path / "in.prof", stats, version)
        profile = read_pstats(path).profiles[0]
        assert profile.total == pytest.approx(pstats.Stats(str(path)).total_tt)  # type: ignore[attr-defined]
        path.write_bytes(write_pstats(profile))
        assert pstats.Stats(str(path)).stats == stats  # type: ignore[attr-defined]


#: Defines what code objects hold: constants of every kind, nested code, names free and bound.
NESTED = """# coding: utf-8
BIG, IMAGINARY, DOTS = 10 ** 40, 3j, Ellipsis
def outer(x=(1, (2, (3, b"x", u"\u00e9", None, True)))):
    def inner():
        def generated():
            yield x in (1, 2, "a") and x in {3, 4.5}
        return lambda: list(generated())
    return inner
outer()()()
"""


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.10", "3.11", "3.12", "3.13", "3.15"])
def test_profile_of_a_script_names_a_row_by_its_code(version: str, tmp_path: Path) -> None:
    """``python -m profile script.py`` has a code object in a key, laid out as that Python lays out code."""
    (tmp_path / "nested.py").write_text(NESTED, encoding="utf-8")
    out = tmp_path / "out.prof"
    command = [interpreter(version), "-m", "profile", "-o", str(out), str(tmp_path / "nested.py")]
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL, env={"PATH": os.defpath})
    read = read_pstats(out)
    assert ("profile", 0, "<code object <module>>") in rows(read.profiles[0])
    assert {"outer", "inner", "generated"} <= {key[2] for key in rows(read.profiles[0])}
    assert Notice("pure-python-profile") in read.warnings
    assert all("0x" not in name for _, _, name in rows(read.profiles[0]) if name.startswith("<code"))


# The readers of pstats dumps, compiled and general, against each other and the library (`fuzz.targets.pstats`)

COMPILED = pstats_native._COMPILED is not None


def read_alike(data: bytes) -> bool:
    """Read a dump in all ways, which must agree; return whether the compiled reader takes it."""
    finding = finding_of(load("pstats"), data)
    assert finding is None, finding.text
    return read_regular_dump(data, edges=True) is not None


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


@settings(max_examples=60)
@given(dumps())
def test_both_readers_agree(drawn: tuple[dict[Any, Any], int]) -> None:
    stats, version = drawn
    # Earlier versions write floats as text.
    assert read_alike(marshal.dumps(stats, version)) or not (COMPILED and version >= 2)


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
    profile = decode_dump(data, Budget(len(data)), edges=True).profile(edges=True)
    assert (len(profile), profile.edges.caller.tolist()) == (1, [0])
    assert read_alike(data) == COMPILED
