"""A real MPI job under OpenMPI: profkit in front of mpirun, and inside every rank."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from profkit.formats import load_run
from profkit.model import Run
from tests.integration.capturing import PROGRAMS, calls, environment, in_process, profkit_command, run_capture
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
