"""What is kept of source files between captures, and what is looked at while the target runs."""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profkit.capture import host, source_cache
from profkit.capture.agent.reserve import RESERVE_SUFFIX
from profkit.capture.mapped_names import GrowingNames
from profkit.capture.packer import pack_spool
from profkit.capture.source import SourceFile
from profkit.capture.source_cache import Sources, cache_file
from profkit.capture.source_lookahead import look_ahead
from profkit.model import Run
from tests.records import traced_spool

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


def reading(file: str | Path, look: Callable[[], object]) -> tuple[object, bool]:
    """What is found, and whether a file was opened for it."""
    with opened() as files:
        found = look()
    return found, str(file) in files


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
    assert reading(OLD, lambda: described(cache)) == (expected, True)
    before = cache.stat()
    assert reading(OLD, lambda: described(cache)) == (expected, False)
    digests = reading(OLD, lambda: [digest for _, digest in described(cache, named=False)])
    assert digests == ([digest for _, digest in expected], False)
    assert cache.stat().st_ino == before.st_ino, "written again without anything new"


def test_only_what_is_missing_is_read(cache: Path) -> None:
    (line, name), *_ = FUNCTIONS
    sources = Sources(cache)
    sources.describe(OLD, line, name, name)
    sources.save()
    expected = read_anew()
    assert described(cache) == expected, "other functions, and qualified names, were asked for later"
    assert reading(OLD, lambda: described(cache)) == (expected, False)


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
    assert reading(file, lambda: first_of(cache, file)) == (expected, False)
    file.unlink()
    assert first_of(cache, file) == ("", "")


def test_a_file_that_may_yet_change_is_not_kept(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(TEXT)
    os.utime(file, (0, 0))  # the time of its last change is as it is
    for _ in range(2):
        assert reading(file, lambda: first_of(cache, file)) == (FIRST, True)


@pytest.mark.usefixtures("settled")
def test_names_of_files_and_functions_may_hold_anything(cache: Path, tmp_path: Path) -> None:
    path = str(tmp_path / 'a\tb\nc\udc80 \u2028\\".py')
    Path(path).write_text(TEXT)
    for _ in range(2):
        sources = Sources(cache)
        assert sources.describe(path, 1, "fi\trst\n\ud800", "x\n") == ("x\n", FIRST[1])
        assert sources.describe("nul\0.py", 1, "first", "") == ("", "")
        sources.save()
    found = reading(path, lambda: Sources(cache).describe(path, 1, "fi\trst\n\ud800", "x"))
    assert found == (("x", FIRST[1]), False)


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
        assert reading(OLD, lambda: described(cache)) == (expected, True)
        assert cache.read_bytes() == whole


def test_hashes_that_other_code_made_are_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    described(cache)
    code = Path(source_cache.__file__).with_name("source.py").read_text()
    (tmp_path / "source.py").write_text(f"{code}# another version\n")
    monkeypatch.setattr(source_cache, "__file__", str(tmp_path / "source_cache.py"))
    assert reading(OLD, lambda: described(cache)) == (read_anew(), True)


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


def test_a_home_that_does_not_exist_is_not_made(tmp_path: Path, settled: None) -> None:
    assert described(cache_file({"HOME": str(tmp_path / "nonexistent")})) == read_anew()
    assert not list(tmp_path.iterdir())
    assert described(cache_file({"HOME": str(tmp_path)})) == read_anew()
    assert [path.name for path in tmp_path.iterdir()] == [".cache"]


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


# What is looked at while the target runs: the sources of what it has called, on a CPU that nothing else wants

#: Calls what was there at the start, then what is named on its input, line by line.
PROGRAM = """
import sys
def at_first():
    return 1
def later():
    return 2
at_first()
for line in sys.stdin:
    globals()[line.strip()]()
    print(line, flush=True)
"""
CHANGED = PROGRAM.replace("return", "return -1 +")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else wants a CPU."""
    monkeypatch.setattr(host, "has_free_cpu", lambda cpus: True)


@contextmanager
def running(spool: Path, program: Path) -> Iterator[Callable[[str], None]]:
    """Run a program under the agent; the function that this gives makes it call one of its own."""
    program.write_text(PROGRAM)
    environment = traced_spool(spool)
    command, pipe = [sys.executable, program], subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe) as target:

        def call(name: str) -> None:
            print(name, file=target.stdin, flush=True)
            assert target.stdout.readline().strip() == name
            target.stdout.readline()

        call("at_first")
        yield call
        target.stdin.close()
    assert target.returncode == 0


@contextmanager
def looking(spool: Path, sources: Sources) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=look_ahead, args=(spool, sources, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10.0)
    assert not thread.is_alive()


class Noted(Sources):
    """Sources that note which functions they were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str]] = []

    def describe(self, path: str, line: int, name: str, qualname: str) -> tuple[str, str]:
        self.asked.append((path, name))
        return super().describe(path, line, name, qualname)

    def wait_for(self, path: Path, name: str) -> None:
        deadline = time.monotonic() + 60.0
        while (str(path), name) not in self.asked:
            assert time.monotonic() < deadline, f"{name} was not looked at"
            time.sleep(0.01)


def hashes(run: Run, path: Path) -> dict[str, str]:
    profile = run.processes[0].threads[0].profile
    rows = zip(profile.file, profile.name, profile.source_hash, strict=True)
    texts = ([profile.strings[at] for at in row] for row in rows)
    return {name: digest for file, name, digest in texts if file == str(path)}


@pytest.mark.usefixtures("idle")
def test_what_was_called_is_known_when_the_target_ends(spool: Path, tmp_path: Path) -> None:
    program, sources = tmp_path / "program.py", Noted()
    with running(spool, program) as call:
        with looking(spool, sources):
            sources.wait_for(program, "at_first")
            call("later")
            sources.wait_for(program, "later")
        assert len(sources.asked) == len(set(sources.asked)), "each function is asked for once"
        assert not any(path.startswith(("~", "<")) for path, _ in sources.asked)
        program.write_text(CHANGED)  # what ran was the text before
    before = tmp_path / "before.py"
    before.write_text(PROGRAM)
    found = hashes(pack_spool(spool, sources=sources), program)
    other = Sources()
    for name, line in (("at_first", 3), ("later", 5)):
        assert found[name] == other.describe(str(before), line, name, name)[1] != ""


def test_nothing_is_done_while_all_cpus_are_wanted(
    spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, looks = threading.Event(), threading.Semaphore(0)

    def has_free_cpu(cpus: float) -> bool:
        looks.release()
        return free.is_set()

    monkeypatch.setattr(host, "has_free_cpu", has_free_cpu)
    program, sources = tmp_path / "program.py", Noted()
    with running(spool, program), looking(spool, sources):
        for _ in range(5):
            assert looks.acquire(timeout=30.0)
        assert sources.asked == []
        free.set()
        sources.wait_for(program, "at_first")


def test_a_look_reads_of_a_large_file_only_where_names_are(spool: Path, tmp_path: Path) -> None:
    program, names = tmp_path / "program.py", GrowingNames()
    with running(spool, program):
        pass
    (path,) = spool.glob("*" + RESERVE_SUFFIX)
    whole, entries = 1 << 30, 2
    with path.open("ab") as file:  # a part of the tables that is larger than any profkit reads at once
        file.write(struct.pack("<QQ3I4x", whole, 1 << 40, whole - 16, entries, 1))
        file.truncate(file.tell() - 32 + whole)
    tracemalloc.start()
    try:
        found = names.look(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "at_first" in [name for _, _, name, _ in found]
    assert peak < 16 << 20


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    "data", [b"", b"PFKCALLS", b"PFKCALLS" + b"\xff" * 8192], ids=["empty", "cut", "wild"]
)
def test_a_damaged_file_is_passed_over(spool: Path, tmp_path: Path, data: bytes) -> None:
    spool.mkdir()
    (spool / f"a-1-1{RESERVE_SUFFIX}").write_bytes(data)
    program, sources = tmp_path / "program.py", Noted()
    with running(spool, program), looking(spool, sources):
        sources.wait_for(program, "at_first")
