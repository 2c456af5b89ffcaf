"""The benchmarks of a capture: what two profiles have in common, and that what can be asked for is there."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from benchmarks.accuracy.agreement import Function, agreement
from tests.shared import finished


def exact(calls: float, tottime: float) -> Function:
    return Function(calls, calls, calls, tottime, 0.0)


def key(name: str) -> tuple[str, int, str]:
    return ("program.py", 1, name)


ROOT = Path(__file__).parents[2]
TRUTH = {key("f"): exact(2000, 6.0), key("g"): exact(10, 3.0), key("h"): exact(1, 1.0)}


def test_an_exact_profile_agrees_with_itself() -> None:
    found = agreement(TRUTH, TRUTH, [TRUTH])
    assert (found.calls, found.times, found.wrong, found.unknown) == (0, 0, (), 0)
    assert (found.worst, found.unseen_s, found.same_first) == (0.0, 0.0, True)


def test_intervals_hold_the_number_or_do_not() -> None:
    seen = {
        key("f"): Function(1500, 900, 2400, 3.5, 0.6),  # 70 % of the time, ± 12
        key("g"): Function(30, 20, 40, 1.0, 0.1),  # 20 %, ± 2
        key("h"): Function(math.nan, math.nan, math.nan, 0.5, 0.0),
    }
    found = agreement(TRUTH, seen, [TRUTH])
    assert (found.calls, found.calls_held, found.unknown) == (2, 1, 1)
    assert (found.busy, found.busy_held) == (1, 1)
    assert found.ratio == pytest.approx(0.75)
    assert (found.times, found.times_held) == (2, 1)
    assert found.worst == pytest.approx(0.1)


def test_a_count_that_is_stated_as_exact_is_wrong_if_it_differs() -> None:
    assert agreement(TRUTH, {**TRUTH, key("g"): exact(11, 3.0)}, [TRUTH]).wrong == ("g 11 for 10",)


@pytest.mark.parametrize("name", ["overhead", "accuracy", "processes"])
def test_help_and_an_unknown_program(name: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    assert "--quick" in finished([*command, "--help"], ROOT).stdout
    if name != "processes":
        done = finished([*command, "unheard"], ROOT)
        assert done.returncode == 2
        assert "unheard: not one of" in done.stderr.splitlines()[-1]
