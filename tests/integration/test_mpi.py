"""Real MPI jobs under Open MPI: profkit in front of mpirun, and inside every rank; which ranks are slow, and none."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from profkit.api.many_runs import read_ranks
from profkit.formats import load_run
from profkit.model import Run
from tests.integration.capturing import (
    PROGRAMS,
    calls,
    captured,
    environment,
    in_process,
    profkit_command,
    run_capture,
    script,
)
from tests.requirements import require
from tests.shared import finished

pytestmark = pytest.mark.mpi

PROGRAM = str(PROGRAMS / "mpi_train.py")


def mpirun() -> list[str]:
    """``mpirun`` for as many ranks as are asked for, on however few cores this machine has."""
    require("mpi", shutil.which("mpirun") is not None, "mpirun is not installed")
    require("mpi", importlib.util.find_spec("mpi4py") is not None, "mpi4py is not installed")
    return ["mpirun", "--oversubscribe", "-n", "4"]


def mpi_environment() -> dict[str, str]:
    """Lets root start MPI jobs, as in containers, and keeps BLAS to one thread a rank."""
    return environment(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
    )


def check(run: Run) -> None:
    # Open MPI does not number the nodes.
    assert [(p.local_rank, p.node) for p in run.processes if p.role == "rank"] == [
        (i, None) for i in range(4)
    ]
    ranks = [p for p in run.processes if p.role == "rank"]
    assert [p.rank for p in ranks] == [0, 1, 2, 3]
    assert run.processes[0] is ranks[0]
    for process in ranks:
        assert process.exit == "exited"
        assert calls(process)["all_reduce"] == 100
        assert calls(process)["gradient"] == 100
        assert process.environment["OMPI_COMM_WORLD_RANK"] == str(process.rank)
    assert run.manifest.exit_status == 0


def test_capture_of_mpirun(tmp_path: Path) -> None:
    done = run_capture(tmp_path, *mpirun(), sys.executable, PROGRAM, env=mpi_environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 ranks, error 0.0")
    check(done.run)
    assert not done.run.warnings


def test_capture_inside_mpirun_and_merge(tmp_path: Path) -> None:
    inside = profkit_command("capture", "--exact", "-o", "run.prof", "--", sys.executable, PROGRAM)
    done = finished([*mpirun(), *inside], tmp_path, env=mpi_environment(), timeout=120)
    assert done.returncode == 0, done.stderr
    files = sorted(p.name for p in tmp_path.glob("*.prof"))
    assert files == [f"run-rank{r}.prof" for r in range(4)]
    in_process(tmp_path, "merge", *files, "-o", "job.prof")
    check(load_run(tmp_path / "job.prof"))


def test_a_rank_that_is_killed_takes_the_others_with_it(tmp_path: Path) -> None:
    """Only mpirun gets the statuses of its ranks: that they are gone is known here, and not how they ended."""
    code = (
        "import os, time\n"
        "begin = time.perf_counter()\n"
        "while time.perf_counter() < begin + 0.3: sum(range(1000))\n"
        "if os.environ['OMPI_COMM_WORLD_RANK'] == '1': os.kill(os.getpid(), 9)\n"
        "time.sleep(60)\n"
    )
    done = run_capture(tmp_path, *mpirun(), sys.executable, "-c", code, env=mpi_environment())
    assert done.returncode != 0
    assert [p.exit for p in done.run.processes if p.role == "rank"] == ["ended"] * 4
    (notice,) = (notice for notice in done.run.warnings if notice.code == "ended-unrecorded")
    assert len(notice.numbers["pids"]) == 4
    assert "killed" not in done.stderr.partition("profkit: wrote")[2]


#: A job in which one rank may do more.
RANKS = str(PROGRAMS / "mpi_ranks.py")


@pytest.mark.alone
def test_a_balanced_job_has_no_straggler(tmp_path: Path) -> None:
    command = [*mpirun(), sys.executable, RANKS, "150"]
    captured(tmp_path, *command, env=mpi_environment(), timeout=300)
    found = read_ranks([tmp_path / "run.prof"])
    # Four ranks on two CPUs: that one of them lacks CPUs more than others may be true.
    assert [s.kind for s in found.study.stragglers if s.kind != "queue"] == [], found.report()
    assert found.study.waiting_seen
    assert found.study.measured


@pytest.mark.alone
def test_files_of_single_ranks_give_the_same(tmp_path: Path) -> None:
    target = (sys.executable, RANKS, "100", "3", "0.5")
    inside = profkit_command("capture", "--exact", "-o", "run.prof", "--", *target)
    done = finished([*mpirun(), *inside], tmp_path, env=mpi_environment(), timeout=300)
    assert done.returncode == 0, done.stderr
    found = read_ranks([tmp_path])
    assert [m.label for m in found.study.members] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    slow = [found.study.members[s.member].label for s in found.study.stragglers]
    assert slow == ["rank 3"], found.report()


#: A wrapper around a call of mpi4py, which is a function of Cython's: no tracer sees it.
WRAPPED = """
import sys
import numpy as np
from mpi4py import MPI
rank = MPI.COMM_WORLD.Get_rank()
gradients = np.ones(1000)
def reduce_grads(values):
    whole = np.empty_like(values)
    MPI.COMM_WORLD.Allreduce(values, whole)
    return whole
def forward(n):
    return sum(i * i for i in range(n))
for step in range(30):
    forward(300_000 if rank == 1 else 100_000)
    reduce_grads(gradients)
"""


@pytest.mark.alone
@pytest.mark.parametrize("option", ["--exact", "--sampled"])
def test_calls_that_no_tracer_sees_are_known_by_their_line(tmp_path: Path, option: str) -> None:
    command = [*mpirun()[:-1], "2", sys.executable, script(tmp_path, WRAPPED)]
    captured(tmp_path, *command, env=mpi_environment(), options=(option,), timeout=300)
    found = read_ranks([tmp_path / "run.prof"])
    assert found.study.waiting_seen
    first, second = (member.waits_s for member in found.study.members)
    assert first > 2 * second, found.report()
