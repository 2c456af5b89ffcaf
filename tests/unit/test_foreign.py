"""Files of other tools: those in ``fuzz/seeds/foreign`` were written by the tools, all but ``nsys.sqlite``."""

from __future__ import annotations

import contextlib
import gzip
import json
import marshal
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.target import SEEDS
from profkit.errors import FormatError
from profkit.formats import load_run
from profkit.formats.foreign.calls import segments
from profkit.formats.foreign.stacks import NATIVE, frame_of, profile_from_stacks
from profkit.model import Run
from tests.builders import times_of
from tests.shared import Capture, check_schema, printed

FILES = sorted((SEEDS / "foreign").iterdir())
#: Unpacking it needs Python 3.14, or a package.
PLAIN = [path for path in FILES if path.name != "tachyon-zstd.bin"]
A, B, C = ("/p.py", 1, "a"), ("/p.py", 5, "K.b"), ("~", 0, "std::c.1")


def named(run: Run, thread: int = 0) -> dict[str, tuple[float, float]]:
    return times_of(run.processes[0].threads[thread].profile)


def read(tmp_path: Path, content: str | bytes | dict[str, Any] | list[Any], name: str = "file") -> Run:
    path = tmp_path / name
    data = json.dumps(content) if isinstance(content, dict | list) else content
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return load_run(path)


def said_by(capsys: Capture, *words: str | Path) -> str:
    """What a command that succeeds prints, on both streams."""
    return "".join(printed(capsys, *words))


def event(name: str, ts: float, dur: float, cat: str = "python_function", tid: int = 5) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 5, "tid": tid}


def database(tmp_path: Path, script: str) -> Path:
    path = tmp_path / "made.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.executescript(script)
    return path


def test_stacks_become_functions_whose_calls_are_unknown() -> None:
    profile = profile_from_stacks(
        [((A, B, B, C), 1.0, 100), ((A, B), 0.5, 50), ((A, B, B, C), 1.0, 100), ((), 9.0, 9)]
    )
    assert times_of(profile) == {"a": (0.0, 2.5), "b": (0.5, 2.5), "std::c.1": (2.0, 2.0)}
    assert np.isnan(profile.calls_low).all()
    assert not profile.ncalls.any()
    assert profile.samples.tolist() == [0, 50, 200]
    # Of 200 samples the error is about 2 / sqrt(200); of one that was never seen inside, three samples.
    assert profile.tottime_error[[2, 0]] == pytest.approx([2 * 0.14, 0.03], abs=0.02)
    columns = (getattr(profile.edges, name) for name in ("caller", "callee", "tottime", "cumtime"))
    assert list(zip(*columns, strict=True)) == [(0, 1, 0.5, 2.5), (1, 1, 0.0, 2.0), (1, 2, 2.0, 2.0)]


def test_lines_that_ran_are_one_function_and_nameless_ones_are_apart() -> None:
    lines = ((7, "f"), (5, "f"), (7, "<lambda>"), (8, "<lambda>"), (5, "<lambda>"))
    profile = profile_from_stacks([((("/p.py", *at),), 1.0, 1) for at in lines], executed_lines=True)
    names = [profile.strings[i] for i in profile.name]
    found = list(zip(profile.line, names, profile.tottime, strict=True))
    assert found == [(5, "f", 2.0), *((*at, 1.0) for at in lines[2:])]


def test_a_line_that_is_not_known_is_not_the_lowest() -> None:
    profile = profile_from_stacks([((("/p.py", at, "f"),), 1.0, 1) for at in (7, 0, 5)], executed_lines=True)
    assert (profile.line.tolist(), profile.tottime.tolist()) == ([5], [3.0])


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("K.b (dir/p.py:17)", ("dir/p.py", 17, "K.b")),
        ("dir/p.py:K.b:17", ("dir/p.py", 17, "K.b")),
        ("<frozen runpy>:_run_code:87", ("<frozen runpy>", 87, "_run_code")),
        ("nn/linear.py(130): forward", ("nn/linear.py", 130, "forward")),
        ("py::K.b:/dir/p.py+0xa", ("/dir/p.py", 0, "K.b")),
        ("std::sort<int>", ("~", 0, "std::sort<int>")),
        ("a::b:17", ("~", 0, "a::b:17")),
        ("sum (libm.so.6)", ("~", 0, "sum (libm.so.6)")),
        ("K.b (dir (old)/p.py)", ("dir (old)/p.py", 0, "K.b")),
        ("_call (<frozen importlib._bootstrap>)", ("<frozen importlib._bootstrap>", 0, "_call")),
        ("operator() (p.py)", ("~", 0, "operator() (p.py)")),
    ],
)
def test_frames_as_tools_write_them(text: str, frame: tuple[str, int, str]) -> None:
    assert frame_of(text) == frame


@pytest.mark.parametrize("part", [" (", "(1): ", "py::a:/", "a:", ".py) ("])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_long_frame_does_not_hold_the_reader_up(part: str, end: str) -> None:
    """In time that grows with the square of the length, each would take minutes."""
    long, short = (frame_of("x" + part * times + end) for times in (100_000, 3))
    assert (long[0] == NATIVE, long[1]) == (short[0] == NATIVE, short[1])


def test_threads_and_processes_of_collapsed_stacks(tmp_path: Path) -> None:
    run = read(
        tmp_path,
        'process 7:"python p.py";thread (8): Loader;f (p.py:1) 3\n'
        'process 7:"python p.py";thread (7): MainThread;f (p.py:1);g (p.py:9) 5\n'
        " 2\n"
        'process 9:"python q.py";thread (9): MainThread;h (q.py:1) 1\n',
    )
    assert [(p.pid, p.role, [(t.tid, t.name) for t in p.threads]) for p in run.processes] == [
        (7, "main", [(7, "MainThread"), (8, "Loader")]),
        (9, "child", [(9, "MainThread")]),
    ]
    assert named(run) == {"f": (0.0, 0.05), "g": (0.05, 0.05)}
    assert run.warnings[0].numbers == {"assumed": 100.0}


def test_austin_counts_microseconds(tmp_path: Path) -> None:
    head = "# austin: 3.6.0\n# interval: 100\n# mode: wall\n\n"
    run = read(tmp_path, head + "P5;T0:5;/p.py:f:3;/p.py:g:9 1500\nP5;T0:5;/p.py:f:4 500\n")
    assert named(run) == {"f": (0.0005, 0.002), "g": (0.0015, 0.0015)}
    assert not run.warnings[0].numbers
    with pytest.raises(FormatError, match="memory sizes"):
        read(tmp_path, head.replace("wall", "memory") + "P5;T5;/p.py:f:3 1500\n")


def test_the_interpreter_s_time_is_that_of_the_python_function(tmp_path: Path) -> None:
    """In perf's stacks; two samples of an event that is no clock stand for the time between them."""
    text = """python 7/9 [001] 10.000000:  4000 cycles:u:
\t 11 _PyEval_EvalFrameDefault+0x3b (/usr/bin/python3.13)
\t 12 py::leaf:/p.py+0xa (/tmp/perf-7.map)
\t 13 [unknown] (/usr/lib/libpython3.13.so.1.0)
\t 14 py::<module>:/p.py+0xa (/tmp/perf-7.map)

python 7/9 [001] 10.020000:  9000 cycles:u:
\t 15 __sqrt+0x3b (/usr/lib/libm.so.6)
\t 14 py::<module>:/p.py+0xa (/tmp/perf-7.map)

"""
    run = read(tmp_path, text)
    expected = {"leaf": (0.02, 0.02), "<module>": (0.0, 0.04), "__sqrt": (0.02, 0.02)}
    assert named(run) == {name: pytest.approx(times) for name, times in expected.items()}
    assert run.processes[0].pid == 7
    assert run.processes[0].threads[0].tid == 9


def test_evented_profiles_and_what_counts_no_time(tmp_path: Path) -> None:
    frames = [{"name": "a", "file": "p.py", "line": 1}, {"name": "b"}]
    profile = {"type": "evented", "name": "main", "unit": "milliseconds", "startValue": 0, "endValue": 9}
    profile["events"] = [
        {"type": kind, "frame": frame, "at": at}
        for kind, frame, at in (("O", 0, 0), ("O", 1, 2), ("C", 1, 5), ("C", 0, 9))
    ]
    data = {"exporter": "tool@1", "shared": {"frames": frames}, "profiles": [profile]}
    run = read(tmp_path, data)
    assert named(run) == {"a": pytest.approx((0.006, 0.009)), "b": pytest.approx((0.003, 0.003))}
    assert run.warnings[0].subject == "tool"
    profile["unit"] = "bytes"
    with pytest.raises(FormatError, match="bytes, not time"):
        read(tmp_path, data)
    data["exporter"] = "profkit"
    with pytest.raises(FormatError, match="run file"):
        read(tmp_path, data)


@pytest.mark.parametrize("kind", ["sampled", "evented"])
def test_a_weight_without_a_unit_is_a_number_of_samples(tmp_path: Path, kind: str) -> None:
    profile: dict[str, Any] = {"type": kind, "name": "main", "unit": "none", "startValue": 0}
    profile |= {"samples": [[0], [1], [1]], "weights": [500, 1000, 0]}
    places = (("O", 0, 0), ("C", 0, 500), ("O", 1, 500), ("C", 1, 1500))
    profile["events"] = [{"type": what, "frame": frame, "at": at} for what, frame, at in places]
    run = read(tmp_path, {"shared": {"frames": [{"name": "a"}, {"name": "b"}]}, "profiles": [profile]})
    found = run.processes[0].threads[0].profile
    assert (found.samples.tolist(), found.tottime.tolist()) == ([500, 1000], [5.0, 10.0])
    assert found.tottime_error.max() < 1.0


def test_nested_calls_are_exact_and_recursion_counts_once(tmp_path: Path) -> None:
    events = [
        event("p.py(1): f", 100, 100),
        event("p.py(1): f", 110, 50),
        event("aten::mm", 120, 30, "cpu_op"),
        event("aten::mm", 170, 10, "cpu_op"),
        event("step", 100, 100, "user_annotation"),
        event("data", 110, 20, "user_annotation"),
        event("gemm", 150, 100, "kernel"),
    ]
    run = read(tmp_path, {"traceEvents": events})
    (process,) = run.processes
    profile = process.threads[0].profile
    assert named(run) == {"f": pytest.approx((60e-6, 100e-6)), "aten::mm": pytest.approx((40e-6, 40e-6))}
    assert profile.calls_low is None
    assert (profile.ncalls.tolist(), profile.primitive_calls.tolist()) == ([2, 2], [1, 2])
    ranges = process.ranges
    assert [ranges.strings[i] for i in ranges.name] == ["step", "data"]
    assert ranges.parent.tolist() == [-1, 0]
    whole = json.dumps({"traceEvents": events}).encode()
    assert named(read(tmp_path, gzip.compress(whole))) == named(run)
    # As of files that were compressed apart and joined, and of what is written a part at a time.
    assert named(read(tmp_path, gzip.compress(whole[:99]) + gzip.compress(whole[99:]))) == named(run)


@pytest.mark.parametrize("lost", [4, 9])
def test_a_compressed_file_that_was_cut_off_is_damaged(tmp_path: Path, lost: int) -> None:
    packed = gzip.compress(json.dumps({"traceEvents": [event("p.py(1): f", 0, 100)]}).encode())
    with pytest.raises(FormatError, match=r"is damaged: .* ended before"):
        read(tmp_path, packed[:-lost])


def test_what_is_read_only_unpacked_is_to_be_unpacked(tmp_path: Path) -> None:
    dump = marshal.dumps({("p.py", 1, "f"): (1, 1, 0.5, 0.5, {})})
    for data in (dump, (SEEDS / "foreign" / "nsys.sqlite").read_bytes()):
        with pytest.raises(FormatError, match="is compressed, and as such no profile that is read") as caught:
            read(tmp_path, gzip.compress(data))
        assert caught.value.hint == "unpack it with gunzip"


def test_a_call_that_never_ends_cuts_no_other(tmp_path: Path) -> None:
    events = [event("p.py(5): g", 10, 90), {"ph": "B", "name": "p.py(1): f", "ts": 0, "pid": 5, "tid": 5}]
    run = read(tmp_path, {"traceEvents": events})
    assert named(run) == {"f": pytest.approx((10e-6, 100e-6)), "g": pytest.approx((90e-6, 90e-6))}


@pytest.mark.parametrize("end", ["", "\n", ",\n"])
def test_an_array_of_events_may_lack_its_end(tmp_path: Path, end: str) -> None:
    whole = json.dumps([event("p.py(1): f", 0, 100), event("p.py(5): g", 10, 90)])
    assert named(read(tmp_path, whole[:-1] + end)) == named(read(tmp_path, whole))
    with pytest.raises(FormatError, match="is damaged: Expecting"):
        read(tmp_path, whole[:-2] + end)


def test_segments_are_the_innermost_calls_over_time() -> None:
    calls = [(0.0, 10.0, A), (2.0, 4.0, B), (4.0, 20.0, C), (30.0, 31.0, A)]
    assert list(segments(calls)) == [
        ((A,), 0.0, 2.0),
        ((A, B), 2.0, 4.0),
        ((A, C), 4.0, 10.0),
        ((A,), 30.0, 31.0),
    ]


def test_an_nsys_export_has_ranges_and_cuda_calls(tmp_path: Path) -> None:
    run = load_run(SEEDS / "foreign" / "nsys.sqlite")
    assert [(idle.function, idle.seconds) for idle in run.gpu.idle] == [
        ("data", pytest.approx(0.022)),
        ("forward", pytest.approx(0.002)),
    ]
    (process,) = run.processes
    assert process.pid == 4242
    assert process.ranges.duration_s.tolist() == pytest.approx([0.012, 0.008] * 3)
    profile = process.threads[0].profile
    assert (profile.ncalls.tolist(), profile.tottime.tolist()) == ([3], [pytest.approx(60e-6)])
    with pytest.raises(FormatError, match="not an Nsight Systems export"):
        load_run(database(tmp_path, "CREATE TABLE other (x)"))


def test_cpu_samples_of_nsys(tmp_path: Path) -> None:
    script = """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE COMPOSITE_EVENTS (id INT, start INT, cpu INT, threadState INT, globalTid INT, cpuCycles INT);
        CREATE TABLE SAMPLING_CALLCHAINS (id INT, symbol INT, module INT, unresolved INT, stackDepth INT);
        INSERT INTO StringIds VALUES (1, 'main'), (2, 'compute');
        INSERT INTO COMPOSITE_EVENTS VALUES (1, 0, 0, 1, 117440520, 9), (2, 1000000, 0, 1, 117440520, 9);
        INSERT INTO SAMPLING_CALLCHAINS VALUES (1, 2, 1, 0, 0), (1, 1, 1, 0, 1), (2, 1, 1, 0, 0);
    """
    run = load_run(database(tmp_path, script))
    assert named(run) == {"main": pytest.approx((0.001, 0.002)), "compute": pytest.approx((0.001, 0.001))}
    assert (run.processes[0].pid, run.processes[0].threads[0].tid) == (7, 8)


def test_the_gpu_was_idle_because_of(tmp_path: Path, capsys: Capture) -> None:
    """Work from 100 to 200 and from 190 to 250, then from 400 to 500 µs; the CPU was in `load` and its sleep."""

    events = [
        *(event("gemm", ts, dur, "kernel", 7) for ts, dur in ((100, 100), (190, 60), (400, 100))),
        event("p.py(1): train", 0, 450),
        event("cudaLaunchKernel", 60, 5, "cuda_runtime"),
        event("p.py(5): load", 240, 130),
        event("<built-in function sleep>", 260, 100),
        *(event("p.py(9): other", ts, 1, tid=6) for ts in range(0, 500, 2)),
    ]
    use = read(tmp_path, {"traceEvents": events}).gpu
    assert (use.span_s, use.busy_s) == pytest.approx((400e-6, 250e-6))
    idle = [(one.function, one.within) for one in use.idle]
    assert idle == [("<built-in function sleep>", "load"), ("train", ""), ("load", "")]
    assert [one.seconds for one in use.idle] == pytest.approx([100e-6, 30e-6, 20e-6])
    path, kept = tmp_path / "file", tmp_path / "kept.prof"
    shown = " ".join(said_by(capsys, "show", path, "--format", "md").split())
    assert "was idle for 150 µs (37.5 %)" in shown
    assert "sleep" in shown[shown.index("GPU idle") :].split("Functions")[0]
    shown_json = json.loads(said_by(capsys, "show", path, "--format", "json"))
    check_schema(shown_json, "show-2.json")
    assert shown_json["gpu"]["idle"][0]["within"] == "load"
    # It is kept in a run file.
    said_by(capsys, "merge", path, "-o", kept)
    assert load_run(kept).gpu == use


def test_the_gpu_is_busy_while_nsys_sees_a_graph_run(tmp_path: Path) -> None:
    """A graph's kernels have no rows of their own; one without times (0 and 0) is left out."""
    script = """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, nameId INT, globalTid INT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, graphId INT);
        INSERT INTO StringIds VALUES (1, 'cudaGraphLaunch');
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5000, 9000, 1, 117440520);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (6000, 7000), (15000, 16000);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (7000, 10000, 1), (11000, 15000, 1), (0, 0, 1);
    """
    use = load_run(database(tmp_path, script)).gpu
    assert (use.span_s, use.busy_s) == pytest.approx((10e-6, 9e-6))


def test_a_view_that_never_ends_is_no_table(tmp_path: Path) -> None:
    script = """
        CREATE TABLE NVTX_EVENTS (start INT);
        CREATE VIEW StringIds AS WITH RECURSIVE n(id, value)
            AS (SELECT 1, 'x' UNION ALL SELECT id + 1, 'x' FROM n) SELECT id, value FROM n;
    """
    with pytest.raises(FormatError, match="no functions"):
        load_run(database(tmp_path, script))


def test_a_tachyon_file_of_another_version_or_cut_off(tmp_path: Path) -> None:
    data = (SEEDS / "foreign" / "tachyon.bin").read_bytes()
    with pytest.raises(FormatError, match="version 2"):
        read(tmp_path, data[:4] + b"\2" + data[5:])
    with pytest.raises(FormatError, match="damaged"):
        read(tmp_path, data[:-1])
    run = load_run(SEEDS / "foreign" / "tachyon.bin")
    assert run.processes[0].python.startswith("3.15.")
    # The main thread and the one that sleeps were sampled for the same time, and nothing of the profiler is in it.
    both = [thread.profile.total for thread in run.processes[0].threads]
    assert len(both) == 2
    assert both[0] == pytest.approx(both[1], rel=0.1)
    strings = {text for thread in run.processes[0].threads for text in thread.profile.strings}
    assert not any("_sync_coordinator" in text for text in strings)


@pytest.mark.parametrize(
    "path", [path for path in PLAIN if "torch" not in path.name and "nsys" not in path.name]
)
def test_reports_neither_print_calls_nor_judge_from_them(path: Path, capsys: Capture) -> None:
    shown = said_by(capsys, "show", path, "--full")
    assert "calls and waiting of functions are not known" in " ".join(shown.split())
    data = json.loads(said_by(capsys, "show", path, "--format", "json"))
    assert {row["ncalls_kind"] for row in data["functions"]} == {"unknown"}
    found = said_by(capsys, "diff", path, SEEDS / "foreign" / "pyspy.json", "--format", "json")
    assert json.loads(found)["verdict"]["cause"] in ("inconclusive", "no-change")


def test_other_json_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not a known profile"):
        read(tmp_path, {"a": 1})
