"""``profkit ranks`` and ``fleet add`` on a Dask cluster: the same result, files by any address that fsspec knows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from profkit.api.fleet import Fleet
from profkit.api.many_runs import read_ranks
from profkit.errors import UsageError
from profkit.formats import load_run
from profkit.formats.runfile import write_run
from tests.integration.capturing import ROOT, environment, in_process, profkit_command, wait_until
from tests.rank_files import noisy_job, write_job
from tests.requirements import imported
from tests.shared import finished, succeeded


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_job(tmp_path_factory.mktemp("job"), noisy_job(20, 3, slow={11: 1.5}))


def ranks(*words: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    words = (*map(str, words), "--format", "json", "--full-paths")
    return in_process(Path(), "ranks", *words, status=status)


#: Waits for the workers, and prints the scheduler's address.
READY = """
import sys, distributed
with distributed.Client(scheduler_file=sys.argv[1], timeout=120) as client:
    client.wait_for_workers(2, timeout=120)
    print(client.scheduler.address)
"""


@contextmanager
def separate_processes(directory: Path) -> Iterator[str]:
    """Start a scheduler and two workers as a user would on several machines."""
    imported("distributed")
    env = environment(PYTHONPATH=str(ROOT))
    address_file = directory / "scheduler.json"
    begun: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.{name}", *words]
        command += ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(address_file)]
        with open(directory / f"{name}{len(begun)}.log", "wb") as log:
            streams = {"stdout": log, "stderr": log}
            begun.append(subprocess.Popen(command, **streams, env=env, cwd=directory, start_new_session=True))

    try:
        start("dask_scheduler", "--port", "0")
        for _ in range(2):
            start("dask_worker", "--nthreads", "2", "--no-nanny", "--local-directory", str(directory))
        wait_until(address_file.exists, "the scheduler did not start", seconds=120)
        ready = [sys.executable, "-W", "ignore", "-c", READY, str(address_file)]
        yield succeeded(ready, env=env).stdout.strip()
    finally:
        for process in reversed(begun):
            os.killpg(process.pid, signal.SIGKILL)  # they wait for each other before they end
        for process in begun:
            process.wait(30)


def test_scheduler_and_workers_as_processes_of_their_own(job: Path, tmp_path: Path) -> None:
    here = ranks(job)
    with separate_processes(tmp_path) as address:
        assert ranks(job, "--dask", address).stdout == here.stdout
        by_address = ranks(f"file://{job}/run-rank*.prof", "--dask", address)
        assert by_address.stdout == here.stdout.replace(str(job), f"file://{job}")
        broken = ranks(f"file://{tmp_path}/none.prof", f"file://{job}", "--dask", address)
        assert "none.prof" in broken.stdout


def test_a_fleet_is_read_by_other_processes_and_a_killed_call_gone_on_with(tmp_path: Path) -> None:
    imported("duckdb")
    runs, store = tmp_path / "runs", tmp_path / "store"
    runs.mkdir()
    base = load_run(ROOT / "sample_profiles" / "train_mlp" / "clean-1.prof")
    for number in range(40):
        started = f"2026-03-{1 + number % 2:02}T10:{number // 2:02}:00+00:00"
        write_run(runs / f"{number:03}.prof", replace(base, manifest=replace(base.manifest, started=started)))
    (runs / "bad.prof").write_bytes(b"no profile")
    with separate_processes(tmp_path) as address:
        words = profkit_command("fleet", "add", "runs", "--store", "store", "--dask", address)
        with subprocess.Popen(words, cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL) as adding:
            while adding.poll() is None and not list(store.glob("runs/*/*/*.parquet")):
                time.sleep(0.001)
            adding.kill()
        ((known,),) = Fleet(store).query("SELECT count(*) FROM runs").study.rows
        done = finished(words, tmp_path, env=environment(), status=2)
        assert "bad.prof: " in done.stderr.splitlines()[0]
        assert f"{40 - known} runs" in done.stderr.splitlines()[1]
        words[words.index("runs")] = f"file://{runs}"
        again = finished(words, tmp_path, env=environment())
        assert "0 runs added to store, 40 were there already" in again.stderr
    here = Fleet(tmp_path / "here")
    here.add([runs])
    for table in ("runs", "processes", "functions", "ranges", "counters"):
        rows = f"SELECT * FROM {table} ORDER BY ALL"
        assert Fleet(store).query(rows).study.rows == here.query(rows).study.rows, table


def test_files_in_memory_of_the_process(job: Path) -> None:
    """Any file system of fsspec: here one that has no files at all."""
    fsspec = imported("fsspec")
    memory = fsspec.filesystem("memory")
    for file in job.glob("*.prof"):
        memory.pipe_file(f"/job/{file.name}", file.read_bytes())
    try:
        there = read_ranks(["memory://job"])
        assert [there.study.members[s.member].label for s in there.study.stragglers] == ["rank 11"]
        assert there.study.members[0].path == "memory:///job/run-rank0.prof"
    finally:
        memory.rm("/job", recursive=True)


def test_an_address_without_a_scheduler_is_one_line(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported("distributed")
    monkeypatch.setattr("profkit.study.workers.PATIENCE", "1s")
    done = ranks(job, "--dask", "tcp://127.0.0.1:9", status=2)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "--dask tcp://127.0.0.1:9: no scheduler answers there" in done.stderr
    with pytest.raises(UsageError, match="no scheduler answers"):
        read_ranks([job], dask="nonsense://x")
