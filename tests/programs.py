"""Runs made by construction: what each function ran, queued and stood still is given, all else follows from that.

A test then knows each bucket of an account before it asks for it. Wall, kernel counters, cumulative times and
caller–callee sums are derived here; nothing is drawn by chance.
"""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from profkit.compare.pair import pair_of
from profkit.compare.signals import signals_of
from profkit.model import (
    Edges,
    Effect,
    Host,
    Machine,
    Process,
    Profile,
    Roots,
    Run,
    RunSet,
    Thread,
    Tier,
)
from profkit.verdict.account import BUCKETS, CAPTURE, GPU, PAUSES, Account
from profkit.verdict.diagnosis import diagnose
from profkit.verdict.judge import case_of
from profkit.verdict.rule import Case
from profkit.verdict.types import Diff
from tests.builders import Row, manifest, profile, with_main

PROJECT_FILE = "/w/m.py"
#: A native lock, in which a main thread waits for its workers or for anything else.
ACQUIRE = "<method 'acquire' of '_thread.lock' objects>"
#: Where a consumer waits for what a loader thread hands over.
QUEUE_GET = "/usr/lib/python3.11/queue.py"
#: The identity holds to rounding.
ROUNDING = 1e-9
#: Buckets that only newer tracers fill.
WHERE_KNOWN = (*PAUSES, GPU, CAPTURE)
#: Marks a source that is made of the function's name: the same on both sides unless a test says otherwise.
_OWN = "own"


@dataclass(frozen=True)
class Fn:
    """What one function does by itself: seconds on a CPU, queueing for one, and off the CPU otherwise.

    `callers` are calls by the name of the caller; what is missing to `calls` came from outside of the profile.
    `source` stands for the hash of its source, and is empty where that is not known.
    """

    name: str
    calls: int = 1
    run: float = 0.0
    queue: float = 0.0
    off: float = 0.0
    callers: Mapping[str, int] = field(default_factory=dict)
    file: str = PROJECT_FILE
    source: str = _OWN

    @property
    def active(self) -> float:
        """Self time: all of it."""
        return self.run + self.queue + self.off


def _profile(functions: Sequence[Fn], *, traced: bool) -> Profile:
    """Build the profile of one thread, with edges and cumulative times."""
    at = {fn.name: i for i, fn in enumerate(functions)}
    parts = np.array([[fn.active, fn.queue, fn.off] for fn in functions], np.float64)
    within = _cumulative(functions, at, parts)
    native = [fn.name.startswith("<") for fn in functions]
    rows = [
        Row(
            "~" if is_native else fn.file,
            0 if is_native else 10 * i + 1,
            fn.name,
            fn.calls,
            float(parts[i, 0]),
            float(within[i, 0]),
            source="" if is_native else f"source of {fn.name}" if fn.source == _OWN else fn.source,
            wait=float(parts[i, 1]) if traced else None,
            cumwait=float(within[i, 1]) if traced else None,
        )
        for i, (fn, is_native) in enumerate(zip(functions, native, strict=True))
    ]
    pairs = [(at[caller], i, calls) for i, fn in enumerate(functions) for caller, calls in fn.callers.items()]
    counts = np.array([calls for _, _, calls in pairs], np.int64)
    callee = np.array([i for _, i, _ in pairs], np.int32)
    share = counts / np.array([max(1, functions[i].calls) for _, i, _ in pairs])
    edges = Edges(
        np.array([caller for caller, _, _ in pairs], np.int32),
        *(callee, counts, counts),
        share * parts[callee, 0],
        share * within[callee, 0],
    )
    return replace(
        profile(rows),
        edges=edges if pairs else None,
        blocked=parts[:, 2].copy() if traced else None,
        cumblocked=within[:, 2].copy() if traced else None,
    ).validate()


def _cumulative(functions: Sequence[Fn], at: Mapping[str, int], parts: np.ndarray) -> np.ndarray:
    """Sums including callees, of functions that do not recurse."""
    calls = np.zeros((len(functions), len(functions)))
    for i, fn in enumerate(functions):
        for caller, count in fn.callers.items():
            calls[at[caller], i] = count / max(1, fn.calls)
    within = parts.copy()
    for _ in functions:
        within = parts + calls @ within
    return within


def program(
    functions: Sequence[Fn],
    *,
    startup: float = 0.2,
    workers: Sequence[Sequence[Fn]] = (),
    helpers: Sequence[tuple[float, float]] = (),
    others: float = 0.0,
    cpus: int = 2,
    exit_status: int | None = 0,
    host: str = "host",
    cpu_model: str = "cpu",
    environment: Mapping[str, str] | None = None,
    command: tuple[str, ...] = ("python", "train.py"),
    path: str = "run.prof",
) -> Run:
    """Build a captured run whose main thread calls these functions.

    `startup` is seconds of the wall around the main thread's life, `workers` the functions of processes that
    were profiled, `helpers` what processes that were not profiled ran and queued, and `others` the cores that the
    rest of the machine used.
    """
    machine_host = Host(name=host, cpu_model=cpu_model, cpus=cpus, affinity=cpus)
    roots = Roots(stdlib=("/usr/lib/python3.11",), project=("/w",))

    def process(pid: int, role: str, fns: Sequence[Fn]) -> Process:
        run, queue, life = (sum(getattr(fn, name) for fn in fns) for name in ("run", "queue", "active"))
        thread = Thread(_profile(fns, traced=True), tid=pid, run_s=run, run_queue_wait_s=queue)
        return Process(
            pid=pid,
            role=role,
            wall_s=life,
            cpu_s=run,
            run_queue_wait_s=queue,
            python="3.11.7",
            threads=(thread,),
            roots=roots,
            host=machine_host,
        )

    main = process(100, "main", functions)
    profiled = [process(200 + i, "worker", fns) for i, fns in enumerate(workers)]
    seen = [
        Process(pid=300 + i, parent=100, role="worker", cpu_s=run, run_queue_wait_s=queue, profiled=False)
        for i, (run, queue) in enumerate(helpers)
    ]
    processes = (main, *profiled, *seen)
    wall = startup + main.wall_s
    own = sum(p.cpu_s or 0.0 for p in processes)
    known = {"command": command, "exit_status": exit_status, "environment": environment or {}}
    machine = Machine(cpus=cpus, wall_s=wall, busy_s=own + others * wall)
    return Run(path, processes, manifest=manifest(wall, machine_host, **known), machine=machine)


def plain(functions: Sequence[Fn], path: str = "plain.prof") -> Run:
    """Build what cProfile alone writes of the same: times and calls, no counters, no sources."""
    bare = [replace(fn, source="") for fn in functions]
    return Run(path, (Process(threads=(Thread(_profile(bare, traced=False)),)),))


def one_side(*runs: Run, label: str = "side") -> RunSet:
    """Build a side."""
    return RunSet(label, runs)


def training(
    steps: int = 100,
    *,
    per_step: Mapping[str, int] | None = None,
    times: Mapping[str, float] | None = None,
    changed: Mapping[str, str] | None = None,
    slower: float = 1.0,
    ratio: float = 0.0,
    extra: Sequence[Fn] = (),
) -> list[Fn]:
    """Functions of a small training loop: 3.2 s in all, of which ``sharpen`` below ``blur`` takes 1 s.

    ``main`` calls ``step`` once for each step; a step calls ``load``, ``blur`` (which calls ``sharpen``), ``forward``
    and ``backward``, each of which calls the native ``dot``. `per_step` are calls of ``sharpen`` per call of ``blur``
    (5), or of another function per step (1); `times` are factors of CPU time per call by function, and `slower` is
    that of all; `changed` are other sources by name; `ratio` is queueing for each second of CPU time.
    """
    per = {"load": 1, "blur": 1, "sharpen": 5, "forward": 1, "backward": 1, "dot": 4, **(per_step or {})}
    factor = times or {}

    def fn(name: str, cost: float, **callers: int) -> Fn:
        calls = sum(callers.values()) or 1
        run = slower * factor.get(name, 1.0) * cost * calls
        source = (changed or {}).get(name, _OWN)
        return Fn(name, calls, run, ratio * run, callers=callers, source=source)

    n = steps
    dot = "<built-in method lib.dot>"
    product = fn("dot", 0.001, forward=per["dot"] * n, backward=per["dot"] * n)
    return [
        fn("main", 0.01),
        fn("step", 0.0005, main=n),
        fn("load", 0.002, step=per["load"] * n),
        fn("blur", 0.001, step=per["blur"] * n),
        fn("sharpen", 0.002, blur=per["sharpen"] * per["blur"] * n),
        fn("forward", 0.004, step=per["forward"] * n),
        fn("backward", 0.006, step=per["backward"] * n),
        replace(product, name=dot),
        *extra,
    ]


def side(extra: Sequence[Fn] = (), **more: Any) -> Run:
    """Build a run of that loop and of what a test adds to it; `more` are options of `training` and of `program`."""
    of_loop = {name: more.pop(name) for name in inspect.signature(training).parameters if name in more}
    return program([*training(**of_loop), *extra], **more)


def _sides(*sides: Run | RunSet) -> tuple[RunSet, ...]:
    return tuple(side if isinstance(side, RunSet) else one_side(side) for side in sides)


def compare(baseline: Run | RunSet, candidate: Run | RunSet, process: str | None = None) -> Case:
    """What a comparison of two sides is judged by."""
    return case_of(signals_of(pair_of(*_sides(baseline, candidate), process=process)))


def diffed(baseline: Run | RunSet, candidate: Run | RunSet) -> Diff:
    """The whole result of a comparison."""
    return diagnose(*_sides(baseline, candidate))


def sampled(run: Run) -> Run:
    """The same run as far as the kernel's counters show it: no queueing and no time off the CPU by function."""

    def bare(thread: Thread) -> Thread:
        prof = thread.profile
        return replace(thread, profile=replace(prof, wait=None, blocked=None, cumwait=None, cumblocked=None))

    return replace(
        run, processes=tuple(replace(p, threads=tuple(map(bare, p.threads))) for p in run.processes)
    )


def estimated(
    run: Run,
    half_width: float | None = 0.0,
    *,
    of: Mapping[str, float | None] | None = None,
    period: float = 0.001,
) -> Run:
    """The same run as the sampled tier captures it, with the true values as its estimates.

    `half_width` is half the width of the intervals of calls over the calls, ``None`` where they are not known, `of`
    the same by function, `period` the seconds between two samples of a thread. A function that no sample met, in
    itself or in what it calls, is left out.
    """

    def sampled_profile(prof: Profile) -> Profile:
        samples = np.floor(prof.tottime / period).astype(np.int64)
        names = [prof.strings[i] for i in prof.name.tolist()]
        widths = np.array([(of or {}).get(name, half_width) for name in names], np.float64)
        known = np.isfinite(widths)
        edge = np.nan_to_num(widths) * prof.ncalls
        edges = prof.edges
        if edges is not None:
            counts = (np.where(known[edges.callee], c, 0) for c in (edges.ncalls, edges.primitive_calls))
            edges = Edges(edges.caller, edges.callee, *counts, edges.tottime, edges.cumtime)
        full = replace(
            prof,
            edges=edges,
            ncalls=np.where(known, prof.ncalls, 0),
            primitive_calls=np.where(known, prof.primitive_calls, 0),
            calls_low=np.where(known, np.maximum(prof.ncalls - edge, 0.0), np.nan),
            calls_high=np.where(known, prof.ncalls + edge, np.nan),
            samples=samples,
            tottime_error=1.96 * np.sqrt(samples) * period,
        )
        return full.only(prof.cumtime >= period).validate()

    processes = tuple(
        replace(
            process,
            threads=tuple(replace(t, profile=sampled_profile(t.profile)) for t in process.threads),
            tiers=(Tier("sampled", 0.0),) if process.threads else (),
        )
        for process in run.processes
    )
    return replace(run, processes=processes)


def on(run: Run, day: int, minute: int = 0, **changes: object) -> Run:
    """The same run, so many days after the first of March."""
    first = datetime.datetime(2026, 3, 1, 9, 30, tzinfo=datetime.timezone.utc)
    started = (first + datetime.timedelta(days=day, minutes=minute)).isoformat()
    return replace(run, manifest=replace(run.manifest, started=started, **changes))


def captured(run: Run, seconds: float, error: float = 0.0) -> Run:
    """The same run with what capture is estimated to have added to the wall of its first process."""
    return with_main(run, effect=Effect(seconds, seconds - error, seconds + error))


def assert_adds_up(found: Account, walls: Sequence[float] | None = None) -> None:
    """Its buckets are all there, and their sum is what the candidate took more."""
    assert tuple(b.name for b in found.buckets if b.name not in WHERE_KNOWN) == BUCKETS
    whole = max(abs(found.baseline_s), abs(found.candidate_s))
    assert math.fsum(b.seconds for b in found.buckets) == pytest.approx(found.added_s, abs=ROUNDING * whole)
    if walls is not None:
        assert (found.baseline_s, found.candidate_s) == pytest.approx(tuple(walls), rel=ROUNDING)
