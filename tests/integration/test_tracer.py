"""The tracer by itself: counts as cProfile's, times and waiting of each thread, what may happen to a process."""

from __future__ import annotations

import json

import pytest

from tests.integration.tracing import NEW, OLD, TARGET, binary_for, check
from tests.interpreters import BOTH_WAYS, EACH_WAY, having, interpreter, packages
from tests.requirements import require
from tests.shared import finished

pytestmark = pytest.mark.interpreters

#: Programs and the least number of functions that they run through; of tracer_workloads.
PROGRAMS = {
    "generators": 15,
    "exceptions": 20,
    "objects": 70,
    "asynchronous": 140,
}


@pytest.mark.parametrize("version", OLD + NEW)
def test_calls_and_edges_equal_cprofiles(version: str) -> None:
    for program, found in check(version, "parity", *PROGRAMS).items():
        assert found["different"] == [], program
        assert found["functions"] >= PROGRAMS[program], program
        assert found["edges"] > found["functions"], program
        if program == "asynchronous":
            assert 0.3 < found["tottime"] < 1.001


@pytest.mark.parametrize("version", BOTH_WAYS)
def test_calls_and_edges_equal_cprofiles_in_numpy(version: str) -> None:
    python = having("numpy", version)
    path = None if python else packages(interpreter(version), "numpy")
    found = check(version, "parity", "numeric", python=python, packages=path)["numeric"]
    assert found["different"] == []
    assert found["functions"] >= 100


def test_calls_and_edges_equal_cprofiles_in_torch() -> None:
    pythons = {version: having("torch", version) for version in NEW + OLD}
    require("torch", any(pythons.values()), "no interpreter with torch")
    for version, python in pythons.items():
        if python is not None:
            found = check(version, "parity", "torch_step", python=python)["torch_step"]
            assert found["different"] == []
            assert found["functions"] >= 150


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


@pytest.mark.alone
@pytest.mark.parametrize("version", BOTH_WAYS)
def test_waiting_adds_up_to_the_kernels_figures(version: str) -> None:
    found = check(version, "waiting", "2", "2")
    assert found["measured"]
    assert found["kernel_wait"] > 0.4, "the program was not contended: nothing was tested"
    assert found["wait"] == pytest.approx(found["kernel_wait"], rel=0.02)
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


@pytest.mark.parametrize("version", EACH_WAY)
def test_memory_stays_flat_over_a_million_calls(version: str) -> None:
    found = check(version, "flat", "15")
    assert found["calls"] > 1_000_000
    assert found["grown"] < 1 << 20
    assert found["dropped"] < 1 << 20


@pytest.mark.parametrize("how", ["normal", "kept", "raise", "_exit"])
@pytest.mark.parametrize("version", EACH_WAY)
def test_the_end_with_daemon_threads_running(version: str, how: str) -> None:
    command = [interpreter(version), "-X", "dev", str(TARGET), str(binary_for(version)), "shutdown", how]
    for _ in range(2):
        done = finished(command, timeout=30)
        assert (done.returncode, done.stderr) == (7, "")
        assert json.loads(done.stdout) == {"reached": True}


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_a_target_that_closes_our_descriptor_and_takes_its_number(version: str) -> None:
    found = check(version, "descriptors")
    assert found["still_open"] == 600
    assert found["calls"] == 3
    assert found["cumblocked"] == pytest.approx(0.03, abs=0.01)


@pytest.mark.parametrize("version", ["3.12", "3.14"])
def test_one_place_for_a_profiler(version: str) -> None:
    found = check(version, "busy_place")
    ours, cprofiles = found["said"]
    assert ours == "Another profiling tool is already active"
    assert cprofiles in (ours, "tool 2 is already in use")  # from Python 3.14 on
    assert found["leaf"] == 1
