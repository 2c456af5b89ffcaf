"""Columns of a run file: NVTX ranges, samples of threads, and counters over time."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.model import Manifest, Notice, Process, Profile, Ranges, Run, Series, Thread, ThreadSamples
from profkit.model.columns import column_dtypes
from profkit.model.run import Host, Machine
from tests.run_files import npy, rewritten
from tests.unit.test_ranges import assert_same, ranges_of, steps

SERIES = Series(
    np.arange(5, dtype=np.int64) * 50_000_000,
    {"busy_s": np.linspace(0, 1, 5), "runnable": np.array([1.0, np.nan, 3.0, 2.0, 0.0])},
)


def samples(tid: int, n: int = 4) -> ThreadSamples:
    step = np.arange(n, dtype=np.int64)
    columns = (np.concatenate(pair) for pair in ([step * 1000] * 2, [step * 10, step * 20], [step, step * 2]))
    return ThreadSamples(np.repeat([tid, tid + 1], n), *columns).validate()


def run_of(
    parts: list[ThreadSamples | None], ranges: list[Ranges | None], series: Series | None = None
) -> Run:
    threads = (Thread(Profile.empty(), 1),)
    processes = tuple(
        Process(i, peak_threads=i, threads=threads, samples=part, profiled=part is None, ranges=told)
        for i, (part, told) in enumerate(zip(parts, ranges, strict=True), 1)
    )
    notes = (Notice("gpu-package-missing"),)
    sampler = {"period_s": 0.05, "samples": 20, "cpu_s": 0.004, "notes": notes}
    manifest = Manifest("profkit.run/1", "0", ("x",), "/", 0, "", 1.0, Host(), sampler=sampler)
    return Run("run.prof", processes, manifest, Machine(tree_cpu_s=1.5), series=series)


def test_columns_come_back(tmp_path: Path) -> None:
    nested = ranges_of([("außen", 0.0, 4.0, -1), ("innen", 1.0, None, 0), ("", 2.0, 2.0, -1)], domain="lib")
    run = run_of([samples(10), None, samples(30, 7), None], [nested, None, steps(), ranges_of([])], SERIES)
    write_run(tmp_path / "run.prof", run)
    found = load_run(tmp_path / "run.prof")
    assert found.series.time_ns.tolist() == SERIES.time_ns.tolist()
    assert found.series.columns.keys() == {"busy_s", "runnable"}
    for name, column in SERIES.columns.items():
        np.testing.assert_array_equal(found.series.columns[name], column)
    for process, original in zip(found.processes, run.processes, strict=True):
        assert process.profiled == original.profiled
        assert process.peak_threads == original.peak_threads
        assert (process.samples is None) == (original.samples is None)
        if process.samples is not None:
            assert_same(process.samples, original.samples, ("tid", "time_ns", "run_ns", "wait_ns"))
        assert (process.ranges is None) == (original.ranges is None)
        if process.ranges is not None:
            assert_same(process.ranges, original.ranges, column_dtypes(Ranges))
            for field in ("monotonic_ns", "realtime_ns", "lost", "folded", "unmatched"):
                assert getattr(process.ranges, field) == getattr(original.ranges, field)
    assert found.manifest.sampler == run.manifest.sampler
    assert found.machine == run.machine


def test_a_run_without_columns_has_none_of_their_members(tmp_path: Path) -> None:
    write_run(tmp_path / "run.prof", run_of([None], [None]))
    with zipfile.ZipFile(tmp_path / "run.prof") as archive:
        names = archive.namelist()
        assert not [name for name in names if name.startswith(("series/", "samples/", "ranges/"))]
        assert not {"samples", "ranges"} & set(json.loads(archive.read("processes.json"))[0])
    found = load_run(tmp_path / "run.prof")
    assert (found.series, found.processes[0].samples, found.processes[0].ranges) == (None, None, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run file with all of them."""
    write_run(tmp_path / "run.prof", run_of([samples(10)], [steps()], SERIES))
    return tmp_path / "run.prof"


@pytest.mark.parametrize(
    ("member", "values", "says"),
    [
        ("ranges/end_ns.npy", None, "missing"),
        ("ranges/parent.npy", np.zeros(3, np.int32), "different lengths"),
        ("ranges/parent.npy", np.full(40, 40, np.int32), "inside a later one"),
        ("ranges/name.npy", np.full(40, 9, np.int32), "name points outside"),
        ("ranges/domain.npy", np.full(40, -1, np.int32), "domain points outside"),
        ("ranges/begin_ns.npy", np.full(40, 10**18), "ends before it begins"),
        ("ranges/payload_type.npy", np.full(40, 7, np.uint8), "payload_type points outside"),
        ("ranges/kind.npy", np.full(40, 3, np.uint8), "kind points outside"),
        ("ranges/kind.npy", np.full(40, 1, np.int64), "not an array of up to"),
        ("ranges/string_offsets.npy", np.array([0, 99], np.int64), "does not fit"),
        ("samples/wait_ns.npy", None, "missing"),
        ("samples/wait_ns.npy", np.zeros(3, np.int64), "different lengths"),
        ("samples/tid.npy", np.arange(8, 0, -1, dtype=np.int64), "not ordered"),
        ("samples/run_ns.npy", np.zeros(8), "not an array of up to"),
        ("series/busy_s.npy", np.zeros(4), "busy_s is not a column of 5"),
        ("series/busy_s.npy", np.array([0, 1, np.inf, 3, 4]), "busy_s is inf"),
        ("series/busy_s.npy", np.zeros(5, np.float32), "not an array of up to"),
        ("series/time_ns.npy", np.arange(5, 0, -1, dtype=np.int64), "backwards"),
    ],
)
def test_damaged_columns_are_one_line(path: Path, member: str, values: np.ndarray | None, says: str) -> None:
    rewritten(path, {member: None if values is None else npy(values)})
    with pytest.raises(FormatError, match=says):
        load_run(path)


def test_columns_of_a_later_version_are_kept_and_other_members_ignored(path: Path) -> None:
    rewritten(path, {"series/voltage.npy": npy(np.ones(5)), "series/../x.npy": b"", "series/UPPER.npy": b"x"})
    found = load_run(path).series
    assert found.columns.keys() == {"busy_s", "runnable", "voltage"}
