"""In which lines of a function the time went, and in which function a thread was from one moment to another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from profkit.model import Run, Slice, Thread
from profkit.report.timeline import timeline_side
from tests.integration.capturing import captured, names, script
from tests.interpreters import EACH_WAY, interpreter

#: Rounds of each loop, one of which is `TURN` on each machine that runs the tests.
TURN = 250_000

#: Three loops of one line each, which take 7, 2 and 1 parts; a native function that one line calls. Where no
#: event has told the sampler of it, its time is its caller's, in the same line.
LOOPS_AND_SORTS = f"""
import sys

def loops(turns):
    for i in range(7 * turns): i * i
    for i in range(2 * turns): i * i
    for i in range(turns): i * i

def sorts(times):
    data = list(range(4000, 0, -1)) * 10
    for turn in range(times):
        sorted(data)
    return len(data)

for part in range(4):
    loops({TURN})
sorts(150)
"""
LOOPS, SORTED = [5, 6, 7], 12
#: Captures of which one must show the shares: on a busy machine a look comes late now and then.
TRIES = 3


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


def eventually(capture: Callable[[], Run], holds: Callable[[Run], bool]) -> None:
    runs = []
    for _ in range(TRIES):
        runs.append(capture())
        if holds(runs[-1]):
            return
    pytest.fail("; ".join(f"{lines_of(run, 'loops')} {lines_of(run, 'sort')}" for run in runs))


@pytest.mark.parametrize(("version", "tier"), [*zip(EACH_WAY, ["--sampled", "--exact"] * 2, strict=True)])
def test_shares_of_lines(tmp_path: Path, version: str, tier: str) -> None:
    python = interpreter(version)
    program = script(tmp_path, LOOPS_AND_SORTS)

    def holds(run: Run) -> bool:
        loops, sort = lines_of(run, "loops"), lines_of(run, "sort")
        whole = sum(loops.values())
        assert {function for function, _ in loops} == {"loops"}
        # A call begins in the line of its definition.
        assert {line for _, line in loops} <= {LOOPS[0] - 1, *LOOPS}
        first, second, third = (loops.get(("loops", line), 0.0) for line in LOOPS)
        sorts_here = max(sort, key=sort.__getitem__, default=None) == ("sorts", SORTED)
        return sorts_here and first > second > third and 0.5 < first / max(whole, 1e-9) < 0.9

    eventually(lambda: captured(tmp_path, python, program, options=(tier,)), holds)


def test_lines_of_a_wait(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import time\ndef waits():\n    for turn in range(20):\n        time.sleep(0.01)\n"
        "        time.sleep(0.03)\nwaits()\n",
    )

    def holds(run: Run) -> bool:
        found = lines_of(run, "sleep")
        assert {line for _, line in found} <= {4, 5}
        return found.get(("waits", 5), 0.0) > found.get(("waits", 4), 0.0) > 0

    eventually(lambda: captured(tmp_path, sys.executable, program), holds)


#: Three parts, one after the other: two that compute, and one that waits.
PARTS = """
import os, sys, threading, time
def spins(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        counts()
def counts():
    for i in range(100_000): i * i
def adds():
    return sum(range(100_000))
def adds_up(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(20): adds()
def rests(seconds):
    time.sleep(seconds)
def all_of_it(seconds):
    spins(seconds)
    adds_up(seconds)
    rests(seconds)
if len(sys.argv) > 1 and os.fork() == 0:
    all_of_it(0.8)
    os._exit(0)
all_of_it(0.8)
if len(sys.argv) > 1:
    os.wait()
"""


def parts(thread: Thread) -> list[str]:
    """The functions of a thread in the order of time, each once where it follows itself."""
    functions = names(thread.profile)
    return [name for name, _ in groupby(functions[one.function] for one in thread.slices)]


#: Functions of which one comes after one of the group before.
ORDER = (("counts", "spins"), ("adds", "sum"), ("sleep", "rests"))


def in_order(found: list[str], *wanted: tuple[str, ...]) -> bool:
    """Whether one of each group comes after one of the group before."""
    at = 0
    for group in wanted or ORDER:
        while at < len(found) and not any(name in found[at] for name in group):
            at += 1
    return at < len(found)


def follow_each_other(slices: tuple[Slice, ...]) -> bool:
    return all(a.end_ns <= b.begin_ns for a, b in pairwise(slices))


@pytest.mark.parametrize(("version", "tier"), [*zip(EACH_WAY, ["--sampled", "--exact"] * 2, strict=True)])
def test_parts_of_a_program_come_in_their_order(tmp_path: Path, version: str, tier: str) -> None:
    run = captured(tmp_path, interpreter(version), script(tmp_path, PARTS), options=(tier,))
    (thread,) = (thread for process in run.processes for thread in process.threads if thread.slices)
    assert in_order(parts(thread)), parts(thread)
    assert follow_each_other(thread.slices)
    assert all(one.seconds > 0 for one in thread.slices)
    (drawn,) = functions(run)
    assert in_order(drawn)


def functions(run: Run) -> list[list[str]]:
    """What the time line of a page shows of each process."""
    side = timeline_side("", run)
    tracks = [process.functions for process in side.processes if process.functions is not None]
    return [[track.names[i] for i in track.name.tolist()] for track in tracks]


def test_a_forked_process_has_slices_of_its_own(tmp_path: Path) -> None:
    run = captured(tmp_path, sys.executable, script(tmp_path, PARTS), "forks")
    assert len(run.processes) == 2
    for process in run.processes:
        (thread,) = (thread for thread in process.threads if thread.slices)
        assert in_order(parts(thread))
        assert follow_each_other(thread.slices)
    for drawn in functions(run):
        assert in_order(drawn, *ORDER[:2])
