"""Records, samples and the launcher's facts, damaged in every way: refused with a clear word, or read and packed."""

from __future__ import annotations

import marshal
import os
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profkit.capture import records
from profkit.capture.agent import process_facts, record_file, settings
from profkit.capture.packer import pack_spool
from profkit.formats import load_run, plain_data
from profkit.formats.plain_data import PlainDataError, read_plain
from tests.records import codes_of, record_bytes, table
from tests.shared import exit_code, succeeded

AGENT = Path(record_file.__file__).parent
PROGRAM = """
import sys, threading
from agent import block_record
def walk(n): return walk(n - 1) + 1 if n else 0
recording = block_record.Recording(sys.argv[1] + "/block")
recording.start()
threads = [threading.Thread(target=walk, args=(5,)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
walk(20)
recording.stop()
"""
LAUNCH = (
    '{"command": ["a"], "cwd": "/", "started": "2026-01-01T00:00:00+00:00", "wall_s": 1.0, "exit_status": 0}'
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A record that an agent really wrote."""
    spool = tmp_path_factory.mktemp("spool")
    (spool / settings.sampled_mark(process_facts.boot_id())).touch()
    environment = {**os.environ, "PYTHONPATH": str(AGENT.parent)}
    succeeded([sys.executable, "-c", PROGRAM, str(spool)], env=environment)
    (path,) = spool.glob("*" + settings.RECORD_SUFFIX)
    return path.read_bytes()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    (tmp_path / "launch.json").write_text(LAUNCH)
    return tmp_path


def problem_of(data: bytes) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is what is tested
        records.decode_record(data)
    return str(refused.value)


def test_a_record_that_ends_early_is_torn(real: bytes) -> None:
    for size in (*range(32), *range(32, len(real), 97), len(real) - 1):
        assert problem_of(real[:size]).startswith("torn: ")
    assert problem_of(real + b"\0").startswith("torn: ")


def test_every_flipped_bit_shows(real: bytes) -> None:
    rng = random.Random(7)
    for place in (*range(24), *(rng.randrange(24, len(real)) for _ in range(200))):
        damaged = bytearray(real)
        damaged[place] ^= 1 << rng.randrange(8)
        assert problem_of(bytes(damaged))
    zeroed = bytearray(real)
    zeroed[1024:1536] = bytes(512)
    assert problem_of(bytes(zeroed)) == "damaged: its checksum does not match"


def test_another_version_s_record_is_named_as_such(spool: Path) -> None:
    other = b"".join(record_file.encode(record_file.MAGIC, 9, None))
    assert problem_of(other) == (
        "made by another version of profkit, in format 9 where this one reads 2: merge it with that version"
    )
    assert problem_of(b"x" * 100) == "not written by profkit"
    (spool / "a.record").write_bytes(other)
    (spool / "b.record").write_bytes(record_bytes())
    run = pack_spool(spool)
    assert [process.pid for process in run.processes] == [10], "the rest of the run is packed"
    assert [n.subject for n in run.warnings if n.code == "record-unreadable"] == ["a.record"]


def test_what_a_record_may_not_hold_is_named() -> None:
    assert "merge it with the version" in problem_of(record_bytes(threads=[{"native": 10}]))
    assert problem_of(record_bytes(machine=[{"time_s": 1.0}])).endswith("is not a pair of readings")


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 0, -1, 2**31 - 1, -(2**31), 2**31, 2**63, -(2**63)),
        *(0.5, "naïve\ud800", b"\0\xff", [1, [2.0, {}]]),
    ],
)
def test_plain_data_comes_back(value: Any) -> None:
    assert read_plain(marshal.dumps(value, 2)) == value
    assert read_plain(marshal.dumps({"a": (value,)}, 2)) == {"a": [value]}


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"0", b"[", b"[\xff\xff\xff\x7f", b"i\0\0", b"u\5\0\0\0abc", b"u\1\0\0\0\xff", b"l\x7f\0\0\0"),
        *(b"l\0\0\0\x80", b"{i\1\0\0\0N0", b"{u\1\0\0\0a", b"{u\1\0\0\0a0", b"[\1\0\0\x000", b"NN", b"c"),
        b"r\0\0\0\0",
        *(b"\xe9\1\0\0\0", b"[\1\0\0\0" * 20 + b"N", b"(\1\0\0\0" * 100_000),
        b"[\xa0\x86\1\0" + b"{0" * 100_000,
    ],
    ids=lambda data: data[:12].hex(),
)
def test_what_is_no_plain_data(data: bytes) -> None:
    with pytest.raises(PlainDataError):
        read_plain(data)


def test_objects_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_data, "_MOST_OBJECTS", 100)
    assert read_plain(marshal.dumps([None] * 99, 2)) == [None] * 99
    with pytest.raises(PlainDataError, match="more than 100 objects"):
        read_plain(marshal.dumps([None] * 100, 2))


@pytest.mark.parametrize("kind", ["pipe", "directory", "device", "too large"])
def test_a_record_that_is_no_file_keeps_nothing_waiting(spool: Path, kind: str) -> None:
    path = spool / "a.record"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(2**40)
    (spool / "b.record").write_bytes(record_bytes())
    assert exit_code("merge", spool, "-o", spool / "run.prof") == 0
    run = load_run(spool / "run.prof")
    assert [process.pid for process in run.processes] == [10]
    assert [n.subject for n in run.warnings if n.code == "record-unreadable"] == ["a.record"]


def test_source_files_that_a_record_names_are_no_pipes(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(spool / "pipe")
    files = [str(spool / "pipe"), "/dev/zero", "/dev/stdin", "a\ud800", str(spool)]
    codes = codes_of([(file, 1, "f", "") for file in files])
    threads = (table(functions=[(i, 1, 0, 1.0, 1.0) for i in range(len(files))]),)
    (spool / "a.record").write_bytes(record_bytes())
    decoded = records.decode_record
    monkeypatch.setattr(
        records, "decode_record", lambda data: replace(decoded(data), codes=codes, threads=threads)
    )
    run = pack_spool(spool)
    assert len(run.processes[0].threads[0].profile) == len(files)
