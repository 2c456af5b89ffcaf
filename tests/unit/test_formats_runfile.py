"""The run file: what is written is read, every viewer opens it, and damage is one line."""

from __future__ import annotations

import dataclasses
import io
import json
import pstats
import random
import shutil
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
    Job,
    Machine,
    Manifest,
    Notice,
    OpenCall,
    Process,
    Profile,
    Run,
    Thread,
)
from tests.requirements import imported, require
from tests.run_files import member_of, npy, rewritten
from tests.shared import finished

WAITING = ("wait", "blocked", "cumwait", "cumblocked")
COLUMNS = ("line", "ncalls", "primitive_calls", "tottime", "cumtime", *WAITING)
TEXTS = ("file", "name", "qualname", "module", "source_hash")
EDGE_COLUMNS = tuple(field.name for field in dataclasses.fields(Edges))
WARNINGS = (
    Notice("threads-in-one-stack", "", {"python": "3.12", "pids": (10, 20)}),
    Notice("ended-unrecorded", "", {"lost_s": 0.25, "cpu_s": 1.5, "pids": (10, 11, 12, 13), "pids_total": 9}),
)


def profile_of(seed: int, n: int = 5, *, wait: bool = False, edges: bool = True) -> Profile:
    """Build a profile in which most functions have the same names whatever the seed."""
    rng = np.random.default_rng(seed)
    names = (f"f{i}" for i in range(n))
    strings = ("", f"/home/user{seed}/train.py", "/data/\udce9.py", "日本", *names, "h4sh")
    rows = np.arange(n, dtype=np.int32)
    links = None
    if edges:
        ends = rng.integers(0, n, (2, 2 * n)).astype(np.int32)
        calls = rng.integers(1, 9, 2 * n)
        links = Edges(*ends, calls, np.ones(2 * n, np.int64), *rng.random((2, 2 * n)))
    return Profile(
        strings,
        file=1 + rows % 2,
        line=rows * 3,
        name=4 + rows,
        qualname=4 + rows[::-1],
        module=np.full(n, 3, np.int32),
        source_hash=np.where(rows % 2, len(strings) - 1, 0).astype(np.int32),
        ncalls=rng.integers(1, 9, n),
        primitive_calls=np.ones(n, np.int64),
        tottime=rng.random(n),
        cumtime=rng.random(n),
        edges=links,
        **{name: rng.random(n) for name in WAITING if wait},
    ).validate()


def sample_run() -> Run:
    host = Host("node1", "Linux 6.1", "EPYC", 64, 8, 2.5)
    command = ("python", "train.py", "--data=/x/\udce9")
    started = "2024-05-01T10:00:00+00:00"
    job: Job = {"id": "job:7", "rank": 0, "world_size": 2}
    manifest = Manifest(runfile.SCHEMA, "0.1.0", command, "/work", 137, started, 12.5, host, job=job)
    threads = (
        Thread(profile_of(1, wait=True), 11, "MainThread", 1.5, 0.25, 42, (OpenCall(2, 3.5),)),
        Thread(profile_of(2, 7), 12, "loader"),
        Thread(Profile.empty()),
        Thread(profile_of(3, 3, edges=False)),
    )
    main = Process(
        pid=10,
        role="rank",
        rank=0,
        exit="killed",
        threads=threads,
        host=host,
        notes=(Notice("waiting-sampled", "", {"rate": 50}), Notice("agent-failed", "OSError('caf\udce9')")),
    )
    worker = Process(pid=20, parent=10, role="worker", threads=(Thread(profile_of(4, wait=True)),))
    unprofiled = Process(pid=21, role="child", command=("tar", "x"), exit="exited")
    machine = Machine(64, None, 12.5, 100.0, 0.0, load=1.25)
    return Run("run.prof", (main, worker, unprofiled), manifest, machine, WARNINGS)


def values_of(profile: Profile, edges: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in COLUMNS:
        column = getattr(profile, name)
        values[name] = None if column is None else column.tolist()
    for name in TEXTS:
        values[name] = [profile.strings[i] for i in getattr(profile, name).tolist()]
    if profile.edges is not None and edges:
        values["edges"] = [getattr(profile.edges, name).tolist() for name in EDGE_COLUMNS]
    return values


BLANK = Profile.empty()


def all_of(run: Run, *, edges: bool = True) -> tuple[Run, list[Process], list[list[Any]]]:
    """Return all of a run but its path, in parts that compare by value."""
    replace = dataclasses.replace
    threads = [
        [(replace(thread, profile=BLANK), values_of(thread.profile, edges)) for thread in process.threads]
        for process in run.processes
    ]
    bare = [replace(process, threads=()) for process in run.processes]
    return replace(run, path="", processes=()), bare, threads


def same(got: Run, want: Run, *, edges: bool = True) -> None:
    for found, expected in zip(all_of(got, edges=edges), all_of(want, edges=edges), strict=True):
        assert found == expected


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_run(tmp_path / "run.prof", sample_run())
    return tmp_path / "run.prof"


@pytest.mark.parametrize("edges", [True, False])
def test_what_is_written_is_read(path: Path, edges: bool) -> None:
    run = load_run(path, edges=edges)
    same(run, sample_run(), edges=edges)
    assert edges or run.processes[0].threads[0].profile.edges is None
    assert run.path == str(path)
    tables = {id(thread.profile.strings) for process in run.processes for thread in process.threads}
    assert len(tables) == 1


def test_run_without_manifest_or_profiles(tmp_path: Path) -> None:
    run = Run("x", (Process(role="child"),), warnings=(Notice("no-record"),))
    write_run(tmp_path / "bare.prof", run)
    same(load_run(tmp_path / "bare.prof"), run)


def test_equal_runs_are_equal_files(path: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "again.prof", sample_run())
    assert (tmp_path / "again.prof").read_bytes() == path.read_bytes()


def filled(record: Any, **given: Any) -> Any:
    """Make a record whose fields differ from their defaults, by the types of the fields."""
    types = get_type_hints(record)
    fields = enumerate(dataclasses.fields(record), 1)
    made = {field.name: value(types[field.name], n) for n, field in fields if field.name not in given}
    return record(**made, **given)


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


def test_columns_are_those_measured_and_stored_as_they_are_where_they_hardly_compress(tmp_path: Path) -> None:
    path, run = tmp_path / "large.prof", Run("x", (Process(threads=(Thread(profile_of(1, 4000)),)),))
    write_run(path, run)
    with zipfile.ZipFile(path) as archive:
        kinds = {info.filename: info.compress_type for info in archive.infolist()}
    stored = {name for name, kind in kinds.items() if kind == zipfile.ZIP_STORED}
    times_of = ("tottime", "cumtime")
    assert stored == {f"{group}/{column}.npy" for group in ("functions", "edges") for column in times_of}
    assert not {f"functions/{column}.npy" for column in WAITING} & kinds.keys()
    assert set(kinds.values()) == {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    same(read_run(path), run)


def test_pstats_shows_all_threads_of_the_first_process(path: Path) -> None:
    stats = pstats.Stats(str(path), stream=io.StringIO())
    stats.sort_stats("tottime").print_stats().print_callers()
    profiles = [thread.profile for thread in sample_run().processes[0].threads]
    assert stats.total_calls == sum(int(p.ncalls.sum()) for p in profiles)  # type: ignore[attr-defined]
    assert stats.total_tt == pytest.approx(sum(p.total for p in profiles))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("viewer", "options", "says"),
    [("gprof2dot", ("-f", "pstats", "-n0", "-e0"), "f1"), ("flameprof", ("--format=log",), "f2")],
)
def test_a_viewer_opens_it(path: Path, viewer: str, options: tuple[str, ...], says: str) -> None:
    imported(viewer)
    done = finished([sys.executable, "-m", viewer, *options, path], timeout=60)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_snakeviz_opens_it(path: Path) -> None:
    snakeviz = imported("snakeviz.stats")
    rows = snakeviz.table_rows(pstats.Stats(str(path)))
    tree = json.loads(json.dumps(snakeviz.json_stats(pstats.Stats(str(path)))))
    assert any("(f1)" in row[5] for row in rows)
    assert any(key.endswith("(f1)") for key in tree)


def test_unzip_finds_nothing_wrong(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    require("unzip", shutil.which("unzip") is not None, "no unzip on this machine")
    done = finished(["unzip", "-tqq", path], timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def manifest_with(path: Path, **changes: Any) -> bytes:
    return json.dumps({**member_of(path, "manifest.json"), **changes}).encode()


def test_what_a_newer_minor_version_adds_is_ignored(path: Path) -> None:
    schema = f"{runfile.SCHEMA}.4"
    changed = {"ranges.json": b"later", "../../escape": b"x"}
    rewritten(path, {**changed, "manifest.json": manifest_with(path, new=1, schema=schema)})
    run = load_run(path)
    assert run.manifest is not None
    assert run.manifest.schema == schema
    manifest = dataclasses.replace(run.manifest, schema=runfile.SCHEMA)
    same(dataclasses.replace(run, manifest=manifest), sample_run())


@pytest.mark.parametrize("schema", ["profkit.run/3", "profkit.run/10.1"])
def test_newer_schema_is_named(path: Path, schema: str) -> None:
    rewritten(path, {"manifest.json": manifest_with(path, schema=schema)})
    with pytest.raises(FormatError, match=schema) as caught:
        load_run(path)
    assert "newer profkit" in caught.value.hint


#: Fields of the first thread, and members, that no file has; fields of other types: `test_codec`.
BAD_THREADS: dict[str, tuple[str, Any]] = {
    "rows reversed": ("functions", [3, 1]),
    "rows negative": ("functions", [-1, 1]),
    "rows too many": ("functions", [0, 999]),
    "rows missing": ("functions", None),
    "edges outside": ("functions", [0, 1]),
    "open call outside": ("open_calls", [[5, 1.0]]),
    "open call odd": ("open_calls", [[1, None]]),
}
BAD_MEMBERS: dict[str, dict[str, bytes | None]] = {
    "schema odd": {"manifest.json": b'{"schema": "profkit.run/\xc2\xb2"}'},
    "no manifest": {"manifest.json": None},
    "manifest no JSON": {"manifest.json": b"{"},
    "manifest deep": {"manifest.json": b"[" * 100_000},
    "manifest a list": {"manifest.json": b"[]"},
    "manifest not UTF-8": {"manifest.json": b'{"schema": "\xff"}'},
    "schema missing": {"manifest.json": b"{}"},
    "no processes": {"processes.json": b"[]"},
    "processes an object": {"processes.json": b"{}"},
    "process a number": {"processes.json": b"[1]"},
    "column missing": {"functions/tottime.npy": None},
    "column short": {"functions/tottime.npy": npy(np.zeros(3))},
    "column of other type": {"functions/tottime.npy": npy(np.zeros(20, np.float32))},
    "column of two dimensions": {"functions/tottime.npy": npy(np.zeros((20, 1)))},
    "column pickled": {"functions/tottime.npy": npy(np.array([print] * 20, object))},
    "column lies": {"functions/tottime.npy": npy(np.zeros(20)).replace(b"(20,)", b"(19,)")},
    "column cut": {"functions/tottime.npy": npy(np.zeros(20))[:-1]},
    "column no array": {"functions/tottime.npy": b"\x93NUMPY"},
    "time not a number": {"functions/tottime.npy": npy(np.full(20, np.nan))},
    "time infinite": {"functions/tottime.npy": npy(np.full(20, np.inf))},
    "name outside": {"functions/name.npy": npy(np.full(20, 99, np.int32))},
    "offsets descending": {"string_offsets.npy": npy(np.array([0, 5, 2]))},
    "offsets outside": {"string_offsets.npy": npy(np.array([0, 0, 10**12]))},
    "no strings": {"strings.npy": npy(np.zeros(0, np.uint8)), "string_offsets.npy": npy(np.zeros(1, int))},
    "edge outside": {"edges/caller.npy": npy(np.full(34, 77, np.int32))},
}


@pytest.mark.parametrize("bad", [*BAD_THREADS, *BAD_MEMBERS])
def test_bad_members_are_one_line(path: Path, bad: str) -> None:
    changes = BAD_MEMBERS.get(bad)
    if changes is None:
        processes = member_of(path, "processes.json")
        name, value = BAD_THREADS[bad]
        processes[0]["threads"][0][name] = value
        changes = {"processes.json": json.dumps(processes).encode()}
    rewritten(path, changes)
    with pytest.raises(FormatError, match="evidence archive after its profile is damaged") as caught:
        load_run(path)
    assert "\n" not in str(caught.value)
    assert "pstats still opens" in caught.value.hint


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
        with pytest.raises(FormatError, match="cannot be read"):
            read_run(bad)


def test_damage_raises_nothing_but_format_error(path: Path) -> None:
    rng, data = random.Random(3), path.read_bytes()
    refused = 0
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        if rng.random() < 0.3:
            del changed[rng.randrange(len(changed)) :]
        path.write_bytes(changed)
        try:
            load_run(path)
        except FormatError:
            refused += 1
    assert refused > 200
