"""The programs of the benchmark, as commands: what each needs, and how much work it is given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks.measuring import ROOT, environment, has_module
from benchmarks.verdict.catalogue import CONDITIONS, PROGRAMS
from benchmarks.verdict.take import Cell, _stage
from tests.interpreters import having

HERE = Path(__file__).parent
CHAINERMN = ROOT / "examples" / "chainermn"
#: Another project's tests: half a minute of theirs is some thousand small functions of all kinds.
SUITE = "more-itertools==10.5.0"
#: Ranks and, of each, workers and threads; root may start ranks, and more of them than there are CPUs.
RANKS = 4
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMP_NUM_THREADS": str(RANKS),
}


class UnavailableError(Exception):
    """A program cannot run here; says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where programs run.

    Attributes
    ----------
    python
        Interpreter of all programs but those of the verdict benchmark and of ChainerMN.
    environment
        What ``benchmarks.verdict setup`` has made, ``None`` without.
    folder
        New for the program, and its working directory unless it has another.
    work
        How much work: of most programs about seconds.
    """

    python: str
    environment: Path | None
    folder: Path
    work: int


@dataclass(frozen=True, slots=True)
class Program:
    """One program, ready to be run; ``python`` is the interpreter in its command."""

    command: tuple[str, ...]
    folder: Path
    python: str
    variables: Mapping[str, str] = field(default_factory=dict)


def runnable(name: str, place: Place) -> Program:
    """Prepare a program.

    Raises
    ------
    UnavailableError
        What it needs is not on this machine.
    """
    place.folder.mkdir()
    return _MAKERS[name](place)


def _plain(name: str, place: Place) -> Program:
    script = str(HERE / "programs" / f"{name}.py")
    return Program((place.python, script, str(place.work)), place.folder, place.python)


def _demo(place: Place) -> Program:
    """The parent of a Pool of one polls while large results are read."""
    _need(place.python, "numpy")
    size = ("--workers", "1", "--epochs", str(max(1, round(1.4 * place.work))), "--images", "4096")
    command = (place.python, "-m", "profkit.demo.train", *size)
    return Program(command, place.folder, place.python, {"OMP_NUM_THREADS": "1"})


def _gpu_words(place: Place) -> Program:
    _need_gpu(place.python)
    return _plain("gpu_words", place)


def _gpu_loader(place: Place) -> Program:
    """Workers that augment images for a GPU."""
    _need_gpu(place.python)
    script = ROOT / "sample_profiles" / "workloads" / "gpu_train.py"
    workers = max(1, len(os.sched_getaffinity(0)) - 1)
    size = ("--workers", str(workers), "--epochs", str(place.work), "--images", "4096")
    command = (place.python, str(script), *size)
    return Program(command, place.folder, place.python, {"OPENBLAS_NUM_THREADS": "1"})


def _suite(place: Place) -> Program:
    _need(place.python, "pytest")
    words = ["--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(place.folder), SUITE]
    done = subprocess.run([sys.executable, "-m", "pip", "download", *words], capture_output=True, text=True)
    if done.returncode:
        raise UnavailableError(f"{SUITE} cannot be downloaded: {done.stderr.strip()[-200:]}")
    (archive,) = place.folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        if hasattr(tarfile, "data_filter"):
            sources.extraction_filter = tarfile.data_filter
        sources.extractall(place.folder)
    (tests,) = place.folder.glob("*/tests")
    # Stress tests by themselves are more than half of its time. One round is what a small --work is given.
    chosen = () if place.work > 1 else ("-k", "not Peekable and not Seekable and not Bucket")
    command = (place.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", *chosen)
    return Program(command, tests.parent, place.python)


def _verdict(name: str, place: Place) -> Program:
    if place.environment is None:
        raise UnavailableError("needs --environment")
    program, python = PROGRAMS[name], str((place.environment / "bin" / "python").absolute())
    condition = replace(CONDITIONS["clean"], work=place.work)
    folder = _stage(place.folder, Cell(name, "clean", 1), program, condition, 0)
    return Program((python, f"{name}.py"), folder, python, program.environment)


def _chainermn(place: Place) -> Program:
    own = CHAINERMN / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else having("chainermn")
    if python is None or shutil.which("mpirun") is None:
        raise UnavailableError("needs mpirun and `make example NAME=chainermn`")
    launcher = ("mpirun", "--oversubscribe", "-n", str(RANKS), python, str(CHAINERMN / "train_mnist.py"))
    command = (*launcher, "--workers", str(RANKS), "--epochs", str(max(1, round(0.4 * place.work))))
    return Program(command, place.folder, python, {**MPI, "CHAINER_DATASET_ROOT": str(place.folder)})


def _need(python: str, module: str) -> None:
    if not has_module(python, module):
        raise UnavailableError(f"{python} has no {module}")


def _need_gpu(python: str) -> None:
    find = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    if subprocess.run([python, "-c", find], check=False, env=environment(), capture_output=True).returncode:
        raise UnavailableError(f"{python} has no PyTorch with a GPU")


_MAKERS: Mapping[str, Callable[[Place], Program]] = {
    **{
        name: partial(_verdict, name)
        for name, program in PROGRAMS.items()
        if not program.store and not program.ranks
    },
    **{name: partial(_plain, name) for name in ("genetic", "records", "threads", "server")},
    "demo": _demo,
    "gpu_words": _gpu_words,
    "gpu_loader": _gpu_loader,
    "suite": _suite,
    "chainermn": _chainermn,
}

NAMES = tuple(_MAKERS)
