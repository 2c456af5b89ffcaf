"""The recorder that stands for the NVTX collector where it was not built: what it writes, the usual reader reads."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.agent import nvtx_files, nvtx_record
from profkit.capture.agent.nvtx_record import MARK, PUSH, START, Recorder
from profkit.formats.nvtx_log import NvtxLog, read_nvtx_log
from profkit.model.ranges import OPEN


def logs(spool: Path) -> list[NvtxLog]:
    return [read_nvtx_log(path) for path in sorted(spool.glob("*.nvtx"))]


def names(log: NvtxLog) -> list[str]:
    return [log.ranges.strings[i] for i in log.ranges.name]


def push(recorder: Recorder, text: str) -> None:
    number = recorder.name(text)
    recorder.begin(recorder.default.push, number, number << 32, 0, 0, 0)


def pop(recorder: Recorder) -> None:
    recorder.pop(recorder.default.pop)


def test_without_an_event_there_are_no_files(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    recorder.domain("named")
    recorder.name("also")
    assert not recorder.opened
    assert list(tmp_path.iterdir()) == []


def test_what_is_recorded_can_be_read_while_the_process_runs(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    library = recorder.domain("library")
    recorder.category(library, 3, "disk")
    push(recorder, "outer")
    inner = recorder.name("inn\u00e9r")
    recorder.begin(library.push, inner, inner << 32 | 3 << 8, 3, 0xFF102030, 0x3FE0000000000000)
    recorder.pop(library.pop)
    number = recorder.begin(recorder.default.start, 0, 0, 0, 0, 0)
    recorder.end(number)
    recorder.end(number)
    recorder.end(0)
    pop(recorder)
    pop(recorder)
    (log,) = logs(tmp_path)
    ranges = log.ranges
    assert names(log) == ["outer", "inn\u00e9r", ""]
    assert [ranges.strings[i] for i in ranges.domain] == ["", "library", ""]
    assert [ranges.strings[i] for i in ranges.category] == ["", "disk", ""]
    assert ranges.color.tolist() == [0, 0xFF102030, 0]
    assert ranges.payload[ranges.payload_type == 3].view("<f8").tolist() == [0.5]
    assert ranges.ended.all()
    assert ranges.parent.tolist() == [-1, 0, -1]
    assert ranges.unmatched == 2, "ended twice, and a pop of an empty stack"
    assert set(ranges.thread.tolist()) == {threading.get_native_id()}
    assert (log.pid, log.parent, log.fork_parent) == (os.getpid(), os.getppid(), 0)
    assert log.command
    assert log.warnings == ()


def test_many_events_of_one_thread_go_through_several_chunks(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    for i in range(30_000):
        push(recorder, f"step {i % 7}")
        pop(recorder)
    (log,) = logs(tmp_path)
    assert names(log) == [f"step {i % 7}" for i in range(30_000)]
    assert log.ranges.ended.all()
    assert len(recorder.life.files._mapped) == 3, "header, names and the current chunk"


def test_threads_have_their_own_stacks_and_go_on_in_each_others_chunks(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))

    def work(i: int) -> None:
        push(recorder, f"outer {i}")
        push(recorder, f"inner {i}")
        pop(recorder)
        pop(recorder)

    for start in range(0, 200, 4):
        threads = [threading.Thread(target=work, args=(start + i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (log,) = logs(tmp_path)
    found = names(log)
    assert sorted(found) == sorted(f"{kind} {i}" for kind in ("outer", "inner") for i in range(200))
    for row, name in enumerate(found):
        parent = log.ranges.parent[row]
        assert parent == -1 if name.startswith("outer") else found[parent] == name.replace("inner", "outer")
    (path,) = tmp_path.glob("*.nvtx")
    assert path.stat().st_size < 1 << 20, "200 threads need far less than 200 chunks"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_files_of_its_own(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    library = recorder.domain("library")
    push(recorder, "open across the fork")
    across = recorder.begin(recorder.default.start, 0, 0, 0, 0, 0)
    child = os.fork()
    if child == 0:
        try:
            known = recorder.name("open across the fork")
            recorder.begin(library.push, known, known << 32, 0, 0, 0)
            recorder.pop(library.pop)
            recorder.end(across)
            pop(recorder)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    pop(recorder)
    recorder.end(across)
    parent, forked = sorted(logs(tmp_path), key=lambda log: log.fork_parent)
    assert names(parent) == ["open across the fork", ""]
    assert parent.ranges.ended.all()
    assert (forked.pid, forked.fork_parent) == (child, os.getpid())
    assert [forked.ranges.strings[i] for i in forked.ranges.domain] == ["library"]
    assert names(forked) == ["open across the fork"]
    assert forked.ranges.unmatched == 1, "the child popped what the parent had pushed"


def test_the_limit_on_a_process_is_kept_and_losses_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFKIT_NVTX_BYTES", "100000")
    recorder = Recorder(str(tmp_path))
    for _ in range(5000):
        push(recorder, "range")
        pop(recorder)
    (log,) = logs(tmp_path)
    (path,) = tmp_path.glob("*.nvtx")
    assert path.stat().st_size <= 100000
    open_ones = int((log.ranges.end_ns == OPEN).sum())
    assert 0 < len(log.ranges) < 5000
    assert log.ranges.lost == 10000 - 2 * len(log.ranges) + open_ones


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(str(tmp_path))
    push(recorder, "before")
    pop(recorder)
    reserve = nvtx_files._reserve

    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(nvtx_files, "_reserve", full)
    for _ in range(3000):
        push(recorder, "range")
        pop(recorder)
    monkeypatch.setattr(nvtx_files, "_reserve", reserve)
    monkeypatch.setattr(nvtx_record, "RETRY_NS", 0)
    recorder.local.room.retry_ns = 0
    push(recorder, "after")
    pop(recorder)
    (log,) = logs(tmp_path)
    assert (names(log)[0], names(log)[-1]) == ("before", "after")
    assert log.ranges.ended[-1]
    assert log.ranges.lost == 6000 - 2 * (len(log.ranges) - 2) + int((log.ranges.end_ns == OPEN).sum())


def test_a_spool_that_is_gone_does_not_hurt(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "none"))
    push(recorder, "range")
    pop(recorder)
    assert not recorder.opened


def test_different_names_are_limited_and_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx_record, "_MOST_NAMES", 50)
    monkeypatch.setattr(nvtx_record, "_RESERVED_NAMES", 5)
    recorder = Recorder(str(tmp_path))
    for i in range(80):
        push(recorder, f"step {i} of run")
    for letter in "abcdefgh":
        push(recorder, f"{letter}0")
    (log,) = logs(tmp_path)
    found = names(log)
    assert found[:50] == [f"step {i} of run" for i in range(50)]
    assert set(found[50:80]) == {"step {n} of run"}
    assert found[80:] == ["a{n}", "b{n}", "c{n}", *["(more names than are kept)"] * 5]
    assert log.ranges.folded == 38


@pytest.mark.parametrize("text", ["x" * 10_000, "\u00e9" * 5000, "\ud800 lonely", b"bytes \xff"])
def test_odd_names(tmp_path: Path, text: object) -> None:
    recorder = Recorder(str(tmp_path))
    number = recorder.name(text)
    recorder.begin(MARK, number, number << 32, 0, 0, 0)
    (log,) = logs(tmp_path)
    (name,) = names(log)
    assert 0 < len(name.encode()) <= 4000
    assert log.warnings == ()


def test_what_cannot_be_written_raises_nothing(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    recorder.begin(PUSH, 0, 0, -1, 1 << 40, 0)
    recorder.end("no id")
    recorder.end(-5)
    assert recorder.begin(START, 0, 0, 0, 0, 0) != 0


def test_a_program_that_closes_descriptors_keeps_its_own_files(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    push(recorder, "before")
    own = {chunk.descriptor for chunk in recorder.life.files._mapped}
    taken = []
    for descriptor in own - {None}:
        os.close(descriptor)
        file = os.open(tmp_path / "own.txt", os.O_CREAT | os.O_RDWR)
        os.dup2(file, descriptor)
        taken += [file, descriptor]
    try:
        for i in range(20_000):
            push(recorder, f"after {i % 10}")
        for descriptor in set(taken):
            os.fstat(descriptor)  # still open
    finally:
        for descriptor in set(taken):
            os.close(descriptor)
    (log,) = logs(tmp_path)
    assert len(log.ranges) == 20_001
    assert np.count_nonzero(log.ranges.end_ns != OPEN) == 0
