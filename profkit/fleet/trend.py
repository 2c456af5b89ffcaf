"""Follow one function over days: its self time and share in each job, and where they changed for good."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.errors import UsageError
from profkit.fleet.query import opened
from profkit.fleet.store import Store
from profkit.measure.changepoints import change_points
from profkit.model import FunctionKey

#: Part (1) below which a change is not reported.
_LEAST_CHANGE = 0.03


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
             FROM own JOIN (SELECT run, total_s FROM runs) USING (run) GROUP BY ALL)
        SELECT job, any_value(root), any_value(file), any_value(name), list(strftime(day, '%Y-%m-%d') ORDER BY day),
            list(per_call ORDER BY day), list(s ORDER BY day), list(share ORDER BY day), list(runs ORDER BY day),
            sum(total) AS total
        FROM each GROUP BY job, function ORDER BY total DESC, job, function
        """,
        [name, file, job],
    ).fetchall()
    if not found:
        raise UsageError(f"{function}: no run of the store has such a function")
    return Trends(function, tuple(_followed(*row) for row in found))


def _followed(
    job: str,
    root: str,
    file: str,
    name: str,
    days: list[str],
    per_call: list[float | None],
    self_s: list[float],
    share: list[float | None],
    runs: list[int],
    total: float,
) -> FunctionTrend:
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
