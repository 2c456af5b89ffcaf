"""The run file: what is written is read, every viewer opens it, and damage is one line."""

from __future__ import annotations

import io
import json
import pstats
import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.errors import FormatError
from profkit.formats import load_run, read_run, runfile, write_run
from profkit.model import Host, Machine, Manifest, Notice, OpenCall, Process, Profile, Run, Thread
from profkit.model.profile import ESTIMATES, MEASURED
from tests.hostile_files import small_run
from tests.requirements import imported, require
from tests.run_files import measured, member_of, npy, plain, rewritten
from tests.shared import succeeded

WARNINGS = (
    Notice("threads-in-one-stack", "", {"python": "3.12", "pids": (10, 20)}),
    Notice("ended-unrecorded", "", {"lost_s": 0.25, "cpu_s": 1.5, "pids": (10, 11, 12, 13), "pids_total": 9}),
)


def odd_run() -> Run:
    """Build a run of what `small_run` has not: threads without functions, callers or waiting, names of any bytes."""
    host = Host("node1", "Linux 6.1", "EPYC", 64, 8, 2.5)
    command = ("python", "train.py", "--data=/x/\udce9")
    started = "2024-05-01T10:00:00+00:00"
    manifest = Manifest(runfile.SCHEMA, "0.1.0", command, "/work", 137, started, 12.5, host)
    threads = (
        Thread(measured(5), 11, "MainThread", 1.5, 0.25, 42, (OpenCall(2, 3.5),)),
        Thread(measured(7, seed=2, waits=False), 12, "loader"),
        Thread(Profile.empty()),
        Thread(measured(3, seed=3, waits=False, edges=False)),
    )
    notes = (Notice("waiting-sampled", "", {"rate": 50}), Notice("agent-failed", "OSError('caf\udce9')"))
    main = Process(pid=10, exit="killed", threads=threads, host=host, notes=notes)
    worker = Process(pid=20, parent=10, role="worker", threads=(Thread(measured(5, seed=4)),))
    unprofiled = Process(pid=21, role="child", command=("tar", "x"), exit="exited")
    return Run("run.prof", (main, worker, unprofiled), manifest, Machine(64, None, 12.5, load=1.25), WARNINGS)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    write_run(tmp_path / "odd.prof", odd_run())
    return tmp_path / "odd.prof"


def bare_run() -> Run:
    return Run("x", (Process(role="child"),), warnings=(Notice("no-record"),))


@pytest.mark.parametrize("edges", [True, False])
@pytest.mark.parametrize("made", [odd_run, small_run, bare_run])
def test_what_is_written_is_read(made: Callable[[], Run], edges: bool, tmp_path: Path) -> None:
    write_run(tmp_path / "run.prof", made())
    run = load_run(tmp_path / "run.prof", edges=edges)
    threads = [thread for process in run.processes for thread in process.threads]
    expected = plain(made())
    for process in [] if edges else expected[1]["processes"]:
        for thread in process[1]["threads"]:
            thread[1]["profile"][1]["edges"] = thread[1]["paths"] = None
    assert plain(run) == expected
    assert run.path == str(tmp_path / "run.prof")
    assert len({id(thread.profile.strings) for thread in threads}) <= 1


def test_members_are_plain(odd: Path) -> None:
    with zipfile.ZipFile(odd) as archive:
        calls = np.load(io.BytesIO(archive.read("functions/ncalls.npy")), allow_pickle=False)
        wait = np.load(io.BytesIO(archive.read("functions/wait.npy")), allow_pickle=False)
        assert not any(name.startswith(("/", ".")) for name in archive.namelist())
    manifest, threads = member_of(odd, "manifest.json"), member_of(odd, "processes.json")[0]["threads"]
    assert manifest["schema"] == "profkit.run/2"
    assert manifest["machine"]["load"] == 1.25
    assert [thread["functions"] for thread in threads] == [[0, 5], [5, 12], [12, 12], [12, 15]]
    assert [thread["edges"] for thread in threads] == [[0, 10], [10, 24], [24, 24], None]
    assert threads[0]["open_calls"] == [[2, 3.5]]
    assert len(calls) == 20
    assert np.isnan(wait[5:15]).all()


def test_columns_are_those_measured_and_stored_as_they_are_where_they_hardly_compress(tmp_path: Path) -> None:
    path, run = tmp_path / "large.prof", Run("x", (Process(threads=(Thread(measured(4000, waits=False)),)),))
    write_run(path, run)
    with zipfile.ZipFile(path) as archive:
        kinds = {info.filename: info.compress_type for info in archive.infolist()}
    stored = {name for name, kind in kinds.items() if kind == zipfile.ZIP_STORED}
    times_of = ("tottime", "cumtime")
    assert stored == {f"{group}/{column}.npy" for group in ("functions", "edges") for column in times_of}
    assert not {f"functions/{column}.npy" for column in MEASURED} & kinds.keys()
    assert set(kinds.values()) == {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    assert plain(read_run(path)) == plain(run)


def test_pstats_shows_all_threads_of_the_first_process(odd: Path) -> None:
    stats = pstats.Stats(str(odd), stream=io.StringIO())
    stats.sort_stats("tottime").print_stats().print_callers()
    profiles = [thread.profile for thread in odd_run().processes[0].threads]
    assert stats.total_calls == sum(int(p.ncalls.sum()) for p in profiles)  # type: ignore[attr-defined]
    assert stats.total_tt == pytest.approx(sum(p.total for p in profiles))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("viewer", "options", "says"),
    [("gprof2dot", ("-f", "pstats", "-n0", "-e0"), "f1"), ("flameprof", ("--format=log",), "f2")],
)
def test_a_viewer_opens_it(odd: Path, viewer: str, options: tuple[str, ...], says: str) -> None:
    imported(viewer)
    assert says in succeeded([sys.executable, "-m", viewer, *options, odd], timeout=60).stdout


def test_snakeviz_opens_it(odd: Path) -> None:
    snakeviz = imported("snakeviz.stats")
    rows = snakeviz.table_rows(pstats.Stats(str(odd)))
    tree = json.loads(json.dumps(snakeviz.json_stats(pstats.Stats(str(odd)))))
    assert any("(f1)" in row[5] for row in rows)
    assert any(key.endswith("(f1)") for key in tree)


def test_unzip_finds_nothing_wrong(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    require("unzip", shutil.which("unzip") is not None, "no unzip on this machine")
    succeeded(["unzip", "-tqq", path], timeout=60)


def manifest_with(path: Path, **changes: Any) -> bytes:
    return json.dumps({**member_of(path, "manifest.json"), **changes}).encode()


def test_what_a_newer_minor_version_adds_is_ignored(path: Path) -> None:
    schema = f"{runfile.SCHEMA}.4"
    changed = {"ranges.json": b"later", "../../escape": b"x"}
    rewritten(path, {**changed, "manifest.json": manifest_with(path, new=1, schema=schema)})
    run = load_run(path)
    assert run.manifest.schema == schema
    manifest = replace(run.manifest, schema=runfile.SCHEMA)
    assert plain(replace(run, manifest=manifest)) == plain(small_run())


@pytest.mark.parametrize("schema", ["profkit.run/3", "profkit.run/10.1"])
def test_newer_schema_is_named(path: Path, schema: str) -> None:
    rewritten(path, {"manifest.json": manifest_with(path, schema=schema)})
    with pytest.raises(FormatError, match=schema) as caught:
        load_run(path)
    assert "newer profkit" in caught.value.hint


#: Fields of the first thread, and members, that no file has; fields of other types: `test_limits`.
BAD_THREADS: dict[str, Any] = {
    "rows reversed": {"functions": [3, 1]},
    "rows negative": {"functions": [-1, 1]},
    "rows too many": {"functions": [0, 999]},
    "rows missing": {"functions": None},
    "edges outside": {"functions": [0, 1]},
    "open call outside": {"open_calls": [[30, 1.0]]},
    "open call odd": {"open_calls": [[1, None]]},
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
    "column of other type": {"functions/tottime.npy": npy(np.zeros(60, np.float32))},
    "column of two dimensions": {"functions/tottime.npy": npy(np.zeros((60, 1)))},
    "column pickled": {"functions/tottime.npy": npy(np.array([print] * 60, object))},
    "column lies": {"functions/tottime.npy": npy(np.zeros(60)).replace(b"(60,)", b"(59,)")},
    "column cut": {"functions/tottime.npy": npy(np.zeros(60))[:-1]},
    "column no array": {"functions/tottime.npy": b"\x93NUMPY"},
    "name outside": {"functions/name.npy": npy(np.full(60, 10**6, np.int32))},
    "offsets descending": {"string_offsets.npy": npy(np.array([0, 5, 2]))},
    "offsets outside": {"string_offsets.npy": npy(np.array([0, 0, 10**12]))},
    "no strings": {"strings.npy": npy(np.zeros(0, np.uint8)), "string_offsets.npy": npy(np.zeros(1, int))},
    "edge outside": {"edges/caller.npy": npy(np.full(42, 77, np.int32))},
}


@pytest.mark.parametrize("bad", [*BAD_THREADS, *BAD_MEMBERS])
def test_bad_members_are_one_line(path: Path, bad: str) -> None:
    processes = member_of(path, "processes.json")
    processes[0]["threads"][0] |= BAD_THREADS.get(bad, {})
    rewritten(path, {"processes.json": json.dumps(processes).encode(), **BAD_MEMBERS.get(bad, {})})
    with pytest.raises(FormatError, match="evidence archive after its profile is damaged") as caught:
        load_run(path)
    assert "\n" not in str(caught.value)
    assert "pstats still opens" in caught.value.hint


#: A member, its columns, and what is said of them; numbers that cannot be: `tests.integration.test_hostile_files`.
@pytest.mark.parametrize(
    ("member", "values", "says"),
    [
        ("ranges/end_ns.npy", None, "missing"),
        ("ranges/parent.npy", np.zeros(3, np.int32), "different lengths"),
        ("ranges/parent.npy", np.full(60, 60, np.int32), "inside a later one"),
        ("ranges/name.npy", np.full(60, 10**6, np.int32), "name points outside"),
        ("ranges/domain.npy", np.full(60, -1, np.int32), "domain points outside"),
        ("ranges/payload_type.npy", np.full(60, 7, np.uint8), "payload_type points outside"),
        ("ranges/kind.npy", np.full(60, 3, np.uint8), "kind points outside"),
        ("ranges/kind.npy", np.full(60, 1, np.int64), "not an array of up to"),
        ("ranges/string_offsets.npy", np.array([0, 99], np.int64), "does not fit"),
        ("samples/wait_ns.npy", None, "missing"),
        ("samples/wait_ns.npy", np.zeros(3, np.int64), "different lengths"),
        ("samples/tid.npy", np.arange(83, 0, -1, dtype=np.int64), "not ordered"),
        ("samples/run_ns.npy", np.zeros(83), "not an array of up to"),
        ("series/busy_s.npy", np.zeros(4), "busy_s is not a column of 38"),
        ("series/busy_s.npy", np.zeros(38, np.float32), "not an array of up to"),
        ("series/time_ns.npy", np.arange(38, 0, -1, dtype=np.int64), "backwards"),
        ("range_contexts/parent.npy", np.full(4, 1, np.int32), "inside a later one"),
        ("range_contexts/parent.npy", np.full(3, -1, np.int32), "different lengths"),
        ("range_contexts/name.npy", np.full(4, 1000, np.int32), "name points outside"),
        ("range_contexts/opener.npy", np.full(4, 30, np.int32), "opener points outside"),
        ("range_functions/context.npy", np.full(4, 2, np.int32), "context points outside"),
        ("range_functions/function.npy", np.full(4, -1, np.int32), "function points outside"),
        ("range_functions/tottime.npy", None, "missing"),
        ("range_contexts/count.npy", np.ones(4, np.int32), "numbers of type"),
        *((f"functions/{column}.npy", None, f"functions/{column}.npy is missing") for column in ESTIMATES),
    ],
)
def test_damaged_columns_are_one_line(path: Path, member: str, values: np.ndarray | None, says: str) -> None:
    rewritten(path, {member: None if values is None else npy(values)})
    with pytest.raises(FormatError, match=says):
        load_run(path)


def test_columns_of_a_later_version_are_kept_and_other_members_ignored(path: Path) -> None:
    before = load_run(path).series
    added = {"series/voltage.npy": npy(np.ones(38)), "series/../x.npy": b"", "series/UPPER.npy": b"x"}
    rewritten(path, added)
    assert load_run(path).series.columns.keys() == {*before.columns, "voltage"}


def test_a_run_without_columns_has_none_of_their_members(tmp_path: Path) -> None:
    write_run(tmp_path / "run.prof", Run("run.prof", (Process(threads=(Thread(Profile.empty(), 1),)),)))
    with zipfile.ZipFile(tmp_path / "run.prof") as archive:
        groups = {name.partition("/")[0] for name in archive.namelist()}
    assert not {"series", "samples", "ranges"} & groups
    assert not {"samples", "ranges"} & set(member_of(tmp_path / "run.prof", "processes.json")[0])


@pytest.mark.parametrize(
    ("member", "hint"),
    [
        ("a.txt", "name the file that profkit wrote"),
        ("baseline/a.prof", "unpack it, and name a .prof in it"),  # as in a ticket's archive
    ],
)
def test_foreign_zip(tmp_path: Path, member: str, hint: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(member, "text")
    with pytest.raises(FormatError, match="is a ZIP archive, but not a run file") as caught:
        load_run(tmp_path / "x.zip")
    assert caught.value.hint == hint


def test_archive_with_a_comment_is_still_one(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"checked by a person"
    assert plain(load_run(path)) == plain(small_run())


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
