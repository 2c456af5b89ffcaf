"""`profkit doctor --build-tracers`: tracers for other Pythons, built by the command and found by captures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from profkit.capture.agent import settings
from profkit.formats import load_run
from tests.integration.capturing import ROOT, calls, codes, environment, works
from tests.integration.tracing import compiler
from tests.interpreters import find
from tests.requirements import require
from tests.shared import finished

PROGRAM = "def inner(): pass\ndef outer():\n for _ in range(123): inner()\nouter()"
TRACER = "_tracer.cpython"


@pytest.fixture(scope="module")
def other() -> str:
    """A Python that needs a tracer of its own, and is not this one."""
    versions = [f"3.{minor}" for minor in (9, 10, 8, 11) if sys.version_info[:2] != (3, minor)]
    found = next(filter(None, map(find, versions)), None)
    require("interpreters", found is not None, f"no CPython of {', '.join(versions)} here")
    return found


@pytest.fixture
def tree() -> Iterator[Path]:
    """An installation that has everything compiled but a tracer up to 3.11."""
    compiler()
    with tempfile.TemporaryDirectory(prefix="profkit-installed-") as directory:
        # Another test may be compiling in the checkout.
        without = shutil.ignore_patterns("__pycache__", f"{TRACER}*", ".building-*")
        shutil.copytree(ROOT / "profkit", Path(directory, "profkit"), ignore=without)
        yield Path(directory)


def native(tree: Path) -> Path:
    return tree / "profkit" / "capture" / "native"


def installed(
    tree: Path, *words: str, before: tuple[str, ...] = (), status: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the installation's profkit; what is compiled is not measured here: quickly."""
    env = environment(PYTHONPATH=str(tree), CFLAGS="-O0", XDG_DATA_HOME=str(tree / "data"))
    for name in ("CC", "PROFKIT_REQUIRE_NATIVE", settings.TRACERS_VARIABLE, settings.DISABLE_NATIVE_VARIABLE):
        env.pop(name, None)
    command = [*before, sys.executable, "-m", "profkit", *words]
    return finished(command, tree, status, env=env | variables, timeout=300)


def capture(tree: Path, python: str) -> tuple[dict[str, int], set[str], str]:
    """Return the calls of `PROGRAM` under capture, the codes of the run's notices, and what was said."""
    done = installed(tree, "capture", "--exact", "-o", "run.prof", "--", python, "-c", PROGRAM)
    run = load_run(tree / "run.prof")
    return calls(run.processes[0]), set(codes(run)), done.stderr


def test_a_missing_tracer_is_named_built_and_used(tree: Path, other: str) -> None:
    seen, notices, said = capture(tree, other)
    assert not seen
    assert "tracer-missing" in notices
    command = next(line for line in said.splitlines() if "--build-tracers" in line).split("`")[1].split()
    asked = installed(tree, "doctor", "--python", other, "--format", "md")
    assert " ".join(command) in asked.stdout
    assert command[:-1] == ["profkit", "doctor", "--build-tracers"]

    words = (*command[1:-1], other)
    done = installed(tree, *words)
    (built,) = (native(tree) / "lib").glob(f"{TRACER}*")
    assert done.stdout.endswith(f": built {built}\n")
    assert done.stdout.startswith(f"{other}: Python 3.")
    again = installed(tree, *words)
    assert again.stdout.endswith(": has a tracer\n")

    seen, notices, _ = capture(tree, other)
    assert (seen["inner"], seen["outer"]) == (123, 1)
    assert "tracer-missing" not in notices
    assert command[-1] not in installed(tree, "doctor", "--python", other).stdout


def test_an_installation_that_is_not_writable(tree: Path, other: str) -> None:
    """Root writes everywhere unless it gives that right away."""
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        before = ("setpriv", "--bounding-set=-dac_override")
        require("setpriv", works(*before, "true"), "root cannot give a right away here")
    (native(tree) / "lib").chmod(0o555)
    done = installed(tree, "doctor", "--build-tracers", other, before=before)
    (native(tree) / "lib").chmod(0o755)
    (built,) = (tree / "data" / "profkit" / "tracers").glob(f"*/{TRACER}*")
    assert done.stdout.endswith(f": built {built}\n")
    seen, notices, _ = capture(tree, other)
    assert seen["inner"] == 123
    assert "tracer-missing" not in notices
    # A tracer of other sources is not taken for one of these.
    header = native(tree) / "tracer" / "hook.h"
    header.write_text(header.read_text() + "\n")
    assert "tracer-missing" in capture(tree, other)[1]


def test_what_is_missing_is_said(tree: Path, other: str) -> None:
    def says(python: str, **variables: str) -> str:
        done = installed(tree, "doctor", "--build-tracers", python, status=2, **variables)
        assert done.stderr == ""
        (line,) = done.stdout.splitlines()
        assert line.startswith(f"{python}: Python 3.")
        return line.partition(": not built: ")[2]

    assert says(other, CC="/none").startswith("there is no C compiler (/none); install ")
    assert says(other, CC="cc -nostdinc").split(" is missing; install ")[0].endswith(".h")
    assert "does not compile: " in says(other, CFLAGS="-fno-such-flag")
    # The same Python without its headers.
    real = Path(os.path.realpath(other))
    bare = tree / "bare" / "bin" / real.name
    bare.parent.mkdir(parents=True)
    shutil.copy(real, bare)
    (tree / "bare" / "lib").symlink_to(real.parents[1] / "lib")
    include = tree / "bare" / "include" / "python"
    assert says(str(bare)).startswith(str(include))
    assert "Python.h is missing; install the headers" in says(str(bare))
    assert not list((native(tree) / "lib").glob(f"{TRACER}*"))
    assert not list(tree.rglob(".building-*"))


def test_those_of_the_path_and_of_pyenv_are_found(tree: Path, other: str) -> None:
    for folder, name in (("bin", "python3.1"), ("pyenv/versions/3.1.4/bin", "python")):
        (tree / folder).mkdir(parents=True)
        (tree / folder / name).symlink_to(other)
    (tree / "bin" / "python").write_text("#!/bin/sh\necho no version is selected\nexit 127\n")
    (tree / "bin" / "python").chmod(0o755)
    nothing = {"PATH": str(tree / "bin"), "CC": "/no/such/compiler", "PYENV_ROOT": str(tree / "pyenv")}
    done = installed(tree, "doctor", "--build-tracers", **nothing)
    lines = sorted(line.partition(": ")[0] for line in done.stdout.splitlines())
    assert lines == sorted([sys.executable, str(tree / "bin" / "python3.1")]), "each once"
    (tree / "bin" / "python3.1").unlink()
    done = installed(tree, "doctor", "--build-tracers", "python3.1", **nothing)
    assert done.stdout.startswith(str(tree / "pyenv"))


def test_what_is_no_python_is_refused(tree: Path) -> None:
    for word in ("python3.1", "/no/such/python", "/bin/true"):
        nothing = {"PATH": "/nowhere", "PYENV_ROOT": "/nowhere"}
        done = installed(tree, "doctor", "--build-tracers", word, status=2, **nothing)
        assert done.stderr.startswith(f"profkit: error: {word}: no working Python")
        assert done.stderr.count("\n") == 1


def test_a_python_that_is_too_old(tree: Path) -> None:
    old = find("2.7") or find("3.7")
    require("interpreters", old is not None, "no CPython before 3.8 here")
    done = installed(tree, "doctor", "--build-tracers", old, status=2)
    assert done.stdout.endswith(": not profiled: profkit profiles Python 3.8 and later\n")
