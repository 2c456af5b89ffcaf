"""Binaries of the tracer refuse interpreters that they are not for; one is for all from 3.12 on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.tracing import NEW, OLD, binary_for, build, include_directory
from tests.interpreters import interpreter
from tests.shared import finished


def import_error(python: str, binary: Path, before: str = "") -> str:
    """Import a binary in an interpreter where that must fail with ImportError; return the message."""
    code = (
        f"{before}\nimport importlib.util\n"
        f"spec = importlib.util.spec_from_file_location({binary.name.split('.')[0]!r}, {str(binary)!r})\n"
        "try: importlib.util.module_from_spec(spec)\n"
        "except ImportError as error: print(error)\n"
    )
    done = finished([python, "-c", code])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.interpreters
@pytest.mark.parametrize("version", OLD)
def test_the_binary_of_one_version_is_refused_by_the_others(version: str) -> None:
    other = OLD[OLD.index(version) - 1]
    # Symbols that the other version lacks are reported by the loader instead.
    said = import_error(interpreter(other), binary_for(version))
    assert said == f"this build of profkit's tracer is for Python {version}" or "undefined symbol" in said


@pytest.mark.parametrize("headers", ["3.10", "3.11"])
@pytest.mark.interpreters
def test_the_limited_build_takes_either_headers_and_runs_on_every_new_version(headers: str) -> None:
    binary = build(include_directory(interpreter(headers)), True, ("-O0",))
    for version in NEW:
        assert import_error(interpreter(version), binary) == ""
    said = import_error(interpreter("3.11"), binary)
    assert said == "this build of profkit's tracer is for Python 3.12 and later"


@pytest.mark.interpreters
@pytest.mark.parametrize("version", NEW)
def test_a_free_threaded_interpreter_is_refused(version: str) -> None:
    said = import_error(interpreter(version), binary_for(version), "import sys; sys.abiflags += 't'")
    assert said == "profkit's tracer for free-threaded Python is another one than that for the usual build"
