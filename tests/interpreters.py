"""Other CPythons on this machine, for tests that need what another version really writes, and packages for them.

Interpreters are found under ``~/.pyenv/versions`` and on ``PATH``, never by a fixed place; packages come from the
index that pip is configured for.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import VARIABLE as REQUIRED
from tests.requirements import require, required
from tests.shared import finished, made_once

#: Interpreters, separated as in ``PATH``, in whose environments the libraries of some tests are.
VARIABLE = "PROFKIT_TEST_PYTHONS"

#: Those on which tests run unless all are promised: this one, and one that the tracer sees in the other way.
USUAL = (f"{sys.version_info[0]}.{sys.version_info[1]}", "3.12" if sys.version_info < (3, 12) else "3.11")

#: For what depends on how the tracer works, and not on how a version lays out its memory: the first and the last that
#: it follows by a profile function, and those that it follows by `sys.monitoring`.
EACH_WAY = ("3.8", "3.11", "3.12", "3.15")

#: For what depends on which of the two it is, and not on the version.
BOTH_WAYS = EACH_WAY[1:3]

#: From this version on, interpreters are those that .ci/newer-pythons installs.
NEWER = [3, 14]

#: The free-threaded build that .ci/free-threaded-python makes.
FREE_THREADED = "3.13t"


@functools.cache
def find(version: str) -> str | None:
    """Return an interpreter of a version such as ``3.12``, ``2.7`` or ``3.13t``, ``None`` where there is none."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = sorted(
        (path for path in root.glob(f"{version}.*/bin/python") if re.fullmatch(r"[\d.]+", path.parts[-3])),
        key=lambda path: [int(part) for part in path.parts[-3].split(".")],
    )
    on_path = shutil.which(f"python{version}")
    for candidate in [*map(str, reversed(candidates)), *([on_path] if on_path else [])]:
        # A version manager's shim is on PATH even where the version is not selected.
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if version_of(candidate) == version:
                return candidate
    return None


def interpreter(version: str) -> str:
    """Return an interpreter of this version, or skip the calling test."""
    if version == FREE_THREADED:
        name = "free-threaded"
    else:
        newer = [int(part) for part in version.split(".")] >= NEWER
        name = "newer-interpreters" if newer else "interpreters"
    if version not in USUAL and not required() & {name, "all"}:
        pytest.skip(f"{name}: only {' and '.join(USUAL)}; {REQUIRED}=interpreters,newer-interpreters for all")
    found = find(version)
    require(name, found is not None, f"no CPython {version} here")
    assert found is not None
    return found


@functools.cache
def version_of(python: str) -> str:
    """Return an interpreter's version, such as ``3.12`` or ``3.13t``."""
    code = (
        "import sys; free = 't' in getattr(sys, 'abiflags', '');"
        "sys.stdout.write('%d.%d' % sys.version_info[:2] + 't' * free)"
    )
    return finished([python, "-E", "-c", code], check=True, timeout=20).stdout


@functools.cache
def having(module: str, version: str = "") -> str | None:
    """Return an interpreter, of any version or of this one, that has a module; those in `VARIABLE` come first."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    script = (
        "import importlib.util, sys\n"
        "if sys.argv[2] not in ('', '%d.%d' % sys.version_info[:2]): sys.exit(1)\n"
        "sys.exit(importlib.util.find_spec(sys.argv[1]) is None)\n"
    )
    there = [python for python in named if python and Path(python).exists()]
    for python in [*there, sys.executable, find(version) if version else None]:
        if python and subprocess.run([python, "-c", script, module, version], check=False).returncode == 0:
            return python
    return None


def python_with(module: str) -> str:
    """Return an interpreter that has a module, or skip the calling test."""
    python = having(module)
    require(module, python is not None, f"no interpreter with {module}; name some in {VARIABLE}")
    assert python is not None
    return python


def packages(python: str, *requirements: str) -> Path:
    """Install packages without what they depend on, once, for an interpreter; skip the calling test if it cannot be.

    The directory that is returned is for the interpreter's ``PYTHONPATH``, and not to be changed.
    """

    def install(directory: Path) -> None:
        # This interpreter's pip: those of .ci/newer-pythons have none.
        # Its bytecode would be this interpreter's, too.
        words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        words += ["--no-compile", "--no-deps", "--only-binary", ":all:"]
        words += ["--python-version", version_of(python), "--implementation", "cp"]
        done = finished([*words, "--target", directory, *requirements])
        why = f"{', '.join(requirements)} cannot be installed for {python}: {done.stderr.strip()[-200:]}"
        require("index", done.returncode == 0, why)

    return made_once((python, *requirements), install)
