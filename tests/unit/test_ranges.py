"""NVTX ranges: valid columns, sums by name, comparing two runs, reports, and waiting inside of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from profkit.measure.range_stats import RangeKey, RangeRow, compare_ranges, fold_names, range_rows, repeated
from profkit.measure.range_waiting import range_waiting
from profkit.model import Process, ProfileError, Run, RunSet
from profkit.model.ranges import MARK, OPEN, PUSHED, STARTED, Ranges
from profkit.model.series import ThreadSamples
from profkit.report.jsondoc import diff_object
from profkit.report.markdown import render
from profkit.report.showdoc import show_document
from profkit.verdict.diagnosis import diagnose as diff
from tests import report_builders as build
from tests.builders import Told, ranges
from tests.shared import check_schema, words_of

Row = tuple[str, float, float | None, int]


def ranges_of(rows: Sequence[Row], *, kind: int = PUSHED, domain: str = "") -> Ranges:
    """Build ranges from (name, begin, end or None, parent), in seconds."""
    told = []
    for name, begin, end, parent in rows:
        ends = OPEN if end is None else round(end * 1e9)
        told.append(Told(name, round(begin * 1e9), ends, kind, thread=1, domain=domain, parent=parent))
    return ranges(told)


def assert_same(a: Any, b: Any, columns: Iterable[str]) -> None:
    """Compare tables column by column, and the columns of names by what they name."""
    for column in columns:
        one, two = getattr(a, column), getattr(b, column)
        if column in ("name", "domain", "category"):
            assert [a.strings[i] for i in one] == [b.strings[i] for i in two]
        else:
            assert one.dtype == two.dtype
            assert one.tolist() == two.tolist()


def processes(*ranges: Ranges | None, samples: ThreadSamples | None = None) -> tuple[Process, ...]:
    return tuple(Process(pid=i, ranges=part, samples=samples) for i, part in enumerate(ranges, 1))


def by_name(rows: Sequence[RangeRow]) -> dict[str, RangeRow]:
    return {row.key.name: row for row in rows}


def test_a_table_of_strings_begins_with_the_empty_one() -> None:
    with pytest.raises(ProfileError, match="empty string"):
        replace(ranges_of([]), strings=("x",)).validate()


def test_names_fold_where_that_joins_some() -> None:
    names = "step 1|step 22|conv1d|conv2d|layer3|epoch 1/step 0.5|epoch 2/step 7|at 0x7f1|at 0x9a"
    folded = fold_names(words_of(names, "|"))
    assert folded["step 1"] == folded["step 22"] == "step {n}"
    assert folded["conv1d"] == "conv1d", "a number inside a word is part of it"
    assert folded["layer3"] == "layer3", "alone, so nothing is gained"
    assert folded["epoch 1/step 0.5"] == folded["epoch 2/step 7"] == "epoch {n}/step {n}"
    assert folded["at 0x7f1"] == "at {n}"
    of_collector = fold_names(["step 1 of run", "step 2 of run", "step {n} of run"])
    assert set(of_collector.values()) == {"step {n} of run"}


def test_sums_by_name() -> None:
    told = [
        *(("step 1", 0.0, 1.0, -1), ("forward", 0.0, 0.25, 0), ("step 2", 1.0, 4.0, -1)),
        *(("forward", 1.0, 2.75, 2), ("forward", 5.0, None, -1), ("left open", 6.0, None, -1)),
    ]
    rows = by_name(range_rows(processes(ranges_of(told), ranges_of([("tick", 1.0, 1.0, -1)] * 3, kind=MARK))))
    step, forward = rows["step {n}"], rows["forward"]
    assert (step.names, step.count, step.unbalanced) == (2, 2, 0)
    assert (step.total_s, step.median_s) == (4.0, 2.0)
    assert step.p95_s == pytest.approx(np.percentile([1.0, 3.0], 95))
    assert (step.parent, step.share_of_parent) == (None, None)
    assert (forward.count, forward.total_s, forward.unbalanced) == (3, 2.0, 1)
    assert forward.parent == RangeKey("step {n}", "")
    assert forward.share_of_parent == 0.5
    assert (rows["left open"].total_s, rows["left open"].median_s) == (0.0, None)
    assert rows["left open"].unbalanced == 1
    tick = rows["tick"]
    assert (tick.key.mark, tick.count, tick.total_s, tick.median_s) == (True, 3, 0.0, None)


def test_rows_come_most_time_first_and_marks_last() -> None:
    timed = ranges_of([("short", 0.0, 1.0, -1), ("long", 0.0, 9.0, -1)])
    rows = range_rows(processes(timed, ranges_of([("moment", 1.0, 1.0, -1)] * 9, kind=MARK)))
    assert [row.key.name for row in rows] == ["long", "short", "moment"]


def spread(name: str, factor: float, n: int = 40) -> Ranges:
    durations = factor * np.linspace(1.0, 2.0, n)
    return ranges_of([(name, 0.0, float(d), -1) for d in durations])


TAIL = ranges_of([("step", 0.0, 10.0 if i % 10 == 0 else 1.0, -1) for i in range(40)])
EVEN = ranges_of([("step", 0.0, 1.0, -1)] * 40)


@pytest.mark.parametrize(
    ("baseline", "candidate", "ratios"),
    [
        ([spread("step", 1.0)], spread("step", 3.0), (3.0, 3.0, 3.0, 1.0)),
        ([EVEN], TAIL, (1.0, 10.0, 1.9, 0.55)),
        # Of repeats the total of the median run, and all durations.
        ([spread("step", factor) for factor in (1.0, 9.0, 2.0)], spread("step", 2.0), (1.0, 0.23, 1.0, 0.5)),
    ],
    ids=["a shift", "a longer tail", "repeats"],
)
def test_how_durations_changed(baseline: list[Ranges], candidate: Ranges, ratios: tuple[float, ...]) -> None:
    (change,) = compare_ranges([processes(run) for run in baseline], [processes(candidate)])
    found = (change.median_ratio, change.p95_ratio, change.total_ratio, change.slower)
    assert found == pytest.approx(ratios, abs=0.02)


def test_ranges_of_one_side_and_folding_over_both() -> None:
    baseline = [processes(ranges_of([("step 1", 0.0, 1.0, -1), ("gone", 0.0, 5.0, -1)]))]
    candidate = [processes(ranges_of([("step 2", 0.0, 2.0, -1), ("new", 0.0, 0.5, -1)]))]
    changes = {change.key.name: change for change in compare_ranges(baseline, candidate)}
    assert list(changes) == ["gone", "step {n}", "new"], "most change of total time first"
    assert changes["gone"].candidate is None
    assert changes["new"].baseline is None
    assert changes["new"].slower is None
    assert changes["step {n}"].total_ratio == 2.0


def epochs(count: int, *inside: tuple[str, int, float]) -> Ranges:
    """Epochs in one range, each with so many ranges of each name, of so many seconds."""
    rows: list[Row] = [("training", 0.0, 1000.0, -1)]
    for _ in range(count):
        rows += [(name, 0.0, seconds, 0) for name, times, seconds in inside for _ in range(times)]
    return ranges_of(rows)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        # Twice the epochs: what is around them has no part in it.
        (epochs(20, ("forward", 10, 0.02), ("load", 10, 0.01)), ("forward", (100, 200), 1.0, 3.0, 1.0)),
        # As many, each twice as long, and polls that are repeated for as long as something takes.
        (epochs(10, ("forward", 10, 0.04), ("load", 10, 0.02)), ("forward", (100, 100), 1.0, 0.0, None)),
        (epochs(10, ("forward", 10, 0.02), ("load", 40, 0.01)), ("load", (100, 400), 2 / 3, 3.0, 1.0)),
        # More, and each of them longer.
        (epochs(20, ("forward", 10, 0.04), ("load", 10, 0.02)), ("forward", (100, 200), 1.0, 3.0, 0.5)),
    ],
    ids=["more", "longer", "polls", "both"],
)
def test_how_often_ranges_are_repeated(candidate: Ranges, expected: tuple[Any, ...]) -> None:
    baseline = epochs(10, ("forward", 10, 0.02), ("load", 10, 0.01))
    found = repeated(compare_ranges([processes(baseline)], [processes(candidate)]), 0.05)
    assert found is not None
    name, counts, share, added, of_growth = expected
    assert (found.key.name, found.counts) == (name, counts)
    assert (found.share, found.added_s) == pytest.approx((share, added))
    assert found.of_growth == pytest.approx(math.nan if of_growth is None else of_growth, nan_ok=True)


def test_ranges_of_one_side_are_not_repeated() -> None:
    sides = ([processes(steps(name=name))] for name in ("one", "other"))
    assert repeated(compare_ranges(*sides), 0.05) is None


def steps(factor: float = 1.0, name: str = "step") -> Ranges:
    part = spread(name, factor)
    return replace(part, monotonic_ns=5, realtime_ns=7, lost=1, folded=2, unmatched=3)


def run_with(*ranges: Ranges | None) -> Run:
    return Run("run.prof", processes(*ranges))


def test_diff_as_json() -> None:
    a, b = run_with(steps(1.0), ranges_of([("gone", 0.0, 1.0, -1)])), run_with(steps(3.0))
    shown = diff_object(diff(RunSet("a", (a,)), RunSet("b", (b,))))
    check_schema(shown, "diff-2.json")
    step, gone = shown["ranges"]  # type: ignore[misc]
    assert (step["name"], step["median_ratio"], step["slower"]) == ("step", pytest.approx(3.0), 1.0)
    assert step["baseline"]["count"] == step["candidate"]["count"] == 40
    assert (gone["candidate"], gone["slower"]) == (None, None)


def test_ranges_of_the_chosen_process_are_compared_where_a_run_has_them() -> None:
    run = run_with(steps(3.0), steps(name="other"))
    a, b = RunSet("a", (run, run_with(None, None))), RunSet("b", (run,))
    (change,) = diff(a, b, process="pid:2").ranges
    assert (change.key.name, change.total_ratio) == ("other", 1.0)


def test_show_for_people() -> None:
    leaky = ranges_of(
        [("step", 0.0, 1.0, -1), ("load", 0.0, 0.5, 0), ("left", 1.0, None, -1), ("", 2.0, 3.0, -1)]
    )
    text = render(show_document(run_with(leaky, steps(name="epoch")), judged=build.UNJUDGED))
    section = text[text.index("NVTX ranges") :]
    for shown in ("(no name)", "load", "50.0 %", "3 ends had no beginning", "began but never ended"):
        assert shown in section


#: Thread of `ranges_of`.
TID = 1


def samples_of(*rows: tuple[int, float, float]) -> ThreadSamples:
    """Build samples from (thread, seconds, seconds waited since it began)."""
    tid, time, wait = (np.array(column) for column in zip(*rows, strict=True))
    time_ns = (time * 1e9).astype(np.int64)
    return ThreadSamples(
        tid.astype(np.int64), time_ns, time_ns // 2, (wait * 1e9).astype(np.int64)
    ).validate()


#: Waits 0.5 of every second between second 1 and second 3, nothing before and after.
STEADY = samples_of((TID, 0.0, 2.0), (TID, 1.0, 2.0), (TID, 2.0, 2.5), (TID, 3.0, 3.0), (TID, 4.0, 3.0))


def waits(ranges: Ranges, samples: ThreadSamples) -> list[float]:
    waited = range_waiting(Process(ranges=ranges, samples=samples))
    return [round(value, 9) for value in waited.wait_s.tolist()]


def test_between_readings_waiting_is_spread_evenly() -> None:
    ranges = ranges_of([("a", 0.0, 0.9, -1), ("a", 1.2, 1.4, -1), ("b", 0.5, 3.5, -1), ("c", 1.9, 2.1, 2)])
    assert waits(ranges, STEADY) == [0.0, 0.1, 1.0, 0.1]


def test_ranges_short_of_the_period_are_right_in_sum() -> None:
    edges = np.linspace(1.0, 3.0, 2001)
    ranges = ranges_of([("step", float(a), float(b), -1) for a, b in pairwise(edges)])
    (row,) = range_rows(processes(ranges, samples=STEADY))
    assert row.wait_s == pytest.approx(1.0)
    assert row.wait_share == pytest.approx(0.5)


def test_a_thread_that_was_not_read_and_a_range_that_has_no_thread() -> None:
    ranges = ranges_of([("a", 1.0, 2.0, -1), ("open", 1.0, None, -1)])
    of_another, once = samples_of((TID + 1, 0.0, 0.0), (TID + 1, 4.0, 1.0)), samples_of((TID, 1.0, 0.0))
    assert range_waiting(Process(ranges=ranges, samples=of_another)) is None
    assert range_waiting(Process(ranges=ranges, samples=once)) is None, "one reading tells no difference"
    assert np.isnan(waits(ranges, STEADY)[1])
    started = ranges_of([("a", 1.0, 2.0, -1)], kind=STARTED)
    assert range_waiting(Process(ranges=started, samples=STEADY)) is None


def test_several_processes_of_which_one_was_sampled() -> None:
    ranges = ranges_of([("a", 1.0, 3.0, -1)])
    (row,) = range_rows([Process(), Process(ranges=ranges, samples=STEADY), Process(ranges=ranges)])
    assert (row.total_s, row.wait_s, row.wait_share) == (4.0, 1.0, 0.5)


def test_both_sides_of_a_comparison() -> None:
    ranges = ranges_of([("a", 1.0, 3.0, -1)])
    calm = replace(STEADY, wait_ns=np.zeros(len(STEADY), np.int64))
    (change,) = compare_ranges([processes(ranges, samples=calm)], [processes(ranges, samples=STEADY)])
    assert (change.baseline.wait_share, change.candidate.wait_share) == (0.0, 0.5)
