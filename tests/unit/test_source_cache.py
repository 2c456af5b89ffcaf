"""What is kept of source files between captures: used while it holds, and never needed."""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profkit.capture import source_cache
from profkit.capture.source import SourceFile
from profkit.capture.source_cache import Sources, cache_file

#: A source that has not changed for long, and functions of it.
OLD = argparse.__file__
FUNCTIONS = [
    (node.lineno, node.name)
    for node in ast.walk(ast.parse(Path(OLD).read_text()))
    if isinstance(node, ast.FunctionDef) and not node.decorator_list
]
TEXT = "def first():\n    return 1\n\n\nclass Outer:\n    def second(self):\n        return 2\n"

_opened: list[str] | None = None


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _opened is not None:
        _opened.append(str(arguments[0]))


sys.addaudithook(_audit)


@contextmanager
def opened() -> Iterator[list[str]]:
    """Names of the files that are opened."""
    global _opened
    _opened = []
    try:
        yield _opened
    finally:
        _opened = None


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return cache_file({"XDG_CACHE_HOME": str(tmp_path / "cache")})


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a test has just written count as old."""
    monkeypatch.setattr(source_cache, "_SETTLED_S", -1e6)


def described(cache: Path | None, named: bool = True) -> list[tuple[str, str]]:
    sources = Sources(cache)
    found = [sources.describe(OLD, line, name, "" if named else name) for line, name in FUNCTIONS]
    sources.save()
    return found


def first_of(cache: Path, file: Path) -> tuple[str, str]:
    sources = Sources(cache)
    found = sources.describe(str(file), 1, "first", "")
    sources.save()
    return found


#: What `first_of` finds in a file that holds `TEXT`.
FIRST = ("first", SourceFile(TEXT).hash(1, "first"))


def read_anew() -> list[tuple[str, str]]:
    source = SourceFile(Path(OLD).read_text())
    return [(source.qualname(line, name), source.hash(line, name)) for line, name in FUNCTIONS]


def test_where_the_cache_is() -> None:
    home = {"HOME": "/home/ada"}
    assert cache_file(home) == Path("/home/ada/.cache/profkit/sources")
    assert cache_file({**home, "XDG_CACHE_HOME": "/scratch/c"}) == Path("/scratch/c/profkit/sources")
    for not_absolute in ("", "cache", "~/cache"):
        assert cache_file({**home, "XDG_CACHE_HOME": not_absolute}) == cache_file(home)
    assert cache_file({}) is None
    assert described(None) == read_anew(), "without a cache"


def test_what_was_found_is_used_and_the_source_not_opened_again(cache: Path) -> None:
    expected = read_anew()
    assert all(qualname and digest for qualname, digest in expected)
    with opened() as files:
        assert described(cache) == expected
    assert OLD in files
    before = cache.stat()
    with opened() as files:
        assert described(cache) == expected
        assert [digest for _, digest in described(cache, named=False)] == [digest for _, digest in expected]
    assert str(cache) in files
    assert OLD not in files
    assert cache.stat().st_ino == before.st_ino, "written again without anything new"


def test_only_what_is_missing_is_read(cache: Path) -> None:
    (line, name), *_ = FUNCTIONS
    sources = Sources(cache)
    sources.describe(OLD, line, name, name)
    sources.save()
    expected = read_anew()
    assert described(cache) == expected, "other functions, and qualified names, were asked for later"
    with opened() as files:
        assert described(cache) == expected
    assert OLD not in files


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("same_time", [False, True])
def test_a_changed_file_is_read_again(cache: Path, tmp_path: Path, same_time: bool) -> None:
    file = tmp_path / "train.py"
    file.write_text(TEXT)
    before = file.stat()
    assert first_of(cache, file) == FIRST
    changed = TEXT.replace("return 1", "return 7")
    expected = ("first", SourceFile(changed).hash(1, "first"))
    file.write_text(changed)
    if same_time:  # of the same size, too, as a tool leaves it that restores times
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert first_of(cache, file) == expected
    with opened() as files:
        assert first_of(cache, file) == expected
    assert str(file) not in files
    file.unlink()
    assert first_of(cache, file) == ("", "")


def test_a_file_that_may_yet_change_is_not_kept(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(TEXT)
    os.utime(file, (0, 0))  # the time of its last change is as it is
    assert first_of(cache, file)[1]
    with opened() as files:
        assert first_of(cache, file)[1]
    assert str(file) in files


@pytest.mark.usefixtures("settled")
def test_names_of_files_and_functions_may_hold_anything(cache: Path, tmp_path: Path) -> None:
    path = str(tmp_path / 'a\tb\nc\udc80 \u2028\\".py')
    Path(path).write_text(TEXT)
    for _ in range(2):
        sources = Sources(cache)
        assert sources.describe(path, 1, "fi\trst\n\ud800", "x\n") == ("x\n", FIRST[1])
        assert sources.describe("nul\0.py", 1, "first", "") == ("", "")
        sources.save()
    with opened() as files:
        assert Sources(cache).describe(path, 1, "fi\trst\n\ud800", "x")[1]
    assert path not in files


def test_a_damaged_cache_is_passed_over_and_replaced(cache: Path) -> None:
    expected = described(cache)
    whole = cache.read_bytes()
    head = whole.index(b"\n") + 1
    places = [*range(0, head, 7), *range(head, len(whole), len(whole) // 20)]
    damaged = [whole[:at] for at in places]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in places]
    damaged += [b"", b"\n", os.urandom(500), whole + b"x", whole.replace(b"sources 1", b"sources 2")]
    for data in damaged:
        cache.write_bytes(data)
        with opened() as files:
            assert described(cache) == expected
        assert OLD in files
        assert cache.read_bytes() == whole


def test_hashes_that_other_code_made_are_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    described(cache)
    code = Path(source_cache.__file__).with_name("source.py").read_text()
    (tmp_path / "source.py").write_text(f"{code}# another version\n")
    monkeypatch.setattr(source_cache, "__file__", str(tmp_path / "source_cache.py"))
    with opened() as files:
        described(cache)
    assert OLD in files


@pytest.mark.parametrize("kind", ["file in its way", "directory", "pipe", "too large", "of others", "shared"])
def test_a_cache_that_cannot_be_used(cache: Path, kind: str, tmp_path: Path) -> None:
    if kind == "file in its way":
        cache.parent.parent.write_text("not a directory")
    else:
        cache.parent.mkdir(parents=True)
    if kind == "directory":
        (cache / "inside").mkdir(parents=True)
    elif kind == "pipe":
        os.mkfifo(cache)
    elif kind == "too large":
        with cache.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "of others":
        described(cache)
        forged = cache.read_bytes().replace(read_anew()[0][1].encode(), b"0" * 16)
        body = forged.partition(b"\n")[2]
        cache.write_bytes(source_cache._head(body) + body)
        assert described(cache) != read_anew(), "it would be believed"
        cache.chmod(0o666)
    elif kind == "shared":
        cache.parent.chmod(0o777)
    before = sorted(tmp_path.rglob("*"))
    assert described(cache) == read_anew()
    assert described(cache) == read_anew()
    if kind != "too large":
        assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the rights of root")
def test_root_makes_nothing_in_the_home_of_another_user(cache: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    place = cache_file({"HOME": str(home)})
    assert described(place) == read_anew()
    assert not list(home.iterdir())


def test_it_is_for_the_user_alone_and_holds_no_text_of_a_source(cache: Path) -> None:
    before = os.umask(0)
    try:
        described(cache)
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o600
    assert cache.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]
    _, row = cache.read_bytes().splitlines()
    path, _, line = row.partition(b"\t")
    assert json.loads(path) == OLD
    about = os.stat(OLD)
    expected: list[object] = [about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino]
    for function, found in zip(FUNCTIONS, read_anew(), strict=True):
        expected += *function, *found
    assert json.loads(line) == expected


@pytest.mark.usefixtures("settled")
def test_its_size_is_bounded_and_what_was_not_used_for_longest_goes(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_cache, "_MOST_BYTES", 4_000)
    files = [tmp_path / f"module_{number:02d}.py" for number in range(40)]
    for file in files:
        file.write_text(TEXT)
        sources = Sources(cache)
        sources.describe(str(files[0]), 1, "first", "")  # used each time
        sources.describe(str(file), 1, "first", "")
        sources.save()
        assert cache.stat().st_size <= 4_000
    with opened() as read:
        sources = Sources(cache)
        for file in files:
            assert sources.describe(str(file), 1, "first", "") == FIRST
    again = [file for file in files if str(file) in read]
    assert files[0] not in again
    assert files[-1] not in again
    assert again
    assert again == files[1 : 1 + len(again)], "the oldest ones"


def _one_of_many(cache: Path, number: int) -> None:
    for _ in range(20):
        sources = Sources(cache)
        for line, name in FUNCTIONS[number::3]:
            assert sources.describe(OLD, line, name, "")[1]
        sources.save()


def test_processes_at_once(cache: Path) -> None:
    expected = read_anew()
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_one_of_many, args=(cache, number)) for number in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]
    assert cache.read_bytes().startswith(source_cache._head(cache.read_bytes().partition(b"\n")[2]))
    assert described(cache) == expected
