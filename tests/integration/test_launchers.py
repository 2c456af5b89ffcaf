"""Launchers of parallel jobs, run for real: Slurm's srun, Hydra, pytest-xdist; Open MPI is in test_capture_mpi.

The tests start a Slurm of their own: daemons, ports, keys and state of one temporary directory.
"""

from __future__ import annotations

import os
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

from profkit.formats import load_run
from profkit.model import Process
from tests.integration.capturing import calls, environment, profkit_command, run_capture
from tests.requirements import require

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

_SLURM = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=20
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def _free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """The environment of a shell in which ``srun`` reaches a Slurm of one node."""
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
        for name in ("slurmctld", "slurmd"):
            subprocess.run([name, "-f", str(config)], env=env, check=True, capture_output=True)
        deadline = time.monotonic() + 30
        while (
            subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%n"], env=env, capture_output=True).stdout
            == b""
        ):
            logs = "".join(path.read_text() for path in directory.glob("*.log"))
            assert time.monotonic() < deadline, f"no node became idle: {logs}"
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


def program(directory: Path) -> str:
    file = directory / "train.py"
    file.write_text(PROGRAM)
    return str(file)


def ranks(processes: list[Process]) -> list[int | None]:
    found = [process for process in processes if process.role == "rank"]
    assert all(calls(process)["step"] == 20 for process in found)
    return [process.rank for process in found]


def test_capture_behind_srun(tmp_path: Path, slurm: dict[str, str]) -> None:
    capture = profkit_command("capture", "-q", "-o", "job.prof", "--", sys.executable, program(tmp_path))
    subprocess.run(
        ["srun", "-n", "2", "--overcommit", *capture], cwd=tmp_path, env=slurm, check=True, timeout=60
    )
    files = sorted(tmp_path.glob("*.prof"))
    assert [path.name for path in files] == ["job-rank0.prof", "job-rank1.prof"]
    merge = profkit_command("merge", "-o", "job.prof", *map(str, files))
    subprocess.run(merge, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    assert ranks(load_run(tmp_path / "job.prof").processes) == [0, 1]


def test_capture_in_front_of_srun(tmp_path: Path, slurm: dict[str, str]) -> None:
    command = ["srun", "-n", "2", "--overcommit", sys.executable, program(tmp_path)]
    done = run_capture(tmp_path, *command, env=slurm)
    assert done.returncode == 0, done.stderr
    assert ranks(load_run(tmp_path / "run.prof").processes) == [0, 1]


def test_a_job_that_is_cancelled_keeps_its_run(tmp_path: Path, slurm: dict[str, str]) -> None:
    capture = profkit_command(
        "capture", "-q", "-o", "job.prof", "--", sys.executable, program(tmp_path), "wait"
    )
    job = subprocess.Popen(
        ["srun", "-n", "1", *capture],
        cwd=tmp_path,
        env=slurm,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "waiting\n"
    names = subprocess.run(
        ["squeue", "-h", "-t", "running", "-o", "%A"], env=slurm, check=True, capture_output=True, text=True
    )
    subprocess.run(["scancel", names.stdout.split()[-1]], env=slurm, check=True)
    job.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while not (tmp_path / "job.prof").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    (process,) = (p for p in load_run(tmp_path / "job.prof").processes if p.profiled)
    assert calls(process)["step"] == 20


def test_hydra(tmp_path: Path) -> None:
    require("hydra", shutil.which("mpiexec.hydra") is not None, "mpiexec.hydra (MPICH) is not installed")
    done = run_capture(tmp_path, "mpiexec.hydra", "-n", "2", sys.executable, program(tmp_path))
    assert done.returncode == 0, done.stderr
    assert ranks(load_run(tmp_path / "run.prof").processes) == [0, 1]


def test_workers_of_pytest_xdist(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n"
        "def step():\n    return sum(range(1000))\n\n"
        "@pytest.mark.parametrize('number', range(8))\n"
        "def test_step(number):\n    step()\n"
    )
    done = run_capture(
        tmp_path, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "."
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = load_run(tmp_path / "run.prof")
    workers = [process for process in run.processes if calls(process).get("step")]
    assert len(workers) == 2
    assert sum(calls(process)["step"] for process in workers) == 8
