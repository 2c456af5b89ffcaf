"""``profkit ranks`` on a Dask cluster: the same code, the same result, files by any address that fsspec knows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profkit.api.many_runs import read_ranks
from profkit.errors import UsageError
from tests.integration.capturing import ROOT, environment, in_process
from tests.rank_files import noisy_job, write_job
from tests.requirements import imported

STARTS_WITHIN_S = 120


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_job(tmp_path_factory.mktemp("job"), noisy_job(20, 3, slow={11: 1.5}))


def ranks(*words: str | Path) -> subprocess.CompletedProcess[str]:
    words = (*map(str, words), "--format", "json", "--full-paths")
    return in_process(Path(), "ranks", *words, status=None)


@contextmanager
def local_cluster(**options: object) -> Iterator[str]:
    distributed = imported("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own sockets and loops
        with distributed.LocalCluster(
            protocol="tcp://", host="127.0.0.1", n_workers=2, dashboard_address="127.0.0.1:0", **options
        ) as cluster:
            yield cluster.scheduler_address


@contextmanager
def separate_processes(directory: Path) -> Iterator[str]:
    """Start a scheduler and two workers as a user would on several machines."""
    imported("distributed")
    env = environment(PYTHONPATH=str(ROOT))
    address_file = directory / "scheduler.json"
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        command = [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]]
        with open(directory / f"{words[0]}{len(started)}.log", "wb") as log:
            started.append(
                subprocess.Popen(
                    command, stdout=log, stderr=log, env=env, cwd=directory, start_new_session=True
                )
            )

    try:
        start(
            "dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(address_file),
        )
        for _ in range(2):
            start(
                "dask_worker", "--scheduler-file", str(address_file), "--host", "127.0.0.1", "--nthreads", "2",
                "--no-dashboard", "--no-nanny", "--local-directory", str(directory),
            )  # fmt: skip
        import distributed

        until = time.monotonic() + STARTS_WITHIN_S
        while not address_file.exists():
            assert time.monotonic() < until, "the scheduler did not start"
            time.sleep(0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with distributed.Client(scheduler_file=str(address_file), timeout=STARTS_WITHIN_S) as client:
                client.wait_for_workers(2, timeout=STARTS_WITHIN_S)
                address = client.scheduler.address
        yield address
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGKILL)  # they wait for each other before they end
        for process in started:
            process.wait(30)


def test_a_local_cluster_gives_the_same_result(job: Path) -> None:
    here = ranks(job)
    assert here.returncode == 0, here.stderr
    assert '"label": "rank 11"' in here.stdout
    with local_cluster(processes=False, threads_per_worker=2) as address:
        there = ranks(job, "--dask", address)
        assert there.returncode == 0, there.stderr
        assert there.stdout == here.stdout


def test_scheduler_and_workers_as_processes_of_their_own(job: Path, tmp_path: Path) -> None:
    here = ranks(job)
    with separate_processes(tmp_path) as address:
        there = ranks(job, "--dask", address)
        assert there.returncode == 0, there.stderr
        assert there.stdout == here.stdout
        by_address = ranks(f"file://{job}/run-rank*.prof", "--dask", address)
        assert by_address.returncode == 0, by_address.stderr
        assert by_address.stdout == here.stdout.replace(str(job), f"file://{job}")
        broken = ranks(f"file://{tmp_path}/none.prof", f"file://{job}", "--dask", address)
        assert broken.returncode == 0, broken.stderr
        assert "none.prof" in broken.stdout


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


def test_an_address_without_a_scheduler_is_one_line(job: Path, tmp_path: Path) -> None:
    imported("distributed")
    done = ranks(job, "--dask", "tcp://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "--dask tcp://127.0.0.1:9: no scheduler answers there" in done.stderr
    with pytest.raises(UsageError, match="no scheduler answers"):
        read_ranks([job], dask="nonsense://x")
