"""A store of many run files: added once, whole or not at all, and what is asked of it answered from real tables."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import pstats
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.api.fleet import Fleet
from profkit.errors import UsageError
from profkit.fleet.query import selected
from profkit.fleet.rows import job_of
from profkit.fleet.store import Store, part_of
from profkit.formats import load_run
from profkit.formats.runfile import write_run
from profkit.model import Process
from tests.programs import on, program, training
from tests.rank_files import Did, rank_run
from tests.requirements import imported
from tests.shared import ROOT, SAMPLES, Capture, check_schema, finished, printed, refused


@pytest.fixture(autouse=True)
def _libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    imported("duckdb")
    imported("pyarrow")
    monkeypatch.delenv("PROFKIT_FLEET", raising=False)


def fleet_command(capsys: Capture, *words: str | Path, store: Path, code: int = 0) -> tuple[str, str]:
    return printed(capsys, "fleet", *words, "--store", store, code=code)


def asked(fleet: Fleet, sql: str) -> list[tuple[Any, ...]]:
    return list(fleet.query(sql).study.rows)


def job(where: Path, *, days: int = 24, changed: int = 14, odd: int = -1) -> Path:
    """A run each day on each of six hosts; `sharpen` has another source from a day on and takes twice as long.

    node3 takes 1.2 times as long for everything, node5 queues; on the `odd` day one run does three times the steps.
    """
    where.mkdir()
    noise = np.exp(0.01 * np.random.default_rng(1).standard_normal((days, 6)))
    for day in range(days):
        for host in range(6):
            made = training(
                steps=300 if day == odd and host == 1 else 100,
                slower=float(noise[day, host]) * (1.2 if host == 3 else 1.0),
                times={"sharpen": 2.0} if day >= changed else {},
                changed={"sharpen": "another"} if day >= changed else {},
                ratio=0.5 if host == 5 else 0.01,
            )
            write_run(where / f"{day:02}-{host}.prof", on(program(made, host=f"node{host}"), day, host))
    return where


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    imported("duckdb")
    there = tmp_path_factory.mktemp("fleet")
    fleet = Fleet(there / "store")
    fleet.add([job(there / "runs", odd=8)])
    return fleet


def files_of(store: Path) -> dict[str, tuple[int, int]]:
    found = {path: path.stat() for path in store.rglob("*.parquet")}
    return {str(path.relative_to(store)): (stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}


def test_a_store_holds_what_the_files_say_and_a_bad_one_stops_no_other(
    tmp_path: Path, capsys: Capture
) -> None:
    plain = tmp_path / "etl-2026-03-01.prof"
    shutil.copy(SAMPLES / "train_mlp" / "clean-1.prof", tmp_path / "whole.prof")
    pstats.Stats(str(tmp_path / "whole.prof")).dump_stats(plain)
    os.utime(plain, (1772357400, 1772357400))  # 2026-03-01 09:30 UTC
    bad = tmp_path / "bad.prof"
    bad.write_bytes(b"no profile")
    store = tmp_path / "store"
    named = [str(SAMPLES / "*" / "*.prof"), plain, bad, tmp_path / "nosuch.prof"]
    lines = fleet_command(capsys, "add", *named, store=store, code=2)[1].splitlines()
    for name in ("bad.prof", "nosuch.prof"):
        assert sum(name in line for line in lines) == 1
    assert "17 runs of 6 jobs added" in lines[-2]
    assert lines[-1] == "profkit: 2 files could not be read"

    fleet = Fleet(store)
    etl = asked(fleet, "SELECT job, day::VARCHAR, wall_s FROM runs WHERE job = 'etl'")
    assert etl == [("etl", "2026-03-01", None)]
    run = load_run(SAMPLES / "train_mlp" / "oversubscribed.prof")
    ours = "FROM {} JOIN runs USING (run) WHERE path LIKE '%train_mlp/oversubscribed.prof'"
    sums = "SELECT process, sum(tottime), sum(ncalls) " + ours.format("functions")
    rows = asked(fleet, sums + " GROUP BY 1 ORDER BY 1")
    for (_, seconds, calls), process in zip(rows, run.processes, strict=True):
        assert seconds == pytest.approx(sum(thread.profile.total for thread in process.threads))
        assert calls == sum(int(thread.profile.ncalls.sum()) for thread in process.threads)
    waited = "SELECT pid, processes.run_queue_wait_s " + ours.format("processes") + " ORDER BY process"
    assert asked(fleet, waited) == [(p.pid, p.run_queue_wait_s) for p in run.processes]
    value = asked(fleet, "SELECT value " + ours.format("counters") + " AND name = 'busy_s'")
    assert value == [(run.machine.busy_s,)]
    ranges = asked(fleet, "SELECT name, sum(count) AS n FROM ranges WHERE job = 'mpi_train' GROUP BY 1")
    assert ("forward", max(count for _, count in ranges)) in ranges
    assert asked(fleet, "SELECT count(wait_s) > 0 FROM ranges WHERE job = 'mpi_train'") == [(True,)]


def test_what_is_added_twice_changes_nothing(tmp_path: Path, capsys: Capture) -> None:
    runs, store = tmp_path / "runs", tmp_path / "store"
    runs.mkdir()
    for name in ("clean-1", "clean-2"):
        shutil.copy(SAMPLES / "train_mlp" / f"{name}.prof", runs)
    fleet_command(capsys, "add", runs, store=store)
    before = files_of(store)
    shutil.copy(runs / "clean-1.prof", runs / "again.prof")
    os.utime(runs / "clean-2.prof")
    assert "0 runs added" in fleet_command(capsys, "add", runs, runs / "clean-1.prof", store=store)[1]
    assert files_of(store) == before


def test_a_call_that_is_killed_leaves_nothing_half_and_the_next_goes_on(tmp_path: Path) -> None:
    runs, store = tmp_path / "runs", tmp_path / "store"
    runs.mkdir()
    base = load_run(SAMPLES / "train_mlp" / "clean-1.prof")
    for number in range(30):
        write_run(runs / f"{number:03}.prof", on(base, number % 2, number))
    words = [sys.executable, "-m", "profkit", "fleet", "add", runs, "--store", store, "--workers", "2"]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as adding:
        while adding.poll() is None and not list(store.glob("runs/*/*/*.parquet")):
            time.sleep(0.001)
        adding.send_signal(signal.SIGKILL)
    half = store / "functions" / "job=train_mlp" / "day=2026-03-01"
    (half / "0123456789abcdef.parquet").write_bytes(b"PAR1")
    (half / ".0123456789abcdef.parquet.0.tmp").write_bytes(b"PAR1")
    fleet = Fleet(store)
    each = "SELECT count(*), count(DISTINCT run) FROM (SELECT run, process FROM {} GROUP BY ALL)"
    ((rows, known),) = asked(fleet, "SELECT count(*), count(DISTINCT run) FROM runs")
    assert 0 < rows == known
    assert asked(fleet, each.format("functions")) == [(2 * known, known)]

    done = finished(words, ROOT, check=True)
    assert f"{30 - known} runs of train_mlp added" in done.stderr or known == 30
    assert asked(fleet, "SELECT count(*), count(DISTINCT run) FROM runs") == [(30, 30)]
    assert asked(fleet, each.format("functions")) == [(60, 30)]
    total = 30 * sum(len(rows_of(process)) for process in base.processes)
    assert asked(fleet, "SELECT count(*) FROM functions") == [(total,)]
    assert not list(store.rglob("*.tmp"))
    assert not (half / "0123456789abcdef.parquet").exists()


def test_a_store_begins_where_its_first_call_was_killed(tmp_path: Path, capsys: Capture) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / ".changing").touch()
    (store / ".fleet.json.0123456789abcdef.tmp").touch()
    run = SAMPLES / "train_mlp" / "clean-1.prof"
    assert "added" in fleet_command(capsys, "add", run, store=store)[1]
    others = tmp_path / "others"
    others.mkdir()
    (others / "notes.txt").touch()
    assert "a directory of other files" in refused(capsys, "fleet", "add", run, "--store", others)
    assert os.listdir(others) == ["notes.txt"]


def test_where_there_are_no_locks_no_store_is_changed(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Lustre without `flock`: another call would take parts that are being written for remains."""

    def none(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", none)
    run = SAMPLES / "train_mlp" / "clean-1.prof"
    assert "there are no locks" in refused(capsys, "fleet", "add", run, "--store", tmp_path / "store")


def rows_of(process: Process) -> set[tuple[str, int, str]]:
    return {
        (p.strings[f], line, p.strings[q or n])
        for p in (thread.profile for thread in process.threads)
        for f, line, n, q in zip(p.file, p.line, p.name, p.qualname, strict=True)
    }


def test_small_files_of_a_day_become_one_also_where_merging_was_killed(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fleet, store = Fleet(tmp_path / "store"), Store(tmp_path / "store")
    for name in ("clean-1", "clean-2", "code-change"):
        fleet.add([SAMPLES / "train_mlp" / f"{name}.prof"])
    sums = "SELECT count(*), round(sum(tottime), 6), count(DISTINCT run) FROM functions"
    before = asked(fleet, sums)
    parts = store.parts()
    assert len(parts) == 3
    tables = {
        name: pa.concat_tables(pq.read_table(path, partitioning=None) for path in store.files(name, parts))
        for name in ("runs", "processes", "functions", "ranges", "counters")
    }
    # The merged part is there, and those that it replaces still are.
    day = parts[0].partition("/day=")[2][:10]
    store.commit(part_of("train_mlp", day, tables), parts)
    assert len(store.parts()) == 1
    assert asked(fleet, sums) == before
    assert fleet.compact() == (1, 1)
    assert len(list(store.directory.rglob("functions/*/*/*.parquet"))) == 1
    fleet.add([SAMPLES / "train_mlp" / "oversubscribed.prof"])
    assert fleet.compact() == (2, 1)
    assert asked(fleet, "SELECT count(DISTINCT run), count(*) FROM runs") == [(4, 4)]


def test_a_query_reads_and_nothing_else(grown: Fleet, capsys: Capture, tmp_path: Path) -> None:
    store = grown._store.directory
    out, _ = fleet_command(capsys, "query", "SELECT job, count(*) AS n FROM runs GROUP BY job", store=store)
    assert out.splitlines() == ["job      n", "train  144"]
    write, read = f"COPY runs TO '{tmp_path}/x.csv'", f"SELECT * FROM read_text('{__file__}')"
    for sql in (write, read, "DROP VIEW runs", "SELECT 1; SELECT 2", "nonsense", ""):
        refused(capsys, "fleet", "query", sql, "--store", store)
    none = refused(capsys, "fleet", "query", "SELECT 1", "--store", tmp_path / "none")
    assert "is no store of runs" in none
    assert not (tmp_path / "x.csv").exists()
    sql = "SELECT host, path, host || ' x' AS told, wall_s FROM runs ORDER BY path LIMIT 1"
    (row,) = json.loads(fleet_command(capsys, "query", sql, "--format", "json", store=store)[0])
    assert (row["path"], row["host"][:5], "node" in row["told"]) == ("00-0.prof", "host-", False)
    out, _ = fleet_command(capsys, "query", sql, "--format", "csv", "--full-paths", store=store)
    head, line = out.splitlines()
    assert (head, line[:7]) == ("host,path,told,wall_s", "node0,/")
    sql = "SELECT run FROM runs"
    for limit, rows in ((("--limit", "3"), 3), (("--limit", "0"), 144), ((), 144)):
        out, _ = fleet_command(capsys, "query", sql, "--format", "json", *limit, store=store)
        assert len(json.loads(out)) == rows
        out, _ = fleet_command(capsys, "query", sql, "--format", "csv", *limit, store=store)
        assert len(out.splitlines()) == rows + 1


def test_what_got_slower_is_found_with_its_day_and_its_function(grown: Fleet, tmp_path: Path) -> None:
    study: Any = grown.slowest().study
    (slower,) = study.jobs
    assert slower.since == "2026-03-15"
    (function,) = study.functions
    assert (function.job, function.key.qualname, function.since) == ("train", "sharpen", "2026-03-15")
    assert function.per_call == pytest.approx(2, rel=0.05)
    assert function.calls == pytest.approx(1)
    run, *others = study.outliers
    assert Path(run.path).name == "08-1.prof"
    assert {other.host for other in others} <= {"node3", "node5"}
    text = grown.slowest().report()
    assert "sharpen" in text
    assert "node" not in text
    same = Fleet(tmp_path / "same")
    same.add([job(tmp_path / "runs", days=12, changed=99)])
    assert not same.slowest().study.jobs  # type: ignore[union-attr]
    assert "No lasting slow-down" in same.slowest().report()
    with pytest.raises(UsageError, match="no run of it in the store, which has train"):
        same.slowest("other")


def test_a_function_is_followed_over_days(grown: Fleet) -> None:
    study: Any = grown.trend("sharpen").study
    (found,) = study.trends
    assert len(found.days) == 24
    shifts = {(shift.since, shift.what) for shift in found.shifts}
    assert shifts == {("2026-03-15", "self time of a call"), ("2026-03-15", "share")}
    assert "sharpen: more since 2026-03-15" in grown.trend("m.py:sharpen").report()
    picture = grown.trend("sharpen").report("svg")
    marked = re.findall(r'class="trend-words bad(?: end)?">(.*?) \+', picture)
    assert sorted(marked) == ["self time of a call", "share"]
    load = grown.trend("load").report()
    assert "No change in load" in load or "less since 2026-03-15" in load
    with pytest.raises(UsageError, match="no run of the store that succeeded has such a function"):
        grown.trend("nosuch")


def test_hosts_that_are_slower_or_starved_are_named(grown: Fleet) -> None:
    hosts = {host.host: host for host in grown.hosts().study.hosts}  # type: ignore[union-attr]
    assert [name for name, host in hosts.items() if host.slower] == ["node3"]
    assert [name for name, host in hosts.items() if host.starved] == ["node5"]
    assert hosts["node3"].work == pytest.approx(1.2, rel=0.05)
    assert hosts["node5"].queued == pytest.approx(1 / 3, rel=0.01)


@pytest.mark.parametrize("named", ["4711", ""], ids=["named", "unnamed"])
def test_all_ranks_of_a_run_count_as_one(tmp_path: Path, named: str) -> None:
    """Also where the launcher names no job: the command and the number of ranks do, as for profkit diff."""
    for number, rank in itertools.product(range(14), range(2)):
        run = rank_run(rank, {"f": Did()}, size=2, job=named and f"{named}.{number}")
        write_run(tmp_path / f"{number:02}-{rank}.prof", on(run, 0, number))
    store = Store(tmp_path / "store")
    Fleet(store.directory).add([tmp_path])
    found = [Path(path).stem for path in selected(store, "train")]
    numbers = sorted({name[:2] for name in found})
    assert len(numbers) == 12
    assert found == [f"{number}-{rank}" for number in numbers for rank in range(2)]


def test_the_newest_day_is_one_with_a_run_that_succeeded(tmp_path: Path, capsys: Capture) -> None:
    for name, day, failed in (("good", 0, False), ("good", 1, True), ("bad", 0, True)):
        run = program(training(), command=("python", f"{name}.py"), exit_status=int(failed))
        write_run(tmp_path / f"{name}-{day}.prof", on(run, day))
    store = tmp_path / "store"
    Fleet(store).add([tmp_path])
    assert [Path(path).name for path in selected(Store(store), "good")] == ["good-0.prof"]
    for selection, said in (
        ("bad", "bad: none of its runs succeeded"),
        ("good@2026-03-02", "succeeded; the newest that did is of 2026-03-01"),
    ):
        assert said in refused(capsys, "fleet", "compare", "good", selection, "--store", store)


def test_runs_that_failed_count_nowhere(tmp_path: Path) -> None:
    """Of each day from the fifth on, two of three runs failed, on another host, after `sharpen` took longer."""
    noise = np.exp(0.01 * np.random.default_rng(1).standard_normal((10, 3)))
    for day, number in itertools.product(range(10), range(3)):
        failed = number > 0 and day > 3
        if number == 0 or failed:
            made = training(slower=float(noise[day, number]), times={"sharpen": 3.0} if failed else {})
            run = program(made, host="bad" if failed else "good", exit_status=int(failed))
            write_run(tmp_path / f"{day}-{number}.prof", on(run, day, number))
    fleet = Fleet(tmp_path / "store")
    fleet.add([tmp_path])
    slowest, trends, hosts = (
        found.study for found in (fleet.slowest(), fleet.trend("sharpen"), fleet.hosts())
    )
    assert slowest.functions == ()  # type: ignore[union-attr]
    assert trends.trends[0].runs == (1,) * 10  # type: ignore[union-attr]
    assert [host.host for host in hosts.hosts] == ["good"]  # type: ignore[union-attr]


def test_of_few_hosts_nothing_is_said(tmp_path: Path) -> None:
    few = Fleet(tmp_path / "store")
    few.add([SAMPLES / "train_mlp" / "clean-1.prof"])
    assert "Too few hosts to compare" in few.hosts().report()


def test_two_selections_are_compared_from_their_files(grown: Fleet, capsys: Capture, tmp_path: Path) -> None:
    store = grown._store.directory
    words = ("train@2026-03-01..2026-03-08", "train", "--format", "json")
    value = json.loads(fleet_command(capsys, "compare", *words, store=store)[0])
    assert value["verdict"]["cause"] == "code-change"
    assert (value["baseline"]["runs"], value["candidate"]["runs"]) == (12, 6)
    for selection, said in (("train@tomorrow", "not understood"), ("train@2025-01-01", "no run of it from")):
        assert said in refused(capsys, "fleet", "compare", selection, "train", "--store", store)
    gone = Fleet(tmp_path / "store")
    file = shutil.copy(SAMPLES / "train_mlp" / "clean-1.prof", tmp_path / "one.prof")
    gone.add([file])
    Path(file).write_bytes(b"another")
    words = ("fleet", "compare", "train_mlp", "train_mlp", "--store", tmp_path / "store")
    assert "is not there as it was added" in refused(capsys, *words)


@pytest.mark.parametrize("words", [("slowest",), ("trend", "sharpen"), ("hosts",)])
def test_answers_follow_their_schema_and_name_no_machine(
    words: tuple[str, ...], grown: Fleet, capsys: Capture
) -> None:
    store = grown._store.directory
    text, _ = fleet_command(capsys, *words, "--format", "json", store=store)
    check_schema(json.loads(text), "fleet-1.json")
    assert "node" not in text
    assert str(store.parent) not in text


@pytest.mark.parametrize("table", ["runs", "functions"])
def test_a_damaged_file_of_the_store_gives_one_line(tmp_path: Path, capsys: Capture, table: str) -> None:
    store, sql = tmp_path / "store", "SELECT * FROM functions JOIN runs USING (run)"
    for minute in range(2):
        write_run(tmp_path / f"{minute}.prof", on(program(training()), 0, minute))
        Fleet(store).add([tmp_path / f"{minute}.prof"])
    asked = ["slowest", "trend load", "hosts", f"query '{sql}'", "compact"]
    if table == "runs":
        asked += ["compare train train", f"add {tmp_path}"]
    for damaged in sorted(
        (store / table).rglob("*.parquet")
    ):  # DuckDB reads the second when it runs the query
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[: len(whole) // 2])
        for words in asked:
            assert damaged.name in refused(capsys, "fleet", *shlex.split(words), "--store", store)
        damaged.write_bytes(whole)


def test_without_the_extra_one_line_says_what_to_install(
    grown: Fleet, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    for missing in ("duckdb", "pyarrow"):
        monkeypatch.setitem(sys.modules, missing, None)
        said = refused(capsys, "fleet", "slowest", "--store", grown._store.directory)
        assert "pip install 'profkit[fleet]'" in said
    refused(capsys, "fleet", "add", SAMPLES / "train_mlp", "--store", store)
    assert not store.exists()


def test_a_directory_of_other_files_becomes_no_store(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    said = refused(capsys, "fleet", "add", SAMPLES / "train_mlp", "--store", tmp_path)
    assert "is a directory of other files" in said
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("python train.py --x 1", "train"),
        ("mpirun -n 4 python /w/train.py", "train"),
        ("python -m pkg.train", "pkg.train"),
        ("python -m torch.distributed.run --nproc 2 train.py", "train"),
        ("/opt/bin/solver in.py.cfg", "solver"),
    ],
)
def test_a_job_is_named_after_its_script(words: str, named: str) -> None:
    assert job_of(words.split()) == named


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("train-2026-03-01.rank3.prof", "train"),
        ("GPT-2026-03-01T0930.prof", "GPT"),
        ("BERT_3.prof", "BERT"),
        ("resnet50-2026_1-rank3.prof", "resnet50"),
        ("2026-03-01.prof", "unknown"),
    ],
)
def test_a_job_without_a_command_is_named_after_its_file(file: str, named: str) -> None:
    assert job_of((), file) == named
