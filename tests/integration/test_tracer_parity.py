"""Single-thread call counts and edges are cProfile's, call for call."""

from __future__ import annotations

import pytest

from tests.integration.tracing import NEW, OLD, check
from tests.interpreters import BOTH_WAYS, having, interpreter, packages
from tests.requirements import require

#: Programs and the least number of functions that they run through; of tracer_workloads and _stdlib.
PROGRAMS = {
    "generators": 15,
    "exceptions": 20,
    "objects": 70,
    "asynchronous": 140,
    "documents": 180,
    "parsing_and_pickling": 180,
}


@pytest.mark.interpreters
@pytest.mark.parametrize("version", OLD + NEW)
def test_calls_and_edges_equal_cprofiles(version: str) -> None:
    for program, found in check(version, "parity", *PROGRAMS).items():
        assert found["different"] == [], program
        assert found["functions"] >= PROGRAMS[program], program
        assert found["edges"] > found["functions"], program
        if program == "documents":
            assert 0.3 < found["tottime"] < 1.001


@pytest.mark.interpreters
@pytest.mark.parametrize("version", BOTH_WAYS)
def test_calls_and_edges_equal_cprofiles_in_numpy(version: str) -> None:
    python = having("numpy", version)
    path = None if python else packages(interpreter(version), "numpy")
    found = check(version, "parity", "numeric", python=python, packages=path)["numeric"]
    assert found["different"] == []
    assert found["functions"] >= 100


@pytest.mark.interpreters
def test_calls_and_edges_equal_cprofiles_in_torch() -> None:
    pythons = {version: having("torch", version) for version in NEW + OLD}
    require("torch", any(pythons.values()), "no interpreter with torch")
    for version, python in pythons.items():
        if python is not None:
            found = check(version, "parity", "torch_step", python=python)["torch_step"]
            assert found["different"] == []
            assert found["functions"] >= 150
