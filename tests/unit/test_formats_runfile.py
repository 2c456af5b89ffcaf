"""The run file: what is written is read, every viewer opens it, and damage is one line."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import pstats
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import pytest

from profkit.errors import FormatError
from profkit.formats import load_run, read_run, runfile, write_run
from profkit.model import (
    Edges,
    Host,
    Machine,
    Manifest,
    Notice,
    OpenCall,
    Process,
    Profile,
    Roots,
    Run,
    Thread,
)
from tests.requirements import imported, require
from tests.run_files import member_of, npy, rewritten

WAITING = ("wait", "blocked", "cumwait", "cumblocked")
COLUMNS = ("line", "ncalls", "primitive_calls", "tottime", "cumtime", *WAITING)
TEXTS = ("file", "name", "qualname", "module", "source_hash")
EDGE_COLUMNS = tuple(field.name for field in dataclasses.fields(Edges))
WARNINGS = (
    Notice("threads-in-one-stack", "", {"python": "3.12", "pids": (10, 20)}),
    Notice("ended-unrecorded", "", {"lost_s": 0.25, "cpu_s": 1.5, "pids": (10, 11, 12, 13), "pids_total": 9}),
)


TIMES = ("tottime", "cumtime")


def profile_of(seed: int, n: int = 5, *, wait: bool = False, edges: bool = True) -> Profile:
    """Build a profile in which most functions have the same names whatever the seed."""
    rng = np.random.default_rng(seed)
    strings = (
        "",
        f"/home/user{seed}/train.py",
        "/data/\udce9.py",
        "日本",
        *(f"f{i}" for i in range(n)),
        "h4sh",
    )
    rows = np.arange(n, dtype=np.int32)
    calls = rng.integers(1, 9, n)
    links = None
    if edges:
        m = 2 * n
        links = Edges(
            rng.integers(0, n, m).astype(np.int32),
            rng.integers(0, n, m).astype(np.int32),
            rng.integers(1, 9, m),
            np.ones(m, np.int64),
            rng.random(m),
            rng.random(m),
        )
    return Profile(
        strings,
        1 + rows % 2,
        rows * 3,
        4 + rows,
        4 + rows[::-1],
        np.full(n, 3, np.int32),
        np.where(rows % 2, len(strings) - 1, 0).astype(np.int32),
        calls,
        np.ones(n, np.int64),
        rng.random(n),
        rng.random(n),
        edges=links,
        wait=rng.random(n) if wait else None,
        blocked=rng.random(n) if wait else None,
        cumwait=rng.random(n) if wait else None,
        cumblocked=rng.random(n) if wait else None,
    ).validate()


def sample_run() -> Run:
    host = Host("node1", "Linux 6.1", "EPYC", 64, 8, 2.5)
    manifest = Manifest(
        runfile.SCHEMA,
        "0.1.0",
        ("python", "train.py", "--data=/x/\udce9"),
        *("/work", 137, "2024-05-01T10:00:00+00:00", 12.5, host),
        {"OMP_NUM_THREADS": "4"},
        {"numpy": "2.0.0"},
        {"revision": "abc", "dirty": True},
        {"id": "job:7", "rank": 0, "world_size": 2, "local_rank": 0, "node": 0},
        {"monotonic": 1.5},
    )
    threads = (
        Thread(profile_of(1, wait=True), 11, "MainThread", 1.5, 0.25, 42, (OpenCall(2, 3.5),)),
        Thread(profile_of(2, 7), 12, "loader", None, None, None),
        Thread(Profile.empty()),
        Thread(profile_of(3, 3, edges=False)),
    )
    main = Process(
        pid=10,
        parent=1,
        role="rank",
        rank=0,
        local_rank=0,
        node=0,
        command=("python", "train.py"),
        exit="killed",
        python="3.12.1",
        wall_s=12.0,
        cpu_s=10.0,
        run_queue_wait_s=0.5,
        voluntary_switches=5,
        involuntary_switches=6,
        threads=threads,
        roots=Roots(("/usr/lib/python3.12",), ("/site",), ("/work",)),
        host=host,
        environment={"RANK": "0"},
        notes=(Notice("waiting-sampled", "", {"rate": 50}), Notice("agent-failed", "OSError('caf\udce9')")),
    )
    worker = Process(pid=20, parent=10, role="worker", threads=(Thread(profile_of(4, wait=True)),))
    unprofiled = Process(pid=21, role="child", command=("tar", "x"), exit="exited")
    machine = Machine(64, None, 12.5, 100.0, 0.0, 3.5, 0.0, 0, None, 1.25, 9)
    return Run("run.prof", (main, worker, unprofiled), manifest, machine, WARNINGS)


def values_of(profile: Profile) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in COLUMNS:
        column = getattr(profile, name)
        values[name] = None if column is None else column.tolist()
    for name in TEXTS:
        values[name] = [profile.strings[i] for i in getattr(profile, name).tolist()]
    if profile.edges is not None:
        values["edges"] = [getattr(profile.edges, name).tolist() for name in EDGE_COLUMNS]
    return values


def same(got: Run, want: Run, *, edges: bool = True) -> None:
    assert got.manifest == want.manifest
    assert got.machine == want.machine
    assert got.warnings == want.warnings
    assert len(got.processes) == len(want.processes)
    for process, expected in zip(got.processes, want.processes, strict=True):
        assert dataclasses.replace(process, threads=()) == dataclasses.replace(expected, threads=())
        assert len(process.threads) == len(expected.threads)
        for thread, wanted in zip(process.threads, expected.threads, strict=True):
            blank = Profile.empty()
            assert dataclasses.replace(thread, profile=blank).open_calls == wanted.open_calls
            for field in ("tid", "name", "run_s", "run_queue_wait_s", "timeslices"):
                assert getattr(thread, field) == getattr(wanted, field)
            profile = wanted.profile if edges else dataclasses.replace(wanted.profile, edges=None)
            assert values_of(thread.profile) == values_of(profile)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_run(tmp_path / "run.prof", sample_run())
    return tmp_path / "run.prof"


@pytest.mark.parametrize("edges", [True, False])
def test_what_is_written_is_read(path: Path, edges: bool) -> None:
    run = load_run(path, edges=edges)
    same(run, sample_run(), edges=edges)
    assert run.path == str(path)
    tables = {id(thread.profile.strings) for process in run.processes for thread in process.threads}
    assert len(tables) == 1


def test_run_without_manifest_or_profiles(tmp_path: Path) -> None:
    run = Run("x", (Process(role="child"),), warnings=(Notice("no-record"),))
    write_run(tmp_path / "bare.prof", run)
    same(load_run(tmp_path / "bare.prof"), run)


def filled(record: Any, **given: Any) -> Any:
    """Make a record whose fields differ from their defaults, by the types of the fields."""
    types = get_type_hints(record)
    names = [field.name for field in dataclasses.fields(record)]
    return record(
        **{name: given[name] if name in given else value(types[name], n) for n, name in enumerate(names, 1)}
    )


def value(type_: Any, n: int) -> Any:
    if dataclasses.is_dataclass(type_):
        return filled(type_)
    if is_typeddict(type_):
        return {name: value(of, n) for name, of in get_type_hints(type_).items()}
    if type_ in (str, int, float, bool):
        return {str: f"text-{n}", int: n, float: n + 0.5, bool: False}[type_]
    arguments = get_args(type_)
    if get_origin(type_) is Literal:
        return arguments[0]
    if get_origin(type_) is tuple:
        return value(arguments[0], n), value(arguments[0], n + 1)
    if get_origin(type_) is Mapping:
        return {f"key-{n}": value(arguments[1], n)}
    return value(next(argument for argument in arguments if argument is not type(None)), n)


def test_every_field_comes_back_also_one_that_is_added_later(tmp_path: Path) -> None:
    profile = profile_of(1)
    thread = filled(Thread, profile=profile, range_calls=None, paths=None, throttled=(1,))
    process = filled(Process, threads=(thread,), ranges=None, samples=None)
    manifest = filled(Manifest, schema=runfile.SCHEMA)
    run = filled(Run, path=str(tmp_path / "run.prof"), processes=(process,), manifest=manifest, series=None)
    write_run(run.path, run)
    found = load_run(run.path)
    (found_process,) = found.processes
    (found_thread,) = found_process.threads
    assert dataclasses.replace(found_thread, profile=profile) == thread
    assert dataclasses.replace(found_process, threads=process.threads) == process
    assert dataclasses.replace(found, processes=run.processes) == run


def test_equal_runs_are_equal_files(path: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "again.prof", sample_run())
    assert (tmp_path / "again.prof").read_bytes() == path.read_bytes()


def test_members_are_plain(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        processes = json.loads(archive.read("processes.json"))
        names = archive.namelist()
        calls = np.load(io.BytesIO(archive.read("functions/ncalls.npy")), allow_pickle=False)
        wait = np.load(io.BytesIO(archive.read("functions/wait.npy")), allow_pickle=False)
    assert manifest["schema"] == "profkit.run/2"
    assert manifest["machine"]["load"] == 1.25
    assert [t["functions"] for t in processes[0]["threads"]] == [[0, 5], [5, 12], [12, 12], [12, 15]]
    assert [t["edges"] for t in processes[0]["threads"]] == [[0, 10], [10, 24], [24, 24], None]
    assert processes[0]["threads"][0]["open_calls"] == [[2, 3.5]]
    assert len(calls) == 20
    assert np.isnan(wait[5:15]).all()
    assert not any(name.startswith(("/", ".")) for name in names)


def test_numbers_that_hardly_compress_are_stored_as_they_are(tmp_path: Path) -> None:
    path, run = tmp_path / "large.prof", Run("x", (Process(threads=(Thread(profile_of(1, 4000)),)),))
    write_run(path, run)
    with zipfile.ZipFile(path) as archive:
        kinds = {info.filename: info.compress_type for info in archive.infolist()}
        times = np.load(io.BytesIO(archive.read("functions/tottime.npy")), allow_pickle=False)
    stored = {name for name, kind in kinds.items() if kind == zipfile.ZIP_STORED}
    assert stored == {f"{group}/{column}.npy" for group in ("functions", "edges") for column in TIMES}
    assert set(kinds.values()) == {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    assert (times == run.processes[0].threads[0].profile.tottime).all()
    same(read_run(path), run)


def test_wait_columns_only_where_measured(tmp_path: Path) -> None:
    write_run(tmp_path / "plain.prof", Run("x", (Process(threads=(Thread(profile_of(1)),)),)))
    with zipfile.ZipFile(tmp_path / "plain.prof") as archive:
        assert not {f"functions/{column}.npy" for column in WAITING} & set(archive.namelist())


def test_pstats_shows_all_threads_of_the_first_process(path: Path) -> None:
    stats = pstats.Stats(str(path), stream=io.StringIO())
    stats.sort_stats("tottime").print_stats().print_callers()
    profiles = [thread.profile for thread in sample_run().processes[0].threads]
    assert stats.total_calls == sum(int(p.ncalls.sum()) for p in profiles)  # type: ignore[attr-defined]
    assert stats.total_tt == pytest.approx(sum(p.total for p in profiles))  # type: ignore[attr-defined]


def test_gprof2dot_opens_it(path: Path) -> None:
    imported("gprof2dot")
    command = [sys.executable, "-m", "gprof2dot", "-f", "pstats", "-n0", "-e0", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "digraph" in done.stdout
    assert "f1" in done.stdout


def test_flameprof_opens_it(path: Path) -> None:
    imported("flameprof")
    command = [sys.executable, "-m", "flameprof", "--format=log", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "f1" in done.stdout


def test_snakeviz_opens_it(path: Path) -> None:
    snakeviz = imported("snakeviz.stats")
    rows = snakeviz.table_rows(pstats.Stats(str(path)))
    assert any("(f1)" in row[5] for row in rows)
    tree = json.loads(json.dumps(snakeviz.json_stats(pstats.Stats(str(path)))))
    assert {row[6] for row in rows} >= set(tree)
    assert any(key.endswith("(f1)") for key in tree)


def test_unzip_finds_nothing_wrong(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    require("unzip", shutil.which("unzip") is not None, "no unzip on this machine")
    done = subprocess.run(["unzip", "-tqq", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def manifest_with(path: Path, **changes: Any) -> bytes:
    return json.dumps({**member_of(path, "manifest.json"), **changes}).encode()


def processes_with(path: Path, key: str, value: Any, *, thread: bool = False) -> bytes:
    processes = member_of(path, "processes.json")
    (processes[0]["threads"][0] if thread else processes[0])[key] = value
    return json.dumps(processes).encode()


def test_unknown_members_and_fields_are_ignored(path: Path) -> None:
    rewritten(
        path, {"ranges.json": b"later", "../../escape": b"x", "manifest.json": manifest_with(path, new=1)}
    )
    same(load_run(path), sample_run())


@pytest.mark.parametrize("schema", ["profkit.run/3", "profkit.run/10.1"])
def test_newer_schema_is_named(path: Path, schema: str) -> None:
    rewritten(path, {"manifest.json": manifest_with(path, schema=schema)})
    with pytest.raises(FormatError, match=schema) as caught:
        load_run(path)
    assert "newer profkit" in caught.value.hint


def test_newer_minor_version_is_read(path: Path) -> None:
    rewritten(path, {"manifest.json": manifest_with(path, schema="profkit.run/2.4")})
    assert len(load_run(path).processes) == 3


BAD_MEMBERS: dict[str, Any] = {
    "no manifest": lambda p: {"manifest.json": None},
    "manifest no JSON": lambda p: {"manifest.json": b"{"},
    "manifest deep": lambda p: {"manifest.json": b"[" * 100_000},
    "manifest a list": lambda p: {"manifest.json": b"[]"},
    "manifest not UTF-8": lambda p: {"manifest.json": b'{"schema": "\xff"}'},
    "schema missing": lambda p: {"manifest.json": b"{}"},
    "schema odd": lambda p: {"manifest.json": manifest_with(p, schema="profkit.run/\u00b2")},
    "wall NaN": lambda p: {"manifest.json": manifest_with(p, wall_s=float("nan"))},
    "wall a string": lambda p: {"manifest.json": manifest_with(p, wall_s="1")},
    "wall huge": lambda p: {"manifest.json": manifest_with(p, wall_s=10**400)},
    "exit true": lambda p: {"manifest.json": manifest_with(p, exit_status=True)},
    "host a list": lambda p: {"manifest.json": manifest_with(p, host=[])},
    "machine a number": lambda p: {"manifest.json": manifest_with(p, machine=3)},
    "warnings numbers": lambda p: {"manifest.json": manifest_with(p, warnings=[1])},
    "warnings an object": lambda p: {"manifest.json": manifest_with(p, warnings={})},
    "warning without code": lambda p: {"manifest.json": manifest_with(p, warnings=[{"subject": "x"}])},
    "warning of odd code": lambda p: {"manifest.json": manifest_with(p, warnings=[{"code": "A b"}])},
    "warning of odd numbers": lambda p: {
        "manifest.json": manifest_with(p, warnings=[{"code": "x", "numbers": {"n": {}}}])
    },
    "notes a string": lambda p: {"processes.json": processes_with(p, "notes", "x")},
    "no processes": lambda p: {"processes.json": b"[]"},
    "processes an object": lambda p: {"processes.json": b"{}"},
    "process a number": lambda p: {"processes.json": b"[1]"},
    "pid a float": lambda p: {"processes.json": processes_with(p, "pid", 1.5)},
    "threads a string": lambda p: {"processes.json": processes_with(p, "threads", "x")},
    "thread a string": lambda p: {"processes.json": processes_with(p, "threads", ["x"])},
    "rows reversed": lambda p: {"processes.json": processes_with(p, "functions", [3, 1], thread=True)},
    "rows negative": lambda p: {"processes.json": processes_with(p, "functions", [-1, 1], thread=True)},
    "rows too many": lambda p: {"processes.json": processes_with(p, "functions", [0, 999], thread=True)},
    "rows missing": lambda p: {"processes.json": processes_with(p, "functions", None, thread=True)},
    "edges outside": lambda p: {"processes.json": processes_with(p, "functions", [0, 1], thread=True)},
    "open call outside": lambda p: {
        "processes.json": processes_with(p, "open_calls", [[5, 1.0]], thread=True)
    },
    "open call odd": lambda p: {"processes.json": processes_with(p, "open_calls", [[1, None]], thread=True)},
    "column missing": lambda p: {"functions/tottime.npy": None},
    "column short": lambda p: {"functions/tottime.npy": npy(np.zeros(3))},
    "column of other type": lambda p: {"functions/tottime.npy": npy(np.zeros(20, np.float32))},
    "column of two dimensions": lambda p: {"functions/tottime.npy": npy(np.zeros((20, 1)))},
    "column pickled": lambda p: {"functions/tottime.npy": npy(np.array([print] * 20, object))},
    "column lies": lambda p: {"functions/tottime.npy": npy(np.zeros(20)).replace(b"(20,)", b"(19,)")},
    "column cut": lambda p: {"functions/tottime.npy": npy(np.zeros(20))[:-1]},
    "column no array": lambda p: {"functions/tottime.npy": b"\x93NUMPY"},
    "time infinite": lambda p: {"functions/tottime.npy": npy(np.full(20, np.inf))},
    "name outside": lambda p: {"functions/name.npy": npy(np.full(20, 99, np.int32))},
    "offsets descending": lambda p: {"string_offsets.npy": npy(np.array([0, 5, 2]))},
    "offsets outside": lambda p: {"string_offsets.npy": npy(np.array([0, 0, 10**12]))},
    "no strings": lambda p: {
        "strings.npy": npy(np.zeros(0, np.uint8)),
        "string_offsets.npy": npy(np.zeros(1, int)),
    },
    "edge outside": lambda p: {"edges/caller.npy": npy(np.full(34, 77, np.int32))},
}


@pytest.mark.parametrize("changes", BAD_MEMBERS.values(), ids=BAD_MEMBERS.keys())
def test_bad_members_are_one_line(path: Path, changes: Any) -> None:
    rewritten(path, changes(path))
    with pytest.raises(FormatError, match="evidence archive after its profile is damaged") as caught:
        load_run(path)
    assert "\n" not in str(caught.value)
    assert "pstats still opens" in caught.value.hint


def test_bomb_is_not_inflated(path: Path) -> None:
    rewritten(path, {"processes.json": b" " * (1 << 28)})
    with pytest.raises(FormatError, match="bytes of JSON, which is more than a file of"):
        load_run(path)


def test_foreign_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.prof", "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(FormatError, match="profkit did not write it"):
        load_run(tmp_path / "x.prof")


def test_archive_with_a_comment_is_still_one(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"checked by a person"
    same(load_run(path), sample_run())


def test_truncated_archive_says_so(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(FormatError, match="evidence archive") as caught:
        load_run(path)
    assert "pstats still opens" in caught.value.hint
    assert pstats.Stats(str(path)).total_calls > 0  # type: ignore[attr-defined]


def test_read_run_of_bad_paths(tmp_path: Path) -> None:
    for bad in (tmp_path / "none.prof", tmp_path):
        with pytest.raises(FormatError):
            read_run(bad)


def test_damage_raises_nothing_but_format_error(tmp_path: Path) -> None:
    small = dataclasses.replace(sample_run(), processes=sample_run().processes[:2])
    write_run(tmp_path / "run.prof", small)
    data = (tmp_path / "run.prof").read_bytes()
    rng = random.Random(3)
    bad = tmp_path / "bad.prof"
    refused = 0
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        if rng.random() < 0.3:
            del changed[rng.randrange(len(changed)) :]
        bad.write_bytes(changed)
        try:
            load_run(bad)
        except FormatError:
            refused += 1
    assert refused > 200


def test_damage_behind_the_checksums_raises_nothing_else(path: Path) -> None:
    """Members that are whole for ZIP, and wrong inside."""
    rng = random.Random(4)
    original = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(150):
        name = rng.choice(list(members))
        changed = bytearray(members[name])
        for _ in range(rng.choice((1, 2, 5))):
            if changed:
                changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(original)
        with contextlib.suppress(FormatError):
            load_run(rewritten(path, {name: bytes(changed)}))
