"""Real MPI jobs through ``profkit ranks``: one slow rank, one that lacks its CPU, and none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profkit.api.many_runs import Ranks, read_ranks
from tests.integration.capturing import PROGRAMS, captured, profkit_command, script
from tests.integration.test_capture_mpi import mpi_environment, mpirun
from tests.shared import finished

pytestmark = pytest.mark.mpi

PROGRAM = str(PROGRAMS / "mpi_ranks.py")
HOGS = 4


def captured_job(directory: Path, *words: str, ranks: int = 4) -> Ranks:
    command = [*mpirun()[:-1], str(ranks), sys.executable, PROGRAM, *words]
    captured(directory, *command, env=mpi_environment(), timeout=300)
    return read_ranks([directory / "run.prof"])


def labels(found: Ranks) -> list[str]:
    return [found.study.members[s.member].label for s in found.study.stragglers]


@pytest.mark.alone
def test_a_balanced_job_has_no_straggler(tmp_path: Path) -> None:
    found = captured_job(tmp_path, "150")
    # Four ranks on two CPUs: that one of them lacks CPUs more than others may be true.
    assert [s.kind for s in found.study.stragglers if s.kind != "queue"] == [], found.report()
    assert found.study.waiting_seen
    assert found.study.measured


@pytest.mark.alone
def test_the_rank_with_more_work_is_named_with_its_function(tmp_path: Path) -> None:
    found = captured_job(tmp_path, "300", "slow", "0", "1.0")
    assert "rank 0" in labels(found), found.report()
    straggler = found.study.stragglers[labels(found).index("rank 0")]
    assert straggler.kind == "slower"
    first = straggler.deviations[0]
    assert first.function is not None or first.range == ("", "forward")
    assert "gradient" in [d.function.qualname for d in straggler.deviations if d.function is not None]


@contextmanager
def hogs(cpu: int) -> Iterator[None]:
    """Compute beside the job on one CPU, in processes that are not the job's."""
    code = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile True: pass"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(HOGS)]
    try:
        for process in started:
            process.stdout.readline()
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a system that binds to CPUs")
def test_the_rank_that_shares_its_cpu_lacks_it(tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU: the hogs would slow down all ranks")
    with hogs(cpus[-1]):
        found = captured_job(tmp_path, "40", "pin", "1", str(cpus[-1]), ranks=2)
    assert labels(found) == ["rank 1"], found.report()
    assert found.study.stragglers[0].kind == "queue"


@pytest.mark.alone
def test_files_of_single_ranks_give_the_same(tmp_path: Path) -> None:
    target = (sys.executable, PROGRAM, "100", "slow", "3", "0.5")
    inside = profkit_command("capture", "--exact", "-o", "run.prof", "--", *target)
    done = finished([*mpirun(), *inside], tmp_path, env=mpi_environment(), timeout=300)
    assert done.returncode == 0, done.stderr
    found = read_ranks([tmp_path])
    assert [m.label for m in found.study.members] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert labels(found) == ["rank 3"], found.report()


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
