"""From what a user names to runs: files, directories, globs, ranks of one job."""

from __future__ import annotations

import marshal
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.errors import FormatError
from profkit.formats import join_ranks, load_run, load_side, write_run
from profkit.formats.load import join_files
from profkit.measure.inventory import inventory
from profkit.measure.side_facts import side_facts
from profkit.model import (
    Edges,
    Host,
    Machine,
    Neighbour,
    Neighbours,
    Notice,
    Process,
    Profile,
    Run,
    RunSet,
    Thread,
)
from tests.builders import manifest, with_main, with_thread
from tests.programs import sampled
from tests.rank_files import Did
from tests.rank_files import rank_run as job_rank
from tests.shared import Capture, refused

STATS = {("/usr/lib/python3.11/json/decoder.py", 3, "decode"): (1, 2, 0.25, 0.5, {})}

LOST = Notice("nvtx-events-lost", "", {"events": 3, "pids": (100,)})


def foreign(path: Path, stats: object = STATS) -> Path:
    path.write_bytes(marshal.dumps(stats))
    return path


def rank_run(
    rank: int | None,
    *,
    job: str = "job:1",
    started: str = "2024-05-01T10:00:00",
    host: str = "node1",
    size: int = 2,
    wall: float = 1.0,
    status: int = 0,
) -> Run:
    told = None if rank is None else {"id": job, "rank": rank, "world_size": size}
    made = manifest(wall, Host(host), exit_status=status, started=started, job=told)
    process = Process(pid=100 + (rank or 0), threads=(Thread(Profile.empty()),))
    return Run("x", (process,), made, Machine(busy_s=10.0 + (rank or 0)), (LOST,))


def test_end_record_inside_a_foreign_profile(tmp_path: Path) -> None:
    stats = {("a.py", 1, "PK\x05\x06 in a name" + "x" * 40): (1, 1, 0.0, 0.0, {})}
    assert load_run(foreign(tmp_path / "a.prof", stats)).manifest is None


def names_of(where: Path | str) -> list[str]:
    return [Path(run.path).name for run in load_side(where).runs]


def test_side_of_a_directory(tmp_path: Path) -> None:
    for name in ("b.prof", "a.prof", "notes.txt", ".hidden.prof"):
        foreign(tmp_path / name)
    (tmp_path / "deeper").mkdir()
    foreign(tmp_path / "deeper" / "c.prof")
    (tmp_path / "empty.prof").write_bytes(b"")
    side = load_side(str(tmp_path))
    assert [Path(run.path).name for run in side.runs] == ["a.prof", "b.prof"]
    (skipped,) = side.skipped
    assert (skipped.code, Path(skipped.subject).name) == ("file-skipped", "empty.prof")
    assert skipped.numbers["problem"] == "is empty"


def test_side_of_a_glob_and_of_a_name_that_looks_like_one(tmp_path: Path) -> None:
    for name in ("run-1.prof", "run-2.prof", "other.prof", "run[1].prof", "run1.prof"):
        foreign(tmp_path / name)
    assert names_of(str(tmp_path / "run-*.prof")) == ["run-1.prof", "run-2.prof"]
    assert names_of(tmp_path / "run[1].prof") == ["run[1].prof"]
    (tmp_path / "d[1]").mkdir()
    foreign(tmp_path / "d[1]" / "a.prof")
    assert names_of(tmp_path / "d[1]") == ["a.prof"]


def test_side_without_a_readable_file(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "a.prof").write_bytes(b"")
    (tmp_path / "b.prof").write_bytes(b"x")
    for where, problem in (
        (tmp_path / "none", r"holds no \.prof file"),
        (str(tmp_path / "none" / "*.prof"), "matches no file"),
        (tmp_path / "none.prof", "no such file"),
        (tmp_path / "a.prof", r"a\.prof: is empty"),
        (tmp_path, r"none of its files can be read: .*a\.prof: is empty.*and 1 more"),
    ):
        with pytest.raises(FormatError, match=problem):
            load_side(where)


def test_ranks_of_one_job_are_one_run(tmp_path: Path) -> None:
    write_run(tmp_path / "a.prof", rank_run(1, wall=3.0, status=9))
    write_run(tmp_path / "b.prof", rank_run(0))
    (run,) = load_side(tmp_path).runs
    assert [(p.pid, p.rank, p.role) for p in run.processes] == [(100, 0, "rank"), (101, 1, "rank")]
    assert (run.manifest.wall_s, run.manifest.exit_status) == (3.0, 9)
    assert run.machine == Machine(busy_s=10.0)
    assert run.warnings == (LOST,)


def test_repetitions_of_a_job_are_replicates(tmp_path: Path) -> None:
    for repetition in range(3):
        for rank in range(2):
            run = rank_run(rank, started=f"2024-05-01T10:0{repetition}:0{rank}", wall=repetition + 1.0)
            write_run(tmp_path / f"{rank}-{repetition}.prof", run)
    runs = load_side(tmp_path).runs
    assert [[p.rank for p in run.processes] for run in runs] == [[0, 1]] * 3
    assert [run.manifest.wall_s for run in runs if run.manifest] == [1.0, 2.0, 3.0]


def test_other_jobs_and_joined_files_stay_apart(tmp_path: Path) -> None:
    others = rank_run(0, size=1), rank_run(0, job="job:2", size=1), rank_run(None), rank_run(None)
    joined = join_ranks([rank_run(1), rank_run(0)]), rank_run(1, started="2025")
    for name, run in zip("abcdef", (*others, *joined), strict=True):
        write_run(tmp_path / f"{name}.prof", run)
    assert [len(run.processes) for run in load_side(tmp_path).runs] == [1, 1, 1, 1, 2, 1]


def test_join_says_what_is_odd() -> None:
    run = join_ranks([rank_run(2, size=4, host="node2"), rank_run(0, size=4)])
    assert run.warnings == (
        LOST,
        Notice("ranks-on-hosts", "", {"hosts": 2}),
        Notice("rank-file-missing", "", {"ranks": (1, 3), "missing": 2, "size": 4}),
    )
    assert [p.host.name for p in run.processes if p.host] == ["node1", "node2"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (lambda: rank_run(0), "is rank 0, and so is"),
        (lambda: rank_run(1, job="SLURM_JOB_ID_7.1"), "is of a different job or job step than"),
        (lambda: rank_run(1, size=4), "is of a job with 4 ranks,"),
        (lambda: join_ranks([rank_run(0), rank_run(1)]), "is rank 0, and so is"),
    ],
)
def test_files_that_cannot_be_of_one_run_are_not_joined(
    second: Callable[[], Run], said: str, tmp_path: Path, capfd: Capture
) -> None:
    for name, run in (("a.prof", rank_run(0)), ("b.prof", second())):
        write_run(tmp_path / name, run)
    line = refused(capfd, "merge", tmp_path / "a.prof", tmp_path / "b.prof", "-o", tmp_path / "job.prof")
    assert f"b.prof: {said}" in line
    assert "a.prof" in line
    assert not (tmp_path / "job.prof").exists()


def on(cpu: int, host: str = "node1") -> Run:
    """A run that is bound to one CPU, beside others that take 0.6 of a CPU."""
    run = rank_run(None)
    bound = Host(host, cpus=4, affinity=1, affinity_cpus=(cpu,))
    machine = Machine(cpus=4, wall_s=1.0, busy_s=1.6, tree_cpu_s=1.0, quota_cpus=1.0)
    run = replace(run, manifest=replace(run.manifest, host=bound, wall_s=1.0), machine=machine)
    return with_main(run, wall_s=1.0, cpu_s=1.0, run_queue_wait_s=0.0, pools=())


def test_others_are_those_of_the_host_that_was_looked_at() -> None:
    for ranks in ([on(0)], [on(0), on(3, "node2")]):
        run = join_ranks(ranks)
        facts = side_facts(RunSet("job", (run,)), [run.processes], 1.0)
        assert (facts.own_cores, facts.available_cpus) == (len(ranks), len(ranks))
        assert facts.others_cores == pytest.approx(0.6)


def test_a_joined_run_may_use_the_cpus_of_all_its_files() -> None:
    """Files without ranks too: each was started on a CPU of its own."""
    apart = join_ranks([on(1), on(0), on(3, "node2")])
    assert (apart.manifest.host.affinity, apart.manifest.host.affinity_cpus) == (2, (0, 1))
    assert [p.host.affinity_cpus for p in apart.processes if p.host] == [(1,), (0,), (3,)]
    assert [host.available_cpus for host in inventory(apart).hosts] == [2.0, 1.0]
    assert not inventory(apart).oversubscribed
    assert inventory(join_ranks([on(1), on(1)])).oversubscribed


def numbered(rank: int, *, waits: bool = False, steps: bool = False, calls: int = 100) -> Run:
    """The run of a rank with functions and a thread's name of its own, and with what only some ranks have."""
    did = {"load": Did(calls, 1.0), f"only_in_{rank}": Did(7, 0.5, 0.25), "<built-in x>": Did(3, 0.125)}
    run = job_rank(rank, did, steps=(0.5, 0.25) if steps else ())
    if not waits:
        run = sampled(run)
    ends, calls, times = np.array([0, 1], np.int32), np.array([rank, 2]), np.array([0.5, 1.0])
    own = replace(run.processes[0].threads[0].profile, edges=Edges(ends, ends, calls, calls, times, times))
    return with_thread(run, profile=own, name=f"main {rank}")


def test_joining_file_by_file_writes_what_joining_runs_does(tmp_path: Path) -> None:
    """Waiting and ranges are in some files alone, files are given in any order, and one is of another profiler.

    The other ranks are no neighbours of a rank.
    """
    runs = [numbered(rank, waits=rank in (1, 3), steps=rank == 2) for rank in (3, 0, 2, 1)]
    listed = (
        *(Neighbour("python", 0.5, run.processes[0].pid) for run in runs),
        Neighbour("cc1", 0.4, 99_999),
    )
    runs = [replace(run, machine=Machine(neighbours=Neighbours(1.0, listed, 2.4, True))) for run in runs]
    files: list[Path | Run] = []
    for run in runs:
        files.append(tmp_path / f"{len(files)}.prof")
        write_run(files[-1], run)
    files.append(foreign(tmp_path / "foreign.prof"))
    files[1] = runs[1]  # as a spool that was packed
    expected = join_ranks([file if isinstance(file, Run) else load_run(file) for file in files])
    write_run(tmp_path / "whole.prof", expected)
    head, portions = join_files(files)
    assert head == replace(expected, processes=())
    assert head.machine.neighbours.listed == listed[-1:]
    write_run(tmp_path / "streamed.prof", head, portions=portions)
    assert (tmp_path / "streamed.prof").read_bytes() == (tmp_path / "whole.prof").read_bytes()
    joined = load_run(tmp_path / "streamed.prof")
    assert [process.rank for process in joined.processes] == [0, 1, 2, 3, None]
    profiles = [process.threads[0].profile for process in joined.processes]
    for rank, own in enumerate(profiles[:4]):
        assert f"only_in_{rank}" in [own.strings[i] for i in own.name]
    assert [p.wait is not None for p in profiles] == [False, True, False, True, False]
    assert [process.ranges is not None for process in joined.processes] == [False, False, True, False, False]


def test_joining_holds_the_processes_of_one_file_at_a_time(tmp_path: Path) -> None:
    files = [tmp_path / f"{rank}.prof" for rank in range(6)]
    for rank, file in enumerate(files):
        write_run(file, numbered(rank))
    head, portions = join_files(files)
    seen: list[weakref.ref[Any]] = []

    def watched() -> Iterator[Sequence[Process]]:
        for portion in portions:
            seen.append(weakref.ref(portion[0].threads[0].profile.ncalls))
            yield portion
            del portion
            assert seen[-1]() is None, "still in memory"

    write_run(tmp_path / "out.prof", head, portions=watched())
    assert len(seen) == len(files)


@pytest.mark.parametrize("problem", ["damaged", "too many calls"])
def test_joining_that_fails_leaves_nothing(tmp_path: Path, problem: str, capfd: Capture) -> None:
    files = [tmp_path / f"{rank}.prof" for rank in range(3)]
    for rank, file in enumerate(files):
        write_run(file, numbered(rank, calls=2**52 if problem == "too many calls" else 10))
    if problem == "damaged":
        data = files[2].read_bytes()
        at = data.index(b"functions/tottime.npy") + 40
        files[2].write_bytes(data[:at] + bytes(8) + data[at + 8 :])
    out = tmp_path / "out" / "job.prof"
    out.parent.mkdir()
    out.write_bytes(b"before")
    said = refused(capfd, "merge", *files, "-o", out)
    assert ("2.prof" if problem == "damaged" else "more than any run can make") in said
    assert [path.name for path in out.parent.iterdir()] == ["job.prof"]
    assert out.read_bytes() == b"before"
