"""Parts of capturing that need no target: ranks, packages, open calls, warnings, windows, the spool directory."""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.capture import gathered, provenance, record_notices, spool_records
from profkit.capture import spool as spool_module
from profkit.capture.agent import process_facts, settings
from profkit.capture.agent.process_facts import read_stat
from profkit.capture.agent.undisturbed import collect_again, with_collections, without_collections
from profkit.capture.captured_windows import Windows, never_opened, read_windows
from profkit.capture.endings import Ending
from profkit.capture.launcher import capture
from profkit.capture.lightning_ranks import with_lightning_ranks
from profkit.capture.packer import _with_roles, pack_spool
from profkit.capture.proc_files import pid_namespace
from profkit.capture.record_types import Record
from profkit.capture.selection import Selection
from profkit.capture.spool import (
    absent_directories,
    directories,
    left_behind,
    remove_spool,
    reserve_facts,
    write_facts,
)
from profkit.errors import FormatError
from profkit.formats import load_run
from profkit.model import Host, Notice, Process, Profile, Thread, ThreadSamples
from tests.records import SECOND, launch, record, record_bytes, samples_bytes
from tests.shared import Capture, printed


def variables(text: str) -> dict[str, str]:
    """An environment, from ``NAME=VALUE`` for each variable."""
    return dict(pair.split("=") for pair in text.split())


NOWHERE = (None, None, None, None)
OPEN_MPI = "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8"
TORCH = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1"
INNER = f"{TORCH} GROUP_RANK=1 TORCHELASTIC_RUN_ID=none"
STEP = "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_ID=0"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ("", NOWHERE),
        ("RANK=0 WORLD_SIZE=2", (0, 2, None, None)),
        ("RANK=0", NOWHERE),
        ("LOCAL_RANK=1 NODE_RANK=0", NOWHERE),
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
        # torchrun on each node, started by mpirun or by srun --mpi=pmi2.
        (f"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 {INNER}", (5, 8, 1, 1)),
        (f"{STEP} PMI_RANK=0 PMI_SIZE=2 {INNER}", (5, 8, 1, 1)),
        # PMIx alone does not say how many there are; Dask's workers are no ranks.
        ("PMIX_RANK=1 PMIX_NAMESPACE=prterun-node1-4711@1", NOWHERE),
        ("DASK_PARENT=tcp://10.0.0.1:8786 DASK_WORKER_NAME=3", NOWHERE),
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


def test_installed_packages(tmp_path: Path) -> None:
    named = (
        "first/numpy-1.26.4.dist-info first/my_package-2.0.dist-info first/numpy second/numpy-1.0.dist-info"
    )
    for name in (*named.split(), "second/old-3.1-py3.8.egg-info"):
        (tmp_path / name).mkdir(parents=True)
    found = provenance.installed_packages([str(tmp_path / name) for name in ("first", "second", "missing")])
    assert found == {"my-package": "2.0", "numpy": "1.26.4", "old": "3.1"}


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


def test_a_launcher_with_a_rank_of_its_own_is_none_of_the_job_that_it_starts() -> None:
    """As torchrun, which srun starts once on each node."""
    agent = record(pid=10, rank=0, world_size=2)
    workers = [record(pid=20 + i, ppid=10, rank=i, world_size=8) for i in range(3)]
    loader = record(pid=30, ppid=20, rank=0, world_size=8)
    found = [agent, *workers, loader]
    processes = [Process(pid=one.pid, parent=one.ppid) for one in found]
    roles = [(p.role, p.rank) for p in _with_roles(processes, found, None)]
    assert roles == [("main", None), ("rank", 0), ("rank", 1), ("rank", 2), ("child", 0)]


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
    assert codes(elsewhere=(Path("/tmp/x"),)) == ["records-elsewhere"]
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


def test_processes_of_two_machines_with_one_number_are_two(tmp_path: Path) -> None:
    """A program that rank 1 starts on one machine has the number of rank 0 on the other."""
    spool(tmp_path)
    ranks = (("a", 10, 1, 0), ("b", 20, 1, 1), ("b", 10, 20, 1))
    for place, (boot, pid, ppid, rank) in enumerate(ranks):
        facts = {"boot": boot, "pid": pid, "ppid": ppid, "rank": rank, "world_size": 2, "born": 70 + place}
        path = tmp_path / f"{boot}-{pid}-1.record"
        path.write_bytes(record_bytes(**facts, begin_time=1_700_000_000.0 + place))
    run = pack_spool(tmp_path)
    assert [(p.pid, p.role, p.rank) for p in run.processes] == [
        (10, "rank", 0),
        (20, "rank", 1),
        (10, "child", 1),
    ]


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
    real = spool_records.is_alive

    def ends_now(kernel: str, pid: int, born: int | None) -> bool | None:
        if pid == process.pid and process.returncode is None:
            path.write_bytes(record_bytes(**facts, state="exited", perf=9.0))
            process.communicate()
        return real(kernel, pid, born)

    monkeypatch.setattr(spool_records, "is_alive", ends_now)
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


# Windows of a run: what is read of a spool's file, and the counters, ranges and series inside


def page(*entries: tuple[int, int, int, str], count: int | None = None, magic: bytes = b"PFKWINDW") -> bytes:
    header = struct.pack("<8s8I8x", magic, 1, 128, 0, 0, 0, len(entries) if count is None else count, 0, 0)
    body = b"".join(struct.pack("<qqII104s", b, e, 1, kind, name.encode()) for b, e, kind, name in entries)
    return header.ljust(128, b"\0") + body


OURS = {"boot": "boot", "host": "host", "pid": 1, "born": None}
LAUNCH = launch(launcher=OURS, begin_ns=10 * SECOND, window="code")


def read(tmp_path: Path, data: bytes) -> Windows:
    (tmp_path / "boot.windows").write_bytes(data)
    return read_windows(tmp_path, LAUNCH, (), 20 * SECOND)


def test_windows_and_names_are_told_apart(tmp_path: Path) -> None:
    windows = ((12 * SECOND, 13 * SECOND, 1, "a"), (15 * SECOND, 0, 1, "b"))
    found = read(tmp_path, page(*windows, (11 * SECOND, 12 * SECOND, 2, "name")))
    assert found.spans == {"boot": ((12 * SECOND, 13 * SECOND), (15 * SECOND, 20 * SECOND))}
    assert found.captured_s == 6
    assert [(w.name, w.begin_s, w.end_s, w.captured) for w in found.shown] == [
        ("name", 1, 2, False),
        ("a", 2, 3, True),
        ("b", 5, 10, True),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PFKWINDW",
        page((12 * SECOND, 13 * SECOND, 1, "a"), magic=b"OTHERMAG"),
        page((0, 13 * SECOND, 1, "being made"), (-1, 5, 1, ""), (9, 5, 1, ""), (5, 9, 7, "of no kind")),
        page((12 * SECOND, 13 * SECOND, 1, "cut"))[:-1],
        page(count=2**31),
    ],
)
def test_what_is_damaged_is_no_window(tmp_path: Path, data: bytes) -> None:
    found = read(tmp_path, data)
    assert not found.opened
    assert found.shown == ()


def test_counters_are_those_of_the_windows() -> None:
    columns = (np.array(seconds) * SECOND for seconds in ([10, 12, 14], [0, 2, 2], [0, 0, 1]))
    samples = ThreadSamples(np.array([5, 5, 5]), *columns)
    thread = Thread(Profile.empty(), 5, run_s=2.5, run_queue_wait_s=1.0, voluntary_switches=7)
    known = {"cpu_s": 2.5, "wall_s": 6.0, "peak_memory_bytes": 9}
    process = Process(pid=5, threads=(thread,), samples=samples, **known)
    found = Windows({"boot": ((11 * SECOND, 13 * SECOND), (15 * SECOND, 16 * SECOND))}, (), True)
    inside = found.process(process, "boot", (10 * SECOND, 16 * SECOND))
    assert inside.wall_s == 3
    # A second up to the reading at 12 s; of the half second after the last reading, half.
    assert inside.cpu_s == pytest.approx(1.25)
    assert inside.run_queue_wait_s == pytest.approx(0.5)
    assert inside.threads[0].voluntary_switches is None
    assert inside.peak_memory_bytes == 9
    assert inside.samples.time_ns.tolist() == [12 * SECOND]


def test_the_clock_of_the_launcher_defines_a_window(tmp_path: Path) -> None:
    facts = replace(LAUNCH, window="time", window_delay_s=4.0, window_duration_s=3.0)
    assert read_windows(tmp_path, facts, (), 20 * SECOND).spans == {"boot": ((14 * SECOND, 17 * SECOND),)}
    assert read_windows(tmp_path, facts, (), 15 * SECOND).spans == {"boot": ((14 * SECOND, 15 * SECOND),)}
    assert not read_windows(tmp_path, facts, (), 13 * SECOND).opened
    assert never_opened(facts, 3.0).code == "window-not-reached"


@pytest.mark.parametrize(
    ("text", "name", "domain"),
    [
        ("epoch 3", "epoch 3", None),
        ("epoch 3@train", "epoch 3", "train"),
        ("a@b@c", "a@b", "c"),
        ("epoch@*", "epoch", None),
        ("epoch@", "epoch", ""),
        ("@x", "@x", None),
    ],
)
def test_ranges_and_their_domains(text: str, name: str, domain: str | None) -> None:
    assert settings.range_asked(text) == (name, domain)


@pytest.mark.parametrize(
    ("environ", "ranks", "expected"),
    [
        ({}, "0", True),
        ({}, "1-3", False),
        ({"RANK": "2", "WORLD_SIZE": "4"}, "0,2-3", True),
        ({"RANK": "1", "WORLD_SIZE": "4"}, "0,2-3", False),
        ({"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2"}, "1", True),  # Lightning's
        ({"LOCAL_RANK": "1", "NODE_RANK": "1", "WORLD_SIZE": "4"}, "1", False),
    ],
)
def test_whose_functions_are_traced(environ: dict[str, str], ranks: str, expected: bool) -> None:
    assert settings.is_rank_asked(ranks, environ) is expected


def test_a_selection_is_read_as_it_was_given() -> None:
    environment: dict[str, str] = {settings.RANKS_VARIABLE: "left over"}
    selection = Selection(active=4, wait=2, warmup=1, cycles=3, step_range="a:b@c")
    selection.check()
    selection.inject(environment, {"monotonic": 1.5, "time": 2.5})
    assert settings.RANKS_VARIABLE not in environment
    asked = settings.window_asked(environment[settings.WINDOW_VARIABLE])
    assert asked == ("steps", ("2", "1", "4", "3", "a:b@c"))
    Selection().inject(environment, {"monotonic": 1.5, "time": 2.5})
    assert settings.WINDOW_VARIABLE not in environment


# The spool directory from the launcher's side: its removal beside a writer, and facts that outlive a full disk


def test_a_directory_is_removed_while_a_process_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process outlives the target, and its record comes between the listing and the removal."""
    spool = tmp_path / ".run.prof.spool-abc"
    spool.mkdir()
    (spool / "host-1-1.record").touch()
    remove, tried = os.rmdir, []

    def write_first(*args: object, **kwargs: object) -> None:
        try:
            (spool / "host-1-1.record").touch()
        except FileNotFoundError as error:
            tried.append(error)
        remove(*args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", write_first)
        remove_spool(spool)
    assert tried
    assert list(tmp_path.iterdir()) == []


def test_the_last_facts_are_written_where_there_is_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts: dict[str, object] = {"command": ["x"], "wall_s": None}
    ended = {**facts, "wall_s": 1.5}

    def written() -> tuple[object, list[str]]:
        return json.loads((tmp_path / "launch.json").read_text()), os.listdir(tmp_path)

    write_facts(tmp_path, facts)
    reserve_facts(tmp_path, facts)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(spool_module, "replacing", full)
        with pytest.raises(OSError, match="No space"):
            write_facts(tmp_path, ended)
        with pytest.raises(OSError, match="No space"):
            write_facts(tmp_path, {**ended, "git": "x" * 100_000}, last=True)
        assert written()[0] == facts
        write_facts(tmp_path, ended, last=True)
    assert written() == (ended, ["launch.json"])
    # The space is given back where it was not needed.
    reserve_facts(tmp_path, facts)
    write_facts(tmp_path, {"wall_s": 2.0}, last=True)
    assert written() == ({"wall_s": 2.0}, ["launch.json"])


#: Says what a process keeps in the spool directory while it runs, and calls a function.
LOOKS = """
import os, sys

def work():
    return 1

work()
spool = next(value for value in os.environ.values() if ".spool-" in value)
with open(sys.argv[1], "w") as file:
    file.write(" ".join(os.listdir(spool)))
os.kill(os.getpid(), 9)
"""


def test_processes_keep_files_on_a_local_disk_beside_a_network_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store to a mapped file would wait for the server; what a killed process stored is read all the same."""
    shared, local = tmp_path / "shared", tmp_path / "local"
    shared.mkdir()
    local.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(local))
    monkeypatch.setattr(spool_module, "_is_on_network", lambda directory: directory.is_relative_to(shared))
    monkeypatch.setenv("PYTHONPATH", "")
    (tmp_path / "looks.py").write_text(LOOKS)
    output = shared / "run.prof"
    status = capture([sys.executable, str(tmp_path / "looks.py"), str(tmp_path / "names")], output)
    assert status == -signal.SIGKILL
    names = (tmp_path / "names").read_text().split()
    kept = {name for name in names if not name.endswith((".sampled", ".local", ".code"))}
    assert kept == {"launch.json", "launch.reserve"}
    profile = load_run(output).processes[0].threads[0].profile
    assert "work" in {profile.strings[name] for name in profile.name}
    assert [*shared.iterdir(), *local.iterdir()] == [output]


@pytest.mark.parametrize("known", [{"host": "node7"}, {}], ids=["a known host", "an unknown one"])
def test_local_directories_of_any_boot_that_are_here_or_elsewhere(
    tmp_path: Path, capsys: Capture, known: dict[str, str]
) -> None:
    shared, here, gone = (tmp_path / name for name in ("shared", "here", "gone"))
    shared.mkdir()
    here.mkdir()
    spool(shared, launcher={"boot": "boot", "pid": 1, "born": None, **known} if known else None)
    (shared / f"earlier{settings.LOCAL_SUFFIX}").symlink_to(here)
    (here / "h-10-1.record").write_bytes(record_bytes())
    assert (directories(shared), absent_directories(shared)) == ([shared, here], [])
    assert [process.pid for process in pack_spool(shared).processes] == [10]
    merge = ("merge", shared, "-o", tmp_path / "run.prof")
    assert f"rm -r {shared}" in printed(capsys, *merge)[1]
    here.rename(gone)
    assert (directories(shared), absent_directories(shared)) == ([shared], [here])
    assert pack_spool(shared).warnings == (Notice("records-elsewhere", str(here), known),)
    assert "rm -r" not in printed(capsys, *merge)[1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("changes", "dead"),
    [
        ({}, True),
        ({"pid_namespace": pid_namespace()}, True),
        # A process of that number may run there.
        ({"pid_namespace": 1}, False),
        ({"boot": "earlier"}, True),
        ({"boot": "earlier", "pid_namespace": 1}, True),
        ({"boot": "another", "host": "elsewhere"}, False),
    ],
)
def test_which_launchers_are_known_to_be_dead(tmp_path: Path, changes: dict[str, object], dead: bool) -> None:
    """Another process has its number, if it was one of this kernel and namespace."""
    own = {"boot": process_facts.boot_id(), "host": os.uname().nodename, "pid": os.getpid(), "born": 1}
    left = tmp_path / ".run.prof.spool-abc"
    left.mkdir()
    spool(left, launcher={**own, **changes})
    assert [one.spool for one in left_behind(tmp_path)] == ([left] if dead else [])


def test_other_threads_collect_while_a_file_is_written() -> None:
    """A file system may not answer for minutes, and a process may fork meanwhile."""
    usual, chosen, seen = gc.get_threshold(), (123, 4, 5), []

    def look() -> None:
        seen.append(gc.get_threshold())

    def ours() -> None:
        look()
        with_collections(look)
        look()

    try:
        without_collections(ours)
        off = seen[0]
        assert seen == [off, usual, off]
        assert off[0] > 1e9
        assert gc.get_threshold() == usual
        # In a forked child, the thread that would set them again is not there.
        without_collections(lambda: seen.append(collect_again() and gc.get_threshold()))
        assert seen[-1] == gc.get_threshold() == usual
        assert not collect_again()
        # What the target sets meanwhile stays.
        without_collections(with_collections, gc.set_threshold, *chosen)
        assert gc.get_threshold() == chosen
    finally:
        gc.set_threshold(*usual)


def test_collections_go_on_where_the_third_threshold_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.14.0 says that it is 0; as none is installed here, one function stands in for that one's."""
    told, usual, seen = gc.get_threshold, gc.get_threshold(), []

    def look() -> None:
        seen.append(told()[0])

    def ours() -> None:
        look()
        with_collections(look)
        look()

    monkeypatch.setattr(gc, "get_threshold", lambda: (*told()[:2], 0))
    try:
        without_collections(ours)
        assert seen[0] == seen[2] > 1e9
        assert (seen[1], told()[:2]) == (usual[0], usual[:2])
        without_collections(lambda: seen.append(collect_again()))
        assert seen[-1] is True
    finally:
        gc.set_threshold(*usual)


def test_a_torn_entry_of_an_ended_process_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher may be killed, or the disk full, in the middle of an entry."""
    monkeypatch.setattr(gathered, "FEWEST", 1)
    for pid in (10, 11, 12):
        (tmp_path / f"host-{pid}-1.record").write_bytes(record_bytes(pid=pid, state="exited"))
    (tmp_path / "host-13-1.record").write_bytes(record_bytes(pid=13, state="snapshot"))
    gatherer = gathered.Gatherer(tmp_path)
    try:
        assert gatherer.gather(tmp_path) == 3
    finally:
        gatherer.stop()
    assert [path.name for path in tmp_path.glob("*.record")] == ["host-13-1.record"]
    whole = (tmp_path / gathered.GATHERED_NAME).read_bytes()
    (tmp_path / gathered.GATHERED_NAME).write_bytes(whole[:-1])
    write_facts(tmp_path, {"command": ["program"], "cwd": "/work", "started": "2026-01-01T00:00:00+00:00"})
    assert sorted(process.pid for process in pack_spool(tmp_path).processes if process.pid) == [10, 11, 13]
