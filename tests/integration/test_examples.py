"""The examples run as their README says, and the program that profkit began with gets the right verdict."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from profkit.formats import load_run
from profkit.verdict.diagnosis import diagnose as diff
from tests.integration.capturing import ROOT, environment, profkit, profkit_command
from tests.interpreters import python_with
from tests.programs import one_side
from tests.requirements import imported, require
from tests.shared import succeeded, words_of

EXAMPLES = ROOT / "examples"
#: Root may start ranks, and more of them than there are CPUs.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def studied(name: str, python: str, out: Path, *options: str) -> str:
    imported("optuna")
    folder = out / "bin"
    folder.mkdir()
    (folder / "profkit").write_text(f'#!/bin/sh\nexec {shlex.join(profkit_command())} "$@"\n')
    (folder / "profkit").chmod(0o755)
    variables = environment(EXAMPLE_PYTHON=python, OUT=str(out / "out"), CHAINER_DATASET_ROOT=str(out))
    variables |= {"EPOCHS": "1", "IMAGES": "128", "BATCHES": "16"}
    variables["PATH"] = f"{folder}{os.pathsep}{variables['PATH']}"
    words = [EXAMPLES / "run", name, "--trials", "2", "--repeat", "0", *options]
    done = succeeded(words, env=variables, timeout=300)
    return done.stdout


@pytest.mark.parametrize(("name", "module"), [("torch_loader", "torch"), ("keras_dataset", "keras")])
def test_a_study_of_an_example(tmp_path: Path, name: str, module: str) -> None:
    said = studied(name, python_with(module), tmp_path, "--no-profile")
    assert "workers=8" in said
    assert len(list((tmp_path / "out" / "tune" / "runs").glob("*.log"))) == 2


def draw_mnist(python: str, folder: Path, images: int) -> None:
    """Draw the digits of ChainerMN's example, fewer than it would draw itself."""
    draw = "import sys; sys.path.insert(0, sys.argv[1]); import mnist; mnist.TRAIN = int(sys.argv[2]);"
    words = [python, "-c", f"{draw} mnist.TEST = mnist.TRAIN // 6; mnist.ensure_mnist()"]
    env = environment(CHAINER_DATASET_ROOT=str(folder))
    subprocess.run([*words, str(EXAMPLES / "chainermn"), str(images)], env=env, check=True, timeout=60)


def test_chainermn_is_tuned_by_its_own_log(tmp_path: Path) -> None:
    require("mpi", shutil.which("mpirun") is not None, "no mpirun")
    python = python_with("chainermn")
    draw_mnist(python, tmp_path, 1200)
    said = studied("chainermn", python, tmp_path)
    assert "workers=4 OMP_NUM_THREADS=4" in said
    log = json.loads((tmp_path / "out" / "result" / "log").read_text())
    assert log[-1]["elapsed_time"] > 0
    assert len(list((tmp_path / "out" / "tune" / "runs").glob("*.prof"))) == 2


@pytest.mark.alone
def test_more_workers_and_threads_of_chainermn_are_contention_and_no_other_workload(tmp_path: Path) -> None:
    """Starting more workers is a setting: they import and are fed, and the training is the same."""
    require("mpi", shutil.which("mpirun") is not None, "no mpirun")
    python = python_with("chainermn")
    draw_mnist(python, tmp_path, 12_000)
    program = str(EXAMPLES / "chainermn" / "train_mnist.py")
    for size in ("1", "4"):
        ranks = words_of("mpirun --oversubscribe -n 4")
        command = [*ranks, python, program, "--epochs", "1", "--workers", size]
        variables = {"OMP_NUM_THREADS": size, "CHAINER_DATASET_ROOT": str(tmp_path), **MPI}
        profkit(tmp_path, "capture", "-o", f"{size}.prof", "--", *command, **variables)
    baseline, candidate = (one_side(load_run(tmp_path / f"{size}.prof")) for size in ("1", "4"))
    found = diff(baseline, candidate)
    assert found.verdict.cause == "contention"
    assert found.verdict.kind == "self-oversubscription"
    assert not [f for f in found.verdict.findings if f.cause == "workload-change"]
