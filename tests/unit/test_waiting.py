"""How the sampled growth of a thread's counters is divided among functions."""

from __future__ import annotations

from typing import Any

import pytest

from profkit.capture.agent import waiting
from profkit.capture.agent.tracer import Codes
from profkit.capture.agent.waiting import Followed


def first() -> None: ...


def second() -> None: ...


def outer() -> None: ...


class Kernel:
    """A thread's counters, as a test sets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run = 0.0
        monkeypatch.setattr(waiting, "_clock_gettime", lambda _clock: self.run)
        monkeypatch.setattr(waiting, "perf_counter", lambda: 0.0)
        self.followed = Followed(1, 1, 0)
        self.followed.begin(0.0)

    def reach(self, now: float, run: float, wait: float, *functions: Any) -> None:
        """Let the thread have got so far, in seconds since the begin; sample it, innermost function first."""
        self.run = run
        found = self.followed.ran(now)
        if found is not None:
            self.followed.advance(now, found, wait, [f.__code__ for f in functions])

    def rows(self) -> dict[str, tuple[float, ...]]:
        codes = Codes()
        rows = self.followed.rows(codes)
        names = codes.packed()["names"].split("\0")[::2]
        return {names[number]: tuple(round(s, 9) for s in seconds) for number, *seconds in rows}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def test_growth_goes_to_the_top_of_the_stack_and_its_callers(kernel: Kernel) -> None:
    kernel.reach(0.1, 0.05, 0.04, first, outer)
    kernel.reach(0.2, 0.10, 0.06, second, outer)
    assert kernel.rows() == {
        "first": (0.04, 0.04, 0.01, 0.01),
        "second": (0.02, 0.02, 0.03, 0.03),
        "outer": (0.0, 0.06, 0.0, 0.04),
    }


def test_a_recursive_function_waits_once(kernel: Kernel) -> None:
    kernel.reach(0.1, 0.05, 0.05, first, first, outer, first)
    assert kernel.rows() == {"first": (0.05, 0.05, 0.0, 0.0), "outer": (0.0, 0.05, 0.0, 0.0)}


def test_a_sleep_goes_to_where_the_thread_slept(kernel: Kernel) -> None:
    kernel.reach(0.1, 0.1, 0.0, first, outer)
    for now in (0.2, 0.3, 5.0):
        kernel.reach(now, 0.1, 0.0)
    kernel.reach(5.1, 0.15, 0.01, second, outer)
    assert kernel.rows() == {
        "first": (0.0, 0.0, 4.94, 4.94),
        "second": (0.01, 0.01, 0.0, 0.0),
        "outer": (0.0, 0.01, 0.0, 4.94),
    }


def test_a_long_time_in_the_queue_goes_to_where_the_thread_was_queued(kernel: Kernel) -> None:
    kernel.reach(0.1, 0.1, 0.0, first)
    kernel.reach(0.2, 0.1, 0.0)
    kernel.reach(0.3, 0.15, 0.15, second)
    rows = kernel.rows()
    assert rows["first"] == (0.1, 0.1, 0.0, 0.0)
    assert rows["second"] == (0.05, 0.05, 0.0, 0.0)


def test_a_thread_that_still_sleeps_has_slept_so_far(kernel: Kernel) -> None:
    kernel.reach(0.1, 0.1, 0.0, first, outer)
    kernel.reach(2.1, 0.1, 0.0)
    for _ in range(2):  # reading it changes nothing
        assert kernel.rows() == {"first": (0.0, 0.0, 2.0, 2.0), "outer": (0.0, 0.0, 0.0, 2.0)}
    kernel.reach(2.2, 0.15, 0.0, second, outer)
    assert kernel.rows() == {"first": (0.0, 0.0, 2.05, 2.05), "outer": (0.0, 0.0, 0.0, 2.05)}


def test_clocks_that_disagree_cancel_out(kernel: Kernel) -> None:
    kernel.reach(0.1, 0.11, 0.0, first)
    kernel.reach(0.2, 0.15, 0.0, second)
    assert kernel.rows() == {"second": (0.0, 0.0, 0.05, 0.05)}


def test_a_thread_that_was_found_late_has_not_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_clock_gettime", lambda _clock: 0.02)
    followed = Followed(1, 1, 0)
    followed.advance(100.0, 0.02, 0.03, [first.__code__])
    codes = Codes()
    assert followed.rows(codes) == [(0, 0.03, 0.03, 0.0, 0.0)]


def test_what_was_open_before_tracing_is_charged_nothing() -> None:
    import sys

    def inner() -> list[Any]:
        return Followed(1, 1, depth).find(sys._getframe())

    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth += 1
        frame = frame.f_back  # type: ignore[assignment]
    assert [code.co_name for code in inner()] == ["inner"]
