"""The fuzzers' committed inputs for what takes longer: all commands, spools, and the C targets under sanitizers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuzz import native
from fuzz.target import finding_of, load
from fuzz.work import inputs_of
from tests.integration.tracing import SANITIZED, compiler, sanitizer
from tests.shared import succeeded

#: Captured as another seed was, on which every command is tried.
ALIKE = {
    f"{name}.prof" for name in ("mpi-clean", "tokenize-clean", "tokenize-external-load", "train-mlp-clean")
}


@pytest.mark.parametrize("name", ["commands", "spool"])
def test_seeds(name: str) -> None:
    inputs = inputs_of(name)
    assert inputs
    target = load(name)
    for path in inputs:
        # All ways for what was captured, and the way that found it for what fuzzing found.
        thorough = not path.name.startswith("found-") and path.name not in ALIKE
        finding = finding_of(target, path.read_bytes(), thorough=thorough)
        assert finding is None, f"{path}: {finding.text}"


@pytest.mark.parametrize("name", native.TARGETS)
def test_native_inputs(name: str, tmp_path: Path) -> None:
    sanitizer()
    native.build(name, tmp_path / name, compiler(), *SANITIZED, str(native.FOLDER / "replay.c"))
    inputs = inputs_of(name)
    assert inputs
    environment = {**os.environ, **native.environment(name), "TMPDIR": str(tmp_path)}
    succeeded([str(tmp_path / name), *map(str, inputs)], env=environment, timeout=300)
