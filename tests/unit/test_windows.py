"""Windows of a run: what is read of a spool's file, and the counters, ranges and series inside."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.agent import settings
from profkit.capture.captured_windows import Windows, never_opened, read_windows
from profkit.capture.record_types import Launch, Launcher
from profkit.capture.selection import Selection
from profkit.errors import UsageError
from profkit.model import Process, Profile, Thread, ThreadSamples

SECOND = 10**9


def page(*entries: tuple[int, int, int, str], count: int | None = None, magic: bytes = b"PFKWINDW") -> bytes:
    header = struct.pack("<8s8I8x", magic, 1, 128, 0, 0, 0, len(entries) if count is None else count, 0, 0)
    body = b"".join(struct.pack("<qqII104s", b, e, 1, kind, name.encode()) for b, e, kind, name in entries)
    return header.ljust(128, b"\0") + body


LAUNCHER = Launcher("boot", "host", 1, None)
LAUNCH = Launch(("x",), "/", "", launcher=LAUNCHER, begin_ns=10 * SECOND, window="code")


def read(tmp_path: Path, data: bytes) -> Windows:
    (tmp_path / "boot.windows").write_bytes(data)
    return read_windows(tmp_path, LAUNCH, (), 20 * SECOND)


def test_windows_and_names_are_told_apart(tmp_path: Path) -> None:
    windows = ((12 * SECOND, 13 * SECOND, 1, "a"), (15 * SECOND, 0, 1, "b"))
    found = read(tmp_path, page(*windows, (11 * SECOND, 12 * SECOND, 2, "name")))
    assert found.spans == {"boot": ((12 * SECOND, 13 * SECOND), (15 * SECOND, 20 * SECOND))}
    assert found.captured_s == 6
    assert [(w.name, w.begin_s, w.end_s, w.captured) for w in found.shown] == [
        ("name", 1, 2, False),
        ("a", 2, 3, True),
        ("b", 5, 10, True),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PFKWINDW",
        page((12 * SECOND, 13 * SECOND, 1, "a"), magic=b"OTHERMAG"),
        page((0, 13 * SECOND, 1, "being made"), (-1, 5, 1, ""), (9, 5, 1, ""), (5, 9, 7, "of no kind")),
        page((12 * SECOND, 13 * SECOND, 1, "cut"))[:-1],
        page(count=2**31),
    ],
)
def test_what_is_damaged_is_no_window(tmp_path: Path, data: bytes) -> None:
    found = read(tmp_path, data)
    assert not found.opened
    assert found.shown == ()


def test_counters_are_those_of_the_windows() -> None:
    columns = (np.array(seconds) * SECOND for seconds in ([10, 12, 14], [0, 2, 2], [0, 0, 1]))
    samples = ThreadSamples(np.array([5, 5, 5]), *columns)
    thread = Thread(Profile.empty(), 5, run_s=2.5, run_queue_wait_s=1.0, voluntary_switches=7)
    known = {"cpu_s": 2.5, "wall_s": 6.0, "peak_memory_bytes": 9}
    process = Process(pid=5, threads=(thread,), samples=samples, **known)
    found = Windows({"boot": ((11 * SECOND, 13 * SECOND), (15 * SECOND, 16 * SECOND))}, (), True)
    inside = found.process(process, "boot", (10 * SECOND, 16 * SECOND))
    assert inside.wall_s == 3
    # A second up to the reading at 12 s; of the half second after the last reading, half.
    assert inside.cpu_s == pytest.approx(1.25)
    assert inside.run_queue_wait_s == pytest.approx(0.5)
    assert inside.threads[0].voluntary_switches is None
    assert inside.peak_memory_bytes == 9
    assert inside.samples.time_ns.tolist() == [12 * SECOND]


def test_the_clock_of_the_launcher_defines_a_window(tmp_path: Path) -> None:
    facts = replace(LAUNCH, window="time", window_delay_s=4.0, window_duration_s=3.0)
    assert read_windows(tmp_path, facts, (), 20 * SECOND).spans == {"boot": ((14 * SECOND, 17 * SECOND),)}
    assert read_windows(tmp_path, facts, (), 15 * SECOND).spans == {"boot": ((14 * SECOND, 15 * SECOND),)}
    assert not read_windows(tmp_path, facts, (), 13 * SECOND).opened
    assert never_opened(facts, 3.0).code == "window-not-reached"


@pytest.mark.parametrize(
    ("text", "name", "domain"),
    [
        ("epoch 3", "epoch 3", None),
        ("epoch 3@train", "epoch 3", "train"),
        ("a@b@c", "a@b", "c"),
        ("epoch@*", "epoch", None),
        ("epoch@", "epoch", ""),
        ("@x", "@x", None),
    ],
)
def test_ranges_and_their_domains(text: str, name: str, domain: str | None) -> None:
    assert settings.range_asked(text) == (name, domain)


@pytest.mark.parametrize(
    ("environ", "ranks", "expected"),
    [
        ({}, "0", True),
        ({}, "1-3", False),
        ({"RANK": "2", "WORLD_SIZE": "4"}, "0,2-3", True),
        ({"RANK": "1", "WORLD_SIZE": "4"}, "0,2-3", False),
        ({"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2"}, "1", True),  # Lightning's
        ({"LOCAL_RANK": "1", "NODE_RANK": "1", "WORLD_SIZE": "4"}, "1", False),
    ],
)
def test_whose_functions_are_traced(environ: dict[str, str], ranks: str, expected: bool) -> None:
    assert settings.is_rank_asked(ranks, environ) is expected


def test_a_selection_is_read_as_it_was_given() -> None:
    environment: dict[str, str] = {settings.RANKS_VARIABLE: "left over"}
    selection = Selection(active=4, wait=2, warmup=1, cycles=3, step_range="a:b@c")
    selection.check()
    selection.inject(environment, {"monotonic": 1.5, "time": 2.5})
    assert settings.RANKS_VARIABLE not in environment
    asked = settings.window_asked(environment[settings.WINDOW_VARIABLE])
    assert asked == ("steps", ("2", "1", "4", "3", "a:b@c"))
    Selection().inject(environment, {"monotonic": 1.5, "time": 2.5})
    assert settings.WINDOW_VARIABLE not in environment
    with pytest.raises(UsageError, match="both say when"):
        Selection(active=1, start_paused=True).check()
