"""The tracer by itself: what it keeps of a process, memory that it uses rightly, interpreters that it is for.

What is checked of a process is in programs/tracer_target.py and programs/tracer_hardships.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.integration.tracing import (
    NEW,
    OLD,
    READS,
    SANITIZED,
    SOURCES,
    TARGET,
    binary_for,
    build,
    check,
    include_directory,
    sanitizer,
)
from tests.interpreters import BOTH_WAYS, EACH_WAY, having, interpreter, packages
from tests.requirements import require, required
from tests.shared import finished, succeeded, words_of


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
KEPT = {
    "threads": EACH_WAY,
    "read_while_running": EACH_WAY,
    "flat 15": EACH_WAY,
    "counted_threads": ("3.12", "3.15"),
    "descriptors": ("3.8", "3.13"),
    "busy_place": ("3.12", "3.14"),
}


@pytest.mark.parametrize(
    ("words", "version"), [(words, version) for words, versions in KEPT.items() for version in versions]
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


# Memory: AddressSanitizer, UndefinedBehaviorSanitizer and valgrind. The interpreters are the usual ones, which know
# nothing of sanitizers: the runtime is loaded before them, and every object is an allocation of its own, so that a
# use after its end is seen. What is never freed is not looked for: interpreters leave much behind, and `flat`
# measures growth.

#: Each way in which the tracer is built.
VERSIONS = ("3.11", "3.13")

#: Every object is an allocation of its own.
ONE_BY_ONE = {"PYTHONMALLOC": "malloc"}


def sanitized(version: str) -> Path:
    limited = version in NEW
    # Of the limited interface one binary is for all: its oldest headers, as in a release.
    headers = include_directory(interpreter("3.12" if limited else version))
    return build(headers, limited, SANITIZED)


def under_sanitizer() -> dict[str, str]:
    options = "detect_leaks=0:abort_on_error=0:exitcode=9"
    return {**os.environ, **READS, **ONE_BY_ONE, "LD_PRELOAD": str(sanitizer()), "ASAN_OPTIONS": options}


#: Checks of tracer_target.py, with their arguments.
CHECKS = words_of(
    "parity exceptions|short_threads 700|read_while_running|suspend|fork|deep|descriptors|busy_place|displaced",
    "|",
)


@pytest.mark.parametrize("words", CHECKS)
@pytest.mark.parametrize("version", VERSIONS)
def test_under_the_sanitizers(version: str, words: str) -> None:
    """A report of an error ends a check with another status, and so does a wrong result."""
    command = [interpreter(version), str(TARGET), str(sanitized(version)), *words.split()]
    done = succeeded(command, env=under_sanitizer(), timeout=300)
    assert "ERROR" not in done.stderr, done.stderr


def reports_of_the_tracer(stderr: str) -> list[str]:
    """Valgrind's reports that name a line of the tracer; some interpreters cause reports of their own."""
    ours = "|".join(re.escape(path.name) for path in SOURCES.glob("*.[ch]"))
    blocks = re.split(r"\n==\d+== *\n", stderr)
    return [block for block in blocks if re.search(rf"\((?:{ours}):\d+\)", block)]


def under_valgrind(version: str, tracer: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    valgrind = shutil.which("valgrind")
    require("valgrind", valgrind is not None, "no valgrind")
    under = [str(valgrind), "-q", "--leak-check=no", "--num-callers=30"]
    command = [*under, interpreter(version), "-S", "-E", str(TARGET), str(tracer), *words]
    return command, {**os.environ, **READS, **ONE_BY_ONE}


@pytest.mark.parametrize("version", VERSIONS)
def test_under_valgrind(version: str) -> None:
    limited = version in NEW
    # Those of the limited interface may be of any version.
    headers = include_directory(interpreter(VERSIONS[0] if limited else version))
    command, env = under_valgrind(version, build(headers, limited), "fork")
    done = succeeded(command, env=env, timeout=300)
    assert reports_of_the_tracer(done.stderr) == []


@pytest.fixture
def defective(tmp_path: Path) -> Path:
    """A source of a tracer whose hash tables believe to be larger than they are; these are no part of a file."""
    slots, right = tmp_path / "slots.c", "calloc(grown.mask + 1, "
    text = (SOURCES / slots.name).read_text()
    assert right in text
    slots.write_text(text.replace(right, "calloc(grown.mask / 2 + 1, "))
    return slots


def test_a_defect_of_the_tracer_is_seen(defective: Path) -> None:
    """The tests above can fail."""
    python = interpreter("3.11")
    tracer = build(include_directory(python), False, SANITIZED, defective)
    done = finished([python, str(TARGET), str(tracer), "deep"], env=under_sanitizer(), status=9)
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr


def test_a_defect_of_the_tracer_is_seen_by_valgrind(defective: Path) -> None:
    require("valgrind", bool(required() & {"valgrind", "all"}), "a defect is looked for where it is promised")
    tracer = build(include_directory(interpreter("3.11")), False, instead=defective)
    command, env = under_valgrind("3.11", tracer, "deep")
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, **streams) as job:
        # What was overwritten may keep the program from ending: until the report is there, and no longer.
        timer = threading.Timer(120, job.kill)
        timer.start()
        stderr, found = "", False
        for line in job.stderr:
            stderr += line
            found = any("Invalid " in report for report in reports_of_the_tracer(stderr))
            if found:
                break
        job.kill()
        timer.cancel()
    assert found, stderr


# Binaries refuse interpreters that they are not for; one is for all from 3.12 on.


def import_error(python: str, binary: Path, before: str = "") -> str:
    """Import a binary in an interpreter where that must fail with ImportError; return the message."""
    code = (
        f"{before}\nimport importlib.util\n"
        f"spec = importlib.util.spec_from_file_location({binary.name.split('.')[0]!r}, {str(binary)!r})\n"
        "try: importlib.util.module_from_spec(spec)\n"
        "except ImportError as error: print(error)\n"
    )
    done = succeeded([python, "-c", code])
    return done.stdout.strip()


@pytest.mark.parametrize("version", OLD)
def test_the_binary_of_one_version_is_refused_by_the_others(version: str) -> None:
    other = OLD[OLD.index(version) - 1]
    # Symbols that the other version lacks are reported by the loader instead.
    said = import_error(interpreter(other), binary_for(version))
    assert said == f"this build of profkit's tracer is for Python {version}" or "undefined symbol" in said


@pytest.mark.parametrize("headers", ["3.10", "3.11"])
def test_the_limited_build_takes_either_headers_and_runs_on_every_new_version(headers: str) -> None:
    binary = build(include_directory(interpreter(headers)), True)
    for version in NEW:
        assert import_error(interpreter(version), binary) == ""
    said = import_error(interpreter("3.11"), binary)
    assert said == "this build of profkit's tracer is for Python 3.12 and later"


@pytest.mark.parametrize("version", NEW)
def test_a_free_threaded_interpreter_is_refused(version: str) -> None:
    said = import_error(interpreter(version), binary_for(version), "import sys; sys.abiflags += 't'")
    assert said == "profkit's tracer for free-threaded Python is another one than that for the usual build"
