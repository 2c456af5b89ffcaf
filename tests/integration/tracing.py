"""Helpers of the tracer's tests: compile it otherwise, run a check of programs/tracer_target.py with one."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from shutil import which

from profkit.capture.agent import native
from tests.interpreters import interpreter
from tests.requirements import require
from tests.shared import finished, made_once, succeeded

SOURCES = Path(__file__).parents[2] / "profkit" / "capture" / "native" / "tracer"
TARGET = Path(__file__).parent / "programs" / "tracer_target.py"
QUICK_COMPILER = Path(__file__).parents[1] / "native" / "cc"
#: With what valgrind needs to name lines.
FLAGS = ("-std=c11", "-O0", "-g", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")

#: For TARGET, which reads tables by programs/tables_reader.py.
READS = {"PROFKIT_TEST_READER": sys.executable}

#: Those that have a binary each, and those that share one.
OLD = ("3.8", "3.9", "3.10", "3.11")
NEW = ("3.12", "3.13", "3.14", "3.15")


@functools.cache
def include_directory(python: str) -> str:
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    return finished([python, "-c", code], check=True).stdout.strip()


def compiler() -> str:
    """Return the C compiler, or skip the calling test."""
    found = which("gcc") or which("cc")
    require("compiler", found is not None, "no C compiler on this machine")
    return found


def compiled(target: Path, source: Path, *flags: str) -> str:
    """Compile a file of C into a program, or into a library where the name ends so; return its path."""
    kind = ("-shared", "-fPIC") if target.suffix == ".so" else ()
    succeeded([compiler(), *kind, *flags, source, "-o", target, "-pthread", "-ldl"])
    return str(target)


#: What a C file is compiled with so that a wrong access ends the process.
SANITIZED = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def sanitizer() -> Path:
    """Return the runtime library of the compiler's AddressSanitizer, or skip the calling test."""
    runtime = Path(finished([compiler(), "-print-file-name=libasan.so"]).stdout.strip())
    require("sanitizer", runtime.is_absolute() and runtime.exists(), "the compiler has no AddressSanitizer")
    return runtime.resolve()


@functools.cache
def build(headers: str, limited: bool, flags: tuple[str, ...] = (), instead: Path | None = None) -> Path:
    """Compile against an interpreter's headers, once; a binary for one version or for all from 3.12 on.

    `instead` is compiled in the place of the source of its name.
    """
    require("compiler", Path(headers, "Python.h").is_file(), f"no Python headers in {headers}")
    compiler()
    name = "_tracer_abi3.so" if limited else "_tracer.so"
    other = "hook_profile.c" if limited else "hook_monitoring.c"
    sources = [path for path in sorted(SOURCES.glob("*.c")) if path.name != other]
    if instead is not None:
        sources = [instead if path.name == instead.name else path for path in sources]
    limits = ("-DPROFKIT_ABI3",) if limited else ()
    words = [QUICK_COMPILER, *FLAGS, *flags, *limits, f"-I{headers}", f"-I{SOURCES}", *sources]

    def made(directory: Path) -> None:
        subprocess.run([*words, "-shared", "-o", directory / name, "-pthread"], check=True)

    return made_once((*words,), made) / name


def require_tracer() -> None:
    """Skip the calling test where profkit has no tracer for this Python."""
    require("native", native.load() is not None, "profkit is installed without its tracer for this Python")


def binary_for(version: str) -> Path:
    """Return what was installed for an interpreter version such as ``3.12``."""
    name = "_tracer_abi3.abi3.so" if version in NEW else f"_tracer.cpython-{version.replace('.', '')}-*.so"
    found = next((SOURCES.parent / "lib").glob(name), None)
    require("native", found is not None, f"no tracer for Python {version} was compiled")
    assert found is not None
    return found


def check(
    version: str, name: str, *arguments: str, python: str | None = None, packages: Path | None = None
) -> None:
    """Run a check of tracer_target.py in an interpreter's development mode.

    `python` stands in for the plain interpreter of that version; `packages` has libraries that the check imports.
    """
    words = [python or interpreter(version), "-X", "dev", "-W", "error", TARGET, binary_for(version), name]
    env = {**os.environ, **READS, "PYTHONPATH": str(packages or "")}
    done = finished([*words, *arguments], env=env, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), f"exit status {done.returncode}\n{done.stderr}"
