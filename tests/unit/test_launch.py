"""Launch lines: whatever is wanted, what they start fits the CPUs together, and a real launcher takes them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from itertools import product

import pytest

from profkit.capture.cpu_limits import Limits, Ranks, read_limits
from profkit.study.launch import LAUNCHERS, fitting, launcher_of, lines, of_setting
from tests.requirements import require
from tests.shared import finished


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_with_threads_and_workers_fit_the_cpus(launcher: str) -> None:
    for cpus, ranks, workers, threads in product((0.5, 1, 2, 7.5, 8, 64), (1, 3, 8), (0, 1, 5), (None, 1, 4)):
        limits = Limits(cpus=64, cores=32, affinity=tuple(range(64)), affinity_cores=32)
        launch = fitting(limits, cpus, ranks=ranks, workers=workers, threads=threads, launcher=launcher)
        text = "\n".join(lines(launch))
        started = int(re.findall(r"(?:--ntasks-per-node=|--nproc-per-node=|mpirun -n )(\d+)", text)[0])
        sized = int(re.findall(r"OMP_NUM_THREADS=(\d+)", text)[0])
        helping = int((re.findall(r"num_workers=(\d+)", text) or ["0"])[0])
        most = max(1, int(cpus))
        assert 1 <= started <= ranks
        assert 1 <= sized <= (threads or most)
        assert started * (sized + helping) <= most
        assert started * helping * sized <= most, "workers of a Pool have the variable, too"
        if launcher == "mpirun":
            assert started * int(re.findall(r"PE=(\d+)", text)[0]) <= 32, "Open MPI counts cores"


def test_the_launcher_is_that_of_the_command_or_of_the_job() -> None:
    free = Limits(cpus=8)
    in_slurm = Limits(cpus=8, slurm=(4, "SLURM_CPUS_PER_TASK"))
    assert launcher_of(free, ("/usr/bin/mpirun", "-n", "2", "python", "t.py")) == "mpirun"
    assert launcher_of(Limits(cpus=8, ranks=Ranks("torchrun", 4, False)), ("python", "t.py")) == "torchrun"
    assert launcher_of(in_slurm, ("python", "t.py")) == "slurm"
    assert launcher_of(in_slurm, ("mpirun", "python", "t.py")) == "mpirun"
    assert launcher_of(free, ()) == ""
    # Behind the launcher the program stays, and only it.
    command = ("mpirun", "-n", "2", "python", "t.py")
    launch = fitting(free, 8, ranks=2, workers=0, launcher="torchrun", command=command)
    assert lines(launch)[-1] == "torchrun --nproc-per-node=2 t.py"


def test_mpirun_takes_its_lines() -> None:
    require("mpi", shutil.which("mpirun") is not None, "no mpirun")
    limits = read_limits(os.environ)
    asked = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
    command = (sys.executable, "-c", asked)
    launch = fitting(limits, limits.allowed, ranks=2, workers=0, launcher="mpirun", command=command)
    options = ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe")
    script = "\n".join(lines(launch))
    assert shlex.split(script)
    environment = {**os.environ, **{f"OMPI_{name}": "1" for name in options}}
    done = finished(["bash", "-ec", script], env=environment)
    assert done.returncode == 0, done.stderr
    said = sorted(done.stdout.splitlines())
    assert len(said) == launch.ranks
    assert len(set(said)) == launch.ranks, "each rank has CPUs of its own"
    assert all(line.endswith(f" {launch.threads}") for line in said)


def test_a_setting_that_was_found_best_has_lines_if_it_fits() -> None:
    limits = Limits(cpus=16, cores=16, affinity=tuple(range(16)), affinity_cores=16)
    command = ("mpirun", "-n", "4", "python", "t.py", "--workers", "2")
    best = {"ranks": 4, "workers": 2, "OMP_NUM_THREADS": 2}
    line = lines(of_setting(limits, best, command))[1]
    assert line == "mpirun -n 4 --map-by slot:PE=4 --bind-to core -x OMP_NUM_THREADS python t.py --workers 2"
    # It may be the fastest all the same, but no such lines are advice.
    assert of_setting(limits, {**best, "OMP_NUM_THREADS": 4}, command) is None
    assert of_setting(limits, best, ("python", "t.py")) is None
