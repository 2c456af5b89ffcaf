"""Compute the figures of a study's settings: median, interval, speed-up, and which may be the best.

Times are compared as logarithms, because noise is a factor. Quantiles are simulated with a fixed seed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from profkit.measure.intervals import Estimate
from profkit.model.arrays import Floats
from profkit.study.journal import Trial
from profkit.study.objectives import WALL, Objective
from profkit.study.space import Parameter, Setting, Space, is_number

#: Coverage of intervals, and of the set of settings that may be the best.
LEVEL = 0.95
#: Number of simulated studies, which give the 95 % quantile to about 1 %.
DRAWS = 4000
SEED = 12
#: Words in names of parameters that count threads or processes.
_RESOURCES = ("thread", "worker", "proc", "rank", "core", "job", "cpu")


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting and the results of its runs; figures are NaN if unknown.

    `low` and `high`: interval of `LEVEL` around `median`. `efficiency`: speed-up over the factor of threads
    and processes, against the setting with the fewest. `cores`: CPU seconds over wall. `queue_share`,
    `blocked_share`: fractions of the wall. `best`: it may be the best setting. `ended_early`: runs that could
    no longer become the best. `disturbed`: runs that count although other processes took CPUs.
    """

    setting: Setting
    times: tuple[float, ...]
    median: float
    low: float
    high: float
    speedup: float
    efficiency: float
    cores: float
    queue_share: float
    blocked_share: float
    cause: str
    kind: str
    best: bool
    failed: int
    ended_early: int
    disturbed: int
    problem: str


@dataclass(frozen=True, slots=True)
class Results:
    """A study so far: one cell per setting, in the order of the grid.

    `best` has the best median; `advised` needs the fewest threads and processes, then the least CPU time,
    among settings that may be the best. `spread`: standard deviation of ln(time) within a setting, NaN if
    none has two runs.
    """

    parameters: tuple[Parameter, ...]
    cells: tuple[Cell, ...]
    baseline: int
    best: int | None
    advised: int | None
    spread: float
    objective: Objective = WALL


def results(
    space: Space,
    trials: Sequence[Trial],
    *,
    baseline: Setting | None = None,
    objective: Objective = WALL,
) -> Results:
    """Return the figures of all settings; speed-ups refer to `baseline`, by default the first setting.

    Multiple comparisons with the best (Hsu, Annals of Statistics 9, 1981), on medians: with confidence
    `LEVEL` for the whole study, a better setting exists for each one that is excluded.
    """
    settings = space.settings()
    by_setting: dict[Setting, list[Trial]] = {setting: [] for setting in settings}
    for trial in trials:
        by_setting.get(space.setting_of(trial.setting), []).append(trial)
    maximise = objective.maximise
    counted = {setting: _counted(found) for setting, found in by_setting.items()}
    times = [
        np.array([x for x in map(objective.figure, counted[setting]) if x is not None and x > 0])
        for setting in settings
    ]
    medians = np.array([median_of(t) for t in times])
    spread = pooled_spread(times)
    half, apart = median_quantiles(tuple(len(t) for t in times))
    known = np.flatnonzero(np.isfinite(medians))
    best = None
    if len(known):
        best = int(known[np.argmax(medians[known]) if maximise else np.argmin(medians[known])])
    at = 0 if baseline is None else settings.index(baseline)
    counts = resources(space.parameters)
    efficiency = _efficiency(settings, 1 / medians if maximise else medians, counts)
    cells = []
    for i, setting in enumerate(settings):
        worse = 0.0 if best is None else abs(math.log(medians[i] / medians[best]))
        width = spread * half[i]
        speedup = medians[i] / medians[at] if maximise else medians[at] / medians[i]
        runs, found = counted[setting], by_setting[setting]
        verdicts = Counter((trial.cause, trial.kind) for trial in runs)
        cause, kind = max(verdicts, key=verdicts.__getitem__, default=("", ""))
        failures = [trial for trial in found if trial.status in ("failed", "timeout")]
        cells.append(
            Cell(
                setting=setting,
                times=tuple(times[i].tolist()),
                median=float(medians[i]),
                low=float(medians[i] * math.exp(-width)),
                high=float(medians[i] * math.exp(width)),
                speedup=float(speedup),
                efficiency=float(efficiency[i]),
                cores=median_of(t.cpu_s / t.wall_s for t in runs if t.cpu_s and t.wall_s),
                queue_share=median_of(
                    t.queue_s / t.wall_s for t in runs if t.queue_s is not None and t.wall_s
                ),
                blocked_share=median_of(
                    t.blocked_s / t.wall_s for t in runs if t.blocked_s is not None and t.wall_s
                ),
                cause=cause,
                kind=kind,
                best=bool(np.isfinite(medians[i]) and (i == best or worse <= spread * apart)),
                failed=len(failures),
                ended_early=sum(trial.status == "pruned" for trial in found),
                disturbed=sum(trial.status == "disturbed" for trial in runs),
                problem=failures[-1].problem if failures else "",
            )
        )
    advised = None if best is None else _advised(cells, best, counts)
    return Results(space.parameters, tuple(cells), at, best, advised, spread, objective)


def _advised(cells: Sequence[Cell], best: int, counts: tuple[int, ...]) -> int:
    """Return the setting that needs the fewest resources among those that may be the best."""

    def cost(i: int) -> tuple[float, float, bool]:
        cell = cells[i]
        size = _product(cell.setting, counts) if counts else 0.0
        if math.isnan(size):
            size = math.inf
        cpu_s = cell.cores * cell.median
        return size, cpu_s if math.isfinite(cpu_s) else 0.0, i != best

    return min((i for i, cell in enumerate(cells) if cell.best), key=cost)


def gain(study: Results, before: int, after: int, level: float = LEVEL) -> Estimate:
    """Return how many times better cell `after` is than cell `before`, with an interval of `level`."""
    a, b = study.cells[before], study.cells[after]
    ratio = b.median / a.median if study.objective.maximise else a.median / b.median
    if not math.isfinite(study.spread) or not math.isfinite(ratio):
        return Estimate(ratio)
    counts = tuple(len(cell.times) for cell in study.cells)
    measured = _simulated(counts)
    width = study.spread * float(np.quantile(np.abs(measured[:, before] - measured[:, after]), level))
    return Estimate(ratio, ratio * math.exp(-width), ratio * math.exp(width))


def _efficiency(settings: Sequence[Setting], medians: Floats, counts: tuple[int, ...]) -> Floats:
    """Return T₁ p₁ / (T p) of every setting, where p₁ is the least p that succeeded."""
    if not counts:
        return np.full(len(settings), math.nan)
    used = np.array([_product(setting, counts) for setting in settings])
    cost: Floats = medians * used
    known = np.flatnonzero(np.isfinite(cost))
    if not len(known):
        return cost
    fewest = min(known.tolist(), key=lambda i: (float(used[i]), float(medians[i])))
    return np.asarray(cost[fewest] / cost)


def resources(parameters: Sequence[Parameter]) -> tuple[int, ...]:
    """Return the positions of the parameters that count threads or processes."""
    return tuple(
        i
        for i, parameter in enumerate(parameters)
        if any(word in parameter.name.lower() for word in _RESOURCES)
        and all(map(is_number, parameter.values))
    )


def _product(setting: Setting, positions: Sequence[int]) -> float:
    """Return how many threads and processes a setting asks for; NaN if a library takes its default."""
    values = [setting[i] for i in positions]
    if not all(map(is_number, values)):
        return math.nan
    # 0 workers: one process does the work.
    return float(math.prod(max(1, int(value)) for value in values))


def _counted(found: Sequence[Trial]) -> list[Trial]:
    """Return for each round the run that succeeded, or a disturbed one if there is no other."""
    rounds: dict[int, Trial] = {}
    for trial in found:
        if trial.status == "done" or (trial.status == "disturbed" and trial.round not in rounds):
            rounds[trial.round] = trial
    return [rounds[number] for number in sorted(rounds)]


def median_of(values: Iterable[float]) -> float:
    """Return the median; NaN without values."""
    found = list(values)
    return float(np.median(found)) if found else math.nan


def pooled_spread(times: Sequence[Floats]) -> float:
    """Return the pooled standard deviation of ln(time) within the settings; NaN if none has two runs."""
    freedom = sum(max(len(t) - 1, 0) for t in times)
    if not freedom:
        return math.nan
    squares = sum(float(((np.log(t) - np.log(t).mean()) ** 2).sum()) for t in times if len(t) > 1)
    return math.sqrt(squares / freedom)


def _simulated(counts: tuple[int, ...]) -> Floats:
    """Simulate medians of pure noise (draws × settings), in units of the spread of the same simulated study.

    Some setting must have two runs; those without runs are NaN.
    """
    random = np.random.default_rng(SEED)
    medians = np.full((DRAWS, len(counts)), np.nan)
    squares = np.zeros(DRAWS)
    for i, count in enumerate(counts):
        if count:
            drawn = random.standard_normal((DRAWS, count))
            medians[:, i] = np.median(drawn, axis=1)
            squares += ((drawn - drawn.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    freedom = sum(max(count - 1, 0) for count in counts)
    return medians / np.sqrt(squares / freedom)[:, None]


def median_quantiles(counts: tuple[int, ...]) -> tuple[Floats, float]:
    """Return half widths of the medians' intervals, and how far the best may lie above the least median.

    Both are in units of the spread, and NaN if no setting has two runs.
    """
    half = np.full(len(counts), math.nan)
    if max(counts, default=0) < 2:
        return half, math.nan
    ran = np.flatnonzero(counts)
    measured = _simulated(counts)[:, ran]
    half[ran] = np.quantile(np.abs(measured), LEVEL, axis=0)
    # Any setting may be the best; the one with the fewest runs is the least certain.
    one = int(np.argmin(np.array(counts)[ran]))
    return half, float(np.quantile(measured[:, one] - measured.min(axis=1), LEVEL))
