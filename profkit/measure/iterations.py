"""Iterations of a training loop from its NVTX ranges: what bounds them, and how long they wait for data.

In turn, loading and computing add up; with a loader in other threads, an iteration takes the longer of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from profkit.errors import UsageError
from profkit.measure.inventory import most_at_once
from profkit.measure.role_parts import COMPUTE, ITERATION, LOAD, WAIT, RolePart, new_time, role_parts
from profkit.measure.role_parts import IterationNames as IterationNames
from profkit.model import Run
from profkit.model.arrays import Floats, Ints, known, median

#: Least number of iterations for a meaningful median.
MIN_ITERATIONS = 5
#: A first iteration this many times the 90th percentile of the second half is warming up. Repeats of one
#: program vary by up to 1.36× (DETECTION §2). A loop that sometimes waits for its loader has two kinds of
#: iterations, hence the percentile.
WARM_UP_FACTOR = 1.5
#: Largest part (0 to 1) of the iterations that can be warm-up; beyond it the loop itself became faster.
WARM_UP_MOST = 0.25
#: Part of an iteration (0 to 1) from which waiting for the loader exceeds handing over a batch.
NOTICEABLE_WAIT = 0.1


@dataclass(frozen=True, slots=True)
class Spread:
    """A time per iteration in seconds; only the mean is known of an overlapped loader."""

    mean_s: float
    median_s: float | None
    p95_s: float | None


@dataclass(frozen=True, slots=True)
class IterationModel:
    """Iterations of one consumer thread: the slowest of all `consumers`.

    `iteration` names the ranges around whole iterations (`delimited`), or the range that begins each: an
    iteration then ends with its last computing range. `loads`, `computes` and `waits` are range names;
    `count` excludes the first `left_out` iterations. `duration` runs from end to end of iterations. Without
    named computing, `compute` is all that is neither loading nor waiting; `outside` is in no range. `load` is
    per iteration; for an overlapped loader it is the mean divided by the number of `loaders` (0: the consumer
    loads itself). `wait` is the consumer's own loading or waiting. Both are ``None`` without such ranges.

    `bound` is ``sum`` (in turn), ``loading`` or ``compute`` (`overlapped`: the longer), or ``None`` without named
    loading. `waited` counts iterations with at least `NOTICEABLE_WAIT` of waiting; `consumer_wait_share` is 0 to 1.
    `batch` is samples per iteration, from `batch_from` (``--batch-size`` or ``payload``).
    """

    pid: int | None
    rank: int | None
    thread: str
    consumers: int
    iteration: str
    delimited: bool
    loads: tuple[str, ...]
    computes: tuple[str, ...]
    waits: tuple[str, ...]
    count: int
    left_out: int
    why_left_out: str
    duration: Spread
    compute: Spread
    load: Spread | None
    wait: Spread | None
    outside: Spread
    loaders: int
    overlapped: bool
    bound: str | None
    waited: int | None
    consumer_wait_share: float | None
    predicted_s: float | None
    steps_per_s: float
    batch: float | None = None
    batch_from: str = ""
    samples_per_s: float | None = None


def iteration_model(run: Run, names: IterationNames | None = None) -> IterationModel | None:
    """Return a run's iterations, ``None`` if too few; raise `UsageError` for an unknown range name."""
    said = names or IterationNames()
    parts = role_parts(run, said)
    consumers = _consumers(parts)
    models = known(_model(parts, index, thread, consumers, said) for index, thread in consumers)
    if not models:
        if said.iteration:
            raise UsageError(
                f"{run.path} has fewer than {MIN_ITERATIONS} of them in any thread",
                parameter="iteration",
                value=said.iteration[0],
            )
        return None
    slowest = max(models, key=lambda model: model.duration.mean_s)
    return replace(slowest, consumers=len(models))


def typical_model(models: Sequence[IterationModel | None]) -> IterationModel | None:
    """Return the model with the median rate, from several runs of one program."""
    in_order = sorted(known(models), key=lambda model: model.steps_per_s)
    return in_order[(len(in_order) - 1) // 2] if in_order else None


def _consumers(parts: Sequence[RolePart]) -> list[tuple[int, int]]:
    """Return the threads that compute, else those that have iterations, as (part, thread)."""
    for role in (COMPUTE, ITERATION):
        found = [(i, tid) for i, part in enumerate(parts) for tid in np.unique(part.of(role).thread).tolist()]
        if found:
            return found
    return []


def _model(
    parts: Sequence[RolePart],
    index: int,
    thread: int,
    consumers: Sequence[tuple[int, int]],
    said: IterationNames,
) -> IterationModel | None:
    own = parts[index].take(parts[index].thread == thread)
    cycle = _iterations(own)
    if cycle is None or len(cycle.end) < MIN_ITERATIONS or (said.iteration and not cycle.delimited):
        return None
    computing, loading, waiting = (own.of(role) for role in (COMPUTE, LOAD, WAIT))
    n = len(cycle.end)
    first = min(cycle.begin, int(own.begin.min()))
    edges = np.concatenate([[first], cycle.end])
    duration = np.diff(edges) / 1e9
    compute = _per_iteration(computing, cycle.end)
    # Loading and waiting together: a range named ``next batch`` may contain the loading.
    away = _per_iteration(own.of(LOAD, WAIT), cycle.end)
    left_out = warming_up(duration)
    used = slice(left_out, None)
    loader_threads, loaded_s, loaded = _loaders(parts, index, consumers, int(edges[left_out]), int(edges[-1]))
    names = [loading.names(), computing.names(), waiting.names()]
    waited = away if len(loading) or len(waiting) else None
    outside = np.maximum(duration - compute - away, 0.0)
    if not len(computing):
        compute, outside = outside, np.zeros(n)
    spent: Spread | None
    if loader_threads:
        # With other loaders, the consumer's own "loading" ranges are waits for them.
        spent = Spread(loaded_s / loader_threads / (n - left_out), None, None)
        names = [loaded, names[1], tuple(dict.fromkeys([*names[0], *names[2]]))]
    else:
        # Waiting ranges without loading ranges: there is a loader, but without ranges.
        spent = None if waited is None else _spread(waited[used])
    share = None if waited is None else float(waited[used].sum() / duration[used].sum())
    overlapped = loader_threads > 0
    usual = float(compute[used].mean())
    if spent is None:
        bound, predicted = None, None
    elif not overlapped:
        bound, predicted = "sum", usual + spent.mean_s
    else:
        starved = share >= NOTICEABLE_WAIT if share is not None else spent.mean_s > usual
        bound, predicted = "loading" if starved else "compute", max(usual, spent.mean_s)
    rate = float((n - left_out) / duration[used].sum())
    batch, batch_from = _batch(cycle.batch[used], said)
    process = parts[index].process
    return IterationModel(
        pid=process.pid,
        rank=process.rank,
        thread=next((t.name for t in process.threads if t.tid == thread and t.name), str(thread)),
        consumers=1,
        iteration=cycle.name,
        delimited=cycle.delimited,
        loads=names[0],
        computes=names[1],
        waits=names[2],
        count=n - left_out,
        left_out=left_out,
        why_left_out=_why(duration, left_out),
        duration=_spread(duration[used]),
        compute=_spread(compute[used]),
        load=spent,
        wait=None if waited is None else _spread(waited[used]),
        outside=_spread(outside[used]),
        loaders=loader_threads,
        overlapped=overlapped,
        bound=bound,
        waited=None if waited is None else int((waited[used] >= NOTICEABLE_WAIT * duration[used]).sum()),
        consumer_wait_share=share,
        predicted_s=predicted,
        steps_per_s=rate,
        batch=batch,
        batch_from=batch_from,
        samples_per_s=None if batch is None else batch * rate,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Cycle:
    """Where the iterations of a thread end, and where the first begins; nanoseconds."""

    name: str
    delimited: bool
    begin: int
    end: Ints
    batch: Floats


def _iterations(own: RolePart) -> _Cycle | None:
    whole = own.of(ITERATION)
    if len(whole):
        # With several names, take the one with most time: a step inside an iteration is not the iteration.
        names, which = np.unique(whole.label.astype(str), return_inverse=True)
        seconds = np.bincount(which.reshape(-1), (whole.end - whole.begin) / 1e9)
        name = str(names[int(seconds.argmax())])
        whole = whole.take(whole.label == name)
        if len(whole) >= MIN_ITERATIONS:
            whole = whole.take(new_time(whole.begin, whole.end) > 0)  # drop nested ones of one name
            return _Cycle(name, True, int(whole.begin[0]), np.maximum.accumulate(whole.end), whole.batch)
    computing = own.of(COMPUTE)
    computing = computing.take(new_time(computing.begin, computing.end) > 0)
    if not len(computing):
        return None
    starts = np.flatnonzero(computing.label == computing.label[0])
    ends = np.maximum.reduceat(computing.end, starts)
    return _Cycle(
        str(computing.label[0]),
        False,
        int(computing.begin[0]),
        np.maximum.accumulate(ends),
        computing.batch[starts],
    )


def _per_iteration(part: RolePart, ends: Ints) -> Floats:
    """Return the seconds that the ranges cover in each iteration, counted where they end."""
    index = np.searchsorted(ends, part.end, "left")
    sums = np.bincount(index, new_time(part.begin, part.end) / 1e9, len(ends) + 1)
    return np.asarray(sums[: len(ends)], float)  # drops ranges that end after the last iteration


def warming_up(duration: Floats) -> int:
    """Return how many iterations at the start took markedly longer than those of the second half."""
    usual = float(np.percentile(duration[len(duration) // 2 :], 90))
    usually = np.flatnonzero(duration <= WARM_UP_FACTOR * usual)
    lead = int(usually[0]) if len(usually) else 0
    return lead if lead <= WARM_UP_MOST * len(duration) and len(duration) - lead >= MIN_ITERATIONS else 0


def _why(duration: Floats, left_out: int) -> str:
    if not left_out:
        return ""
    times = float(median(duration[:left_out]) / median(duration[left_out:]))
    return f"warming up: {times:.1f} times as long as the others"


def _loaders(
    parts: Sequence[RolePart], index: int, consumers: Sequence[tuple[int, int]], begin: int, end: int
) -> tuple[int, float, tuple[str, ...]]:
    """Return how many threads at once loaded for this consumer in its iterations, their seconds and ranges."""
    lives: list[tuple[int, int]] = []
    seconds, names = 0.0, dict[str, None]()
    own = parts[index]
    alone = len({parts[i].process.pid for i, _ in consumers}) == 1
    for i, part in enumerate(parts):
        # Clocks of two hosts are not comparable.
        if part.host != own.host or not (alone or i == index or part.process.parent == own.process.pid):
            continue
        loading = part.of(LOAD)
        loading = loading.take((loading.end > begin) & (loading.begin < end))
        for tid in np.unique(loading.thread).tolist():
            if (i, tid) in consumers:
                continue
            mine = loading.take(loading.thread == tid)
            clipped = new_time(np.maximum(mine.begin, begin), np.minimum(mine.end, end))
            # Workers may be restarted every epoch.
            lives.append((max(begin, int(mine.begin.min())), min(end, int(mine.end.max()))))
            seconds += float(clipped.sum()) / 1e9
            names.update(dict.fromkeys(mine.names()))
    return most_at_once(lives), seconds, tuple(names)


def _spread(seconds: Floats) -> Spread:
    return Spread(float(seconds.mean()), float(median(seconds)), float(np.percentile(seconds, 95)))


def _batch(payload: Floats, said: IterationNames) -> tuple[float | None, str]:
    """Return the samples of an iteration, and the source of that number."""
    if said.batch_size is not None:
        return float(said.batch_size), "--batch-size"
    if not len(payload) or np.isnan(payload).any() or (payload <= 0).any():
        return None, ""
    step = np.diff(payload)
    # A counter of steps (which may restart in each epoch) or of epochs is no batch size; a smaller last batch is one.
    epochs = step.any() and np.isin(step, (0, 1)).all()
    if len(step) and ((step > 0).all() or (step == 1).mean() >= 0.5 or epochs):
        return None, ""
    return float(payload.mean()), "payload"
