"""What building and installing profkit does with and without a C compiler, through the real build backend."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.tracing import QUICK_COMPILER, compiler
from tests.interpreters import find, interpreter
from tests.requirements import require
from tests.shared import finished, made_once

ROOT = Path(__file__).parents[2]
LIBRARY = "profkit/capture/native/lib/libprofkit_nvtx.so"
READER = "profkit/formats/native/lib/_pstats.abi3.so"


@pytest.fixture(scope="module")
def backend() -> Path:
    wanted = ("hatchling>=1.21", "editables")

    def install(directory: Path) -> None:
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = finished([*words, "--target", directory, *wanted])
        why = f"hatchling cannot be installed: {done.stderr.strip()[-200:]}"
        require("index", done.returncode == 0, why)

    return made_once(wanted, install)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copied(tmp_path)


def copied(directory: Path) -> Path:
    """A copy of what a source distribution holds, with nothing built."""
    target = directory / "tree"
    target.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    built = shutil.ignore_patterns("__pycache__", "lib", "*.so")
    shutil.copytree(ROOT / "profkit", target / "profkit", ignore=built)
    return target


def build(tree: Path, backend: Path, status: int = 0, **variables: str) -> str:
    """Build a wheel in ``out``; return what was said."""
    code = "import hatchling.build as backend; print(backend.build_wheel('out'))"
    environment = {k: v for k, v in os.environ.items() if k not in ("PROFKIT_REQUIRE_NATIVE", "CC", "CFLAGS")}
    # What is compiled is not measured here: quickly.
    environment.update(PYTHONPATH=str(backend), CFLAGS="-O0", CC=str(QUICK_COMPILER))
    environment.update(variables)
    (tree / "out").mkdir(exist_ok=True)
    done = finished([sys.executable, "-c", code], tree, env=environment)
    assert bool(done.returncode) == bool(status), done.stderr
    return done.stderr + done.stdout


def wheel(tree: Path) -> Path:
    (found,) = (tree / "out").glob("*.whl")
    return found


def members(tree: Path) -> list[str]:
    return zipfile.ZipFile(wheel(tree)).namelist()


@pytest.fixture(scope="module")
def released(backend: Path) -> Path:
    """A tree with a wheel, built as in the images that cibuildwheel uses, of which some lack the oldest Python."""
    compiler()
    others = [*filter(None, map(find, ("3.8", "3.13"))), "/opt/no-such-python*/bin/python"]
    variables = {"PROFKIT_TRACER_PYTHONS": os.pathsep.join(others), "PROFKIT_REQUIRE_NATIVE": "1"}
    return made_once(("wheel",), lambda directory: build(copied(directory), backend, **variables)) / "tree"


def test_a_wheel_with_binaries_is_tagged_for_its_platform(released: Path) -> None:
    assert "-py3-none-linux_" in wheel(released).name
    sources = "profkit/capture/native/tracer/module.c"  # `profkit doctor --build-tracers` needs them
    assert {LIBRARY, READER, "profkit/py.typed", sources} <= set(members(released))
    assert not list((released / "profkit").rglob(".building-*"))


def test_a_release_holds_tracers_of_older_interpreters(released: Path, tmp_path: Path) -> None:
    python = interpreter("3.8")
    interpreter("3.13")
    tracers = [name for name in members(released) if "/_tracer" in name and name.endswith(".so")]
    assert len([name for name in tracers if "_tracer.cpython-38-" in name]) == 1
    assert not [name for name in tracers if "_tracer.cpython-313-" in name], "those share one"
    target = tmp_path / "installed"
    zipfile.ZipFile(wheel(released)).extractall(target)
    code = "from profkit.capture.agent.native import load; print(load().__name__)"
    found = finished([python, "-c", code], target)
    assert found.stdout == "_tracer\n", found.stderr


def test_without_a_compiler_the_wheel_is_for_every_platform(tree: Path, backend: Path) -> None:
    # What an earlier build left is not taken for this one's.
    (tree / LIBRARY).parent.mkdir()
    (tree / LIBRARY).write_bytes(b"of another machine")
    assert build(tree, backend, CC="/no/such/compiler").count("there is no C compiler") == 1
    assert wheel(tree).name.endswith("-py3-none-any.whl")
    assert not [member for member in members(tree) if member.endswith(".so")]


def test_a_compiler_that_fails_is_no_reason_not_to_install(tree: Path, backend: Path) -> None:
    assert "does not compile" in build(tree, backend, CC="false")
    assert wheel(tree).name.endswith("-py3-none-any.whl")


def test_where_binaries_are_promised_their_lack_is_an_error(tree: Path, backend: Path) -> None:
    said = build(tree, backend, 1, CC="/no/such/compiler", PROFKIT_REQUIRE_NATIVE="1")
    assert "there is no C compiler" in said
