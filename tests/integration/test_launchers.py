"""Launchers of parallel jobs, run for real: Slurm's srun, Hydra, Open MPI, torchrun, pytest-xdist.

The tests start a Slurm of their own, of two nodes: daemons, ports, keys and state of one temporary directory.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from profkit.api.many_runs import read_ranks
from profkit.capture.cpu_limits import Limits
from profkit.formats import load_run
from profkit.model import Process, Run
from profkit.study.launch import fitting, lines
from tests.integration.capturing import (
    PROGRAMS,
    calls,
    captured,
    environment,
    in_process,
    profkit_command,
    run_capture,
    script,
    started,
    wait_until,
)
from tests.interpreters import python_with
from tests.requirements import require
from tests.shared import succeeded

PROGRAM = """
import sys, time
def step():
    return sum(range(1000))
for _ in range(20):
    step()
if "wait" in sys.argv:
    print("waiting", flush=True)
    time.sleep(60)
"""

#: Rank 3 computes four times as much as the others.
UNEVEN = """
import os
def step(n):
    return sum(i * i for i in range(n))
for _ in range(20 if os.environ.get("RANK", os.environ.get("SLURM_PROCID")) != "3" else 80):
    step(20000)
"""

#: Local rank and node of the ranks of a job of two nodes, two on each.
PLACES = [(0, 0), (1, 0), (0, 1), (1, 1)]

_SLURM = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=20
NodeName=node0 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} State=UNKNOWN
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def _free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(3)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """The environment of a shell in which ``srun`` reaches a Slurm of two nodes, both of this machine."""
    daemons = ("munged", "slurmctld", "slurmd")
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    found = [shutil.which(name, path=path) for name in (*daemons, "srun", "sinfo")]
    require(
        "slurm",
        all(found) and os.getuid() == 0,
        "no Slurm (slurm-wlm, munge), or not root, who may start one",
    )
    # Paths of sockets are short, and every user must reach this one: pytest's own directory is neither.
    directory = Path(tempfile.mkdtemp(prefix="slurm-"))
    directory.chmod(0o755)
    key = directory / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    config = directory / "slurm.conf"
    cpus = len(os.sched_getaffinity(0))
    host = socket.gethostname().partition(".")[0]
    config.write_text(_SLURM.format(host=host, ports=_free_ports(), directory=directory, cpus=cpus))
    env = environment(SLURM_CONF=str(config), PATH=path)
    files = [f"--{name}={directory}/munge.{name}" for name in ("log-file", "pid-file", "seed-file")]
    try:
        subprocess.run(
            ["munged", "--force", f"--socket={directory}/munge.sock", f"--key-file={key}", *files],
            env=env,
            check=True,
            capture_output=True,
        )
        for daemon in (["slurmctld"], ["slurmd", "-N", "node0"], ["slurmd", "-N", "node1"]):
            subprocess.run([*daemon, "-f", str(config)], env=env, check=True, capture_output=True)
        deadline = time.monotonic() + 30
        idle = ["sinfo", "-h", "-N", "-t", "idle", "-o", "%n"]
        while len(subprocess.run(idle, env=env, capture_output=True).stdout.split()) < 2:
            logs = "".join(path.read_text() for path in directory.glob("*.log"))
            assert time.monotonic() < deadline, f"a node did not become idle: {logs}"
            time.sleep(0.2)
        yield env
    finally:
        running = [int(path.read_text()) for path in directory.glob("*.pid*")]
        for pid in running:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in running) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(directory, ignore_errors=True)


def ranks(processes: list[Process]) -> list[int | None]:
    found = [process for process in processes if process.role == "rank"]
    assert all(calls(process)["step"] == 20 for process in found)
    return [process.rank for process in found]


def places(run: Run) -> list[tuple[int | None, int | None]]:
    """Local rank and node of each rank of a run, in the order of the ranks."""
    return [(p.local_rank, p.node) for p in run.processes if p.role == "rank"]


def shown(*command: str, where: Path) -> str:
    return in_process(where, *command, COLUMNS="200").stdout


#: Four tasks of srun, two on each node.
SRUN = ["srun", "-N", "2", "-n", "4", "--ntasks-per-node", "2", "--overcommit"]


def test_local_ranks_and_nodes_of_srun(tmp_path: Path, slurm: dict[str, str]) -> None:
    """Of a step of a job whose tasks are each captured."""
    program = script(tmp_path, UNEVEN)
    capture = profkit_command("capture", "-q", "-o", "job.prof", "--", sys.executable, program)
    subprocess.run([*SRUN, *capture], cwd=tmp_path, env=slurm, check=True, timeout=60)
    files = [f"job-rank{rank}.prof" for rank in range(4)]
    runs = [load_run(tmp_path / name) for name in files]
    assert [places(run) for run in runs] == [[place] for place in PLACES]
    assert [(run.manifest.job["local_rank"], run.manifest.job["node"]) for run in runs] == PLACES
    shown("merge", "-o", "job.prof", *files, where=tmp_path)
    assert places(load_run(tmp_path / "job.prof")) == PLACES

    processes = json.loads(shown("show", "--format", "json", "job.prof", where=tmp_path))["processes"]
    assert [(p["local_rank"], p["node"]) for p in processes] == PLACES
    table = shown("show", "--full", "job.prof", where=tmp_path)
    title = next(line for line in table.splitlines() if "local rank" in line)
    assert title.index("rank") < title.index("local rank") < title.index("node") < title.index("wall")

    study = json.loads(shown("ranks", "--format", "json", "job.prof", where=tmp_path))
    assert [(p["rank"], p["local_rank"], p["node"]) for p in study["processes"]] == [
        (rank, *place) for rank, place in enumerate(PLACES)
    ]
    # Both nodes are one machine here, with one host name: it is the node's number that says where. Four ranks on few
    # CPUs hold each other up, too: which of them are named is not asked here.
    verdict = " ".join(shown("ranks", "job.prof", where=tmp_path).split("\n\n")[0].lower().split())
    named = re.findall(r"rank (\d) \(local rank (\d) on node (\d)\)", verdict)
    assert named, verdict
    assert all(PLACES[int(rank)] == (int(local), int(node)) for rank, local, node in named), verdict
    assert "the others up" in verdict


def test_capture_in_front_of_srun_with_pmi2_knows_where_ranks_run(
    tmp_path: Path, slurm: dict[str, str]
) -> None:
    command = [*SRUN, "--mpi=pmi2", sys.executable, script(tmp_path, PROGRAM)]
    run = captured(tmp_path, *command, env=slurm)
    assert ranks(run.processes) == [0, 1, 2, 3]
    assert places(run) == PLACES


def test_a_job_that_is_cancelled_keeps_its_run(tmp_path: Path, slurm: dict[str, str]) -> None:
    words = ("capture", "-q", "-o", "job.prof", "--", sys.executable, script(tmp_path, PROGRAM), "wait")
    job = started(tmp_path, *words, before=("srun", "-n", "1"), env=slurm)
    assert job.stdout.readline() == "waiting\n"
    names = succeeded(["squeue", "-h", "-t", "running", "-o", "%A"], env=slurm)
    subprocess.run(["scancel", names.stdout.split()[-1]], env=slurm, check=True)
    job.communicate(timeout=60)
    wait_until((tmp_path / "job.prof").exists, seconds=30)
    (process,) = (p for p in load_run(tmp_path / "job.prof").processes if p.profiled)
    assert calls(process)["step"] == 20


def test_slurm_takes_launch_lines(tmp_path: Path, slurm: dict[str, str]) -> None:
    """What `profkit doctor --launcher slurm` prints, as a batch script: each rank has the CPUs of its own."""
    require("slurm", len(os.sched_getaffinity(0)) > 1, "one CPU")
    shown = "os.environ['SLURM_PROCID'], os.environ['OMP_NUM_THREADS'], len(os.sched_getaffinity(0))"
    asked = f"import os; print({shown})"
    limits = Limits(cpus=2, affinity=(0, 1))
    launch = fitting(limits, 2, ranks=2, workers=0, launcher="slurm", command=(sys.executable, "-c", asked))
    (tmp_path / "job.sh").write_text("\n".join(("#!/bin/bash", *lines(launch), "")))
    command = ["sbatch", "--wait", "--nodes=1", "--output=job.out", "job.sh"]
    subprocess.run(command, cwd=tmp_path, env=slurm, check=True, timeout=60, capture_output=True)
    assert sorted((tmp_path / "job.out").read_text().splitlines()) == ["0 1 1", "1 1 1"]


@pytest.mark.parametrize(
    ("hosts", "local_ranks"),
    [
        ((), (0, 1)),
        # Its daemon of each host is started here, by fork instead of ssh.
        (("-launcher", "fork", "-hosts", "127.0.0.1:2,127.0.0.2:2"), (0, 1, 0, 1)),
    ],
    ids=["one host", "two hosts"],
)
def test_ranks_of_hydra(tmp_path: Path, hosts: tuple[str, ...], local_ranks: tuple[int, ...]) -> None:
    require("hydra", shutil.which("mpiexec.hydra") is not None, "mpiexec.hydra (MPICH) is not installed")
    target = ("-n", str(len(local_ranks)), sys.executable, script(tmp_path, PROGRAM))
    run = captured(tmp_path, "mpiexec.hydra", *hosts, *target)
    assert ranks(run.processes) == list(range(len(local_ranks)))
    assert places(run) == [(local, None) for local in local_ranks]


def test_torchrun_on_two_nodes(tmp_path: Path) -> None:
    torchrun = Path(python_with("torch")).with_name("torchrun")
    program = script(tmp_path, UNEVEN)
    port = _free_ports()[0]
    one = f"{torchrun} --nnodes 2 --nproc_per_node 2 --master_addr 127.0.0.1 --master_port {port} --node_rank"
    run = captured(tmp_path, "sh", "-c", f"{one} 1 {program} & {one} 0 {program} && wait")
    assert places(run) == PLACES
    assert "rank 3 (local rank 1 on node 1)" in shown("ranks", "run.prof", where=tmp_path).lower()


def test_workers_of_pytest_xdist(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n"
        "def step():\n    return sum(range(1000))\n\n"
        "@pytest.mark.parametrize('number', range(8))\n"
        "def test_step(number):\n    step()\n"
    )
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", "-n", "2", ".")
    # Without other plugins, which take a second to be imported.
    env = environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    run = captured(tmp_path, sys.executable, *words, env=env)
    steps = [count for process in run.processes if (count := calls(process).get("step"))]
    assert (len(steps), sum(steps)) == (2, 8)


#: A job in which one rank may do more.
MPI_RANKS = str(PROGRAMS / "mpi_ranks.py")


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


def check_mpi(run: Run) -> None:
    # Open MPI does not number the nodes.
    assert places(run) == [(i, None) for i in range(4)]
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
    done = run_capture(tmp_path, *mpirun(), sys.executable, MPI_RANKS, "100", env=mpi_environment())
    assert done.stdout == "4 ranks\n"
    check_mpi(done.run)
    assert not done.run.warnings


def test_capture_inside_mpirun_and_merge(tmp_path: Path) -> None:
    target = (sys.executable, MPI_RANKS, "100")
    inside = profkit_command("capture", "--exact", "-o", "run.prof", "--", *target)
    succeeded([*mpirun(), *inside], tmp_path, env=mpi_environment(), timeout=120)
    files = sorted(p.name for p in tmp_path.glob("*.prof"))
    assert files == [f"run-rank{r}.prof" for r in range(4)]
    in_process(tmp_path, "merge", *files, "-o", "job.prof")
    check_mpi(load_run(tmp_path / "job.prof"))


def test_a_rank_that_is_killed_takes_the_others_with_it(tmp_path: Path) -> None:
    """Only mpirun gets the statuses of its ranks: that they are gone is known here, and not how they ended."""
    code = (
        "import os, time\n"
        "begin = time.perf_counter()\n"
        "while time.perf_counter() < begin + 0.3: sum(range(1000))\n"
        "if os.environ['OMPI_COMM_WORLD_RANK'] == '1': os.kill(os.getpid(), 9)\n"
        "time.sleep(60)\n"
    )
    done = run_capture(tmp_path, *mpirun(), sys.executable, "-c", code, env=mpi_environment(), status=None)
    assert done.returncode != 0
    assert [p.exit for p in done.run.processes if p.role == "rank"] == ["ended"] * 4
    (notice,) = (notice for notice in done.run.warnings if notice.code == "ended-unrecorded")
    assert len(notice.numbers["pids"]) == 4
    assert "killed" not in done.stderr.partition("profkit: wrote")[2]


@pytest.mark.alone
def test_a_balanced_job_has_no_straggler(tmp_path: Path) -> None:
    command = [*mpirun(), sys.executable, MPI_RANKS, "150"]
    captured(tmp_path, *command, env=mpi_environment(), timeout=300)
    found = read_ranks([tmp_path / "run.prof"])
    # Four ranks on two CPUs: that one of them lacks CPUs more than others may be true.
    assert [s.kind for s in found.study.stragglers if s.kind != "queue"] == [], found.report()
    assert found.study.waiting_seen
    assert found.study.measured


@pytest.mark.alone
def test_files_of_single_ranks_give_the_same(tmp_path: Path) -> None:
    target = (sys.executable, MPI_RANKS, "100", "3", "2")
    inside = profkit_command("capture", "--exact", "-o", "run.prof", "--", *target)
    succeeded([*mpirun(), *inside], tmp_path, env=mpi_environment(), timeout=300)
    found = read_ranks([tmp_path])
    assert [m.label for m in found.study.members] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    # As above: another one may lack CPUs besides.
    slow = [found.study.members[s.member].label for s in found.study.stragglers if s.kind != "queue"]
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
