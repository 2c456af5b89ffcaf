"""Make a fleet: run files of real captures, day after day, with measured noise and known regressions.

Each job is one of the sample profiles with 2 000 functions. A function's time in a run is that of the sample times a
factor drawn from how the functions of two clean repeats of one program differ, the run's own factor (3 %), and its
host's; one host of twelve computes 12 % longer, another one queues. From a day on, three functions of each job take
longer, half of them by more calls. Seeds are fixed.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from profkit.formats.load import load_run
from profkit.formats.runfile import write_run
from profkit.identity.function_keys import function_keys
from profkit.measure.waits_by_name import is_wait
from profkit.model import Process, Run, Thread
from profkit.model.merge import merge_profiles

Floats = npt.NDArray[np.float64]

SAMPLES = Path(__file__).resolve().parents[2] / "sample_profiles"
_BASES = ("train_mlp", "tokenize_corpus", "mpi_train", "gpu_train")
FUNCTIONS = 2000
HOSTS = tuple(f"node{i:02d}" for i in range(12))
SLOW, STARVED = "node07", "node11"
_SLOW_BY, _STARVED_BY, _RUN_NOISE = 1.12, 0.35, 0.03
#: Share of its process's time from which a function is one to make slower, and by how much.
_HEAVY, _LEAST, _MOST = 0.01, 1.25, 2.0
_FIRST = datetime.datetime(2026, 1, 1, 2, 0, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True)
class Regression:
    """A function of a job that takes `factor` times as long from a day on, by more calls or longer ones."""

    job: str
    path: str
    name: str
    day: int
    factor: float
    calls: bool


def day_of(number: int) -> str:
    """Return the date of a day of the fleet."""
    return (_FIRST + datetime.timedelta(days=number)).date().isoformat()


def regressions(jobs: Sequence[str], days: int, count: int) -> list[Regression]:
    """Draw regressions, as many of each job, with at least six days before and behind each."""
    random = np.random.default_rng(30)
    found = []
    for number, job in zip(range(count), itertools.cycle(jobs), strict=False):
        run = base(job)
        keys = [
            key
            for process in run.processes
            for key, s in zip(
                function_keys(process.threads[0].profile, process.roots),
                process.threads[0].profile.tottime / max(1e-9, sum(t.profile.total for t in process.threads)),
                strict=True,
            )
            if s >= _HEAVY and not is_wait(key.qualname, key.root)
        ]
        taken = {(f.path, f.name) for f in found if f.job == job}
        left = [key for key in dict.fromkeys(keys) if (key.path, key.qualname) not in taken]
        key = left[int(random.integers(len(left)))]
        day = int(random.integers(6, days - 5))
        factor = float(random.uniform(_LEAST, _MOST))
        found.append(Regression(job, key.path, key.qualname, day, factor, number % 2 == 0))
    return found


@lru_cache
def base(job: str) -> Run:
    """Return the sample of a job, with as many functions as wanted."""
    run = load_run(SAMPLES / job.rpartition("_")[0] / "clean-1.prof")
    more = load_run(SAMPLES / "gpu_train" / "clean-1.prof").processes[0].threads[0].profile
    missing = FUNCTIONS - sum(len(thread.profile) for process in run.processes for thread in process.threads)
    if missing <= 0:
        return run
    main, *others = run.processes
    first, *threads = main.threads
    rows = np.argsort(more.tottime)[:missing]
    columns = ("file", "line", "name", "qualname", "module", "source_hash", "ncalls", "primitive_calls")
    times = ("tottime", "cumtime", "wait", "blocked", "cumwait", "cumblocked")
    few = replace(
        more,
        edges=None,
        **{name: getattr(more, name)[rows] for name in columns},
        **{name: getattr(more, name)[rows] * 0.01 for name in times if getattr(more, name) is not None},
    )
    first = replace(first, profile=merge_profiles([first.profile, few]))
    return replace(run, processes=(replace(main, threads=(first, *threads)), *others))


@lru_cache
def noise() -> Floats:
    """Return logarithms of how far functions' times of one clean run are from another's, for one of both."""
    sides = []
    for number in (1, 2):
        run = load_run(SAMPLES / "train_mlp" / f"clean-{number}.prof")
        own = run.processes[0]
        profile = merge_profiles([thread.profile for thread in own.threads])
        keys = function_keys(profile, own.roots)
        sides.append({k: s for k, s in zip(keys, profile.tottime, strict=True) if s > 5e-4 * profile.total})
    ratios = np.log([sides[1][key] / sides[0][key] for key in sides[0] if key in sides[1]])
    found: Floats = (ratios - np.median(ratios)) / np.sqrt(2)
    return found


def _thread(
    thread: Thread, process: Process, job: str, day: int, factor: float, queue: float, put: Sequence[Regression],
    random: np.random.Generator,
) -> Thread:  # fmt: skip
    own = thread.profile
    times = factor * np.exp(random.choice(noise(), len(own)))
    calls = np.ones(len(own))
    wanted = {(one.path, one.name): one for one in put if one.job == job and day >= one.day}
    if wanted:
        for row, key in enumerate(function_keys(own, process.roots)):
            one = wanted.get((key.path, key.qualname))
            if one is not None:
                times[row] *= one.factor
                calls[row] = one.factor if one.calls else 1.0
    tottime = own.tottime * times
    wait = None if own.wait is None or own.blocked is None else own.wait * times
    if wait is not None and own.blocked is not None:
        queued = queue * np.maximum(0.0, tottime - wait - own.blocked * times)
        tottime, wait = tottime + queued, wait + queued
    added = tottime - own.tottime
    ncalls = np.rint(own.ncalls * calls).astype(np.int64)
    made = replace(
        own,
        tottime=tottime,
        cumtime=np.maximum(own.cumtime + added, tottime),
        ncalls=ncalls,
        primitive_calls=np.minimum(own.primitive_calls, ncalls),
        wait=wait,
        blocked=None if own.blocked is None else own.blocked * times,
    )
    return replace(thread, profile=made)


def run_of(job: str, day: int, number: int, put: Sequence[Regression]) -> Run:
    """Make one run of a job."""
    run = base(job)
    assert run.manifest is not None
    seed = int.from_bytes(job.encode()) % (1 << 32)
    random = np.random.default_rng([seed, day, number])
    host = HOSTS[int(random.integers(len(HOSTS)))]
    factor = float(np.exp(random.normal(0.0, _RUN_NOISE))) * (_SLOW_BY if host == SLOW else 1.0)
    queue = _STARVED_BY if host == STARVED else 0.0
    described = replace(run.manifest.host, name=host)
    processes = []
    for process in run.processes:
        threads = tuple(_thread(t, process, job, day, factor, queue, put, random) for t in process.threads)
        cpu = None if process.cpu_s is None else process.cpu_s * factor
        waited = None if process.run_queue_wait_s is None else process.run_queue_wait_s * factor
        if cpu is not None and waited is not None:
            waited += queue * cpu
        processes.append(
            replace(
                process, threads=threads, cpu_s=cpu, run_queue_wait_s=waited, host=process.host and described
            )
        )
    added = sum(
        after.profile.total - before.profile.total * factor
        for after, before in zip(processes[0].threads, run.processes[0].threads, strict=True)
    )
    main = processes[0]
    if main.wall_s is not None:
        processes[0] = replace(main, wall_s=max(0.1, main.wall_s * factor + added))
    started = _FIRST + datetime.timedelta(days=day, minutes=number)
    manifest = replace(
        run.manifest,
        host=described,
        started=started.isoformat(),
        command=("python", f"{job}.py", "--seed", str(number)),
        wall_s=max(0.1, run.manifest.wall_s * factor + added),
    )
    return replace(run, processes=tuple(processes), manifest=manifest)


def _write(what: tuple[str, int], directory: Path, runs: int, put: Sequence[Regression]) -> None:
    job, day = what
    for number in range(runs):
        write_run(directory / f"{job}-{day_of(day)}-{number:03d}.prof", run_of(job, day, number, put))


def write_fleet(directory: Path, *, jobs: int, days: int, runs: int, count: int) -> list[Regression]:
    """Write `runs` files a day of each job, and return the regressions in them."""
    names = [f"{_BASES[i % len(_BASES)]}_{'abcdefghij'[i // len(_BASES)]}" for i in range(jobs)]
    put = regressions(names, days, count)
    write = partial(_write, directory=directory, runs=runs, put=put)
    with ProcessPoolExecutor() as pool:
        list(pool.map(write, itertools.product(names, range(days)), chunksize=4))
    return put
