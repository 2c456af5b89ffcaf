"""The tracer by itself: counts as cProfile's, times and waiting of each thread, what may happen to a process.

What is checked is in programs/tracer_target.py and programs/tracer_hardships.py.
"""

from __future__ import annotations

import pytest

from tests.integration.tracing import NEW, OLD, TARGET, binary_for, check
from tests.interpreters import BOTH_WAYS, EACH_WAY, having, interpreter, packages
from tests.requirements import require
from tests.shared import finished, words_of


@pytest.mark.parametrize("version", OLD + NEW)
def test_calls_and_edges_equal_cprofiles(version: str) -> None:
    check(version, "parity", "generators", "exceptions", "objects", "asynchronous")


@pytest.mark.parametrize("version", BOTH_WAYS)
def test_calls_and_edges_equal_cprofiles_in_numpy(version: str) -> None:
    python = having("numpy", version)
    path = None if python else packages(interpreter(version), "numpy")
    check(version, "parity", "numeric", python=python, packages=path)


def test_calls_and_edges_equal_cprofiles_in_torch() -> None:
    pythons = {version: having("torch", version) for version in NEW + OLD}
    require("torch", any(pythons.values()), "no interpreter with torch")
    for version, python in pythons.items():
        if python is not None:
            check(version, "parity", "torch_step", python=python)


@pytest.mark.alone
@pytest.mark.parametrize("version", BOTH_WAYS)
def test_waiting_adds_up_to_the_kernels_figures(version: str) -> None:
    check(version, "waiting", "2", "2")


#: Checks with the versions in which each is made.
CHECKS = {
    "threads": EACH_WAY,
    "read_while_running": EACH_WAY,
    "flat 15": EACH_WAY,
    "descriptors": ("3.8", "3.13"),
    "busy_place": ("3.12", "3.14"),
}


@pytest.mark.parametrize(
    ("words", "version"), [(words, version) for words, versions in CHECKS.items() for version in versions]
)
def test_what_the_tracer_keeps_of_a_process(words: str, version: str) -> None:
    check(version, *words_of(words))


@pytest.mark.parametrize("how", ["normal", "kept", "raise", "_exit"])
@pytest.mark.parametrize("version", EACH_WAY)
def test_the_end_with_daemon_threads_running(version: str, how: str) -> None:
    command = [interpreter(version), "-X", "dev", str(TARGET), str(binary_for(version)), "shutdown", how]
    for _ in range(2):
        done = finished(command, timeout=30)
        assert (done.returncode, done.stdout, done.stderr) == (7, "reached\n", "")
