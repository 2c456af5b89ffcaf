"""A small run that holds everything a run file can, for tests that then damage its file.

`small_run` is a sample cut down to a few rows, and filled up with what it lacks, so that every member and every field
of the format is there and every command has something to say about it in a few hundredths of a second.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from profkit.formats import load_run
from profkit.model import (
    Git,
    Job,
    Notice,
    OpenCall,
    Paths,
    Process,
    Profile,
    RangeCalls,
    Ranges,
    Run,
    Thread,
    ThreadSamples,
)
from profkit.model.columns import column_dtypes
from profkit.model.thread import Definition, WrittenSize, name_digest
from tests.shared import SAMPLES

#: Functions of each thread, and ranges and samples of each process, that are kept.
ROWS = 30


def _inside(profile: Profile) -> RangeCalls:
    """Say that the first functions ran inside a range that another one is inside of."""
    index, count, seconds = np.arange(2, dtype=np.int32), np.array([5, 5]), np.array([0.25, 0.5])
    return RangeCalls(
        ("", "step {n}", "load"),
        parent=index - 1,
        name=index + 1,
        domain=index * 0,
        opener=index - 1,
        count=count,
        context=index,
        function=index,
        ncalls=count,
        tottime=seconds,
        wait=seconds / 2,
        blocked=seconds * np.nan,
    ).validate(len(profile))


def _paths(profile: Profile) -> Paths:
    """Say that the first function called the second, and that one others."""
    seconds = np.array([0.25, 0.5, 0.125])
    return Paths(
        np.array([-1, 0, 1], np.int32),
        np.array([0, 1, -1], np.int32),
        np.array([1, 5, 9]),
        seconds,
        seconds / 2,
        seconds * np.nan,
    ).validate(len(profile))


def _thread(thread: Thread, inside: bool) -> Thread:
    profile = thread.profile.only(np.arange(len(thread.profile)) < ROWS).validate()
    seen = {
        name: None if seen is None else tuple(one for one in seen if one.function < len(profile))[:ROWS]
        for name, seen in (("pauses", thread.pauses), ("slices", thread.slices))
    }
    lines = thread.lines
    if lines is not None:
        lines = tuple(one for one in lines if max(one.function, one.within) < len(profile))[:ROWS]
    return replace(
        thread,
        profile=profile,
        open_calls=(OpenCall(0, 1.5),) if len(profile) else (),
        range_calls=_inside(profile) if inside and len(profile) > 1 else None,
        paths=_paths(profile) if inside and len(profile) > 1 else None,
        written_sizes=(WrittenSize(0, "pool"),) if len(profile) else (),
        definitions=(Definition(0, name_digest("main"), "0123456789abcdef"),) if len(profile) else (),
        lines=lines,
        **seen,
    )


def _process(process: Process) -> Process:
    ranges, samples = process.ranges, process.samples
    if ranges is not None:
        columns = {name: getattr(ranges, name)[:ROWS].copy() for name in column_dtypes(Ranges)}
        ranges = replace(ranges, **columns).validate()
    if samples is not None:
        columns = {name: getattr(samples, name)[:ROWS].copy() for name in column_dtypes(ThreadSamples)}
        samples = ThreadSamples(**columns).validate()
    return replace(
        process,
        threads=tuple(_thread(thread, inside=i == 0) for i, thread in enumerate(process.threads)),
        ranges=ranges,
        samples=samples,
        notes=(Notice("waiting-sampled", "", {"rate": 50.0}),),
    )


@functools.cache
def joinable_run() -> Run:
    """Return such a run with other ranks, and nothing that says of which job: `small_run` may be joined with it."""
    run = small_run("clean-1")
    processes = (p if p.rank is None else replace(p, rank=p.rank + 2) for p in run.processes)
    return replace(run, manifest=replace(run.manifest, job=None), processes=tuple(processes))


def small_run(name: str = "oversubscribed") -> Run:
    """Return a run of ``sample_profiles/mpi_train`` that is small and complete."""
    run = load_run(SAMPLES / "mpi_train" / f"{name}.prof")
    manifest = replace(
        run.manifest,
        git=Git(revision="0123456789abcdef", dirty=True),
        job=Job(id="job:7", rank=0, world_size=2),
    )
    return replace(
        run,
        manifest=manifest,
        processes=tuple(map(_process, run.processes)),
        warnings=(Notice("process-killed", "", {"lost_s": 0.25, "idle_lost_s": 1.5, "pids": (10, 11)}),),
        machines={"one": run.machine, "other": run.machine},
    ).validate()
