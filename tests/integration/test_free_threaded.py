"""Captures under a free-threaded CPython: stacks are sampled, and the program gets no GIL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profkit.capture.native import build, users_directory
from tests.integration.capturing import PROGRAMS, captured, codes, environment, names, run_capture
from tests.integration.tracing import QUICK_COMPILER, compiler, include_directory
from tests.interpreters import FREE_THREADED, interpreter
from tests.shared import succeeded

#: What a user's shell has whose home has no tracers.
HOME = "XDG_DATA_HOME"


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    env = environment(**{HOME: str(tmp_path_factory.mktemp("home"))})
    python = interpreter(FREE_THREADED)
    compiler()
    code = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
    suffix = succeeded([python, "-c", code]).stdout.strip()
    tracer = build.tracer_of((3, 13), include_directory(python), suffix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", str(QUICK_COMPILER))
        assert build.build(tracer, users_directory(env), strict=True)
    return env


def test_threads_are_sampled_without_a_gil(tmp_path: Path, traced: dict[str, str]) -> None:
    """The program fails if it gets a GIL; meanwhile it makes and drops code, collects and forks."""
    program = str(PROGRAMS / "free_threads.py")
    run = captured(tmp_path, interpreter(FREE_THREADED), program, "3", env=traced, options=("--exact",))
    main = run.processes[0]
    assert set(codes(run)) == {"calls-not-counted"}
    assert {tier.kind for tier in main.tiers} == {"sampled"}
    profiles = {thread.name: thread.profile for thread in main.threads}
    assert {"computes", "waits", "makes_code", "begins_threads", "collects"} <= set(profiles)
    computes = profiles["computes"]
    seconds = dict(zip(names(computes), computes.tottime.tolist(), strict=True))
    assert seconds["leaf"] > 0.8 * sum(seconds.values())
    assert np.isnan(computes.calls_high).all(), "a sample is no call"
    assert float(profiles["waits"].blocked.sum()) > 2
    assert len(run.processes) > 2, "children that were forked"


def test_without_a_tracer_one_line_names_the_command(tmp_path: Path) -> None:
    python = interpreter(FREE_THREADED)
    env = environment(**{HOME: str(tmp_path), "PROFKIT_NO_NATIVE": "1"})
    done = run_capture(tmp_path, python, "-c", "print(1)", env=env)
    assert done.stdout == "1\n"
    assert done.stderr.count("`profkit doctor --build-tracers python3.13t`") == 1
