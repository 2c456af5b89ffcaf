"""What is imported, and what is not: by the package, its command line, a capture and a comparison."""

from __future__ import annotations

import os
import re
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from fuzz.target import SEEDS
from tests.shared import ROOT, finished, words_of

PLAIN = [SEEDS / "pstats" / f"cprofile-{version}.prof" for version in ("3.11", "3.13")]
COMMAND = "from profkit.cli import main; main(sys.argv[1:])"


def loaded_by(statement: str, *arguments: str | Path) -> set[str]:
    """Modules that a statement loads, over those of a bare interpreter that has `sys`."""
    script = (
        f"import sys; before = set(sys.modules)\ntry:\n    {statement}\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    # Measuring coverage loads modules of its own.
    env = {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"}
    done = finished([sys.executable, "-c", script, *arguments], ROOT, env=env, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_the_package_and_its_help_are_light() -> None:
    """``profkit --help`` loads neither numpy nor an optimiser, nor any module that reads or renders."""
    assert loaded_by("import profkit") == {"profkit"}
    loaded = loaded_by(COMMAND, "--help")
    assert {"profkit.cli", "profkit.errors"} <= loaded
    assert {".".join(name.split(".")[:2]) for name in loaded if name.startswith("profkit.")} == {
        "profkit.cli",
        "profkit.errors",
    }
    heavy = (
        "optuna dask distributed fsspec snakeviz tornado gprof2dot flameprof nvtx mpi4py duckdb pyarrow mcp"
    )
    assert {name.partition(".")[0] for name in loaded} & {"numpy", *words_of(heavy)} == set()


@pytest.mark.parametrize(
    ("statement", "arguments", "never"),
    [
        ("import profkit; profkit.capture('x.prof')", [], "numpy"),
        # Nor any sentence, while a target is captured.
        (
            "import profkit.cli.capture, profkit.capture.launcher, profkit.capture.target, profkit.capture.sampler",
            *([], "numpy statistics profkit.model profkit.report"),
        ),
        ("import profkit.formats", [], "numpy zipfile"),
        ("from profkit.formats import load_run; load_run(sys.argv[1])", PLAIN[:1], "zipfile"),
        (COMMAND, ["diff", *PLAIN], "numpy.ma rich pydantic snakeviz nvtx multiprocessing"),
    ],
    ids=words_of("capture capturing formats reading comparing"),
)
def test_what_is_not_needed_is_not_loaded(statement: str, arguments: list[str | Path], never: str) -> None:
    loaded = loaded_by(statement, *arguments)
    words = words_of(never)
    found = {name for name in loaded for word in words if f"{name}.".startswith(f"{word}.")}
    assert found <= {"profkit.report", "profkit.report.renderers"}, (
        "the formats' names, for help and completion"
    )


@pytest.mark.parametrize("folder", ["tracer", "nvtx"])
def test_the_c_files_include_one_way(folder: str) -> None:
    """A .c file and its header are one; a low file that includes a high one would make a circle."""
    includes: dict[str, set[str]] = {}
    for file in (ROOT / "profkit" / "capture" / "native" / folder).glob("*.[ch]"):
        named = re.findall(r'^#include "(\w+)\.h"', file.read_text(), re.MULTILINE)
        includes.setdefault(file.stem, set()).update(named)
    for stem, named in includes.items():
        named.discard(stem)
    assert "layout" in TopologicalSorter(includes).static_order()  # raises CycleError
