"""The demo's plan, and that its training really learns and does the same work in both configurations."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.cli import demo
from profkit.errors import ProfkitError

ROOT = Path(__file__).resolve().parents[2]


def run_training(workers: int) -> str:
    command = [sys.executable, "-m", "profkit.demo.train", "--workers", str(workers)]
    command += ["--epochs", "2", "--images", "1024"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=True)
    assert done.stderr == ""
    return re.sub(r", [0-9.]+ s", "", done.stdout)


def test_the_training_learns_the_same_with_and_without_workers() -> None:
    alone, helped = run_training(0), run_training(2)
    assert alone == helped
    assert float(alone.split()[-1]) > 0.5  # ten classes: chance is 0.1


@pytest.mark.parametrize("cpus", [1, 2, 3, 4])
def test_one_side_fits_the_cpus_and_the_other_is_far_above(cpus: int) -> None:
    clean, oversubscribed = demo.sides_for(cpus)
    assert clean.workers + clean.threads == cpus
    assert oversubscribed.workers >= 4 * cpus
    assert oversubscribed.threads > cpus or cpus == 1
    assert set(clean.variables.values()) == {"1"}


def test_no_more_cpus_are_taken_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(128)))
    monkeypatch.setattr("profkit.capture.host.quota_cpus", lambda: None)
    assert demo.usable_cpus() == [124, 125, 126, 127]
    monkeypatch.setattr("profkit.capture.host.quota_cpus", lambda: 2.5)
    assert demo.usable_cpus() == [126, 127]
    monkeypatch.setattr("profkit.capture.host.quota_cpus", lambda: 0.5)
    assert demo.usable_cpus() == [127]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert demo.usable_cpus() == [5]


@pytest.mark.parametrize("step_s", [1e-4, 0.005, 0.025, 0.1, 0.4])
def test_the_length_keeps_the_slow_run_in_its_time(step_s: float) -> None:
    length = demo.plan_length(step_s)
    assert demo.FEWEST_EPOCHS <= length.epochs <= demo.MOST_EPOCHS
    assert length.epochs * length.images / demo.BATCH * step_s <= demo.SLOW_RUN_S


def test_a_cpu_restriction_is_undone() -> None:
    before = os.sched_getaffinity(0)
    one = min(before)
    with contextlib.suppress(KeyError), demo.confined_to([one]):
        assert os.sched_getaffinity(0) == {one}
        raise KeyError
    assert os.sched_getaffinity(0) == before


def test_a_training_that_fails_says_why() -> None:
    command = [sys.executable, "-c", "raise ValueError('no such data')"]
    with pytest.raises(ProfkitError, match="status 1: ValueError: no such data"):
        demo.run_and_follow(command, {}, lambda *_: None)


def test_the_printed_command_does_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    side = demo.sides_for(2)[1]
    arguments = demo.capture_arguments(side, demo.Length(3, 1024), Path("a dir/x.prof"))
    line = demo.shell_line(arguments, side.variables, [6, 7])
    assert line.startswith("OMP_NUM_THREADS=8 OPENBLAS_NUM_THREADS=8 MKL_NUM_THREADS=8 taskset -c 6,7 ")
    assert "capture -o 'a dir/x.prof' -- " in line
    assert line.endswith("-m profkit.demo.train --workers 8 --epochs 3 --images 1024")
