"""What may happen to a process that is traced."""

from __future__ import annotations

import json

import pytest

from tests.integration.tracing import NEW, TARGET, binary_for, check
from tests.interpreters import EACH_WAY, interpreter
from tests.shared import finished

pytestmark = pytest.mark.interpreters


@pytest.mark.parametrize("version", EACH_WAY)
def test_memory_stays_flat_over_a_million_calls(version: str) -> None:
    found = check(version, "flat", "15")
    assert found["calls"] > 1_000_000
    assert found["grown"] < 1 << 20
    assert found["dropped"] < 1 << 20


@pytest.mark.parametrize("version", EACH_WAY)
def test_a_fork_in_the_middle_of_a_call(version: str) -> None:
    found = check(version, "fork")
    assert found["parent"] == 2
    # The child goes on with the table of the thread that forked: one call before, ten after.
    assert found["child"]["alive"] == [[True, 11]]
    assert found["child"]["slept"] == pytest.approx(0.02, abs=0.01)
    assert found["child"]["renewed"] == [1]


@pytest.mark.parametrize("how", ["normal", "kept", "raise", "_exit"])
@pytest.mark.parametrize("version", EACH_WAY)
def test_the_end_with_daemon_threads_running(version: str, how: str) -> None:
    command = [interpreter(version), "-X", "dev", str(TARGET), str(binary_for(version)), "shutdown", how]
    for _ in range(3):
        done = finished(command, timeout=30)
        assert (done.returncode, done.stderr) == (7, "")
        assert json.loads(done.stdout) == {"reached": True}


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_a_target_that_closes_our_descriptor_and_takes_its_number(version: str) -> None:
    found = check(version, "descriptors")
    assert found["still_open"] == 600
    assert found["calls"] == 3
    assert found["cumblocked"] == pytest.approx(0.03, abs=0.01)


@pytest.mark.parametrize("version", EACH_WAY)
def test_a_deep_recursion(version: str) -> None:
    found = check(version, "deep")
    assert (found["calls"], found["recursive"]) == (20001, 20000)
    assert found["total"] == pytest.approx(found["own"], rel=1e-6)


@pytest.mark.parametrize("version", ["3.12", "3.14"])
def test_one_place_for_a_profiler(version: str) -> None:
    found = check(version, "busy_place")
    ours, cprofiles = found["said"]
    assert ours == "Another profiling tool is already active"
    assert cprofiles in (ours, "tool 2 is already in use")  # from Python 3.14 on
    assert found["leaf"] == 1


@pytest.mark.parametrize("version", EACH_WAY)
def test_a_collector_whose_place_is_taken(version: str) -> None:
    found = check(version, "displaced")
    if version in NEW:
        assert found == {"seen": [False]}
        return
    assert found["seen"] == [False, True, True]
    assert found["there"]
    assert found["open"] == [0, 0]
    assert found["leaf"] == {"main": 2, "thread": 1}
    assert max(found["charged"]) < 0.25, "of the half second that was spent afterwards"
