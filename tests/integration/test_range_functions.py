"""Which functions run inside NVTX ranges, and who opened those: real programs under the real command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from profkit.capture.agent import native
from profkit.measure.range_functions import InsideRanges, RangeFunctions, range_functions
from profkit.measure.range_stats import RangeKey, fold_names, pattern_of, range_rows
from profkit.model import Run
from tests.integration.capturing import PROGRAMS, captured, environment
from tests.integration.nvtx_ranges import require_collector
from tests.interpreters import BOTH_WAYS, interpreter, packages
from tests.requirements import require

PROGRAM = str(PROGRAMS / "ranges_around.py")


@pytest.fixture(autouse=True)
def built() -> None:
    require_collector()
    require("native", native.load() is not None, "profkit is installed without its tracer for this Python")


def inside_of(found: InsideRanges, name: str, domain: str = "") -> RangeFunctions:
    result = found.get(RangeKey(name, domain).pattern)
    assert result is not None, name
    return result


def ncalls(found: RangeFunctions) -> dict[str, int]:
    return {function.name: function.ncalls for function in found.functions}


def seconds(found: RangeFunctions) -> dict[str, float]:
    return {function.name: function.tottime for function in found.functions}


def openers(found: RangeFunctions) -> dict[str, int]:
    return {opener.name: opener.count for opener in found.opened_by}


#: By name and domain of a range: who opened it how often, where that is looked at, and calls in it.
INSIDE: dict[tuple[str, str], tuple[dict[str, int] | None, dict[str, int]]] = {
    ("outer {n}", ""): ({"nested": 4}, {"work": 8}),  # what is inside the inner range is in both
    ("inner", ""): ({"nested": 4}, {"work": 4}),
    ("decorated", ""): ({"nested": 4}, {"decorated_body": 4}),
    ("walk", ""): ({"recursive": 4}, {"work": 4}),  # a range in one of its own name counts once
    ("leaked", ""): ({"leaks": 1}, {"work": 2}),  # nothing pops it
    ("first", "one"): (None, {"work": 1}),
    ("second", "two"): (None, {"work": 2}),  # each domain has a stack of its own
    ("resume", ""): (None, {"steps": 4, "work": 3}),
    ("level", ""): (None, {"work": 1}),
    ("after the deep", ""): (None, {"work": 1}),
    ("spanning", ""): ({"opens": 1}, {"work": 1}),
    ("in a thread", ""): ({"in_a_thread": 1}, {}),
    ("in the child", ""): ({"child": 1}, {}),
    ("until the end", ""): (None, {"work": 1}),
}


def check(run: Run) -> None:
    found = range_functions(run)
    for key, (opened, counted) in INSIDE.items():
        inside = inside_of(found, *key)
        assert opened in (None, openers(inside)), key
        assert {name: ncalls(inside)[name] for name in counted} == counted, key
    assert "nested" in seconds(inside_of(found, "outer {n}")), "who opened a range runs in it, too"
    child = next(p for p in run.processes if p.pid != run.processes[0].pid)
    calls = child.threads[0].range_calls
    assert [calls.strings[i] for i in calls.name.tolist()] == ["in the child"]

    # The collector folds numbers as reports do: no range is left without its functions.
    for row in range_rows(run.processes):
        assert found.get(row.key.pattern) is not None, row.key
    ranges = [process.ranges for process in run.processes if process.ranges is not None]
    names = [text for part in ranges for text in part.strings]
    assert {pattern_of(text) for text in fold_names(names).values()} == {pattern_of(text) for text in names}


def check_sums(run: Run) -> None:
    """What the functions have inside ranges is the time that their threads were in them."""
    found = range_functions(run)
    compared = 0
    for row in range_rows(run.processes):
        if row.key.name in ("walk", "level") or row.unbalanced or row.total_s < 0.001:
            continue  # their totals count nested ones twice
        known = found.get(row.key.pattern)
        # The two read their clocks one after the other, and may lose the CPU in between.
        assert known.total_s == pytest.approx(row.total_s, rel=0.1, abs=0.02), row.key
        assert known.total_s == pytest.approx(sum(f.tottime for f in known.functions))
        compared += 1
    assert compared >= 5


@pytest.mark.interpreters
@pytest.mark.parametrize("version", BOTH_WAYS)
def test_functions_inside_ranges(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    env = environment(PYTHONPATH=str(packages(python, "nvtx")))
    run = captured(tmp_path, python, "-W", "ignore", PROGRAM, env=env)
    check(run)
    check_sums(run)


def test_a_killed_process_keeps_what_its_last_record_had(tmp_path: Path) -> None:
    program = (
        "import nvtx, os, time\n"
        "def work():\n"
        "    time.sleep(3)\n"  # the last record is at most 2 seconds old
        "with nvtx.annotate('long'):\n"
        "    work()\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    run = captured(tmp_path, sys.executable, "-c", program, status=-9)
    found = inside_of(range_functions(run), "long")
    assert seconds(found)["<built-in method time.sleep>"] > 0.0
    assert openers(found) == {"<module>": 1}
