"""Each thread for itself: its time, its waiting, its open calls, read while it runs."""

from __future__ import annotations

import pytest

from tests.integration.tracing import NEW, OLD, check

pytestmark = pytest.mark.interpreters


@pytest.mark.parametrize("version", OLD + NEW)
def test_cumulative_time_of_each_thread_is_its_wall_time(version: str) -> None:
    found = check(version, "threads")
    assert len(found["ours"]) == 4
    assert found["ours"] == pytest.approx([1.0] * 4, rel=0.02)
    if version in NEW:
        assert not 0.98 < found["cprofile"] < 1.02, "cProfile tells threads apart by now: say so in the docs"


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.12", "3.13"])
def test_open_calls_are_exact_when_read_from_another_thread(version: str) -> None:
    seen = check(version, "read_while_running")["seen"]
    assert len(seen) == 40
    assert any("inner" in names[names.index("outer") :] for *_, names in seen)
    for elapsed, wall, own, names in seen:
        assert elapsed == pytest.approx(wall, abs=0.005)
        # Booked and open self time together are all the time of the thread, which began a little earlier.
        assert elapsed - 1e-6 <= own < elapsed + 0.01
        assert names.count("outer") == 1


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.12", "3.13"])
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
    assert own_blocked < 0.05 * cumulative_blocked
    assert found["computing"] > 0.7 * found["wait"]
    assert found["slept_blocked"] > 0.9 * found["blocked"]
    assert found["impossible"] == []


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.12", "3.13"])
def test_a_thousand_short_threads(version: str) -> None:
    found = check(version, "short_threads", "1000")
    assert found["calls"] == 1000
    assert found["left"] == (1 if version in NEW else 0)  # the main thread
    assert found["descriptors"] <= found["left"]
    assert found["grown"] < 4 << 20
