"""Traces for Perfetto, chrome://tracing and speedscope: valid by their formats' rules, and nothing invented."""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.errors import FormatError
from profkit.formats import write_run
from profkit.formats.export.chrome import OWN_NUMBERS, chrome_trace
from profkit.formats.export.speedscope import speedscope_file
from profkit.model import Host, Manifest, Paths, Process, Run, Series, Thread, ThreadSamples
from profkit.model.ranges import MARK, PUSHED, STARTED
from tests.builders import Row, Told, profile, ranges, with_main
from tests.report_builders import HOSTILE, hostile_run
from tests.shared import Capture, exit_code, printed, refused


def run_of(*processes: Process, **fields: Any) -> Run:
    return Run("run.prof", processes, **fields)


def told(*rows: Told, pid: int = 10, **fields: Any) -> Process:
    main_thread = Thread(profile([]), pid, "MainThread")
    ordered = sorted(rows, key=lambda row: (row.thread, row.begin))
    return Process(
        pid, command=("python", "train.py"), threads=(main_thread,), ranges=ranges(ordered), **fields
    )


def trace(run: Run) -> dict[str, Any]:
    """Write a trace, read it as strictly as a browser does, and check it against the format's rules."""
    document = json.loads(b"".join(chrome_trace(run).chunks).decode("utf-8"), parse_constant=pytest.fail)
    check_trace(document)
    return document


def check_trace(document: dict[str, Any]) -> None:
    """Check the rules of the "Trace Event Format" that readers depend on, as Perfetto's importer does.

    They are the fields of each phase, that complete and duration events of a thread nest, and that a nestable
    async begin and its end agree in category, name and id (within the process where it is `id2.local`).
    """
    assert document["displayTimeUnit"] in ("ms", "ns")
    open_ids: dict[object, dict[str, Any]] = {}
    open_until: dict[object, list[float]] = {}
    last: dict[object, float] = {}
    for event in document["traceEvents"]:
        phase = event["ph"]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if phase == "M":
            assert "args" in event
            continue
        assert event["ts"] >= 0
        track = (event["pid"], event["tid"])
        nanoseconds = round(event["ts"] * 1000)
        if phase in "XBi":
            assert nanoseconds >= last.get(track, 0), "a track's events are written in their order"
            last[track] = nanoseconds
        if phase in "XB":
            end = nanoseconds + round(event["dur"] * 1000) if phase == "X" else math.inf
            around = open_until.setdefault(track, [])
            while around and around[-1] <= nanoseconds:
                around.pop()
            assert not around or end <= around[-1], "two overlap without nesting"
            around.append(end)
        elif phase == "i":
            assert event["s"] in ("t", "p", "g")
        elif phase == "C":
            assert event["args"]
            assert all(isinstance(value, int | float) for value in event["args"].values())
        elif phase in "be":
            key = (event["pid"], event["cat"], event["id2"]["local"])
            if phase == "b":
                assert key not in open_ids
                open_ids[key] = event
            else:
                begin = open_ids.pop(key)
                assert begin["name"] == event["name"]
                assert begin["ts"] <= event["ts"]
        else:
            raise AssertionError(f"phase {phase}")


def of_phase(document: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def names_of(document: dict[str, Any], kind: str) -> dict[tuple[int, int], Any]:
    return {
        (event["pid"], event["tid"]): next(iter(event["args"].values()))
        for event in of_phase(document, "M")
        if event["name"] == kind
    }


FLOAT_BITS = int(np.float64(1.5).view(np.uint64))
NAN_BITS = int(np.float64(math.nan).view(np.uint64))
STORY = (
    Told("step", 1_000_000_001, 1_000_009_000, category="train", color=0xFF76B900, payload=(2, 2**64 - 5)),
    Told("forward", 1_000_000_001, 1_000_004_000, payload=(3, FLOAT_BITS)),
    Told("reduce", 1_000_002_000, 1_000_006_000, domain="NCCL", payload=(1, 2**60)),
    Told("copy", 1_000_003_000, 1_000_019_000, kind=STARTED, payload=(3, NAN_BITS)),
    Told("saved", 1_000_005_000, 1_000_005_000, kind=MARK),
    Told("leaked", 1_000_020_000),
    Told("within", 1_000_020_000, 1_000_020_000),
    Told("lost", 1_000_030_000, kind=STARTED, domain="NCCL"),
    Told("load", 1_000_000_000, 1_000_002_500, thread=11),
)


def test_chrome_trace_of_everything_that_nvtx_can_say() -> None:
    document = trace(run_of(told(*STORY)))
    shown = {event["name"]: event for event in document["traceEvents"] if event["ph"] in "XBib"}
    phases = {"saved": "i", "leaked": "B", "copy": "b", "lost": "b"}
    phases |= dict.fromkeys(("step", "forward", "reduce", "within", "load"), "X")
    assert {name: event["ph"] for name, event in shown.items()} == phases
    assert (shown["forward"]["ts"], shown["forward"]["dur"], shown["within"]["dur"]) == (0.001, 3.999, 0)
    # No reader keeps a number such as that of `reduce` exact.
    assert {name: event["args"] for name, event in shown.items() if "args" in event} == {
        "step": {"category": "train", "color": "#76b900", "payload": -5},
        "forward": {"payload": 1.5},
        "reduce": {"payload": str(2**60)},
        "copy": {"payload": "nan"},
        "lost": {"domain": "NCCL"},
    }
    (ended,) = of_phase(document, "e")
    assert (ended["name"], ended["ts"]) == ("copy", 19.0)
    # One track for each thread and domain; the thread's own number is that of its default domain.
    tracks = names_of(document, "thread_name")
    assert (tracks[10, 10], tracks[10, 11]) == ("MainThread", "thread 11")
    (own,) = [key for key, name in tracks.items() if name == "MainThread: NCCL"]
    assert own[1] == shown["reduce"]["tid"] >= OWN_NUMBERS


def test_processes_with_one_number_are_kept_apart() -> None:
    """Of two hosts, or before and after an exec."""
    document = trace(run_of(told(Told("a", 1, 2)), told(Told("b", 1, 2)), told(Told("c", 1, 2))))
    pids = {event["name"]: event["pid"] for event in of_phase(document, "X")}
    assert pids == {"a": 10, "b": 10 + OWN_NUMBERS, "c": 10 + 2 * OWN_NUMBERS}
    labels = names_of(document, "process_labels")
    assert labels[10 + OWN_NUMBERS, 0] == "process 10"


def test_clocks_of_two_hosts_are_brought_together() -> None:
    """Monotonic clocks begin when a machine does; within a host they are one clock, whatever its pairs say."""
    second = 10**9
    one, two = Host("one"), Host("two")
    early = replace(told(Told("early", 100 * second, 101 * second)), host=one)
    late = replace(told(Told("late", 5 * second, 6 * second), pid=11), host=two)
    same = replace(told(Told("same", 102 * second, 103 * second), pid=12), host=one)
    pairs = ((100, 1_700_000_000), (5, 1_700_000_001), (100, 1_700_000_050))
    processes = [
        replace(p, ranges=replace(p.ranges, monotonic_ns=mono * second, realtime_ns=real * second))
        for p, (mono, real) in zip((early, late, same), pairs, strict=True)
    ]
    document = trace(run_of(*processes))
    assert document["baseTimeNanoseconds"] == 1_700_000_000 * second
    at = {event["name"]: event["ts"] for event in of_phase(document, "X")}
    assert at == {"early": 0, "late": 1e6, "same": 2e6}
    # Without any pair the launcher's clocks tell, and without those there is no such field.
    assert "baseTimeNanoseconds" not in trace(run_of(told(Told("a", 1, 2))))
    clocks = {"time": 50.0, "monotonic": 7.0}
    manifest = Manifest("profkit.run/1", "0", (), "", 0, "", 1.0, Host(), clocks=clocks)
    alone = trace(run_of(told(Told("a", second, 2 * second)), manifest=manifest))
    assert alone["baseTimeNanoseconds"] == 44 * second


def test_counters_are_rates_of_what_grows_and_levels_of_what_is() -> None:
    time = np.array([0, 10, 30, 30, 40], np.int64) * 10**8
    busy, runnable = [0.0, 1.5, 2.5, 2.5, math.nan], [1.0, math.nan, 3.0, 3.0, 4.0]
    series = Series(time, {"busy_s": np.array(busy), "runnable": np.array(runnable)}).validate()
    second = 10**9
    columns = [10, 10, 11, 11], [0, second, 0, second], [0, 6 * 10**8, 5, 5], [0, 3 * 10**8, 7, 7]
    samples = ThreadSamples(*np.array(columns, np.int64)).validate()
    document = trace(run_of(replace(told(), ranges=None, samples=samples), series=series))
    seen: dict[str, list[Any]] = {}
    for event in of_phase(document, "C"):
        seen.setdefault(event["name"], []).append((event["ts"] / 1e6, event["args"]))
    assert seen == {
        "CPUs in use": [(0, {"cores": 1.5}), (1, {"cores": 0.5}), (3, {"cores": 0.5})],
        "runnable threads of the machine": [
            (at, {"threads": n}) for at, n in ((0, 1), (3, 3), (3, 3), (4, 4))
        ],
        # Thread 11 did nothing.
        "MainThread 10 on a CPU": [(at, {"running": 0.6, "queued": 0.3}) for at in (0, 1)],
    }


def test_hostile_names() -> None:
    rows = [
        Told(name, i, i if i % 3 == MARK else 100 + i, domain=name, category=name, kind=i % 3, thread=i)
        for i, name in enumerate(HOSTILE)
    ]
    run = with_main(hostile_run(), ranges=ranges(rows))
    named = {event["name"] for event in trace(run)["traceEvents"] if event["ph"] in "Xbi"}
    assert "two\nlines\r\x00and\x85more\u2028here" in named
    flat = speedscope(run)
    assert {"x" * 5000, "[bold]rich[/bold]"} <= {frame["name"] for frame in flat["shared"]["frames"]}


def test_more_rows_than_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Told(f"step {i % 7}", 10 * i, 10 * i + 5, kind=PUSHED if i % 3 else STARTED) for i in range(1000)]
    run = run_of(told(*rows))

    def written() -> tuple[list[str], dict[str, Any]]:
        return sorted(map(json.dumps, trace(run)["traceEvents"])), speedscope(run)

    whole = written()
    for format in ("chrome", "speedscope"):
        monkeypatch.setattr(f"profkit.formats.export.{format}.CHUNK_ROWS", 13)
    assert written() == whole


def speedscope(run: Run) -> dict[str, Any]:
    """Write a file for speedscope and check what its schema and its reader ask for."""
    text = b"".join(speedscope_file(run).chunks).decode("utf-8")
    document = json.loads(text, parse_constant=pytest.fail)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    assert all(set(frame) <= {"name", "file", "line", "col"} for frame in frames)
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
    for one in document["profiles"]:
        assert {"type", "name", "unit", "startValue", "endValue"} <= set(one)
        assert one["unit"] in ("nanoseconds", "seconds")
        if one["type"] == "evented":
            stack: list[int] = []
            now = one["startValue"]
            for event in one["events"]:
                assert set(event) == {"type", "frame", "at"}
                assert event["at"] >= now, "events ascend"
                now = event["at"]
                if event["type"] == "O":
                    assert 0 <= event["frame"] < len(frames)
                    stack.append(event["frame"])
                else:
                    assert stack.pop() == event["frame"], "what opened last closes first"
            assert not stack
            assert now <= one["endValue"]
        else:
            assert one["type"] == "sampled"
            assert len(one["samples"]) == len(one["weights"])
            assert all(weight > 0 for weight in one["weights"])
            assert one["endValue"] == pytest.approx(sum(one["weights"]))
            assert all(0 <= frame < len(frames) for stack in one["samples"] for frame in stack)
    return document


def stacks_of(document: dict[str, Any]) -> dict[tuple[str, ...], float]:
    """Return the weights of the only profile by stack."""
    (one,) = document["profiles"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    stacks = [tuple(names[frame] for frame in stack) for stack in one["samples"]]
    return dict(zip(stacks, one["weights"], strict=True))


def durations(document: dict[str, Any], place: int) -> Counter[tuple[str, int]]:
    """Count ranges of one profile by name and duration."""
    frames = document["shared"]["frames"]
    found: Counter[tuple[str, int]] = Counter()
    stack = []
    for event in document["profiles"][place]["events"]:
        if event["type"] == "O":
            stack.append(event["at"])
        else:
            found[frames[event["frame"]]["name"], event["at"] - stack.pop()] += 1
    return found


def test_speedscope_of_ranges() -> None:
    run = run_of(told(*STORY))
    assert [sentence.split()[0] for sentence in speedscope_file(run).left_out] == ["2", "1"]
    document = speedscope(run)
    titles = [one["name"].split(" | ")[1] for one in document["profiles"]]
    assert titles == ["MainThread", "MainThread: NCCL", "thread 11"]
    assert durations(document, 0) == {
        ("step", 8999): 1,
        ("forward", 3999): 1,
        ("leaked (never ended)", 0): 1,
        ("within", 0): 1,
    }
    assert durations(document, 1) == {("reduce", 4000): 1}


def test_speedscope_of_functions_is_flat_and_tells_waiting() -> None:
    rows = [
        Row("a.py", 1, "f", 1, 2.0, qualname="C.f", wait=0.5, cumwait=0.5),
        Row("~", 0, "<built-in method g>", 1, 3.0, wait=4.0, cumwait=4.0),
        Row("a.py", 9, "idle", 1, 0.0, wait=0.0, cumwait=0.0),
    ]
    document = speedscope(run_of(Process(threads=(Thread(profile(rows), 10, "MainThread"),))))
    assert stacks_of(document) == {
        ("<built-in method g>", "[queued for a CPU]"): 3.0,  # a wait is a part of the self time, never more
        ("C.f", "[queued for a CPU]"): 0.5,
        ("C.f",): 1.5,
    }
    assert {"name": "C.f", "file": "a.py", "line": 1} in document["shared"]["frames"]
    with pytest.raises(FormatError, match="holds no function"):
        speedscope_file(run_of(Process(threads=(Thread(profile([]), 10, "MainThread"),))))


def test_speedscope_of_traced_functions_has_their_stacks() -> None:
    rows = [Row("a.py", 1, "main", 1, 1.0), Row("a.py", 5, "f", 2, 5.0), Row("a.py", 9, "g", 1, 2.0)]
    own = np.array([1.0, 2.0, 2.0, 3.0, 0.25])
    paths = Paths(
        np.array([-1, 0, 0, 2, 2], np.int32),
        np.array([0, 1, 2, 1, -1], np.int32),
        np.ones(5, np.int64),
        own,
        np.array([np.nan, 0.5, 0.0, 0.0, 0.0]),
        own * np.nan,
    ).validate(len(rows))
    thread = Thread(profile(rows), 10, "MainThread", paths=paths)
    assert stacks_of(speedscope(run_of(Process(threads=(thread,))))) == {
        ("main",): 1.0,
        ("main", "f"): 1.5,
        ("main", "f", "[queued for a CPU]"): 0.5,
        ("main", "g"): 2.0,
        ("main", "g", "f"): 3.0,
        ("main", "g", "[short calls]"): 0.25,
    }


@st.composite
def forests(draw: Any) -> list[tuple[int, int]]:
    """Ranges that nest, in the order in which they began; many begin or end at one moment."""
    found: list[tuple[int, int]] = []
    now = 0

    def grow(depth: int) -> None:
        nonlocal now
        for _ in range(draw(st.integers(0, 3))):
            now += draw(st.integers(0, 2))
            begin, place = now, len(found)
            found.append((begin, begin))
            if depth < 4:
                grow(depth + 1)
            now += draw(st.integers(0, 2))
            found[place] = (begin, now)

    grow(0)
    return found


@settings(max_examples=100)
@given(forests().filter(bool))
def test_ranges_that_nest_stay_as_they_are(rows: list[tuple[int, int]]) -> None:
    run = run_of(told(*[Told(f"r{i}", begin, end) for i, (begin, end) in enumerate(rows)]))
    expected = Counter((f"r{i}", end - begin) for i, (begin, end) in enumerate(rows))
    assert durations(speedscope(run), 0) == expected
    shown = of_phase(trace(run), "X")
    assert Counter((event["name"], round(event["dur"] * 1000)) for event in shown) == expected


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=12))
def test_ranges_that_overlap_are_cut_for_a_stack(rows: list[tuple[int, int]]) -> None:
    """Only another tool's file can hold such; what can be drawn is, and the file is valid."""
    rows.sort(key=lambda row: row[0])
    process = told(*[Told(f"r{i}", begin, begin + length) for i, (begin, length) in enumerate(rows)])
    found = durations(speedscope(run_of(process)), 0)
    assert {name for name, _ in found} == {f"r{i}" for i in range(len(rows))}
    assert all(duration <= rows[int(name[1:])][1] for name, duration in found)


@pytest.fixture
def story(tmp_path: Path) -> Path:
    threads = (Thread(profile([Row("a.py", 1, "f", tottime=1.0)]), 10, "MainThread"),)
    path = tmp_path / "run.prof"
    write_run(path, run_of(replace(told(*STORY), threads=threads)))
    return path


@pytest.mark.parametrize("to", ["perfetto", "chrome", "speedscope"])
def test_export_writes_one_file(to: str, story: Path, tmp_path: Path, capfdbinary: Any) -> None:
    plain, packed = tmp_path / "out.json", tmp_path / "out.json.gz"
    out, err = printed(capfdbinary, "export", story, "--to", to, "-o", plain)
    assert (out, err[:18]) == (b"", b"profkit: left out:")
    printed(capfdbinary, "export", story, "--to", to, "-o", packed)
    out, _ = printed(capfdbinary, "export", story, "--to", to)
    assert out == plain.read_bytes() == gzip.decompress(packed.read_bytes())
    document = json.loads(plain.read_bytes())
    if to == "speedscope":
        assert [one["type"] for one in document["profiles"]] == ["evented"] * 3 + ["sampled"]
    else:
        check_trace(document)


def test_export_in_a_terminal_writes_a_file_with_a_free_name(
    story: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there, free = (tmp_path / f"{story.stem}.trace{number}.json" for number in ("", "-2"))
    there.write_text("mine")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out, err = printed(capsys, "export", story, "--to", "perfetto")
    assert there.read_text() == "mine"
    check_trace(json.loads(free.read_bytes()))
    assert out == ""
    assert f"profkit: wrote {free.name}\n" in err


def test_export_of_what_cannot_be(story: Path, tmp_path: Path, capsys: Capture) -> None:
    foreign, output = tmp_path / "foreign.prof", tmp_path / "x.json"
    assert exit_code("extract", story, "-o", foreign) == 0
    for arguments, says in (
        ((foreign, "--to", "perfetto", "-o", output), "nothing with time stamps"),
        ((story, "--to", "svg", "-o", output), "--to svg: not a format"),
        ((story, "-o", output), "add --to with one of perfetto, chrome,"),
        ((story, "--to", "chrome", "-o", story), "name another file"),
        ((tmp_path / "none.prof", "--to", "chrome"), "none.prof"),
        ((story, story, "--to", "pprof"), "--to firefox takes several"),
        ((story, "--to", "pstats", "-o", tmp_path / "x.prof.gz"), "readers of pstats do not unpack .gz"),
        ((story, "--to", "parquet", "-o", tmp_path / "x.GZ"), "readers of parquet do not unpack .gz"),
    ):
        assert says in refused(capsys, "export", *arguments)
    assert list(tmp_path.glob("x*")) == []
