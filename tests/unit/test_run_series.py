"""Counters over time in the run file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.model import Manifest, Notice, Process, Profile, Run, Series, Thread, ThreadSamples
from profkit.model.run import Host, Machine
from tests.run_files import npy, rewritten


def series(n: int = 5) -> Series:
    return Series(
        np.arange(n, dtype=np.int64) * 50_000_000,
        {"busy_s": np.linspace(0, 1, n), "runnable": np.array([1.0, np.nan, 3.0, 2.0, 0.0])[:n]},
    )


def samples(tid: int, n: int = 4) -> ThreadSamples:
    step = np.arange(n, dtype=np.int64)
    return ThreadSamples(
        np.concatenate([np.full(n, tid), np.full(n, tid + 1)]),
        np.concatenate([step, step]) * 1000,
        np.concatenate([step * 10, step * 20]),
        np.concatenate([step, step * 2]),
    ).validate()


def run_of(*parts: ThreadSamples | None, whole: Series | None = None) -> Run:
    processes = tuple(
        Process(
            pid=i, samples=part, profiled=part is None, peak_threads=i, threads=(Thread(Profile.empty(), i),)
        )
        for i, part in enumerate(parts, 1)
    )
    manifest = Manifest(
        "profkit.run/1",
        "0",
        ("x",),
        *("/", 0, "", 1.0),
        Host(),
        sampler={"period_s": 0.05, "samples": 20, "cpu_s": 0.004, "notes": (Notice("gpu-package-missing"),)},
    )
    return Run("run.prof", processes, manifest, Machine(tree_cpu_s=1.5), series=whole)


def test_series_and_samples_come_back(tmp_path: Path) -> None:
    run = run_of(samples(10), None, samples(30, 7), whole=series())
    write_run(tmp_path / "run.prof", run)
    found = load_run(tmp_path / "run.prof")
    assert found.series.time_ns.tolist() == series().time_ns.tolist()
    assert found.series.columns.keys() == {"busy_s", "runnable"}
    for name, column in series().columns.items():
        np.testing.assert_array_equal(found.series.columns[name], column)
    for process, original in zip(found.processes, run.processes, strict=True):
        assert process.profiled == original.profiled
        assert process.peak_threads == original.peak_threads
        if original.samples is None:
            assert process.samples is None
            continue
        assert process.samples is not None
        for name in ("tid", "time_ns", "run_ns", "wait_ns"):
            assert getattr(process.samples, name).tolist() == getattr(original.samples, name).tolist()
    assert found.manifest.sampler == run.manifest.sampler
    assert found.machine == run.machine


def test_a_run_that_nobody_sampled_has_none_of_their_members(tmp_path: Path) -> None:
    write_run(tmp_path / "run.prof", run_of(None))
    with zipfile.ZipFile(tmp_path / "run.prof") as archive:
        assert not [name for name in archive.namelist() if name.startswith(("series/", "samples/"))]
        assert "samples" not in json.loads(archive.read("processes.json"))[0]
    found = load_run(tmp_path / "run.prof")
    assert found.series is None
    assert found.processes[0].samples is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run file with both."""
    write_run(tmp_path / "run.prof", run_of(samples(10), whole=series()))
    return tmp_path / "run.prof"


@pytest.mark.parametrize(
    ("member", "values", "says"),
    [
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
