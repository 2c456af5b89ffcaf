"""The reader of the NVTX collector's files: pairing, order, and files that are not what they should be."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.formats.nvtx_log import NvtxLog, read_nvtx_log
from profkit.formats.nvtx_pairs import enclosing, pair_pushes
from profkit.model import Notice, Process, Run
from profkit.model.columns import column_dtypes
from profkit.model.ranges import MARK, OPEN, STARTED, Ranges
from tests import nvtx_files as nf
from tests.builders import Told, ranges
from tests.nvtx_files import definition, definitions, event_file, record, write_log
from tests.unit.test_ranges import assert_same


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
    assert_same(
        log.ranges,
        ranges(
            [
                Told("outer", 10, 50, thread=1001, color=0xFF00FF00, payload=(5, 0xFFFFFFFB)),
                # A range of another domain is around it.
                Told("größer", 20, 40, thread=1001, domain="lib", category="in lib", parent=0),
                Told("outer", 25, 25, MARK, 1001, category="in none"),
                Told("started", 30, 60, STARTED, 1001),
            ]
        ),
        column_dtypes(Ranges),
    )
    assert (log.ranges.lost, log.ranges.folded, log.ranges.unmatched) == (3, 2, 0)
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


def test_a_leaked_range_is_not_around_another_domains_later_ranges(tmp_path: Path) -> None:
    leaked = record(nf.PUSH, 1, domain=1)
    log = read(tmp_path, [segment(1), leaked, record(nf.PUSH, 2, domain=2), record(nf.POP, 3, domain=2)])
    assert log.ranges.parent.tolist() == [-1, -1]


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


def test_damaged_records_are_left_out_and_said(tmp_path: Path) -> None:
    log = read(tmp_path, [segment(1), record(200, 1), record(nf.MARK, 1 << 63), record(nf.MARK, 5)])
    assert log.ranges.begin_ns.tolist() == [5]
    assert log.warnings == (Notice("nvtx-events-damaged", "", {"events": 2}),)


def test_damaged_definitions_do_not_take_the_others_along(tmp_path: Path) -> None:
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
@settings(max_examples=100, deadline=None)
def test_pushes_and_pops_of_a_domain_pair_and_nest_like_brackets(drawn: Stacks) -> None:
    _, stack, pushed = drawn
    match, lonely = pair_pushes(stack, pushed)
    assert (match.tolist(), lonely) == paired_by_loop(stack.tolist(), pushed.tolist())
    found = enclosing(stack, stack, pushed, match)
    assert found.tolist() == around_by_loop(stack.tolist(), pushed.tolist(), match.tolist())


@given(events)
@settings(max_examples=100, deadline=None)
def test_a_range_of_any_domain_around_it_really_is(drawn: Stacks) -> None:
    thread, stack, pushed = drawn
    match, _ = pair_pushes(stack, pushed)
    found = enclosing(thread, stack, pushed, match)
    for i in np.flatnonzero(found >= 0).tolist():
        j = int(found[i])
        assert j < i
        assert thread[j] == thread[i]
        assert match[j] == -1 or match[j] > i
        if stack[i] != stack[j]:
            assert match[j] > match[i] > 0
