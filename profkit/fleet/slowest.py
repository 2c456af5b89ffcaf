"""Find what changed for good in a fleet, since when, and where: jobs, functions over days, single runs."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from profkit.errors import UsageError
from profkit.fleet.query import asking, named, no_such_job, opened
from profkit.fleet.rows import SMALL
from profkit.fleet.store import Store
from profkit.measure.changepoints import LEAST_RUNS, change_points, divergence, shifts
from profkit.measure.function_orders import MAD_SCALE
from profkit.measure.waits_by_name import is_wait, waits_for_ranks
from profkit.model import FunctionKey
from profkit.model.arrays import Floats

if TYPE_CHECKING:
    import duckdb


#: Least part (1) of a process's time, on any day, for a function to be followed.
FLOOR = 0.002
#: Standard errors from which a shift counts, of a function's time and of a job's wall: at most one of 1 000
#: unchanged functions reaches it (`python -m benchmarks.fleet`).
SIGMAS, _JOB_SIGMAS = 6.5, 5.0
#: Part (1) below which a shift is not reported.
_LEAST_CHANGE = 0.03
#: Functions from which a factor common to a day is attributed to its machine.
_COMMON = 10
#: An outlying run exceeds the median by this part (1) and by this many deviations, among at least so many runs.
_LONGER, _DEVIATIONS, _SEVERAL = 0.05, 4.0, 8


@dataclass(frozen=True, slots=True)
class SlowerJob:
    """A job whose wall (median of a day's runs, seconds) grew for good on a day."""

    job: str
    since: str
    before_s: float
    after_s: float


@dataclass(frozen=True, slots=True)
class SlowerFunction:
    """A function whose self time in a run (median of a day's runs, seconds) grew for good on a day.

    `calls` and `per_call`: ratios of the medians, NaN if unknown. `share`: added time as a part (1) of the
    job's total. `sigmas`: standard errors of the shift.
    """

    job: str
    key: FunctionKey
    since: str
    before_s: float
    after_s: float
    calls: float
    per_call: float
    share: float
    sigmas: float


#: Fields of `SlowerFunction` from `since` on.
_Grown: TypeAlias = tuple[str, float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class SlowerRun:
    """A run that took longer than its job's runs in the two weeks around it; `queued` is a part (1)."""

    job: str
    day: str
    path: str
    host: str
    wall_s: float
    usual_s: float
    queued: float | None


@dataclass(frozen=True, slots=True)
class Slowest:
    """What got slower, each kind with the greatest loss first; `series` counts the followed functions."""

    runs: int
    days: int
    series: int
    jobs: tuple[SlowerJob, ...]
    functions: tuple[SlowerFunction, ...]
    outliers: tuple[SlowerRun, ...]


@asking
def slowest(store: Store, job: str = "") -> Slowest:
    """Find what got slower in a fleet, or in one job of it."""
    connection = opened(store, ("runs", "functions"))
    connection.execute(
        """
        CREATE TEMP TABLE ended AS SELECT job, day, path, host, wall_s, cpu_s, run_queue_wait_s, exit_status FROM runs
        WHERE $1 IN ('', job)
        """,
        [job],
    )
    ((runs, days),) = connection.execute("SELECT count(*), count(DISTINCT day) FROM ended").fetchall()
    if not runs:
        raise no_such_job(connection, job)
    connection.execute("DELETE FROM ended WHERE coalesce(exit_status, 0) <> 0 OR coalesce(wall_s, 0) <= 0")
    series, functions = _slower_functions(connection, job)
    jobs = tuple(_slower_jobs(connection))
    return Slowest(runs, days, series, jobs, tuple(functions), _outliers(connection))


def _slower_jobs(connection: duckdb.DuckDBPyConnection) -> Iterator[SlowerJob]:
    found = connection.execute(
        """
        SELECT job, list(strftime(day, '%Y-%m-%d') ORDER BY day), list(wall ORDER BY day) FROM
            (SELECT job, day, median(wall_s) AS wall FROM ended GROUP BY ALL)
        GROUP BY job ORDER BY job
        """,
    ).fetchall()
    connection.execute("CREATE TEMP TABLE turns (job VARCHAR, day DATE)")
    for name, days, walls in found:
        edges = _edges(np.log(walls), _JOB_SIGMAS)
        for at in edges[1:-1]:
            connection.execute("INSERT INTO turns VALUES ($1, $2)", [name, days[at]])
        if len(edges) > 2:
            before, after = (float(np.median(walls[a:b])) for a, b in (edges[-3:-1], edges[-2:]))
            if after > before:
                yield SlowerJob(name, days[edges[-2]], before, after)


def _edges(logs: Floats, sigmas: float) -> list[int]:
    """Return where a series' parts begin, and its length; the parts differ by more than `sigmas`."""
    edges = {0, len(logs)}
    parts = [(0, len(logs))]
    while parts:
        begin, end = parts.pop()
        if end - begin >= 2 * LEAST_RUNS:
            part = logs[begin:end]
            _, size, beyond = (float(value[0]) for value in shifts(part[None, :]))
            if beyond >= sigmas and abs(size) >= np.log1p(_LEAST_CHANGE):
                at = begin + divergence(part)[0]
                edges.add(at)
                parts += [(begin, at), (at, end)]
    return sorted(edges)


def _slower_functions(connection: duckdb.DuckDBPyConnection, job: str) -> tuple[int, list[SlowerFunction]]:
    """Return how many functions were followed, and those that take longer for good, greatest loss first."""
    # Smaller rows are negligible beside the offset that `_grown` adds to each time.
    connection.execute(
        """
        CREATE TEMP TABLE heavy AS SELECT job, day, function, median(s) AS s, median(n) AS n, max(share) AS share FROM
            (SELECT job, day, run, function, sum(tottime) AS s, sum(ncalls) AS n, max(share) AS share
             FROM functions WHERE share >= $1 AND $2 IN ('', job)
                AND run NOT IN (SELECT run FROM runs WHERE coalesce(exit_status, 0) <> 0) GROUP BY ALL)
        GROUP BY ALL
        """,
        [SMALL, job],
    )
    days_of: dict[str, list[datetime.date]] = {}
    for name, day in connection.execute("SELECT DISTINCT job, day FROM heavy ORDER BY ALL").fetchall():
        days_of.setdefault(name, []).append(day)
    series = 0
    found: list[tuple[str, int, str, _Grown]] = []
    for of_job, days in days_of.items():
        if len(days) < 2 * LEAST_RUNS:
            continue
        rows = connection.execute(
            """
            SELECT function, list(day), list(s), list(n) FROM heavy WHERE job = $1
            GROUP BY function HAVING max(share) >= $2 ORDER BY function
            """,
            [of_job, FLOOR],
        ).fetchall()
        place = {day: at for at, day in enumerate(days)}
        seconds, calls = np.zeros((2, len(rows), len(days)))
        for at, (_, on, s, n) in enumerate(rows):
            where = [place[day] for day in on]
            seconds[at, where], calls[at, where] = s, np.array(n, np.float64)
        series += len(rows)
        grown = _grown([day.isoformat() for day in days], seconds, calls)
        found += [(of_job, rows[row][0], last, facts) for row, last, facts in grown]
    keys = named(connection, [(number, last) for _, number, last, _ in found])
    # Functions that wait by design only reflect what others need.
    kept = [
        SlowerFunction(of_job, keys[number], *facts)
        for of_job, number, _, facts in found
        if not is_wait(keys[number].qualname, keys[number].root)
        and not waits_for_ranks(keys[number].qualname)
    ]
    return series, sorted(kept, key=lambda f: (f.before_s - f.after_s, f.job, f.key))


def _grown(days: Sequence[str], seconds: Floats, calls: Floats) -> Iterator[tuple[int, str, _Grown]]:
    """Yield rows of a job (functions × days) that take longer for good, and their last days."""
    whole = seconds.sum(axis=0)
    # The offset gives new and vanished functions a finite ratio.
    logs = np.log(seconds + SMALL * float(np.median(whole)))
    if len(seconds) >= _COMMON:
        # Remove the factor of a day's machine.
        logs = logs - np.median(logs - np.median(logs, axis=1, keepdims=True), axis=0)
    _, size, beyond = shifts(logs)
    for row in np.flatnonzero((beyond >= SIGMAS) & (np.abs(size) >= np.log1p(_LEAST_CHANGE))).tolist():
        edges = _edges(logs[row], SIGMAS)
        if len(edges) < 3:
            continue
        parts = [slice(*edges[-3:-1]), slice(*edges[-2:])]
        before, after = (float(np.median(seconds[row, part])) for part in parts)
        if after <= before or np.median(logs[row, parts[1]]) <= np.median(logs[row, parts[0]]):
            continue
        n = [float(np.median(calls[row, part])) for part in parts]
        ratio = n[1] / n[0] if n[0] > 0 else np.nan
        per_call = (after / before) / ratio if before > 0 and ratio > 0 else np.nan
        added = (after - before) / float(np.median(whole[parts[0]]))
        since, sigmas = days[edges[-2]], float(beyond[row])
        last = days[int(np.flatnonzero(seconds[row])[-1])]
        yield row, last, (since, before, after, ratio, per_call, added, sigmas)


def _outliers(connection: duckdb.DuckDBPyConnection) -> tuple[SlowerRun, ...]:
    """Return runs that took longer than those around them, between two changes of the job's wall."""
    found = connection.execute(
        """
        SELECT job, strftime(day, '%Y-%m-%d'), path, coalesce(host, ''), wall_s, usual, queued FROM
            (SELECT *, run_queue_wait_s / nullif(cpu_s + run_queue_wait_s, 0) AS queued,
                median(wall_s) OVER around AS usual, mad(wall_s) OVER around AS scatter,
                count(*) OVER around AS several
             FROM (SELECT *, (SELECT count(*) FROM turns WHERE turns.job = ended.job AND turns.day <= ended.day)
                   AS part FROM ended)
             WINDOW around AS (PARTITION BY job, part ORDER BY day
                               RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND INTERVAL 7 DAYS FOLLOWING))
        WHERE several >= $1 AND wall_s > usual * (1 + $2) AND wall_s > usual + $3 * scatter
        ORDER BY wall_s / usual DESC, path
        """,
        [_SEVERAL, _LONGER, _DEVIATIONS * MAD_SCALE],
    ).fetchall()
    return tuple(SlowerRun(*row) for row in found)


@dataclass(frozen=True, slots=True)
class DayShift:
    """A lasting change of `what`, self time of a call (s) or share (1), with the medians around it."""

    what: str
    since: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class FunctionTrend:
    """A function in one job: medians per day, NaN where calls are unknown, and `total_s` of all runs."""

    job: str
    key: FunctionKey
    days: tuple[str, ...]
    per_call_s: tuple[float, ...]
    self_s: tuple[float, ...]
    share: tuple[float, ...]
    runs: tuple[int, ...]
    total_s: float
    shifts: tuple[DayShift, ...]


@dataclass(frozen=True, slots=True)
class Trends:
    """The functions that match a name, by job, the one with the most time first."""

    asked: str
    trends: tuple[FunctionTrend, ...]


@asking
def trend(store: Store, function: str, job: str = "") -> Trends:
    """Follow NAME, a qualified name's end, or FILE:NAME over days; raises `UsageError` if not found."""
    connection = opened(store, ("runs", "functions"))
    file, _, name = function.rpartition(":") if not function.startswith("<") else ("", "", function)
    found = connection.execute(
        """
        WITH own AS
            (SELECT job, day, run, function, any_value(root) AS root, any_value(file) AS file,
                any_value(name) AS name, sum(tottime) AS s, sum(ncalls) AS n FROM functions
             WHERE (name = $1 OR ends_with(name, '.' || $1)) AND ($2 = '' OR file = $2 OR ends_with(file, '/' || $2))
                AND $3 IN ('', job) GROUP BY ALL),
        each AS
            (SELECT job, day, function, any_value(root) AS root, any_value(file) AS file, any_value(name) AS name,
                median(s / nullif(n, 0)) AS per_call, median(s) AS s, median(s / nullif(total_s, 0)) AS share,
                count(*) AS runs, sum(s) AS total
             FROM own JOIN (SELECT run, total_s FROM runs WHERE coalesce(exit_status, 0) = 0) USING (run)
             GROUP BY ALL)
        SELECT job, any_value(root), any_value(file), any_value(name), list(strftime(day, '%Y-%m-%d') ORDER BY day),
            list(per_call ORDER BY day), list(s ORDER BY day), list(share ORDER BY day), list(runs ORDER BY day),
            sum(total) AS total
        FROM each GROUP BY job, function ORDER BY total DESC, job, function
        """,
        [name, file, job],
    ).fetchall()
    if not found:
        raise UsageError(f"{function}: no run of the store that succeeded has such a function")
    return Trends(function, tuple(map(_followed, found)))


def _followed(row: Sequence[Any]) -> FunctionTrend:
    job, root, file, name, days, per_call, self_s, share, runs, total = row
    known = [np.array(values, np.float64) for values in (per_call, share)]  # NaN where unknown
    changes = []
    for what, values in zip(("self time of a call", "share"), known, strict=True):
        if (values > 0).all():
            for point in change_points(values.tolist(), least_change=_LEAST_CHANGE):
                changes.append(DayShift(what, days[point.at], point.before, point.after))
    return FunctionTrend(
        job,
        FunctionKey(root, file, name),
        tuple(days),
        tuple(known[0].tolist()),
        tuple(self_s),
        tuple(known[1].tolist()),
        tuple(runs),
        total,
        tuple(changes),
    )
