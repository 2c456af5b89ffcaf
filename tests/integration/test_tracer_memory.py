"""The tracer under AddressSanitizer, UndefinedBehaviorSanitizer and valgrind, inside a real interpreter.

The interpreters are the usual ones, which know nothing of sanitizers: the runtime is loaded before them, and
``PYTHONMALLOC=malloc`` makes every object an allocation of its own, so that a use after its end is seen. What is
never freed is not looked for: interpreters leave much behind, and test_tracer.py measures growth.
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
    READS,
    SANITIZED,
    SOURCES,
    TARGET,
    build,
    include_directory,
    sanitizer,
)
from tests.interpreters import interpreter
from tests.requirements import require, required
from tests.shared import finished, words_of

#: Each way in which the tracer is built.
VERSIONS = ("3.11", "3.13")

#: Where nothing is measured.
QUICKLY = ("-O0",)

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
    done = finished(command, env=under_sanitizer(), timeout=300)
    assert done.returncode == 0, done.stderr
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
    command, env = under_valgrind(version, build(headers, limited, QUICKLY), "fork")
    done = finished(command, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    assert reports_of_the_tracer(done.stderr) == []


@pytest.fixture
def defective(tmp_path: Path) -> Path:
    """A source of a tracer whose hash tables believe to be larger than they are; these are no part of a file."""
    tables, right = tmp_path / "tables.c", "calloc(grown.mask + 1, "
    text = (SOURCES / tables.name).read_text()
    assert right in text
    tables.write_text(text.replace(right, "calloc(grown.mask / 2 + 1, "))
    return tables


def test_a_defect_of_the_tracer_is_seen(defective: Path) -> None:
    """The tests above can fail."""
    python = interpreter("3.11")
    tracer = build(include_directory(python), False, SANITIZED, defective)
    done = finished([python, str(TARGET), str(tracer), "deep"], env=under_sanitizer())
    assert done.returncode == 9
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr


def test_a_defect_of_the_tracer_is_seen_by_valgrind(defective: Path) -> None:
    require("valgrind", bool(required() & {"valgrind", "all"}), "it takes a minute, and is not promised")
    tracer = build(include_directory(interpreter("3.11")), False, QUICKLY, defective)
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
