"""Who waits for whom: how lives are divided, which way an arrow points, and what is not claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from profkit.measure.group_waits import group_waits
from profkit.model import Pause, Process, Profile, Run, Thread
from profkit.model.pauses import PauseKind
from profkit.report.waits import MOST_LANES, waits, waits_section
from tests import report_builders as build

MPI = "<method 'allreduce' of 'mpi4py.MPI.Comm' objects>"
ROWS = (
    ("train.py", "step", 1, 10, 4.0, 10.0),
    ("~", "<method 'acquire' of '_thread.lock' objects>", 0, 5, 6.0, 6.0),
    ("~", MPI, 0, 5, 3.0, 3.0),
)


def profile(blocked: Sequence[float]) -> Profile:
    queued, off = np.zeros(3), np.array(blocked)
    made = build.profile(ROWS)
    return replace(made, wait=queued, blocked=off, cumwait=queued, cumblocked=off).validate()


def process(
    pid: int,
    role: str,
    pauses: Sequence[tuple[int, PauseKind, float]] | None = (),
    blocked: Sequence[float] = (0.0, 6.0, 0.0),
    *,
    rank: int | None = None,
    run_s: float | None = 3.0,
    queue_s: float = 1.0,
) -> Process:
    """Build a process of 10 s."""
    seen = None if pauses is None else tuple(Pause(row, what, seconds, 1) for row, what, seconds in pauses)
    thread = Thread(profile(blocked), pid, "MainThread", run_s, queue_s, pauses=seen)
    return Process(pid, 1, role, rank, wall_s=10.0, threads=(thread,))


def drawn(*processes: Process) -> str:
    figure = waits((("", Run("r", processes)),))
    assert figure is not None
    return waits_section(figure)


def test_waiting_points_at_the_other_group_and_lives_add_up() -> None:
    main = process(1, "main", [(1, "lock", 4.0), (1, "sleep", 1.5)])
    workers = [process(pid, "worker", [(1, "pipe", seconds)]) for pid, seconds in ((2, 1.0), (3, 3.0))]
    first, others = group_waits(Run("r", (main, *workers)))
    (lane,) = first.lanes
    assert (lane.running_s, lane.queued_s, lane.others_s, lane.peers_s) == (3.0, 1.0, 4.0, 0.0)
    assert lane.wall_s == pytest.approx(10.0), "sleeping is waiting for nobody, and is not lost"
    assert others.mean("others_s") == 2.0
    said = drawn(main, *workers)
    assert "main waits 4.00 s (40.0 %) for its workers" in said
    assert "2 workers wait 2.00 s each (20.0 %) for main" in said
    assert "Each of 3 processes" in said


def test_without_samples_native_waits_count_and_without_counters_nothing_is_claimed() -> None:
    older = process(1, "main", None, (1.0, 5.0, 0.0))
    unknown = process(3, "worker", run_s=None)
    first, workers = group_waits(Run("r", (older, process(2, "worker"), unknown)))
    assert first.lanes[0].others_s == 5.0
    assert [lane.process.pid for lane in workers.lanes] == [2]


def test_ranks_wait_for_the_one_that_waits_least() -> None:
    def ranks(*off: float) -> list[Process]:
        return [process(10 + i, "rank", blocked=(0, 0, seconds), rank=i) for i, seconds in enumerate(off)]

    # 3 s in the collective, of which some off the CPU; the rest of it was spun away, at most what ran.
    (group,) = group_waits(Run("r", tuple(ranks(3.0, 1.0))))
    assert [lane.peers_s for lane in group.lanes] == [3.0, 3.0]
    assert "2 ranks wait 3.00 s each (30.0 %) for each other" in drawn(*ranks(3.0, 1.0))
    late = replace(ranks(0.0)[0], threads=(Thread(build.profile(ROWS[:1], traced=True), 10, "", 8.0, 1.0),))
    assert "rank 1 waits 3.00 s (30.0 %) for rank 0" in drawn(late, ranks(0.0, 3.0)[1])


def test_of_very_many_processes_those_that_queued_most_are_listed() -> None:
    said = drawn(*(process(100 + i, "rank", rank=i, queue_s=i / 100) for i in range(MOST_LANES + 5)))
    assert said.count("<li><span>rank ") == MOST_LANES
    assert "<span>rank 4</span>" not in said
    assert "5 that queued less are not shown." in said
