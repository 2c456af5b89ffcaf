"""Each thread for itself: its time, its waiting, its open calls, read while it runs."""

from __future__ import annotations

import pytest

from tests.integration.tracing import NEW, check
from tests.interpreters import EACH_WAY

pytestmark = pytest.mark.interpreters

#: In seconds: the tracer's clock and Python's are compared to some 50 ns; this allows for what that makes in a run.
CLOCKS = 1e-4


@pytest.mark.parametrize("version", EACH_WAY)
def test_cumulative_time_of_each_thread_is_its_wall_time(version: str) -> None:
    found = check(version, "threads")
    assert len(found["ours"]) == 4
    for cumulative, inside, around in found["ours"]:
        assert inside - CLOCKS <= cumulative <= around + CLOCKS
    if version in NEW:
        cumulative, inside, around = found["cprofile"]
        apart = 0.98 * inside <= cumulative <= 1.02 * around
        assert not apart, "cProfile tells threads apart by now: say so in the docs"


@pytest.mark.parametrize("version", EACH_WAY)
def test_open_calls_are_exact_when_read_from_another_thread(version: str) -> None:
    seen = check(version, "read_while_running")["seen"]
    assert len(seen) == 40
    assert any("inner" in names[names.index("outer") :] for *_, names in seen)
    for elapsed, least, most, own, alive, names in seen:
        assert least - CLOCKS <= elapsed <= most + CLOCKS
        # Booked and open self time together are all the time of the thread, which began a little earlier.
        assert elapsed - 1e-6 <= own <= alive + CLOCKS
        assert names.count("outer") == 1


@pytest.mark.parametrize("version", EACH_WAY)
def test_threads_can_be_left_while_they_run(version: str) -> None:
    found = check(version, "detach")
    before, after = found["calls"]
    assert len(before) == 4
    assert min(before) > 0
    assert found["refused"] == 0
    assert after == before
    assert found["profiles"] == ["None"] * 4
    assert found["tool"] is None


@pytest.mark.alone
@pytest.mark.parametrize("version", EACH_WAY)
def test_waiting_adds_up_to_the_kernels_figures(version: str) -> None:
    found = check(version, "waiting", "2", "2")
    assert found["measured"]
    assert found["kernel_wait"] > 0.4, "the program was not contended: nothing was tested"
    assert found["wait"] == pytest.approx(found["kernel_wait"], rel=0.01)
    assert found["blocked"] == pytest.approx(found["kernel_blocked"], rel=0.05, abs=0.015)
    own_wait, cumulative_wait, own_blocked, cumulative_blocked = found["root"]
    assert cumulative_wait == pytest.approx(found["wait"], rel=0.001)
    assert cumulative_blocked == pytest.approx(found["blocked"], rel=0.001)
    assert own_wait < 0.05 * cumulative_wait
    # What a virtual machine's host takes is in no counter of the thread's, and looks like being blocked anywhere.
    assert own_blocked < 0.05 * cumulative_blocked + 0.015
    assert found["computing"] > 0.7 * found["wait"]
    assert found["slept_blocked"] > 0.9 * found["blocked"] - 0.015
    assert found["impossible"] == []
