"""What building and installing profkit does with and without a C compiler, through the real build backend."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.interpreters import find, interpreter
from tests.requirements import require
from tests.shared import finished

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
LIBRARY = "profkit/capture/native/lib/libprofkit_nvtx.so"
READER = "profkit/formats/native/lib/_pstats.abi3.so"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory to import hatchling from."""
    directory = tmp_path_factory.mktemp("backend")
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = finished([*words, "--target", str(directory), "hatchling>=1.21", "editables"])
    require("index", done.returncode == 0, f"hatchling cannot be installed: {done.stderr.strip()[-200:]}")
    return directory


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


def build(
    tree: Path, backend: Path, hook: str, *, extra_path: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    code = f"import hatchling.build as backend; print(backend.{hook}('out'))"
    environment = {k: v for k, v in os.environ.items() if k not in ("PROFKIT_REQUIRE_NATIVE", "CC", "CFLAGS")}
    path = [extra_path, str(backend)] if extra_path else [str(backend)]
    # What is compiled is not measured here: quickly.
    environment.update(PYTHONPATH=os.pathsep.join(path), CFLAGS="-O0", **variables)
    (tree / "out").mkdir(exist_ok=True)
    return finished([sys.executable, "-c", code], tree, env=environment)


def wheel(tree: Path) -> Path:
    (found,) = (tree / "out").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def released(backend: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a wheel, built as in the images that cibuildwheel uses, of which some lack the oldest Python."""
    require("compiler", COMPILER is not None, "no C compiler")
    tree = copied(tmp_path_factory.mktemp("released"))
    others = [*filter(None, map(find, ("3.8", "3.13"))), "/opt/no-such-python*/bin/python"]
    variables = {"PROFKIT_TRACER_PYTHONS": os.pathsep.join(others), "PROFKIT_REQUIRE_NATIVE": "1"}
    done = build(tree, backend, "build_wheel", **variables)
    assert done.returncode == 0, done.stderr
    return tree


def test_a_wheel_with_binaries_is_tagged_for_its_platform(released: Path) -> None:
    tree = released
    assert "-py3-none-linux_" in wheel(tree).name
    members = zipfile.ZipFile(wheel(tree)).namelist()
    assert {LIBRARY, READER} <= set(members)
    assert "profkit/py.typed" in members
    assert "profkit/capture/native/tracer/module.c" in members, "`profkit doctor --build-tracers` needs them"
    assert not list((tree / "profkit").rglob(".building-*"))


def test_a_release_holds_tracers_of_older_interpreters(released: Path, tmp_path: Path) -> None:
    python = interpreter("3.8")
    interpreter("3.13")
    members = zipfile.ZipFile(wheel(released)).namelist()
    tracers = sorted(
        Path(name).name.split("-")[0] for name in members if "/_tracer" in name and name.endswith(".so")
    )
    assert "_tracer.cpython" in tracers[0]
    assert len([name for name in members if "_tracer.cpython-38-" in name]) == 1
    assert not [name for name in members if "_tracer.cpython-313-" in name], "those share one"
    target = tmp_path / "installed"
    zipfile.ZipFile(wheel(released)).extractall(target)
    code = "from profkit.capture.agent.native import load; print(load().__name__)"
    found = finished([python, "-c", code], target)
    assert found.stdout == "_tracer\n", found.stderr


def test_without_a_compiler_the_wheel_is_for_every_platform(tree: Path, backend: Path) -> None:
    done = build(tree, backend, "build_wheel", CC="/no/such/compiler")
    assert done.returncode == 0, done.stderr
    assert wheel(tree).name.endswith("-py3-none-any.whl")
    assert not [member for member in zipfile.ZipFile(wheel(tree)).namelist() if member.endswith(".so")]
    assert done.stderr.count("there is no C compiler") + done.stdout.count("there is no C compiler") == 1


def test_a_compiler_that_fails_is_no_reason_not_to_install(tree: Path, backend: Path) -> None:
    done = build(tree, backend, "build_wheel", CC="false")
    assert done.returncode == 0, done.stderr
    assert wheel(tree).name.endswith("-py3-none-any.whl")
    assert "does not compile" in done.stderr + done.stdout


def test_where_binaries_are_promised_their_lack_is_an_error(tree: Path, backend: Path) -> None:
    done = build(tree, backend, "build_wheel", CC="/no/such/compiler", PROFKIT_REQUIRE_NATIVE="1")
    assert done.returncode != 0
    assert "there is no C compiler" in done.stderr


def test_what_an_earlier_build_left_is_not_taken_for_this_ones(tree: Path, backend: Path) -> None:
    stale = tree / LIBRARY
    stale.parent.mkdir()
    stale.write_bytes(b"of another machine")
    done = build(tree, backend, "build_wheel", CC="/no/such/compiler")
    assert done.returncode == 0, done.stderr
    assert LIBRARY not in zipfile.ZipFile(wheel(tree)).namelist()
