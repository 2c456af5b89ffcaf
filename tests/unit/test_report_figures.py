"""What is drawn: which functions get a line, what time lines and stacks hold, what bars and labels may claim."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from profkit.compare import stack_table
from profkit.compare.call_table import CallSide
from profkit.compare.result_types import SideTable
from profkit.compare.stack_table import OTHERS, StackTable, stacks_of_pairs, stacks_of_paths
from profkit.measure.group_waits import group_waits
from profkit.model import Paths, Pause, Process, Profile, Run, Series, Slice, Thread, ThreadSamples
from profkit.model.pauses import PauseKind
from profkit.model.ranges import MARK, OPEN, STARTED
from profkit.report import drawing, timeline
from profkit.report.document import Step, Trend, TrendLine, TrendMark, Waterfall
from profkit.report.drawn_blocks import trend_drawing, waterfall_rows
from profkit.report.figures import Track
from profkit.report.pictures import LEAST_LABELS, MOST_LABELS, run_figures, slopes
from profkit.report.waits import MOST_LANES, waits, waits_section
from profkit.report.wording.evidence import evidence_row
from profkit.report.wording.functions import display_name
from profkit.verdict.types import Evidence
from tests import report_builders as build
from tests.builders import Told, ranges
from tests.programs import Fn, plain

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("evidence", "bars"),
    [
        # Shares are of all there is, whatever the other side is.
        (Evidence("pressure", "share", 0.02, 0.04, reading="pressure"), [(0.02, None), (0.04, None)]),
        # Cores end at the larger of what was asked for and what there is, with a line at the latter.
        (Evidence("demand", "cores", 1.0, 8.0, whole=(2.0, 4.0)), [(0.125, 0.25), (1.0, 0.5)]),
        (Evidence("demand", "cores", 0.5, 1.0, whole=(4.0, 4.0)), [(0.125, 1.0), (0.25, 1.0)]),
        (Evidence("main.queue", "s", 1.0, 3.0, whole=(10.0, 4.0)), [(0.1, None), (0.75, None)]),
        # What has no whole is seen against the other side.
        (Evidence("wall", "s", 1.0, 4.0), [(0.25, None), (1.0, None)]),
        (Evidence("function.calls", "count", 20000, 10000, subject="f"), [(1.0, None), (0.5, None)]),
        (Evidence("wall", "s", 0.0, 0.2), [(0.0, None), (1.0, None)]),
        # Two known amounts have bars: what only reads like a number is none.
        (Evidence("wall", "s", 0.0, 0.0), [(None, None)] * 2),
        (Evidence("wall", "s", -0.1, 0.8), [(None, None)] * 2),
        (Evidence("others", "cores", None, 1.75), [(None, None)] * 2),
        (Evidence("cpu.model", "text", "3.11", "3.12", reading="another-cpu"), [(None, None)] * 2),
    ],
)
def test_bars_have_absolute_scales(evidence: Evidence, bars: list[tuple[float | None, float | None]]) -> None:
    assert [cell[1:] for cell in evidence_row(evidence).cells[1:3]] == bars


def test_a_waterfall_ends_where_the_candidate_does() -> None:
    steps = [("more", 2.0), ("less", -0.5), ("more", 0.25)]
    found = Waterfall(3.0, 4.75, tuple(Step(kind, seconds, 0.1, True) for kind, seconds in steps))
    rows = waterfall_rows(found)
    assert [row.kind for row in rows] == ["wall", "more", "less", "more", "wall"]
    scale = 1 / 5.0
    assert [(row.left, row.right) for row in rows] == [
        pytest.approx((a * scale, b * scale)) for a, b in [(0, 3), (3, 5), (4.5, 5), (4.5, 4.75), (0, 4.75)]
    ]
    alone = waterfall_rows(Waterfall(None, 2.0, (Step("running", 2.0, 1.0, True),)))
    assert [(row.kind, row.left, row.right) for row in alone] == [("part", 0.0, 1.0), ("wall", 0.0, 1.0)]
    # A candidate below zero is none, but a step may go there and come back.
    back = waterfall_rows(Waterfall(1.0, 1.5, (Step("a", -2.0, 0, True), Step("b", 2.5, 0, True))))
    assert all(0 <= left <= right <= 1 for _, left, right, *_ in back)


def test_words_of_changes_that_are_near_each_other_do_not_overlap() -> None:
    marks = tuple(TrendMark(at, f"self time of a call +{at}.0 %", "bad") for at in (4, 4, 6, 13, 19, 20))
    days = tuple(map(str, range(24)))
    drawn = trend_drawing(Trend(days, (TrendLine("a run", tuple(map(float, range(24)))),), marks))
    words = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="trend-words bad( end)?">', drawn.markup)
    places = []
    for (x, y, end), mark in zip(words, marks, strict=True):
        width = 7.0 * len(mark.text)
        left = float(x) - (width if end else 0.0)
        places.append((left, left + width, float(y)))
    assert min(left for left, _, _ in places) >= 0
    assert max(right for _, right, _ in places) <= drawn.width
    assert min(y for _, _, y in places) >= 13
    for (left, right, y), (other_left, other_right, other_y) in combinations(places, 2):
        assert right <= other_left or other_right <= left or abs(y - other_y) >= 13


def test_labels_keep_apart_and_in_order() -> None:
    random = np.random.default_rng(0)
    for n in (1, 2, 12, 20):
        wanted = np.sort(random.uniform(34, 300, n)).tolist()
        places = drawing._apart(wanted)
        assert all(b - a >= drawing._LINE - 1e-9 for a, b in pairwise(places))
        assert max(places) <= drawing._TOP + drawing._PLOT
    assert drawing._apart([50.0, 100.0]) == [50.0, 100.0]
    assert drawing._apart([100.0, 100.0]) == [100 - drawing._LINE / 2, 100 + drawing._LINE / 2]


def test_what_moved_is_named_and_the_rest_is_faint() -> None:
    diff = build.contended()
    calm = [build.Row(f"calm{i}", "a.py", before=(0.5, 1), after=(0.5, 1)) for i in range(3)]
    rows = [replace(row, moved=True) for row in build.ROWS] + calm
    every = slopes(replace(diff, table=build.table(rows)))
    assert {line.name for line in every.lines if not line.tone} == {row.name for row in calm}
    tones = {line.name: (line.before is None, line.after is None, line.tone) for line in every.lines}
    assert not [name for name in tones if "acquire" in name], "what waits by design is no line"
    assert tones["_pin"] == (True, False, "bad")
    assert tones["<listcomp>"] == (False, True, "good")
    heaviest = max(every.lines, key=lambda line: abs(line.after_s - line.before_s))
    assert heaviest.weight == 1.0
    assert all(0.0 < line.weight <= 1.0 for line in every.lines if line.tone)
    many = [build.Row(f"f{i}", "a.py", before=(1.0, 1), after=(2.0 + i, 1), moved=True) for i in range(40)]
    crowded = slopes(replace(diff, table=build.table(many)))
    assert crowded.hidden == 40 - MOST_LABELS
    assert slopes(replace(diff, table=build.table(many[: LEAST_LABELS - 1]))) is None
    assert slopes(replace(diff, table=build.table([]))) is None


def thread(tid: int, name: str = "", **more: object) -> Thread:
    return Thread(build.profile(build.TRAIN), tid, name, **more)  # type: ignore[arg-type]


def samples_of(tids: list[int], seconds: list[float], ran: list[float], waited: list[float]) -> ThreadSamples:
    times = (np.rint(np.array(values) * SECOND).astype(np.int64) for values in (seconds, ran, waited))
    return ThreadSamples(np.array(tids), *times).validate()


def test_what_a_process_did_in_a_bin_is_what_its_threads_counters_grew_by() -> None:
    tids, seconds = [7, 7, 7, 7, 7, 9, 9], [0, 1, 2, 3, 4, 0, 1]
    samples = samples_of(tids, seconds, [0, 1, 1, 1, 2, 0, 1], [0, 0, 1, 1, 1, 0, 0.5])
    machine = Series(np.arange(5) * SECOND, {"runnable": np.array([1.0, 1.0, 9.0, 9.0, np.nan])})
    run = Run("r", (Process(7, threads=(thread(7, "main"),), samples=samples),), series=machine)
    side = timeline.timeline_side("candidate", run)
    assert side.seconds == 4.0
    (states,) = side.processes
    assert states.label == "main 7"
    quarter = timeline.BINS // 4
    assert states.running.reshape(4, quarter).mean(axis=1) == pytest.approx([2.0, 0.0, 0.0, 1.0])
    assert states.queued.reshape(4, quarter).mean(axis=1) == pytest.approx([0.5, 1.0, 0.0, 0.0])
    assert side.runnable[0] == 1.0
    assert side.runnable[2 * quarter] == 9.0
    assert np.isnan(side.runnable[-1])
    assert side.gpu is None


def test_what_a_thread_was_in_is_a_track_whose_neighbours_of_one_function_are_one_bar() -> None:
    def slice_of(function: int, begin: float, end: float, seconds: float | None = None) -> Slice:
        took = end - begin if seconds is None else seconds
        return Slice(function, int(begin * SECOND), int(end * SECOND), took)

    slices = (
        slice_of(0, 0.5, 1.0),
        slice_of(0, 1.0, 1.5),
        slice_of(1, 1.5, 2.0),
        slice_of(4, 5.0, 5.5, 3.0),  # a wait that was first counted when it ended
        slice_of(0, 8.0, 8.5),
        slice_of(0, 9.5, 12.0),  # beyond the end
    )
    threads = (thread(7, "main", slices=slices), thread(8, "helper", slices=(slice_of(2, 0.0, 9.0),)))
    process = Process(7, threads=threads, samples=samples_of([7, 7], [0, 10], [0, 5], [0, 0]))
    track = timeline.timeline_side("", Run("r", (process,))).processes[0].functions
    epoch, forward, acquire = (display_name(build.TRAIN[row][1]) for row in (0, 1, 4))
    assert [track.names[name] for name in track.name.tolist()] == [epoch, forward, acquire, epoch, epoch]
    assert track.begin.tolist() == [0.5, 1.5, 2.5, 8.0, 9.5]
    assert (track.begin + track.took).tolist() == [1.5, 2.0, 5.5, 8.5, 10.0]
    unseen = timeline.timeline_side("", Run("r", (replace(process, threads=(thread(7, "main"),)),)))
    assert unseen.processes[0].functions is None


def test_of_many_processes_those_that_did_most_have_a_time_line_while_they_were_there() -> None:
    processes = []
    for i in range(timeline.MOST_PROCESSES + 3):
        samples = samples_of([i + 1] * 2, [i, i + 1], [0, (i + 1) / 100], [0, 0])
        processes.append(Process(i + 1, rank=i, role="rank", threads=(thread(i + 1),), samples=samples))
    side = timeline.timeline_side("", Run("r", tuple(processes)))
    assert [states.label for states in side.processes] == [
        f"rank {i}" for i in range(3, timeline.MOST_PROCESSES + 3)
    ]
    assert side.processes_left_out == 3
    there = np.isfinite(side.processes[0].running)
    assert there.sum() == pytest.approx(timeline.BINS / side.seconds, abs=2)


def drawn_track(rows: list[Told]) -> Track:
    run = Run("r", (Process(7, threads=(thread(7),), ranges=ranges(rows)),))
    (track,) = timeline.timeline_side("", run).tracks
    return track


def test_ranges_stand_in_their_parents_and_marks_are_not_ranges() -> None:
    rows = [
        Told("step", 0, 100),
        Told("forward", 10, 40, parent=0),
        Told("matmul", 20, 30, parent=1),
        Told("async", 5, 90, STARTED),
        Told("here", 50, 50, MARK),
        Told("never ended", 60, OPEN, parent=0),
    ]
    track = drawn_track([row._replace(thread=7) for row in rows])
    columns = (track.depth.tolist(), track.begin.tolist(), track.took.tolist())
    names = [track.names[name] for name in track.name.tolist()]
    assert dict(zip(names, zip(*columns, strict=True), strict=True)) == {
        "step": (0, 0.0, 1e-7),
        "forward": (1, 1e-8, 3e-8),
        "matmul": (2, 2e-8, 1e-8),
        "async": (0, 5e-9, 8.5e-8),
        "never ended": (1, 6e-8, 4e-8),
    }


def test_of_very_many_ranges_the_longest_are_drawn_and_the_others_counted() -> None:
    n = timeline.MOST_RANGES + 500
    rows = [Told("step", 1000 * i, 1000 * i + 1 + i % 997, thread=7) for i in range(n)]
    track = drawn_track(rows)
    assert len(track.begin) + track.left_out == n
    assert timeline.MOST_RANGES <= len(track.begin) <= timeline.MOST_RANGES + 5
    took = np.sort([row.end - row.begin for row in rows])[::-1]
    drawn = np.sort(np.rint(track.took * 1e9))[::-1]
    assert drawn.tolist() == took[: len(drawn)].tolist()


# Who waits for whom: how lives are divided, which way an arrow points, and what is not claimed

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


# Calling contexts as a tree: what is made of pairs of caller and callee, and what of traced paths

Floats = npt.NDArray[np.float64]


class Pair(NamedTuple):
    caller: int
    callee: int
    own: float
    within: float


def tree(
    own: list[float], within: list[float], pairs: list[Pair], queued: list[float] | None = None
) -> StackTable:
    """One side's functions by number, and who calls whom."""
    n, times = len(own), np.array(own)
    ones, wait = np.ones(n, np.int64), np.array(queued or [0.0] * n)
    side = SideTable(ones > 0, ones, ones, ones, times, np.array(within), times, times, wait)
    caller, callee, *seconds = (np.array(column) for column in zip(*pairs, strict=True))
    columns = CallSide(np.ones(len(pairs), np.int64), *seconds)
    return stacks_of_pairs(caller.astype(np.int32), callee.astype(np.int32), (columns,), (side,))


def within(table: StackTable, side: int = 0) -> Floats:
    """Time of each context with what it called."""
    found = table.sides[side].own.copy()
    for node in range(len(table) - 1, 0, -1):
        around = [i for i in range(node) if table.depth[i] < table.depth[node]]
        if around:
            found[around[-1]] += found[node]
    return found


def listed(table: StackTable) -> list[tuple[int, int]]:
    return list(zip(table.depth.tolist(), table.row.tolist(), strict=True))


def test_pairs_become_paths_whose_times_add_up() -> None:
    """main → f (3 s of 4) and g (2 s), both → h: h's time is divided as its callers shared it."""
    table = tree(
        [1.0, 1.0, 0.5, 3.5],
        [6.0, 3.0, 2.0, 3.5],
        [Pair(0, 1, 1.0, 3.0), Pair(0, 2, 0.5, 2.0), Pair(1, 3, 2.0, 2.0), Pair(2, 3, 1.5, 1.5)],
        [0.0, 0.0, 0.0, 0.7],
    )
    assert not table.measured
    assert listed(table) == [(0, 0), (1, 1), (2, 3), (1, 2), (2, 3)]
    assert within(table) == pytest.approx([6.0, 3.0, 2.0, 2.0, 1.5])
    assert table.sides[0].own == pytest.approx([1.0, 1.0, 2.0, 0.5, 1.5])
    assert table.sides[0].queued == pytest.approx([0.0, 0.0, 0.4, 0.0, 0.3])


def test_recursion_ends_where_it_began_and_loses_no_time() -> None:
    """a → b → a: the inner a is marked, and followed no further."""
    table = tree([1.0, 1.0], [4.0, 3.0], [Pair(0, 1, 1.0, 3.0), Pair(1, 0, 0.5, 2.0)])
    assert table.row[table.again].tolist() == [0]
    assert within(table)[table.depth == 0].sum() <= 4.0 + 1e-9
    assert np.isfinite(table.sides[0].own).all()
    assert (table.sides[0].own >= -1e-12).all()


def test_what_is_too_short_is_one_block_and_its_time_is_kept() -> None:
    n = 2000
    pairs = [Pair(0, i, 1e-4, 1e-4) for i in range(1, n + 1)] + [Pair(0, n + 1, 5.0, 5.0)]
    own = [1.0] + [1e-4] * n + [5.0]
    table = tree(own, [6.0 + n * 1e-4, *own[1:]], pairs)
    assert table.row.tolist() == [0, n + 1, OTHERS]
    assert table.sides[0].own == pytest.approx([1.0, 5.0, n * 1e-4])


def test_a_tree_is_bounded_whatever_the_calls_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty functions of which each calls all later ones have more paths than any page can hold."""
    n = 40
    own = np.ones(n)
    pairs = [Pair(i, j, 1.0 / max(j, 1), 1.0) for i in range(n) for j in range(i + 1, n)]
    called = np.zeros(n)
    for pair in pairs:
        called[pair.callee] += pair.within
    total = [float(max(called[i], sum(p.within for p in pairs if p.caller == i) + 1)) for i in range(n)]
    monkeypatch.setattr(stack_table, "MOST_NODES", 300)
    table = tree(own.tolist(), total, pairs)
    assert 300 <= len(table) <= 2 * (300 + n)
    assert table.depth.max() < stack_table.DEEPEST
    assert math.isfinite(float(table.sides[0].own.sum()))


def test_a_plain_profile_has_reconstructed_stacks() -> None:
    callers = {"left": {"outer": 1}, "right": {"outer": 1}, "leaf": {"left": 2, "right": 1}}
    called = [Fn(name, sum(of.values()), 0.9, callers=of) for name, of in callers.items()]
    page = run_figures(plain([Fn("outer", run=0.1), *called]), "tottime")
    found, names = page.stacks, page.functions["names"]
    assert not found["measured"]
    paths, around = set(), ()
    for depth, row in zip(found["depth"], found["row"], strict=True):
        around = (*around[:depth], names[row] if row >= 0 else "…")
        paths.add(around)
    assert paths >= {("outer", "left", "leaf"), ("outer", "right", "leaf")}
    assert sum(json.loads(found["after"]["own"])) * 1e-9 == pytest.approx(2.8, rel=1e-3)


class Context(NamedTuple):
    """One path: its parent's place, its function, its own seconds."""

    parent: int
    function: int
    own: float


def thread_of(rows: list[Context], of_table: list[int], wait: float = 0.0) -> stack_table.PlacedPaths:
    parent, function, own = (np.array(column) for column in zip(*rows, strict=True))
    columns = (parent.astype(np.int32), function.astype(np.int32), np.ones(len(rows), np.int64))
    found = Paths(*columns, own, own * wait, own * 0.0).validate(len(of_table))
    return found, np.array(of_table)


def test_paths_of_threads_and_sides_are_one_tree() -> None:
    """Threads have their own numbers of functions; what is the same chain of rows is one context."""
    first = thread_of([Context(-1, 0, 1.0), Context(0, 1, 2.0), Context(1, 2, 3.0)], [10, 11, 12])
    second = thread_of([Context(-1, 2, 1.0), Context(0, 0, 4.0), Context(-1, 1, 0.5)], [11, 12, 10])
    other = thread_of([Context(-1, 0, 2.0), Context(0, 1, 6.0)], [10, 11], wait=0.5)
    table = stacks_of_paths([[[first, second]], [[other]]])
    assert table.measured
    # 10 → 11 → 12 of the first thread; 10 → 11 of the second, whose 12 was called by nothing.
    assert listed(table) == [(0, 10), (1, 11), (2, 12), (0, 12)]
    assert table.sides[0].own == pytest.approx([2.0, 6.0, 3.0, 0.5])
    assert table.sides[1].own == pytest.approx([2.0, 6.0, 0.0, 0.0])
    assert table.sides[1].queued == pytest.approx([1.0, 3.0, 0.0, 0.0])
