"""In which function a thread was from one moment to another, in captures of real programs."""

from __future__ import annotations

import sys
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from profkit.model import Run, Slice, Thread
from profkit.report.timeline import timeline_side
from tests.integration.capturing import captured, names, script
from tests.interpreters import EACH_WAY, interpreter

#: Three parts, one after the other: two that compute, and one that waits.
PROGRAM = """
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
    run = captured(tmp_path, interpreter(version), script(tmp_path, PROGRAM), options=(tier,))
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
    run = captured(tmp_path, sys.executable, script(tmp_path, PROGRAM), "forks")
    assert len(run.processes) == 2
    for process in run.processes:
        (thread,) = (thread for thread in process.threads if thread.slices)
        assert in_order(parts(thread))
        assert follow_each_other(thread.slices)
    for drawn in functions(run):
        assert in_order(drawn, *ORDER[:2])
