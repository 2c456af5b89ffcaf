"""What is looked at while the target runs: the sources of what it has called, on a CPU that nothing else wants."""

from __future__ import annotations

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

from profkit.capture import host
from profkit.capture.agent.reserve import RESERVE_SUFFIX
from profkit.capture.mapped_names import GrowingNames
from profkit.capture.mapped_tables import MappedTables
from profkit.capture.packer import pack_spool
from profkit.capture.source_cache import Sources
from profkit.capture.source_lookahead import look_ahead
from profkit.model import Run
from tests.records import traced_spool

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


def test_new_names_of_a_file_that_grows_are_given_once(spool: Path, tmp_path: Path) -> None:
    program, names = tmp_path / "program.py", GrowingNames()
    with running(spool, program) as call:
        (path,) = spool.glob("*" + RESERVE_SUFFIX)
        first = names.look(path)
        assert names.look(path) == []
        call("later")
        second = names.look(path)
    assert (str(program), 3, "at_first") in [function[:3] for function in first]
    assert (str(program), 5, "later") in [function[:3] for function in second]
    # The agent's are not the target's.
    assert not any("profkit" in file for file, *_ in first if file != str(program))
    third = names.look(path)
    codes = MappedTables(path.read_bytes()).codes
    all_of_it = {(codes.files[at], name) for at, name in zip(codes.file, codes.name, strict=True)}
    given = {(file, name) for file, _, name, _ in first + second + third}
    assert given <= all_of_it
    assert all(file.startswith("<frozen profkit.") for file, _ in all_of_it - given)


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
