"""Captures of a part of a run: windows by the clock, by ranges, by steps, by the program; ranks; counters alone."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.running import read_running
from profkit.formats import load_run
from profkit.model import Process, Run, Thread
from tests.integration.capturing import (
    PROGRAMS,
    ROOT,
    calls,
    captured,
    codes,
    ended,
    environment,
    in_process,
    names,
    require_collector,
    rows,
    run_capture,
    script,
    started,
    wait_until,
)
from tests.interpreters import interpreter
from tests.shared import succeeded

PROGRAM = str(PROGRAMS / "windowed.py")
#: Its status where it began after a window by the clock, on a busy machine.
TOO_LATE = 3


@pytest.fixture(params=["this", "3.12"])
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter of each mechanism: this one, mostly 3.11, and one with `sys.monitoring`."""
    return sys.executable if request.param == "this" else interpreter(request.param)


def windowed(directory: Path, python: str, *words: str, options: tuple[str, ...]) -> Run:
    """Capture the program, in whose environment profkit is, and which checks by itself when it is traced."""
    env = environment(PYTHONPATH=str(ROOT))
    for _ in range(3):
        command = (python, PROGRAM, *words)
        done = run_capture(directory, *command, options=options, env=env, status=None, timeout=120)
        if done.returncode != TOO_LATE:
            break
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    return done.run


def windows_add_up(run: Run) -> None:
    manifest = run.manifest
    lengths = [window.end_s - window.begin_s for window in manifest.windows if window.captured]
    assert manifest.wall_s == pytest.approx(sum(lengths), abs=1e-6)
    assert 0 < manifest.wall_s < manifest.whole_s
    assert all(0 <= window.begin_s <= window.end_s <= manifest.whole_s for window in manifest.windows)
    for process in run.processes:
        assert process.wall_s <= manifest.wall_s + 1e-6
        for thread in process.threads:
            assert (thread.run_s or 0.0) + (thread.run_queue_wait_s or 0.0) <= manifest.wall_s + 1e-6


def test_the_program_opens_windows_for_all_threads(tmp_path: Path, python: str) -> None:
    run = windowed(tmp_path, python, "code", options=("--start-paused",))
    windows_add_up(run)
    assert [(w.name, w.captured) for w in run.manifest.windows] == [("part 0", True), ("part 1", True)]
    process = run.processes[0]
    threads = {thread.name: index for index, thread in enumerate(process.threads)}
    main, busy, waiting = (calls(process, threads[name]) for name in ("MainThread", "busy", "waiting"))
    assert main["inside"] == 40
    assert "outside" not in main
    # What was in progress when a window opened is counted from there, in every thread.
    assert main["in_code"] == main["<module>"] == 2
    assert {"beside", "run", "_bootstrap"} <= set(busy)
    assert waiting["wait_for_end"] == 2
    # The report says the same.
    shown = in_process(tmp_path, "show", "--format", "json", "run.prof")
    value = json.loads(shown.stdout)
    manifest = run.manifest
    assert [tuple(window.values()) for window in value["windows"]] == [
        (window.name, window.begin_s, window.end_s, window.captured) for window in manifest.windows
    ]
    assert value["windows_total"] == 2
    assert (value["manifest"]["wall_s"], value["manifest"]["whole_s"]) == (manifest.wall_s, manifest.whole_s)


def test_named_parts_of_a_whole_run(tmp_path: Path) -> None:
    program = "import profkit\nwith profkit.window('epoch 3'):\n    pass"
    run = captured(tmp_path, sys.executable, "-c", program, env=environment(PYTHONPATH=str(ROOT)))
    assert [(w.name, w.captured) for w in run.manifest.windows] == [("epoch 3", False)]
    assert run.manifest.whole_s is None
    assert "<module>" in calls(run.processes[0])


@pytest.mark.parametrize(
    ("cycles", "opened"), [((), ["0"]), (("--cycles", "2"), ["0", "1"]), (("--cycles", "0"), ["0", "1", "2"])]
)
def test_a_range_opens_windows(
    tmp_path: Path, python: str, cycles: tuple[str, ...], opened: list[str]
) -> None:
    require_collector()
    options = ("--capture-range", "epoch 7", *cycles)
    run = windowed(tmp_path, python, "range", "epoch 7", *opened, options=options)
    windows_add_up(run)
    assert [window.name for window in run.manifest.windows] == ["epoch 7"] * len(opened)
    process = run.processes[0]
    assert calls(process)["inside"] == 10 * len(opened)
    assert "outside" not in calls(process)
    # Of the ranges, those of the windows.
    assert [name for name, _, _ in rows(process)] == ["epoch 7"] * len(opened)


def test_a_range_that_a_thread_without_the_gil_pushes(tmp_path: Path, python: str) -> None:
    require_collector()
    options = ("--capture-range", "epoch 7@*", "--cycles", "0")
    run = windowed(tmp_path, python, "range-without-gil", "epoch 7", "0", "1", "2", options=options)
    windows_add_up(run)
    assert calls(run.processes[0])["inside"] == 30
    assert "outside" not in calls(run.processes[0])


@pytest.mark.parametrize("kind", ["ranges-of-threads", "ranges-of-threads-without-gil"])
def test_a_window_lasts_as_long_as_the_range_that_opened_it(tmp_path: Path, python: str, kind: str) -> None:
    require_collector()
    options = ("--capture-range", "request", "--cycles", "0")
    run = windowed(tmp_path, python, kind, "request", options=options)
    windows_add_up(run)
    # Not where another thread's ends; where its own thread ends.
    assert len(run.manifest.windows) == 3
    found = calls(run.processes[0])
    assert found["inside"] == 3
    assert "outside" not in found


@pytest.mark.parametrize("kind", ["range", "call"])
def test_steps(tmp_path: Path, python: str, kind: str) -> None:
    options = ("--wait", "3", "--warmup", "2", "--active", "4", "--cycles", "2")
    if kind == "range":
        require_collector()
        options = (*options, "--step-range", "step 0")
    run = windowed(tmp_path, python, "steps", kind, "3", "2", "4", "2", options=options)
    windows_add_up(run)
    assert [window.name for window in run.manifest.windows] == ["steps 5-8", "steps 14-17"]
    found = calls(run.processes[0])
    assert found["inside"] == 8
    assert not {"outside", "warming"} & set(found)
    assert found["in_steps"] == 2


def test_each_cycle_of_steps_is_a_window_of_its_own(tmp_path: Path, python: str) -> None:
    options = ("--active", "4", "--cycles", "2")
    run = windowed(tmp_path, python, "steps", "call", "0", "0", "4", "2", options=options)
    assert [window.name for window in run.manifest.windows] == ["steps 0-3", "steps 4-7"]
    assert calls(run.processes[0])["inside"] == 8


def test_a_window_by_the_clock(tmp_path: Path, python: str) -> None:
    options = ("--delay", "1", "--duration", "0.5")
    run = windowed(tmp_path, python, "clock", options=options)
    windows_add_up(run)
    assert run.manifest.wall_s == pytest.approx(0.5)
    assert run.manifest.windows[0].begin_s == pytest.approx(1.0)
    found = calls(run.processes[0])
    assert found["inside"] > 0
    assert found["by_clock"] == 1
    assert "outside" not in found


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_were_there_before_follow(tmp_path: Path, python: str, method: str) -> None:
    run = windowed(tmp_path, python, "pool", method, options=("--start-paused",))
    workers = [process for process in run.processes if "inside" in calls(process)]
    assert len(workers) == 2
    assert {process.role for process in workers} == {"worker"}
    assert all(calls(process)["inside"] > 0 and process.cpu_s is not None for process in workers)
    assert [window.name for window in run.manifest.windows] == ["workers"]


def test_forked_children_are_in_the_window_or_not(tmp_path: Path, python: str) -> None:
    run = windowed(tmp_path, python, "forks", options=("--start-paused",))
    found = [calls(process) for process in run.processes]
    assert sum("inside" in each for each in found) == 1
    assert not any("outside" in each for each in found)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--delay", "600"), "window-not-reached", "600 s"),
        (("--capture-range", "epoch 3@train"), "window-range-missing", "“epoch 3” of the domain “train”"),
        (("--active", "2", "--wait", "9"), "window-steps-missing", "first 9 steps"),
        (("--start-paused",), "window-not-started", "profkit.start()"),
    ],
)
def test_a_window_that_never_opened_is_said(
    tmp_path: Path, options: tuple[str, ...], code: str, said: str
) -> None:
    done = run_capture(tmp_path, sys.executable, "-c", "import sys; sys.exit(7)", options=options, status=7)
    assert "the window never opened" in done.stderr
    assert said in done.stderr
    run = done.run
    assert code in codes(run)
    assert not any(len(thread.profile) for process in run.processes for thread in process.threads)
    # All there is are the counters of the whole run.
    assert run.manifest.whole_s is None
    assert run.processes[0].cpu_s is not None
    shown = in_process(tmp_path, "show", "run.prof")
    assert "the window never opened" in " ".join(shown.stdout.split())


def test_functions_of_some_ranks(tmp_path: Path) -> None:
    script = "for rank in 0 1 2; do RANK=$rank WORLD_SIZE=3 $0 $1 rank & done; wait"
    run = captured(tmp_path, "bash", "-c", script, sys.executable, PROGRAM, options=("--ranks", "1-2"))
    ranks = {process.rank: process for process in run.processes if process.rank is not None}
    assert sorted(ranks) == [0, 1, 2]
    assert not any(len(thread.profile) for thread in ranks[0].threads)
    assert not ranks[0].profiled
    assert ranks[0].cpu_s is not None
    assert ["inside" in calls(ranks[rank]) for rank in (1, 2)] == [True, True]
    assert "ranks-selected" in codes(run)


def test_counters_alone(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "assert not hasattr(sys, '_profkit') and 'PYTHONPATH' not in os.environ, 'something is in the target'\n"
        "begun = time.perf_counter()\n"
        "while time.perf_counter() - begun < 0.5: pass\n"
    )
    sides = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run = captured(tmp_path / name, sys.executable, "-c", program, options=("--counters-only",))
        assert codes(run) == ["counters-only"]
        assert run.processes[0].role == "main"
        assert (run.processes[0].cpu_s or 0.0) > 0
        sides.append(f"{name}/run.prof")
    for words in (("show", sides[0]), ("show", "--full", sides[0]), ("diff", *sides)):
        done = in_process(tmp_path, *words)
        assert "functions were not captured (--counters-only)" in " ".join(done.stdout.split())
    done = in_process(tmp_path, "diff", *sides, "--format", "json")
    account = json.loads(done.stdout)["account"]
    seconds = sum(bucket["seconds"] for bucket in account["buckets"])
    assert seconds == pytest.approx(account["added_s"], abs=1e-6)


def test_without_a_capture_the_calls_do_nothing() -> None:
    program = (
        "import sys, profkit\n"
        "before = set(sys.modules)\n"
        "profkit.start('a'); profkit.step(); profkit.stop()\n"
        "with profkit.window('b'): pass\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    done = succeeded([sys.executable, "-c", program], env=environment(PYTHONPATH=str(ROOT)))
    loaded = done.stdout.strip()
    assert "profkit.api.windows" in loaded
    for heavy in ("numpy", "click", "typing", "contextlib", "profkit.api.run"):
        assert f"'{heavy}'" not in loaded


# A run that is still going


def contents(spool: Path) -> dict[str, str]:
    """Of each file that no process of the run writes meanwhile: names, and what is in them."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in spool.iterdir()
        if path.is_file() and path.suffix not in (".reserve", ".samples", ".record")
    }


def test_a_run_that_is_still_going_is_shown(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "def piece():\n"
        "    sum(range(1000))\n"
        "def going():\n"
        "    for _ in range(100): piece()\n"
        "    open('begun', 'w').close()\n"
        "    while not os.path.exists('end'): piece()\n"
        "going()\n"
    )
    words = ("capture", "-q", "--exact", "-o", "run.prof", "--", sys.executable, "-c", program)
    capture = started(tmp_path, *words)
    try:
        wait_until((tmp_path / "begun").exists)
        (spool,) = tmp_path.glob(".run.prof.spool-*")
        before = contents(spool)
        counted = 0
        for name in ("run.prof", str(spool), str(capture.pid)):
            found = json.loads(in_process(tmp_path, "show", name, "--format", "json").stdout)
            assert [notice["code"] for notice in found["warnings"]] == ["capture-running"]
            assert "still running: " in found["warnings"][0]["text"]
            rows = {row["name"]: row["ncalls"] for row in found["functions"]}
            assert rows["piece"] > max(99, counted), "it does not go on"
            counted = rows["piece"]
            assert "going" in {call["name"] for call in found["functions"]}
        assert contents(spool) == before
        assert capture.poll() is None
    finally:
        (tmp_path / "end").touch()
        ended(capture)
    assert (tmp_path / "run.prof").is_file()
    assert not spool.exists()
    assert calls(load_run(tmp_path / "run.prof").processes[0])["piece"] > counted


def all_calls(run: Run) -> int:
    return sum(int(t.profile.ncalls.sum()) for process in run.processes for t in process.threads)


def test_tables_that_grow_while_they_are_read(tmp_path: Path, python: str) -> None:
    program = [python, str(PROGRAMS / "growing.py"), "end"]
    with started(tmp_path, "capture", "-q", "--exact", "-o", "run.prof", "--", *program) as job:
        assert job.stdout.readline() == "ready\n"
        (spool,) = tmp_path.glob(".run.prof.spool-*")
        counted = read = 0
        found: set[str] = set()
        # Until the tables have grown many times, and many threads have ended.
        until = time.monotonic() + 60
        while read < 10 or "made_0_120_0" not in found:
            assert time.monotonic() < until, "it does not go on"
            run = read_running(spool)
            found = {name for process in run.processes for name in calls(process)}
            # Nothing is left out as damaged, and nothing that was there once is missing.
            assert codes(run) == ["capture-running"]
            assert all_calls(run) >= counted
            counted = all_calls(run)
            read += 1
        shown = in_process(tmp_path, "show", "run.prof", "--format", "json")
        assert [notice["code"] for notice in json.loads(shown.stdout)["warnings"]] == ["capture-running"]
        (tmp_path / "end").touch()
    assert job.returncode == 0
    assert all_calls(load_run(tmp_path / "run.prof")) >= counted


# Windows, the budget for overhead, calling contexts, forked workers and NVTX ranges, each beside each of the others.
# What holds of each of them alone must hold of all together.

COMBINED = str(PROGRAMS / "combined.py")
#: Calls of `tiny` in each part of the program, by the budget: more than any that could be paid for, were they not
#: traced in any case.
CALLS = {"exact": 100_000, "5%": 1_500_000}

#: Each choice of a column stands beside each one of every other column.
ROWS = [
    ("3.11", "whole", "exact", "ranges", "workers"),
    ("3.12", "whole", "5%", "-", "-"),
    ("3.11", "code", "5%", "ranges", "-"),
    ("3.12", "code", "exact", "-", "workers"),
    ("3.11", "range", "exact", "-", "-"),
    ("3.12", "range", "5%", "ranges", "workers"),
    ("3.11", "steps", "5%", "-", "workers"),
    ("3.12", "steps", "exact", "ranges", "-"),
    ("3.12", "steps", "5%", "ranges", "workers"),
]
WHILE_ANOTHER_FOLLOWS = """
import gc, threading, time
import profkit
def leaf(): pass
def inside():
    for _ in range(1000): leaf()
(session,) = (one for one in gc.get_objects() if type(one).__name__ == "Session")
def follow():
    with session._following:
        held.set()
        time.sleep(0.05)
for _ in range(3):
    held = threading.Event()
    other = threading.Thread(target=follow)
    other.start()
    held.wait()
    with profkit.window("w"): inside()
    other.join()
"""


def test_a_window_that_begins_while_another_thread_follows_is_whole(tmp_path: Path, python: str) -> None:
    """The agent's thread looks at the windows now and then, perhaps just before one begins."""
    env = environment(PYTHONPATH=str(ROOT))
    program = script(tmp_path, WHILE_ANOTHER_FOLLOWS)
    run = captured(tmp_path, python, program, options=("--start-paused", "--exact"), env=env)
    assert calls(run.processes[0])["leaf"] == 3000


OPTIONS = {
    "whole": (),
    "code": ("--start-paused",),
    "range": ("--capture-range", "epoch", "--cycles", "0"),
    "steps": ("--wait", "1", "--warmup", "1", "--active", "1", "--cycles", "2"),
}


def contexts_add_up(thread: Thread) -> None:
    """The contexts of a thread have all calls of its functions, and their own times."""
    paths, profile = thread.paths, thread.profile
    assert paths.ncalls.sum() == profile.ncalls.sum()
    # The tracer's own time is taken out of every call, of the shortest more than they have: there sums differ.
    slack = 1e-3 + 0.1 * profile.total
    assert paths.tottime.sum() == pytest.approx(profile.total, abs=slack)
    known = paths.function >= 0
    of_function = np.bincount(paths.function[known], paths.tottime[known], len(profile))
    kept_apart = np.bincount(paths.function[known], paths.ncalls[known], len(profile)) == profile.ncalls
    assert (np.abs(of_function - profile.tottime)[kept_apart] <= slack).all()
    assert (of_function <= profile.tottime + slack).all()


def in_ranges(process: Process, name: str) -> int:
    """Calls of a function while a range `step {n}` was open."""
    found = 0
    for thread in (thread for thread in process.threads if thread.range_calls is not None):
        inside, functions = thread.range_calls, names(thread.profile)
        for at, function in enumerate(inside.function.tolist()):
            context = inside.strings[inside.name[inside.context[at]]]
            if context == "step {n}" and functions[function] == name:
                found += int(inside.ncalls[at])
    return found


@pytest.mark.parametrize(("python", "windows", "overhead", "ranges", "workers"), ROWS)
def test_what_holds_alone_holds_together(
    tmp_path: Path, python: str, windows: str, overhead: str, ranges: str, workers: str
) -> None:
    if ranges == "ranges" or windows == "range":
        require_collector()
    tier = ("--exact",) if overhead == "exact" else ("--overhead", overhead)
    command = (interpreter(python), COMBINED, windows, ranges, workers, str(CALLS[overhead]))
    env = environment(PYTHONPATH=str(ROOT))
    done = run_capture(tmp_path, *command, options=(*OPTIONS[windows], *tier), env=env)
    run = done.run
    main = run.processes[0]
    found: Counter[str] = sum((Counter(calls(process)) for process in run.processes), Counter())
    captured = 2 if windows == "steps" else 3
    left_out = 0 if windows != "whole" else 6 - captured

    # Every call of windows is counted, whatever the budget, and nothing outside of them is there.
    sampled = overhead != "exact" and windows == "whole"
    assert any(tier.kind == "sampled" for process in run.processes for tier in process.tiers) == sampled
    expected = {"inside": 10 * captured, "outside": 10 * left_out, "caller": captured, "passed_by": left_out}
    if ranges == "ranges":
        expected |= {"in_range": 4 * captured, "out_of_range": 4 * left_out}
    if workers == "workers":
        expected |= {"worked": 20 * captured, "idled": 20 * left_out}
    if not sampled:
        expected["tiny"] = CALLS[overhead] * (captured + left_out)
        assert {name: found[name] for name in expected} == expected

    # Own times are whole: of each thread by contexts, and of a caller with what it calls, counted or not.
    for process in run.processes:
        for thread in process.threads:
            if len(thread.profile) and not sampled:
                contexts_add_up(thread)
    thread = main.threads[0]
    at = names(thread.profile).index("caller")
    took, within = float(done.stdout), float(thread.profile.cumtime[at])
    # Of some hundred samples, one may come late on a busy machine, and stands for all that time.
    slack = 0.3 * took + 0.1 if sampled else 1e-3
    assert within <= took + slack
    # What the thread queued for inside the tracer is in neither.
    assert within + thread.tracer_s + thread.run_queue_wait_s >= 0.9 * took - slack
    edges = thread.profile.edges
    callees = edges.cumtime[edges.caller == at].sum()
    # Between two readings of the clock another program may have had its slice.
    assert abs(thread.profile.tottime[at] + callees - within) <= 0.25 * within + 5e-3 + slack

    # Ranges are those of windows, and have the functions that ran in them.
    if ranges == "ranges":
        steps = [name for name, _, _ in rows(main) if name.startswith("step ")]
        parts = [n for n in range(6) if windows == "whole" or n % 3 == 2 or windows != "steps"]
        if windows in ("code", "range"):
            parts = [n for n in parts if n % 2 == 1]
        assert steps == [f"step {n}" for n in parts]
        assert in_ranges(main, "in_range") == 4 * captured
        assert in_ranges(main, "out_of_range") == 4 * left_out
        assert in_ranges(main, "inside") == 0

    # Walls are those of the windows.
    manifest = run.manifest
    assert [window.captured for window in manifest.windows] == (
        [] if windows == "whole" else [True] * captured
    )
    if windows != "whole":
        lengths = sum(window.end_s - window.begin_s for window in manifest.windows)
        assert manifest.wall_s == pytest.approx(lengths, abs=1e-6)
        assert manifest.wall_s < manifest.whole_s
    for process in run.processes:
        assert process.wall_s <= manifest.wall_s + 0.1
        for thread in process.threads:
            assert thread.profile.total <= process.wall_s + 0.05
