"""NVTX: the reader of the collector's files, valid columns, sums by name, comparing, reports, what is inside."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.capture.tables import name_ranges, range_calls
from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.formats.nvtx_log import NvtxLog, read_nvtx_log
from profkit.formats.nvtx_pairs import enclosing, pair_pushes
from profkit.measure.range_functions import RangeFunctions, range_functions
from profkit.measure.range_stats import (
    RangeKey,
    compare_ranges,
    fold_names,
    range_rows,
    repeated,
)
from profkit.measure.range_waiting import range_waiting
from profkit.model import Notice, Process, ProfileError, RangeCalls, Run, RunSet, Thread
from profkit.model.ranges import MARK, OPEN, PUSHED, STARTED, Ranges
from profkit.model.series import ThreadSamples
from profkit.report.jsondoc import show_object
from profkit.report.markdown import render
from profkit.report.showdoc import show_document
from profkit.verdict.diagnosis import diagnose as diff
from tests import nvtx_files as nf
from tests import report_builders as build
from tests.builders import Row, Told, profile, ranges
from tests.nvtx_files import definition, definitions, event_file, record, write_log
from tests.records import table
from tests.run_files import member_of, plain, rewritten
from tests.shared import check_schema, words_of

#: A name, its begin and end in seconds, and the place of the range around it.
Stretch = tuple[str, float, float | None, int]


def ranges_of(rows: Sequence[Stretch], *, kind: int = PUSHED, domain: str = "") -> Ranges:
    told = []
    for name, begin, end, parent in rows:
        ends = OPEN if end is None else round(end * 1e9)
        told.append(Told(name, round(begin * 1e9), ends, kind, thread=1, domain=domain, parent=parent))
    return ranges(told)


def processes(*ranges: Ranges | None, samples: ThreadSamples | None = None) -> tuple[Process, ...]:
    return tuple(Process(pid=i, ranges=part, samples=samples) for i, part in enumerate(ranges, 1))


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
        *(("left open", 0.0, None, -1), ("step 1", 0.0, 1.0, -1), ("forward", 0.0, 0.25, 1)),
        *(("step 2", 1.0, 4.0, -1), ("forward", 1.0, 2.75, 3), ("forward", 5.0, None, -1)),
    ]
    found = range_rows(processes(ranges_of([("tick", 1.0, 1.0, -1)] * 9, kind=MARK), ranges_of(told)))
    rows = {row.key.name: row for row in found}
    assert list(rows) == ["step {n}", "forward", "left open", "tick"], "most time first, and marks last"
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
    assert (tick.key.mark, tick.count, tick.total_s, tick.median_s) == (True, 9, 0.0, None)


def test_the_part_of_a_parent_that_is_left_open() -> None:
    told = [
        *(("epoch", 0.0, 10.0, -1), ("step", 0.0, 8.0, 0), ("load", 0.0, 2.0, 1)),
        *(
            ("epoch", 10.0, None, -1),
            ("step", 10.0, 25.0, 3),
            ("eval", 25.0, None, -1),
            ("load", 25.0, 29.0, 5),
        ),
    ]
    rows = {row.key.name: row for row in range_rows(processes(ranges_of(told)))}
    step, load = rows["step"], rows["load"]
    assert (step.total_s, step.parent, step.share_of_parent) == (23.0, RangeKey("epoch", ""), 0.8)
    # By all its time, most of it was in a range of which none ended.
    assert (load.parent, load.share_of_parent) == (RangeKey("eval", ""), None)


def spread(name: str, factor: float = 1.0) -> Ranges:
    durations = factor * np.linspace(1.0, 2.0, 40)
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
    rows: list[Stretch] = [("training", 0.0, 1000.0, -1)]
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
    sides = ([processes(spread(name))] for name in ("one", "other"))
    assert repeated(compare_ranges(*sides), 0.05) is None


def run_with(*ranges: Ranges | None) -> Run:
    return Run("run.prof", processes(*ranges))


def test_ranges_of_the_chosen_process_are_compared_where_a_run_has_them() -> None:
    run = run_with(spread("step", 3.0), spread("other"))
    a, b = RunSet("a", (run, run_with(None, None))), RunSet("b", (run,))
    (change,) = diff(a, b, process="pid:2").ranges
    assert (change.key.name, change.total_ratio) == ("other", 1.0)


def test_show_for_people() -> None:
    leaky = ranges_of(
        [("step", 0.0, 1.0, -1), ("load", 0.0, 0.5, 0), ("left", 1.0, None, -1), ("", 2.0, 3.0, -1)]
    )
    odd = replace(spread("epoch"), unmatched=3)
    text = render(show_document(run_with(leaky, odd), judged=build.UNJUDGED))
    section = text[text.index("NVTX ranges") :]
    for shown in ("(no name)", "load", "50.0 %", "3 ends had no beginning", "began but never ended"):
        assert shown in section


#: Thread of `ranges_of`.
TID = 1


def samples_of(*rows: tuple[int, float, float]) -> ThreadSamples:
    """Build samples from (thread, seconds, seconds waited since it began)."""
    tid, time_ns, wait_ns = (np.array(rows).T * [[1], [1e9], [1e9]]).astype(np.int64, "C")
    return ThreadSamples(tid, time_ns, time_ns // 2, wait_ns).validate()


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


def test_waiting_of_several_processes_and_of_both_sides() -> None:
    ranges = ranges_of([("a", 1.0, 3.0, -1)])
    (row,) = range_rows([Process(), Process(ranges=ranges, samples=STEADY), Process(ranges=ranges)])
    assert (row.total_s, row.wait_s, row.wait_share) == (4.0, 1.0, 0.5)
    calm = replace(STEADY, wait_ns=np.zeros(len(STEADY), np.int64))
    (change,) = compare_ranges([processes(ranges, samples=calm)], [processes(ranges, samples=STEADY)])
    assert (change.baseline.wait_share, change.candidate.wait_share) == (0.0, 0.5)


# The reader of the NVTX collector's files: pairing, order, and files that are not what they should be


def segment(serial: int, time: int = 0) -> bytes:
    return record(nf.SEGMENT, time, string=serial, payload=1000 + serial)


def names(log: NvtxLog) -> list[str]:
    return [log.ranges.strings[i] for i in log.ranges.name]


def read(tmp_path: Path, records: list[bytes], *entries: bytes, **fields: int) -> NvtxLog:
    return read_nvtx_log(write_log(tmp_path, event_file(records, **fields), definitions(*entries)))


def test_a_process_with_every_kind_of_event(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            segment(1, 5),
            record(nf.PUSH, 10, string=1, color=0xFF00FF00, payload_type=5, payload=0xFFFFFFFB),
            record(nf.PUSH, 20, string=2, domain=1, category=7),
            record(nf.MARK, 25, string=1, category=7),
            record(nf.START, 30, string=3),
            record(nf.POP, 40, domain=1),
            record(nf.POP, 50),
            record(nf.END, 60, payload=1 << 48 | nf.HEADER_BYTES + 4 * 32),
        ],
        definition(nf.STRING, 1, "outer"),
        definition(nf.STRING, 2, "größer"),
        definition(nf.STRING, 3, "started"),
        definition(nf.DOMAIN, 1, "lib"),
        definition(nf.CATEGORY, 7, "in lib", extra=1),
        definition(nf.CATEGORY, 7, "in none"),
        definition(nf.THREAD, 1001, "loader"),
        definition(nf.COMMAND, 0, "python\0train.py\0"),
        lost=3,
        folded=2,
    )
    told = ranges(
        [
            Told("outer", 10, 50, thread=1001, color=0xFF00FF00, payload=(5, 0xFFFFFFFB)),
            # A range of another domain is around it.
            Told("größer", 20, 40, thread=1001, domain="lib", category="in lib", parent=0),
            Told("outer", 25, 25, MARK, 1001, category="in none"),
            Told("started", 30, 60, STARTED, 1001),
        ]
    )
    expected = replace(told, monotonic_ns=10**9, realtime_ns=10**18, lost=3, folded=2)
    assert plain(log.ranges) == plain(expected)
    assert (log.pid, log.parent, log.texts.command) == (100, 99, ("python", "train.py"))
    assert log.texts.threads == {1001: "loader"}
    assert log.warnings == ()


def test_threads_that_went_on_in_each_others_chunks(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            *(segment(1, 0), record(nf.PUSH, 1, string=1)),
            # thread 1 was given room elsewhere, and thread 2 ended
            *(segment(2, 2), record(nf.PUSH, 3, string=2), record(nf.POP, 4)),
            *(segment(1, 9), record(nf.POP, 9), *[record(0)] * 3),
            *(segment(1, 5), record(nf.PUSH, 6, string=3), record(nf.POP, 7)),
        ],
        *[definition(nf.STRING, i, name) for i, name in enumerate(("a", "b", "c"), 1)],
    )
    assert names(log) == ["a", "c", "b"]
    assert log.ranges.end_ns.tolist() == [9, 7, 4]
    assert log.ranges.parent.tolist() == [-1, 0, -1]
    assert log.ranges.unmatched == 0


def test_what_is_unbalanced_is_counted_and_kept(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            segment(1),
            record(nf.POP, 1),  # nothing is open
            record(nf.PUSH, 2, string=1),
            record(nf.PUSH, 3, string=1),
            record(nf.POP, 4),
            record(nf.START, 5, string=1),  # never ended
            record(nf.END, 6, payload=1 << 48 | 12345),  # no such range
            record(nf.END, 7, payload=2 << 48 | nf.HEADER_BYTES + 5 * 32),  # another process's
        ],
        definition(nf.STRING, 1, "x"),
    )
    assert log.ranges.end_ns.tolist() == [OPEN, 4, OPEN]
    assert np.isnan(log.ranges.duration_s).tolist() == [True, False, True]
    assert log.ranges.unmatched == 2


def test_a_header_that_counts_more_events_than_there_can_be(tmp_path: Path) -> None:
    log = read(tmp_path, [segment(1, 5), record(nf.MARK, 10)], lost=2**64 - 1, folded=2**63)
    write_run(tmp_path / "run.prof", Run("", (Process(pid=100, ranges=log.ranges),)))
    (process,) = load_run(tmp_path / "run.prof").processes
    assert (process.ranges.lost, process.ranges.folded) == (2**53, 2**53)


@pytest.mark.parametrize("suffix", ["", "defs"])
def test_pipes_keep_no_reader_waiting(tmp_path: Path, suffix: str) -> None:
    path = write_log(tmp_path, event_file([segment(1, 5), record(nf.MARK, 10)]), definitions())
    os.unlink(f"{path}{suffix}")
    os.mkfifo(f"{path}{suffix}")
    if suffix:
        assert [notice.code for notice in read_nvtx_log(path).warnings] == ["nvtx-names-unreadable"]
    else:
        with pytest.raises(FormatError, match="is not a regular file"):
            read_nvtx_log(path)


def test_damaged_records_and_definitions_do_not_take_the_others_along(tmp_path: Path) -> None:
    log = read(tmp_path, [segment(1), record(200, 1), record(nf.MARK, 1 << 63), record(nf.MARK, 5)])
    assert log.ranges.begin_ns.tolist() == [5]
    assert log.warnings == (Notice("nvtx-events-damaged", "", {"events": 2}),)
    good = definition(nf.STRING, 1, "kept")
    first = (b"PFKNVTXD" + good + b"\x01\0\0\0\xff\xff\xff\xff" + b"\0" * 8).ljust(1 << 16, b"\0")
    second = definition(nf.STRING, 2, "kept too").ljust(1 << 16, b"\0")
    events = event_file([segment(1), record(nf.MARK, 1, string=1), record(nf.MARK, 2, string=2)])
    log = read_nvtx_log(write_log(tmp_path, events, first + second))
    assert names(log) == ["kept", "kept too"]
    assert log.warnings == (Notice("nvtx-names-damaged", "host-100-1.nvtxdefs", {"blocks": 1}),)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"x" * 50, "too short"),
        (b"x" * 5000, "not a file of NVTX events"),
        (b"PFKNVTXE\x09\0\0\0" + b"\0" * 5000, "version 9"),
        (b"PFKNVTXE\x01\0\0\0\xff\xff\xff\xff\x20\0\0\0" + b"\0" * 5000, "layout"),
    ],
)
def test_what_is_no_event_file(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        read_nvtx_log(write_log(tmp_path, data))


# Pairing, against the obvious loops


def paired_by_loop(stacks: list[int], pushed: list[bool]) -> tuple[list[int], int]:
    match, open_, lonely = [-1] * len(stacks), {}, 0
    for i, (stack, push) in enumerate(zip(stacks, pushed, strict=True)):
        held = open_.setdefault(stack, [])
        if push:
            held.append(i)
        elif held:
            match[held.pop()] = i
        else:
            lonely += 1
    return match, lonely


def around_by_loop(stacks: list[int], pushed: list[bool], match: list[int]) -> list[int]:
    result = [-1] * len(stacks)
    for i in (i for i, push in enumerate(pushed) if push):
        for j in range(i):
            if stacks[j] == stacks[i] and pushed[j] and (match[j] == -1 or match[j] > i):
                result[i] = j
    return result


Stacks = tuple[np.ndarray, np.ndarray, np.ndarray]


def columns_of(drawn: list[tuple[int, int, bool]]) -> Stacks:
    """The thread of each event, the stack of its thread and domain, and whether it is a push."""
    thread, domain, pushed = np.array(sorted(drawn, key=lambda event: event[0]), np.int64).reshape(-1, 3).T
    return thread, 2 * thread + domain, pushed.astype(bool)


events = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.booleans()), max_size=60).map(columns_of)


@given(events)
@settings(max_examples=100)
def test_pushes_and_pops_pair_and_nest_like_brackets(drawn: Stacks) -> None:
    """Those of one domain; a range of another domain that is around one really is."""
    thread, stack, pushed = drawn
    match, lonely = pair_pushes(stack, pushed)
    assert (match.tolist(), lonely) == paired_by_loop(stack.tolist(), pushed.tolist())
    of_domain = enclosing(stack, stack, pushed, match)
    assert of_domain.tolist() == around_by_loop(stack.tolist(), pushed.tolist(), match.tolist())
    found = enclosing(thread, stack, pushed, match)
    for i in np.flatnonzero(found >= 0).tolist():
        j = int(found[i])
        assert j < i
        assert thread[j] == thread[i]
        assert match[j] == -1 or match[j] > i
        if stack[i] != stack[j]:
            assert match[j] > match[i] > 0


# Which functions ran inside ranges: what an agent's table becomes, the run file, and sums by name

#: Three functions: 0 opens a step, 1 a forward pass in it, 2 a layer in that. The profile does not have the fourth.
THREE = profile([Row("train.py", line, name) for line, name in enumerate(("train", "forward", "layer"))])
TABLE: dict[str, Any] = {
    "measured": True,
    "contexts": [(-1, 1, 10, 0, 2), (0, 1, 11, 1, 2), (1, 0, 12, 2, 8)],
    "inside": [
        *((0, 0, 0, 0.5, 0.1, 0.0), (0, 1, 2, 0.25, 0.0, 0.0)),
        *((1, 1, 0, 1.0, 0.5, 0.25), (1, 2, 8, 2.0, 0.0, 0.0)),
        *((2, 2, 0, 4.0, 0.0, 0.0), (2, 3, 1, 64.0, 0.0, 0.0)),
    ],
}
NAMES, DOMAINS = {10: "step {n}", 11: "forward", 12: "layer {n}"}, {1: "lib"}


def unnamed(**changes: object) -> RangeCalls | None:
    return range_calls(table(**{**TABLE, **changes}), np.array([0, 1, 2, -1], np.int32))


def calls_of(**changes: object) -> RangeCalls:
    return name_ranges(unnamed(**changes), NAMES, DOMAINS).validate(3)


def run_of(*threads: Thread) -> Run:
    told = [("step 1", 0.0, 4.0, -1), ("step 2", 4.0, 8.0, -1), ("forward", 1.0, 2.0, 0)]
    ranges = ranges_of(told, domain="lib")
    return Run("run.prof", (Process(pid=1, ranges=ranges, threads=threads),))


def inside(run: Run, name: str, domain: str = "lib") -> RangeFunctions:
    return range_functions(run).get(RangeKey(name, domain).pattern)


def test_a_record_becomes_contexts() -> None:
    calls = calls_of()
    assert [calls.strings[i] for i in calls.name.tolist()] == ["step {n}", "forward", "layer {n}"]
    assert [calls.strings[i] for i in calls.domain.tolist()] == ["lib", "lib", ""]
    assert calls.parent.tolist() == [-1, 0, 1]
    assert calls.opener.tolist() == [0, 1, 2]
    assert calls.count.tolist() == [2, 2, 8]
    assert calls.context.tolist() == [0, 0, 1, 1, 2], "a function that the profile does not have is left out"
    assert calls.wait.tolist() == [0.1, 0.0, 0.5, 0.0, 0.0]


def test_contexts_that_differ_in_nothing_are_one() -> None:
    again = [(-1, 1, 10, 0, 3), (3, 1, 11, 1, 4), (4, 1, 11, 3, 1), (4, 1, 11, -1, 1)]
    inside = [*TABLE["inside"], (4, 2, 1, 1.0, 0.0, 0.0)]
    calls = calls_of(contexts=[*TABLE["contexts"], *again], inside=inside)
    assert calls.parent.tolist() == [-1, 0, 1, 1]
    assert calls.opener.tolist() == [0, 1, 2, -1], "a function without a row is none"
    assert calls.count.tolist() == [5, 6, 8, 2]
    assert calls.context.tolist() == [0, 0, 1, 1, 2, 1]


def test_a_thread_without_ranges_or_without_measurements() -> None:
    assert unnamed(contexts=[], inside=[]) is None
    unmeasured = calls_of(measured=False)
    assert np.isnan(unmeasured.wait).all()
    found = inside(run_of(Thread(THREE, range_calls=unmeasured)), "forward")
    assert {function.wait for function in found.functions} == {None}


def test_a_range_has_what_runs_in_the_ranges_inside_it() -> None:
    run = run_of(Thread(THREE, range_calls=calls_of()))
    step = inside(run, "step {n}")
    assert [(f.name, f.ncalls, f.tottime) for f in step.functions] == [
        ("layer", 8, 6.0),
        ("forward", 2, 1.25),
        ("train", 0, 0.5),
    ]
    assert step.total_s == 7.75
    assert step.functions[0].share == pytest.approx(6.0 / 7.75)
    assert [(o.name, o.count) for o in step.opened_by] == [("train", 2)]
    forward = inside(run, "forward")
    assert [(f.name, f.tottime, f.wait, f.blocked) for f in forward.functions] == [
        ("layer", 6.0, 0.0, 0.0),
        ("forward", 1.0, 0.5, 0.25),
    ]
    assert inside(run, "layer 7", "").total_s == 4.0, "a name that folds with no other is the same row"
    assert range_functions(run).get(RangeKey("forward", "")) is None, "another domain"
    assert range_functions(run).get(RangeKey("forward", "lib", mark=True)) is None


def test_threads_and_processes_are_summed() -> None:
    run = run_of(*(Thread(THREE, range_calls=calls_of()) for _ in range(2)), Thread(THREE))
    twice = replace(run, processes=run.processes * 2)
    forward = inside(twice, "forward")
    assert [(f.name, f.ncalls, f.tottime) for f in forward.functions] == [
        ("layer", 32, 24.0),
        ("forward", 0, 4.0),
    ]
    assert [(o.name, o.count) for o in forward.opened_by] == [("forward", 8)]


def test_a_range_inside_one_of_its_own_name_counts_once() -> None:
    calls = calls_of(
        contexts=[(-1, 0, 11, 1, 1), (0, 0, 11, 1, 1)],
        inside=[(0, 1, 1, 1.0, 0.0, 0.0), (1, 1, 1, 2.0, 0.0, 0.0)],
    )
    found = inside(run_of(Thread(THREE, range_calls=calls)), "forward", "")
    assert [(f.ncalls, f.tottime) for f in found.functions] == [(2, 3.0)]
    assert [(o.name, o.count) for o in found.opened_by] == [("forward", 2)]


def test_a_field_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "run.prof"
    write_run(path, run_of(Thread(THREE, range_calls=calls_of())))
    document = member_of(path, "processes.json")
    parts = ({"contexts": [0, 9], "functions": [0, 5]}, {"contexts": "x", "functions": [0, 1]})
    for field in (7, [], {"contexts": [0, 3]}, *parts):
        document[0]["threads"][0]["range_calls"] = field
        rewritten(path, {"processes.json": json.dumps(document).encode()})
        with pytest.raises(FormatError, match="range_calls"):
            load_run(path)


def test_both_reports_say_it() -> None:
    run = run_of(Thread(THREE, range_calls=calls_of()))
    text = render(show_document(run, judged=build.UNJUDGED))
    section = text.split("### Functions inside NVTX ranges")[1]
    first = next(line for line in section.splitlines() if "step" in line)
    for shown in ("train", "layer", "77.4 %"):
        assert shown in first
    result = show_object(run, judged=build.UNJUDGED)
    check_schema(result, "show-2.json")
    step = next(row for row in result["ranges"] if row["name"] == "step {n}")
    assert [(o["name"], o["count"]) for o in step["opened_by"]] == [("train", 2)]
    assert [f["tottime"] for f in step["functions"]] == [6.0, 1.25, 0.5]
    cut = show_object(run, limit=2, judged=build.UNJUDGED)["ranges"][0]
    assert (cut["functions_total"], len(cut["functions"])) == (3, 2)
    untraced = show_object(run_of(Thread(THREE)), judged=build.UNJUDGED)["ranges"][0]
    assert (untraced["opened_by"], untraced["functions"]) == (None, None)
