"""NVTX ranges: what a valid column set is, sums by name, and comparing two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from profkit.measure.range_stats import RangeKey, RangeRow, compare_ranges, fold_names, range_rows
from profkit.model import ProfileError
from profkit.model.ranges import MARK, OPEN, PUSHED, Ranges
from tests.builders import Told, ranges
from tests.shared import words_of

Row = tuple[str, float, float | None, int]


def ranges_of(rows: Sequence[Row], *, kind: int = PUSHED, domain: str = "") -> Ranges:
    """Build ranges from (name, begin, end or None, parent), in seconds."""
    return ranges(
        [
            Told(
                name,
                round(begin * 1e9),
                OPEN if end is None else round(end * 1e9),
                kind,
                thread=1,
                domain=domain,
                parent=parent,
            )
            for name, begin, end, parent in rows
        ]
    )


def by_name(rows: Sequence[RangeRow]) -> dict[str, RangeRow]:
    return {row.key.name: row for row in rows}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"strings": ("x",)}, "empty string"),
        ({"name": np.array([5], np.int32)}, "name points outside"),
        ({"domain": np.array([-1], np.int32)}, "domain points outside"),
        ({"parent": np.array([1], np.int32)}, "inside a later one"),
        ({"parent": np.array([0], np.int64)}, "parent is not a column"),
        ({"end_ns": np.array([1, 2], np.int64)}, "end_ns is not a column"),
        ({"end_ns": np.array([0], np.int64)}, "ends before it begins"),
        ({"kind": np.array([3], np.uint8)}, "kind points outside"),
        ({"payload_type": np.array([7], np.uint8)}, "payload_type points outside"),
    ],
)
def test_columns_that_contradict_each_other(change: dict[str, object], says: str) -> None:
    good = ranges_of([("a", 1.0, 2.0, -1)])
    with pytest.raises(ProfileError, match=says):
        replace(good, **change).validate()  # type: ignore[arg-type]


def test_names_fold_where_that_joins_some() -> None:
    folded = fold_names(
        words_of("step 1|step 22|conv1d|conv2d|layer3|epoch 1/step 0.5|epoch 2/step 7|at 0x7f1|at 0x9a", "|")
    )
    assert folded["step 1"] == folded["step 22"] == "step {n}"
    assert folded["conv1d"] == "conv1d", "a number inside a word is part of it"
    assert folded["layer3"] == "layer3", "alone, so nothing is gained"
    assert folded["epoch 1/step 0.5"] == folded["epoch 2/step 7"] == "epoch {n}/step {n}"
    assert folded["at 0x7f1"] == "at {n}"


def test_names_that_the_collector_folded_join_the_others() -> None:
    assert set(fold_names(["step 1 of run", "step 2 of run", "step {n} of run"]).values()) == {
        "step {n} of run"
    }


def test_sums_by_name() -> None:
    rows = by_name(
        range_rows(
            [
                ranges_of(
                    [
                        ("step 1", 0.0, 1.0, -1),
                        ("forward", 0.0, 0.25, 0),
                        ("step 2", 1.0, 4.0, -1),
                        ("forward", 1.0, 2.75, 2),
                        ("forward", 5.0, None, -1),
                        ("left open", 6.0, None, -1),
                    ]
                ),
                ranges_of([("tick", 1.0, 1.0, -1)] * 3, kind=MARK),
            ]
        )
    )
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
    rows = range_rows(
        [
            ranges_of([("short", 0.0, 1.0, -1), ("long", 0.0, 9.0, -1)]),
            ranges_of([("moment", 1.0, 1.0, -1)] * 9, kind=MARK),
        ]
    )
    assert [row.key.name for row in rows] == ["long", "short", "moment"]


def spread(name: str, factor: float, n: int = 40) -> Ranges:
    durations = factor * np.linspace(1.0, 2.0, n)
    return ranges_of([(name, 0.0, float(d), -1) for d in durations])


def test_a_shift_of_the_whole_distribution() -> None:
    (change,) = compare_ranges([[spread("step", 1.0)]], [[spread("step", 3.0)]])
    assert change.median_ratio == pytest.approx(3.0)
    assert change.p95_ratio == pytest.approx(3.0)
    assert change.total_ratio == pytest.approx(3.0)
    assert change.slower == 1.0


def test_a_longer_tail_alone() -> None:
    slow = ranges_of([("step", 0.0, 10.0 if i % 10 == 0 else 1.0, -1) for i in range(40)])
    even = ranges_of([("step", 0.0, 1.0, -1)] * 40)
    (change,) = compare_ranges([[even]], [[slow]])
    assert change.median_ratio == 1.0
    assert change.p95_ratio == pytest.approx(10.0)
    assert change.slower == pytest.approx(0.55)


def test_ranges_of_one_side_and_folding_over_both() -> None:
    baseline = [[ranges_of([("step 1", 0.0, 1.0, -1), ("gone", 0.0, 5.0, -1)])]]
    candidate = [[ranges_of([("step 2", 0.0, 2.0, -1), ("new", 0.0, 0.5, -1)])]]
    changes = {change.key.name: change for change in compare_ranges(baseline, candidate)}
    assert list(changes) == ["gone", "step {n}", "new"], "most change of total time first"
    assert changes["gone"].candidate is None
    assert changes["new"].baseline is None
    assert changes["new"].slower is None
    assert changes["step {n}"].total_ratio == 2.0


def test_replicates_give_the_median_runs_totals_and_all_durations() -> None:
    runs = [[spread("step", factor)] for factor in (1.0, 9.0, 2.0)]
    (change,) = compare_ranges(runs, [[spread("step", 2.0)]])
    assert change.baseline.total_s == pytest.approx(2.0 * np.linspace(1, 2, 40).sum())
    assert change.total_ratio == pytest.approx(1.0)
    assert change.slower == pytest.approx(0.5, abs=0.02)
