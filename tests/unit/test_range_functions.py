"""Which functions ran inside ranges: what an agent's table becomes, the run file, and sums by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.capture.tables import name_ranges, range_calls
from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.measure.range_functions import RangeFunctions, range_functions
from profkit.measure.range_stats import RangeKey
from profkit.model import Process, Profile, RangeCalls, Run, Thread
from profkit.report.jsondoc import show_object
from profkit.report.markdown import render
from profkit.report.showdoc import show_document
from tests import report_builders as build
from tests.builders import Row
from tests.builders import profile as build_profile
from tests.records import record, table
from tests.run_files import member_of, rewritten
from tests.shared import check_schema
from tests.unit.test_ranges import ranges_of

#: Three functions: 0 opens a step, 1 a forward pass in it, 2 a layer in that. The profile does not have the fourth.
CODES = [("train.py", line, name, "") for line, name in enumerate(("train", "forward", "layer", "other"))]
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
    read = record(codes=CODES, threads=[table(**{**TABLE, **changes})])
    return range_calls(read.threads[0], np.array([0, 1, 2, -1], np.int32))


def calls_of(**changes: object) -> RangeCalls:
    return name_ranges(unnamed(**changes), NAMES, DOMAINS).validate(3)


def profile() -> Profile:
    return build_profile([Row(*code[:3]) for code in CODES[:3]])


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
    found = inside(run_of(Thread(profile(), range_calls=unmeasured)), "forward")
    assert {function.wait for function in found.functions} == {None}


def test_a_range_has_what_runs_in_the_ranges_inside_it() -> None:
    run = run_of(Thread(profile(), range_calls=calls_of()))
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
    run = run_of(*(Thread(profile(), range_calls=calls_of()) for _ in range(2)), Thread(profile()))
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
    found = inside(run_of(Thread(profile(), range_calls=calls)), "forward", "")
    assert [(f.ncalls, f.tottime) for f in found.functions] == [(2, 3.0)]
    assert [(o.name, o.count) for o in found.opened_by] == [("forward", 2)]


def test_a_field_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "run.prof"
    write_run(path, run_of(Thread(profile(), range_calls=calls_of())))
    document = member_of(path, "processes.json")
    parts = ({"contexts": [0, 9], "functions": [0, 5]}, {"contexts": "x", "functions": [0, 1]})
    for field in (7, [], {"contexts": [0, 3]}, *parts):
        document[0]["threads"][0]["range_calls"] = field
        rewritten(path, {"processes.json": json.dumps(document).encode()})
        with pytest.raises(FormatError, match="range_calls"):
            load_run(path)


def test_both_reports_say_it() -> None:
    run = run_of(Thread(profile(), range_calls=calls_of()))
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
    untraced = show_object(run_of(Thread(profile())), judged=build.UNJUDGED)["ranges"][0]
    assert (untraced["opened_by"], untraced["functions"]) == (None, None)
