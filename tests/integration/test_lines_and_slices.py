"""In which lines of a function the time went, and in which function a thread was from one moment to another."""

from __future__ import annotations

import sys
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from profkit.model import Run, Thread
from profkit.report.timeline import timeline_side
from tests.integration.capturing import captured, names, script
from tests.interpreters import EACH_WAY, interpreter

#: Three loops of one line each, which take 7, 2 and 1 parts; then a native function that one line calls; then two
#: waits. Where no event has told the sampler of the native function, its time is its caller's, in the same line.
PROGRAM = """
import os, sys, time

def loops(turns):
    for i in range(7 * turns): i * i
    for i in range(2 * turns): i * i
    for i in range(turns): i * i

def sorts(seconds):
    data, until = list(range(4000, 0, -1)) * 10, time.thread_time() + seconds
    while time.thread_time() < until:
        sorted(data)

def sleeps(turns):
    for turn in range(turns):
        time.sleep(0.01)
        time.sleep(0.03)

child = len(sys.argv) > 1 and not os.fork()
until = time.thread_time() + 0.8
while time.thread_time() < until:
    loops(25_000)
sorts(0.8)
sleeps(20)
if child: os._exit(0)
if len(sys.argv) > 1: os.wait()
"""
LOOPS, SORTED, WAITS = [5, 6, 7], 12, [16, 17]
#: Captures of which one must show the shares: on a busy machine a look comes late now and then.
TRIES = 5


def lines_of(run: Run, function: str) -> dict[tuple[str, int], float]:
    """Seconds of a function by the function that has the line, and its number."""
    found: dict[tuple[str, int], float] = {}
    for process in run.processes:
        for thread in process.threads:
            functions = names(thread.profile)
            for line in thread.lines or ():
                if function in functions[line.function]:
                    place = functions[line.within], line.line
                    found[place] = found.get(place, 0.0) + line.seconds
    return found


def parts(thread: Thread) -> list[str]:
    """The functions of a thread in the order of time, each once where it follows itself."""
    functions = names(thread.profile)
    return [name for name, _ in groupby(functions[one.function] for one in thread.slices)]


#: Functions of which one comes after one of the group before.
ORDER = (("loops",), ("sort",), ("sleep",))


def in_order(found: list[str], *wanted: tuple[str, ...]) -> bool:
    """Whether one of each group comes after one of the group before."""
    at = 0
    for group in wanted or ORDER:
        while at < len(found) and not any(name in found[at] for name in group):
            at += 1
    return at < len(found)


def drawn(run: Run) -> list[list[str]]:
    """What the time line of a page shows of each process."""
    side = timeline_side("", run)
    tracks = [process.functions for process in side.processes if process.functions is not None]
    return [[track.names[i] for i in track.name.tolist()] for track in tracks]


def check(run: Run) -> None:
    """Every capture has parts that do not overlap, and no line that is none."""
    for process in run.processes:
        (thread,) = (thread for thread in process.threads if thread.slices)
        assert all(a.end_ns <= b.begin_ns for a, b in pairwise(thread.slices))
        assert all(one.seconds > 0 for one in thread.slices)
    loops = lines_of(run, "loops")
    assert {function for function, _ in loops} == {"loops"}
    # A call begins in the line of its definition.
    assert {line for _, line in loops} <= {LOOPS[0] - 1, *LOOPS}
    assert {line for _, line in lines_of(run, "sleep")} <= {WAITS[0] - 2, WAITS[0] - 1, *WAITS}


def has_shares(run: Run) -> bool:
    """Whether parts are in order, and lines have the time that they took: looks show it if they were not late."""
    threads = [thread for process in run.processes for thread in process.threads if thread.slices]
    if not all(in_order(parts(thread)) for thread in threads):
        return False
    if not all(in_order(functions, *ORDER[:2]) for functions in drawn(run)):
        return False
    loops, sort, sleep = (lines_of(run, function) for function in ("loops", "sort", "sleep"))
    first, second, third = (loops.get(("loops", line), 0.0) for line in LOOPS)
    short, long = (sleep.get(("sleeps", line), 0.0) for line in WAITS)
    sorts_here = max(sort, key=sort.__getitem__, default=None) == ("sorts", SORTED)
    shares = first > second > third and 0.5 < first / sum(loops.values()) < 0.9
    return sorts_here and shares and long > short > 0


def captured_until_shown(path: Path, *command: str, options: tuple[str, ...] = ()) -> Run:
    runs: list[Run] = []
    while not runs or not has_shares(runs[-1]):
        assert len(runs) < TRIES, [[lines_of(run, one) for one in ("loops", "sort", "sleep")] for run in runs]
        runs.append(captured(path, *command, options=options))
        check(runs[-1])
    return runs[-1]


@pytest.mark.parametrize(("version", "tier"), [*zip(EACH_WAY, ["--sampled", "--exact"] * 2, strict=True)])
def test_lines_and_parts_of_a_program(tmp_path: Path, version: str, tier: str) -> None:
    captured_until_shown(tmp_path, interpreter(version), script(tmp_path, PROGRAM), options=(tier,))


def test_a_forked_process_has_slices_of_its_own(tmp_path: Path) -> None:
    run = captured_until_shown(tmp_path, sys.executable, script(tmp_path, PROGRAM), "forks")
    assert len(run.processes) == 2
    assert len(drawn(run)) == 2
