"""The demo: its plan, what it checks, and that its training learns and does the same work in all configurations."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profkit.cli import demo
from profkit.cli.demo import MOST_EFFECT, MOST_QUEUED, trouble_of, trouble_of_clean
from profkit.errors import ProfkitError
from profkit.model import Effect, Neighbour, Neighbours, Run, RunSet
from profkit.verdict.diagnosis import diagnose as diff
from tests.builders import Row, captured, profile, with_main
from tests.shared import ROOT, SAMPLES, Capture, finished, printed


def run_training(workers: int) -> str:
    command = [sys.executable, "-m", "profkit.demo.train", "--workers", str(workers)]
    command += ["--epochs", "2", "--images", "1024"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = finished(command, ROOT, env=environment, check=True)
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


def test_a_cpu_restriction_is_undone() -> None:
    before = os.sched_getaffinity(0)
    one = min(before)
    with contextlib.suppress(KeyError), demo.on_cpus([one]):
        assert os.sched_getaffinity(0) == {one}
        raise KeyError
    assert os.sched_getaffinity(0) == before


def test_a_training_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "raise ValueError('no such data')"]
    monkeypatch.setattr(demo, "training_command", lambda *_: command)
    with pytest.raises(ProfkitError, match="status 1: ValueError: no such data"):
        demo.train(demo.sides_for(2)[0], demo.TRIAL, [], "trial")


def test_the_printed_command_does_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    side = demo.sides_for(2)[1]
    arguments = demo.capture_arguments(side, demo.Length(3, 1024), Path("a dir/x.prof"))
    line = demo.shell_line(arguments, side.variables, [6, 7])
    assert line.startswith("OMP_NUM_THREADS=8 OPENBLAS_NUM_THREADS=8 MKL_NUM_THREADS=8 taskset -c 6,7 ")
    assert "capture -o 'a dir/x.prof' -- " in line
    assert line.endswith("-m profkit.demo.train --workers 8 --epochs 3 --images 1024")


# What is checked before anything is said ------------------------------------------------------------------------

ROWS = [Row("m.py", 10 * i, f"f{i}", 100, 1.0) for i in range(8)]


def clean_run(queued: float, *, busy: float | None = None, **machine: Any) -> Run:
    """Eight seconds of which this part was queueing for a CPU."""
    run = captured(profile(ROWS), wall=8.0, run=8.0 * (1 - queued), wait=8.0 * queued, busy=busy)
    return replace(run, machine=replace(run.machine, **machine))  # type: ignore[type-var]


def run_with_effect(part: float) -> Run:
    """Eight seconds, to which capture added this part of the remaining ones."""
    run, added = clean_run(0.0), 8.0 * part / (1 + part)
    return with_main(run, effect=Effect(added, 0.5 * added, 2 * added))


@pytest.mark.parametrize("queued", [MOST_QUEUED + 0.01, 0.9])
def test_a_run_that_queued_is_not_clean(queued: float) -> None:
    trouble = trouble_of_clean(clean_run(queued))
    assert f"waited for a CPU for {100 * queued:.1f} % of its time" in trouble.wrong
    assert "no other program was found to use the 2 CPUs" in trouble.wrong
    assert trouble.may_pass


def test_a_run_that_capture_changed_is_not_clean_and_never_will_be() -> None:
    assert trouble_of_clean(run_with_effect(MOST_EFFECT - 0.01)) is None
    trouble = trouble_of_clean(run_with_effect(MOST_EFFECT + 0.01))
    assert "capturing the clean run made it 11.0 % longer" in trouble.wrong
    assert not trouble.may_pass


def test_others_that_take_the_cpus_are_named() -> None:
    beside = Neighbours(4.0, (Neighbour("cc1", 0.8), Neighbour("mypy", 0.4)), 1.2, True)
    trouble = trouble_of_clean(clean_run(0.5, busy=4.0 + 1.2 * 8.0, neighbours=beside))
    said = "the machine is busy: other processes used 1.2 of 2 CPUs (the largest: cc1); the clean run waited"
    assert trouble.wrong.startswith(said)
    assert trouble.may_pass


def test_a_quota_is_named_and_does_not_pass() -> None:
    trouble = trouble_of_clean(clean_run(0.5, quota_cpus=0.5, throttled_periods=40, periods=80))
    assert trouble.wrong.startswith("this container is limited to 0.5 CPUs; the clean run waited for a CPU")
    assert not trouble.may_pass


def test_another_cause_is_no_story() -> None:
    slow = captured(profile(ROWS), wall=32.0, run=8.0, wait=24.0, busy=8.0 + 2 * 32.0)
    sides = (RunSet(name, (run,)) for name, run in (("clean", clean_run(0.02)), ("slow", slow)))
    trouble = trouble_of(diff(*sides).verdict, slow)
    assert trouble.wrong == "the machine is busy: other processes used 2.0 of 2 CPUs"


# The command, with captures that were made before ---------------------------------------------------------------


CLEAN, CROWDED, BUSY = "mpi_train/clean-1", "mpi_train/oversubscribed", "tokenize_corpus/external-load"


Demo = Callable[..., tuple[str, str]]


@pytest.fixture
def demo_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> Demo:
    """Run the command where each capture gives the next of these files, all of which it takes, and it exits so."""
    monkeypatch.setattr(demo, "measure_step", lambda *_: 0.005)

    def run(*captured: str, code: int = 0) -> tuple[str, str]:
        left = list(captured)

        def take(*given: Any) -> None:
            shutil.copy(SAMPLES / f"{left.pop(0)}.prof", given[-1])

        monkeypatch.setattr(demo, "train", take)
        said = printed(capsys, "demo", "--dir", tmp_path / "kept", code=code)
        assert left == []
        return said

    return run


def test_a_true_story_is_told(demo_with: Demo) -> None:
    out, err = demo_with(CLEAN, CROWDED)
    assert re.search(r"^✗ .* slower, .* contention", out, re.MULTILINE)
    assert out.index("The same training twice on ") < out.index("✗") < out.index("by hand")
    assert "profkit: " not in err


def test_a_clean_run_that_is_none_is_repeated_once(demo_with: Demo) -> None:
    out, err = demo_with(BUSY, CLEAN, CROWDED)
    assert re.search(r"profkit: the machine is busy: other processes used 1\.\d of 2 CPUs", err)
    assert "✗" in out


def test_without_a_clean_run_nothing_is_compared(demo_with: Demo) -> None:
    out, err = demo_with(BUSY, BUSY, code=demo.NOT_SHOWN)
    assert out == ""
    wrong, remedy = err.splitlines()[-2:]
    assert re.match(r"profkit: the machine is busy: other processes used 1\.\d of 2 CPUs", wrong)
    assert remedy.startswith("profkit: the demo ends here, since a comparison would be wrong: run")


def test_another_verdict_is_no_success(demo_with: Demo) -> None:
    out, err = demo_with(CLEAN, CLEAN, code=demo.NOT_SHOWN)
    assert "contention" not in out
    assert "To repeat it by hand" not in out
    assert "profkit: the demo should show contention by the program itself, and did not: " in err
