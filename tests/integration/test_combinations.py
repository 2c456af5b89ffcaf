"""Windows, the budget for overhead, calling contexts, forked workers and NVTX ranges, each beside each of the others.

Every pair of choices is in some row of `ROWS`. What holds of each of them alone must hold of all together.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from profkit.model import Process, Run, Thread
from tests.integration.capturing import (
    PROGRAMS,
    ROOT,
    calls,
    environment,
    names,
    require_collector,
    rows,
    run_capture,
)
from tests.interpreters import interpreter

PROGRAM = str(PROGRAMS / "combined.py")
#: Calls of `tiny` in each part of the program, by the budget: more than any that could be paid for, were they not
#: traced in any case.
CALLS = {"exact": 100_000, "5%": 700_000}

CHOICES = (
    ("3.11", "3.12"),
    ("whole", "code", "range", "steps"),
    ("exact", "5%"),
    ("ranges", "-"),
    ("workers", "-"),
)
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
OPTIONS = {
    "whole": (),
    "code": ("--start-paused",),
    "range": ("--capture-range", "epoch", "--cycles", "0"),
    "steps": ("--wait", "1", "--warmup", "1", "--active", "1", "--cycles", "2"),
}


def test_every_pair_of_choices_is_tried() -> None:
    for (i, some), (j, others) in combinations(enumerate(CHOICES), 2):
        assert {(row[i], row[j]) for row in ROWS} == set(product(some, others))


def sums(run: Run) -> Counter[str]:
    return sum((Counter(calls(process)) for process in run.processes), Counter())


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
    command = (interpreter(python), PROGRAM, windows, ranges, workers, str(CALLS[overhead]))
    env = environment(PYTHONPATH=str(ROOT))
    done = run_capture(tmp_path, *command, options=(*OPTIONS[windows], *tier), env=env)
    run = done.run
    main, found = run.processes[0], sums(run)
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
    slack = 0.3 * took if sampled else 1e-3  # of some hundred samples
    assert within <= took + slack
    # What the thread queued for inside the tracer is in neither.
    assert within + thread.tracer_s + thread.run_queue_wait_s >= 0.9 * took - slack
    edges = thread.profile.edges
    callees = edges.cumtime[edges.caller == at].sum()
    assert thread.profile.tottime[at] + callees == pytest.approx(within, rel=0.25, abs=1e-3)

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
