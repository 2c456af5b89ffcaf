"""The small parts of capturing that need no target: ranks, packages, open calls, warnings, host readings."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profkit.capture import packer, provenance, record_notices
from profkit.capture.agent import process_facts, settings
from profkit.capture.agent.process_facts import read_stat
from profkit.capture.endings import Ending
from profkit.capture.lightning_ranks import with_lightning_ranks
from profkit.capture.packer import pack_spool
from profkit.capture.record_types import Record
from profkit.capture.tables import ThreadTables
from profkit.errors import FormatError
from profkit.model import Host, Notice, Process
from tests.records import launch, record, record_bytes, samples_bytes, table


def variables(text: str) -> dict[str, str]:
    """An environment, from ``NAME=VALUE`` for each variable."""
    return dict(pair.split("=") for pair in text.split())


NOWHERE = (None, None, None, None)
OPEN_MPI = "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8"
TORCH = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1"
STEP = "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_ID=0"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ("", NOWHERE),
        ("RANK=0 WORLD_SIZE=2", (0, 2, None, None)),
        ("RANK=0", NOWHERE),
        ("LOCAL_RANK=1 NODE_RANK=0", NOWHERE),
        ("RANK=first WORLD_SIZE=2", NOWHERE),
        ("RANK=² WORLD_SIZE=2", NOWHERE),
        pytest.param(f"RANK={'1' * 5000} WORLD_SIZE=2", NOWHERE, id="5000 digits"),
        ("RANK=5 WORLD_SIZE=8 LOCAL_RANK=-1 GROUP_RANK=x", (5, 8, None, None)),
        (OPEN_MPI, (5, 8, None, None)),
        # Open MPI's "node rank" counts processes of all its jobs on a node; the node itself has no number.
        (f"{OPEN_MPI} OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_NODE_RANK=3", (5, 8, 1, None)),
        # Hydra: MPICH's mpiexec and Intel's; Cray PALS; MVAPICH's mpirun_rsh.
        ("PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", (5, 8, 1, None)),
        ("PMI_RANK=5 PMI_SIZE=8 PALS_LOCAL_RANKID=1 PALS_NODEID=2 PALS_RANKID=5", (5, 8, 1, 2)),
        ("MV2_COMM_WORLD_RANK=5 MV2_COMM_WORLD_SIZE=8 MV2_COMM_WORLD_LOCAL_RANK=1", (5, 8, 1, None)),
        # torchrun; Ray Train sets the same without the group; DeepSpeed's launcher.
        (
            f"{TORCH} LOCAL_WORLD_SIZE=4 GROUP_RANK=2 ROLE_RANK=5 ROLE_WORLD_SIZE=8 TORCHELASTIC_RUN_ID=none",
            (5, 8, 1, 2),
        ),
        (f"{TORCH} LOCAL_WORLD_SIZE=4 NODE_RANK=2", (5, 8, 1, 2)),
        (f"{TORCH} CROSS_RANK=2", (5, 8, 1, 2)),
        # torchrun knows better than the variable that a script gave it.
        (f"{TORCH} NODE_RANK=0 GROUP_RANK=2", (5, 8, 1, 2)),
        # PMIx alone does not say how many there are; Dask's and Ray's workers are no ranks.
        ("PMIX_RANK=1 PMIX_NAMESPACE=prterun-node1-4711@1", NOWHERE),
        ("DASK_PARENT=tcp://10.0.0.1:8786 DASK_WORKER_NAME=3", NOWHERE),
        ("RAY_JOB_ID=01000000 RAY_RAYLET_PID=4711", NOWHERE),
        # An sbatch script: Slurm names a process that is no rank.
        ("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_NODEID=0", NOWHERE),
        ("SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_STEP_ID=0", (5, 8, None, None)),
        (STEP, (5, 8, 1, 2)),
        # salloc's interactive step has one task on the first node of what was allocated.
        (
            "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=1",
            (0, 1, None, None),
        ),
        # mpirun inside a Slurm step: the inner launcher knows better.
        (
            "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4",
            (2, 4, None, None),
        ),
        # mpirun's daemon on each node is the task of the step: its place is not the rank's.
        (f"{STEP} OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=16", (5, 16, None, None)),
        # srun --mpi=pmi2: PMI has the rank, Slurm the place.
        (f"{STEP} PMI_RANK=5 PMI_SIZE=8", (5, 8, 1, 2)),
    ],
)
def test_rank_world_size_local_rank_and_node(environ: str, expected: tuple[int | None, ...]) -> None:
    assert settings.place_of(variables(environ)) == expected
    assert settings.rank_of(variables(environ)) == expected[:2]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ("OMPI_MCA_ess_base_jobid=2145255425 PMIX_NAMESPACE=2145255425", "PMIX_NAMESPACE_2145255425"),
        ("PMI_JOBID=4711.0 SLURM_JOB_ID=4711 SLURM_STEP_ID=0", "PMI_JOBID_4711.0"),
        ("SLURM_JOB_ID=4711 SLURM_STEP_ID=0", "SLURM_JOB_ID_4711.0"),
        ("SLURM_JOB_ID=4711 SLURM_STEP_ID=1", "SLURM_JOB_ID_4711.1"),
        ("TORCHELASTIC_RUN_ID=mine", "TORCHELASTIC_RUN_ID_mine"),
        # Its default: not one job with all others that were started without an identity.
        ("TORCHELASTIC_RUN_ID=none", None),
        ("TORCHELASTIC_RUN_ID=none SLURM_JOB_ID=4711 SLURM_STEP_ID=1", "SLURM_JOB_ID_4711.1"),
        (
            "TORCHELASTIC_RUN_ID=mine SLURM_JOB_ID=4711 SLURM_STEP_ID=1",
            "TORCHELASTIC_RUN_ID_mine_SLURM_JOB_ID_4711.1",
        ),
        # mpirun starts ranks on other nodes by steps of its own.
        ("PMIX_NAMESPACE=7 SLURM_JOB_ID=4711 SLURM_STEP_ID=3", "PMIX_NAMESPACE_7"),
        ("", None),
    ],
)
def test_what_names_a_job(monkeypatch: pytest.MonkeyPatch, environ: str, expected: str | None) -> None:
    monkeypatch.setattr(os, "environ", variables(f"RANK=1 WORLD_SIZE=2 {environ}"))
    known = {"id": expected, "rank": 1, "world_size": 2, "local_rank": None, "node": None}
    assert provenance.job() == known


def test_lightning_ranks() -> None:
    """Two nodes with two processes each; the last record of a process lacks what it was started with."""

    def started(pid: int, ppid: int, host: str, **given: str) -> Record:
        return record(pid=pid, ppid=ppid, host=host, boot=host, environment={}, environment_at_start=given)

    def of_node(node: int) -> list[Record]:
        host, given = f"node{node}", {"NODE_RANK": str(node), "WORLD_SIZE": "4"}
        return [
            started(10, 1, host, **({"NODE_RANK": "1"} if node else {})),
            started(11, 10, host, LOCAL_RANK="1", **given),
            started(12, 10, host, LOCAL_RANK="0", **given),  # loaders of both
            started(13, 11, host, LOCAL_RANK="1", **given),
        ]

    found = with_lightning_ranks([*of_node(0), *of_node(1)])
    assert [r.rank for r in found] == [0, 1, 0, 1, 2, 3, 2, 3]
    assert {r.world_size for r in found} == {4}
    assert [(r.node, r.local_rank) for r in found] == [(n, local) for n in (0, 1) for local in (0, 1, 0, 1)]


def test_others_variables_make_no_lightning_ranks() -> None:
    torchrun = variables("RANK=1 LOCAL_RANK=1 NODE_RANK=0 WORLD_SIZE=2")
    ranked = record(pid=11, ppid=10, rank=1, world_size=2, environment_at_start=torchrun)
    given = variables("LOCAL_RANK=1 NODE_RANK=0 WORLD_SIZE=2")
    alone = record(pid=12, ppid=99, environment_at_start=given)
    circle = [record(pid=20, ppid=21), record(pid=21, ppid=20)]
    found = with_lightning_ranks([record(pid=10, ppid=1), ranked, alone, *circle])
    assert [r.rank for r in found] == [None, 1, None, None, None]


def test_environment_is_an_allow_list() -> None:
    environ = variables("OMP_NUM_THREADS=4 AWS_SECRET_ACCESS_KEY=x HOME=/home/anna")
    assert settings.thread_environment(environ) == {"OMP_NUM_THREADS": "4"}


def test_installed_packages(tmp_path: Path) -> None:
    named = (
        "first/numpy-1.26.4.dist-info first/my_package-2.0.dist-info first/numpy second/numpy-1.0.dist-info"
    )
    for name in (*named.split(), "second/old-3.1-py3.8.egg-info"):
        (tmp_path / name).mkdir(parents=True)
    found = provenance.installed_packages([str(tmp_path / name) for name in ("first", "second", "missing")])
    assert found == {"my-package": "2.0", "numpy": "1.26.4", "old": "3.1"}


def test_thread_tables_sum_open_and_returned_calls() -> None:
    found = table(
        functions=[(1, 10, 2, 4.0, 3.0), (2, 5, 0, 1.0, 1.0)],
        edges=[(1, 2, 5, 0, 1.0, 1.0)],
        open=[(0, 7.0, 0.5), (1, 2.0, 0.25)],
    )
    thread = ThreadTables().thread(record(threads=[found]), found)
    profile, calls = thread.profile, thread.open_calls
    assert thread.range_calls is None
    rows = {profile.strings[profile.name[i]]: i for i in range(len(profile))}
    outer, inner, builtin = rows["outer"], rows["inner"], rows["<built-in method x>"]
    assert profile.ncalls[[outer, inner, builtin]].tolist() == [1, 11, 5]
    assert profile.primitive_calls[[outer, inner, builtin]].tolist() == [1, 9, 5]
    assert profile.tottime[[outer, inner, builtin]].tolist() == [0.5, 3.25, 1.0]
    assert profile.cumtime[[outer, inner, builtin]].tolist() == [7.0, 6.0, 1.0]
    assert [(c.function, c.cumtime) for c in calls] == [(outer, 7.0), (inner, 2.0)]
    edges = list(zip(profile.edges.caller, profile.edges.callee, profile.edges.ncalls, strict=True))
    assert edges == [(inner, builtin, 5), (outer, inner, 1)]
    assert profile.strings[profile.module[outer]] == "a"


def spool(path: Path, **facts: Any) -> None:
    """Write what the launcher knows, with these facts (``None``: it does not know that)."""
    known = {"command": ["x"], "cwd": "/", "started": "", "wall_s": 1.0, **facts}
    written = {name: value for name, value in known.items() if value is not None}
    (path / "launch.json").write_text(json.dumps(written))


def test_spool_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is not a spool directory"):
        pack_spool(tmp_path)
    (tmp_path / "launch.json").write_text("{")
    with pytest.raises(FormatError, match=r"launch\.json: is damaged"):
        pack_spool(tmp_path)


def test_an_earlier_launcher_wrote_no_cpu_numbers(tmp_path: Path) -> None:
    spool(tmp_path, host={"name": "n", "cpus": 2})
    assert pack_spool(tmp_path).manifest.host == Host("n", cpus=2)


def test_notices_of_the_launcher_and_the_sampler_are_read(tmp_path: Path) -> None:
    spool(tmp_path, warnings=[{"code": "nvtx-disabled", "subject": "0"}])
    notes = [{"code": "samples-thinned", "numbers": {"times": 2}}]
    (tmp_path / "sampler.samples").write_bytes(samples_bytes(notes=notes))
    run = pack_spool(tmp_path)
    assert run.warnings[0] == Notice("nvtx-disabled", "0")
    assert run.manifest.sampler["notes"] == (Notice("samples-thinned", "", {"times": 2}),)


def test_what_an_agent_recorded_of_itself() -> None:
    said = {"agent_failed": "OSError()", "displaced": True, "own_profiler": [[0.5, 1.0], [2.0, None]]}
    found = record_notices.of_process(record(notes=said, begin_perf=0.25))
    assert found == (
        Notice("agent-failed", "OSError()"),
        Notice("profile-function-replaced"),
        Notice("own-cprofile", "", {"times": 1, "begin_s": 0.25, "end_s": 0.75}),
        Notice("own-cprofile", "", {"times": 1, "begin_s": 1.75}),
    )
    said["own_profiler_more"] = 7
    (*_, often) = record_notices.of_process(record(notes=said, begin_perf=0.25))
    assert often == Notice("own-cprofile", "", {"times": 9, "begin_s": 0.25})


NOTES = (Notice("no-snapshots"),)


def ended(pid: int, tracer: str = "native", role: str = "child") -> tuple[Record, Process, Ending]:
    """A record of a process that left no last one, what is made of it, and how it ended."""
    made = record(pid=pid, tracer=tracer, state="snapshot")
    process = Process(pid=pid, command=("x",), exit="ended", role=role, notes=NOTES)
    return made, process, Ending("ended", False, lost_s=pid / 100, lost_cpu_s=0.5)


def test_one_warning_for_all_processes_of_which_it_is_true() -> None:
    records, processes, ends = zip(*(ended(pid) for pid in range(10, 210)), strict=True)
    said = list(record_notices.of_processes(records, processes, ends))
    where = {"pids": (10, 11, 12, 13), "pids_total": 200}
    assert said == [
        Notice("ended-unrecorded", "", {"lost_s": 2.09, "cpu_s": 100.0, **where}),
        Notice("no-snapshots", "", where),
    ]


def test_what_is_not_known_of_one_process_is_not_said_of_all() -> None:
    found = ended(10), ended(11), ended(12, role="worker"), ended(13, role="worker")
    records, processes, ends = map(list, zip(*found, strict=True))
    ends[1] = replace(ends[1], lost_s=None, lost_cpu_s=None)
    ends[3] = replace(ends[3], lost_cpu_s=None)
    others, workers, _ = record_notices.of_processes(records, processes, ends)
    assert others == Notice("ended-unrecorded", "", {"pids": (10, 11)})
    assert workers == Notice("worker-unrecorded", "", {"lost_s": 0.13, "pids": (12, 13)})


def test_what_is_said_of_a_capture_as_a_whole() -> None:
    def codes(alive: bool | None = False, *, wall_s: float | None = 1.0, **left: object) -> list[str]:
        given = {"records": (), "unrecorded": (), "damaged": (), **left}
        facts = launch(wall_s=wall_s)
        return [n.code for n in record_notices.of_launch(facts, alive, 1.0, **given)]  # type: ignore[arg-type]

    one = (record(),)
    assert codes(records=one) == []
    assert codes() == ["no-record"]
    assert codes(damaged=(Notice("record-unreadable", "x"),)) == []
    assert codes(unrecorded=((7, ""), (8, ""))) == ["process-unrecorded"]
    assert codes(records=one, wall_s=None) == ["capture-unfinished"]
    assert codes(None, records=one, wall_s=None) == ["capture-unfinished"]
    assert codes(True, records=one, wall_s=None) == ["capture-running"]


def test_a_clock_of_the_day_that_is_set_back(tmp_path: Path) -> None:
    """Neither the order of processes nor the length of the run is of that clock."""
    spool(tmp_path, wall_s=None)
    first = {"begin_time": 1_700_000_500.0, "time": 1_700_000_400.0, "begin_perf": 5.0, "perf": 20.0}
    second = {"begin_time": 1_700_000_000.0, "time": 1_700_000_000.5, "begin_perf": 15.0, "perf": 16.0}
    (tmp_path / "h-10-1.record").write_bytes(record_bytes(pid=10, **first))
    (tmp_path / "h-11-1.record").write_bytes(record_bytes(pid=11, ppid=10, **second))
    run = pack_spool(tmp_path)
    assert [(p.pid, p.role) for p in run.processes] == [(10, "main"), (11, "child")]
    assert run.manifest.wall_s == 15.0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_that_ends_while_its_records_are_read_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes its last record and is gone, between the reading of that before and the look whether it is alive."""
    spool(tmp_path)
    path = tmp_path / "h-10-1.record"
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    facts = {"pid": process.pid, "boot": process_facts.boot_id(), "born": None}
    facts["born"] = int(read_stat(f"/proc/{process.pid}/stat")[1][19])
    path.write_bytes(record_bytes(**facts, state="snapshot", perf=5.0))
    real = packer.is_alive

    def ends_now(kernel: str, pid: int, born: int | None) -> bool | None:
        if pid == process.pid and process.returncode is None:
            path.write_bytes(record_bytes(**facts, state="exited", perf=9.0))
            process.communicate()
        return real(kernel, pid, born)

    monkeypatch.setattr(packer, "is_alive", ends_now)
    run = pack_spool(tmp_path)
    assert process.returncode == 0
    assert [(p.pid, p.exit, p.wall_s) for p in run.processes] == [(process.pid, "exited", 9.0)]
    assert not [notice for notice in run.warnings if process.pid in notice.numbers.get("pids", ())]


def test_a_record_in_the_kept_file(tmp_path: Path) -> None:
    """It is the newer one where the process could write nowhere else, and nothing where it is torn."""
    spool(tmp_path)
    whole = record_bytes(perf=9.0)
    (tmp_path / "h-10-1.record").write_bytes(record_bytes(perf=5.0))
    (tmp_path / "h-10-1.reserve").write_bytes(whole)
    assert [p.wall_s for p in pack_spool(tmp_path).processes] == [9.0]
    (tmp_path / "h-10-1.reserve").write_bytes(whole[:-1] + b"?")
    torn = pack_spool(tmp_path)
    assert [p.wall_s for p in torn.processes] == [5.0]
    assert torn.warnings == ()
