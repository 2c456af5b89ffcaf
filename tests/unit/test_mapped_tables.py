"""The file of a tracer's tables: what a process that was killed had called, and bytes that nothing has written so."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fuzz.target import SEEDS
from profkit.capture.agent.reserve import RESERVE_SUFFIX
from profkit.capture.mapped_layout import MAGIC
from profkit.capture.mapped_tables import MappedTables, ThreadEnd
from profkit.capture.packer import pack_spool
from profkit.capture.thread_tables import ThreadTable
from tests.records import traced_spool

PROGRAM = """
import os, threading, time
def walk(n): return walk(n - 1) + 1 if n else 0
def stays(again):
    if again: return stays(again - 1)
    os.getpid(); ready.set(); time.sleep(60)
pair = [lambda: 1, lambda: 2]
ready = threading.Event()
thread = threading.Thread(target=stays, args=(1,), name="stays \\N{SNOWMAN}", daemon=True)
thread.start()
walk(20)
for one in pair: one()
exec("def made(): pass\\nmade()")
ready.wait()
time.sleep(0.3)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spool of a process that was killed."""
    path = tmp_path_factory.mktemp("spool")
    environment = traced_spool(path)
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    assert subprocess.run([sys.executable, str(program)], env=environment).returncode == -signal.SIGKILL
    return path


@pytest.fixture(scope="module")
def whole(spool: Path) -> bytes:
    (path,) = spool.glob("*" + RESERVE_SUFFIX)
    return path.read_bytes()


def open_names(file: MappedTables, table: ThreadTable) -> list[str]:
    return [file.codes.name[function] for function in table.open.function.tolist()]


def main_edges(file: MappedTables) -> np.ndarray:
    """Where the edges of the first thread that has some begin in the file."""
    return next(edges for number in range(1, 20) if len(edges := file.entries(number)[2]))


def test_what_a_killed_process_had_called(whole: bytes) -> None:
    file = MappedTables(whole)
    main, other = file.threads(None, {}, {})
    assert (main.name, other.name) == ("MainThread", "stays \N{SNOWMAN}")
    codes, functions = file.codes, main.functions
    own = [codes.files[at].endswith("program.py") for at in codes.file[functions.function]]
    names = [codes.name[function] for function in functions.function]
    found = sorted(zip(names, functions.calls.tolist(), own, strict=True))
    assert ("walk", 21, True) in found
    assert found.count(("<lambda>", 1, True)) == 2, "two functions of one line of a file are two"
    assert open_names(file, main)[-1] == "<built-in method posix.kill>"
    assert open_names(file, other)[-2:] == ["stays", "<built-in method time.sleep>"]
    assert not file.missed
    walk = file.codes.name.index("walk")
    recursive = main.edges.recursive[(main.edges.caller == walk) & (main.edges.callee == walk)]
    assert recursive.tolist() == [19]


def test_open_calls_go_on_until_the_end_that_is_known(whole: bytes) -> None:
    file = MappedTables(whole)
    last = file.last_event_s
    assert last is not None
    _, other = file.threads(last + 10.0, {}, {})
    # On a busy machine the process slept for longer than the 0.3 s that it asked for.
    own = float(other.open.own[-1])
    assert 10.1 < own < 15
    assert float(other.open.within[0]) > 10.3
    # The kernel has seen it sleep for all but a second of them.
    end = ThreadEnd(int((last + 10.0) * 1e9), run_ns=10**9, wait_ns=0)
    _, other = file.threads(last + 10.0, {}, {other.native or 0: end})
    assert other.measured
    sleep = file.codes.name.index("<built-in method time.sleep>")
    blocked = float(other.waiting.blocked[other.waiting.function == sleep].sum())
    assert blocked == pytest.approx(own - 1.0, abs=0.3)
    # The waiting of a call that has not returned is that of its recursive call too, and counts once.
    stays = other.waiting[other.waiting.function == file.codes.name.index("stays")]
    assert len(stays) > 1
    assert float(stays.cumblocked.sum()) == pytest.approx(blocked, abs=0.3)


def test_what_was_being_made_when_the_process_died_is_not_there(whole: bytes) -> None:
    """Of every entry the kind is stored last; the file without the last ones is that of an earlier moment."""
    file = MappedTables(whole)
    torn = bytearray(whole)
    for at in sorted(int(at) for at in main_edges(file))[-5:]:
        torn[at : at + 4] = bytes(4)
    earlier = MappedTables(bytes(torn)).threads(None, {}, {})[0]
    assert 0 < len(earlier.edges.calls) < len(file.threads(None, {}, {})[0].edges.calls)


def problem_of(data: bytes) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is what is tested
        MappedTables(data).threads(None, {}, {})
    return str(refused.value)


def test_what_is_no_such_file(whole: bytes) -> None:
    assert problem_of(b"") == "torn: it ends in its header, after 0 bytes"
    assert problem_of(bytes(8192)) == "not written by profkit"
    assert problem_of(MAGIC + b"\x09" + whole[9:]).startswith(
        "made by another version of profkit, in format 9 where"
    )
    assert problem_of(whole[:-4096]) == "damaged: it has a part of an impossible size"


#: Where `struct tier_store` is, and in it what is set here.
TIERS = 112
FIRST_BEGIN, FIRST_TIER, SAMPLED_NS, BURSTS, BURST_NS, EFFECT, LEAST, MOST, SLOWED = (
    TIERS + offset for offset in (8, 16, 136, 152, 160, 176, 184, 192, 200)
)


def changed(data: bytes, *numbers: tuple[int, float]) -> bytes:
    """Return a file with these numbers at these places, of 8 bytes each."""
    copy = bytearray(data)
    for at, value in numbers:
        copy[at : at + 8] = struct.pack("<d" if isinstance(value, float) else "<q", value)
    return bytes(copy)


#: Of the places where a number stands behind the first edge of a sampled thread.
COUNTS, SCATTERS = "it holds counts that cannot be", "it holds a scatter that cannot be"


@pytest.fixture(scope="module")
def sampled() -> bytes:
    """A file of a process that was sampled for a while: one of the fuzzers' inputs."""
    return (SEEDS / "tables" / "sampled").read_bytes()


@pytest.mark.parametrize(
    ("at", "value", "problem"),
    [
        *((TIERS, count, "") for count in (-1, 9, 2**62)),
        *((FIRST_TIER, tier, "") for tier in (0, 3, -1)),
        *((at, time, "") for at in (FIRST_BEGIN, SAMPLED_NS) for time in (-1, 2**62)),
        *((BURSTS, count, "") for count in (-1, 2**53 + 1)),
        *((BURST_NS, time, "") for time in (-1, 2**63 - 1)),
        *((at, time, "") for at in (EFFECT, LEAST, MOST, SLOWED) for time in (-1.0, np.nan, np.inf, 1e300)),
        *((at, count, COUNTS) for at, count in ((96, -1), (96, 2**53 + 1), (112, 2**60))),
        *((at, x, SCATTERS) for at, x in ((104, np.nan), (120, -1.0), (120, np.inf))),
    ],
)
def test_numbers_that_cannot_be(whole: bytes, sampled: bytes, at: int, value: float, problem: str) -> None:
    data = whole
    if problem:
        data, at = sampled, at + int(main_edges(MappedTables(sampled))[0])
    assert problem_of(changed(data, (at, value))) == f"damaged: {problem or 'it has tiers that cannot be'}"


def test_calls_of_bursts_stand_for_more(sampled: bytes) -> None:
    file = MappedTables(sampled)
    assert [tier for tier, _ in file.tiers][:2] == ["exact", "sampled"]
    main = file.threads(None, {}, {})[0]
    known, ncalls = main.estimates, main.functions.calls
    walk = main.functions.function.tolist().index(file.codes.name.index("walk"))
    assert known.calls_low[walk] < ncalls[walk] < known.calls_high[walk]
    assert known.samples[walk] > 0
    assert 0 < known.tottime_error[walk] < main.functions.tottime[walk]
    # Two bursts say nothing of how much calls scatter: what was counted before them is a part of all.
    few = MappedTables(changed(sampled, (BURSTS, 2))).threads(None, {}, {})[0]
    assert np.isnan(few.estimates.calls_low).all()
    assert few.functions.calls[walk] < ncalls[walk]


def test_a_damaged_file_costs_the_functions_of_its_process_alone(
    spool: Path, whole: bytes, tmp_path: Path
) -> None:
    for path in spool.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert [notice.code for notice in pack_spool(tmp_path).warnings] == ["ended-unrecorded"]
    (path,) = tmp_path.glob("*" + RESERVE_SUFFIX)
    path.write_bytes(whole[:5000])
    run = pack_spool(tmp_path)
    (process,) = run.processes
    assert sum(len(thread.profile) for thread in process.threads) == 0
    assert {notice.code: notice.subject for notice in run.warnings}["record-unreadable"] == path.name


def test_functions_of_the_tracer_are_not_the_program_s(whole: bytes) -> None:
    def called(data: bytes) -> set[str]:
        file = MappedTables(data)
        tables = file.threads(None, {}, {})
        return {file.codes.name[at] for table in tables for at in table.functions.function.tolist()}

    ours = whole.replace(b"<built-in method posix.getpid>", b"<built-in method _tracer.stop>")
    assert called(whole) - called(ours) == {"<built-in method posix.getpid>"}
    assert called(ours) < called(whole)
