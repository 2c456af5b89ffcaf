"""Compare hosts within a job: which take longer for the same work, and which lack CPU time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from profkit.errors import UsageError
from profkit.fleet.query import asking, named, no_such_job, opened
from profkit.fleet.store import Store
from profkit.measure.function_orders import location_and_spread
from profkit.measure.waits_by_name import is_wait, waits_for_ranks
from profkit.model.arrays import Bools, Floats

#: Part (1) of a process's time from which a function's calls are compared.
_FLOOR = 0.005
#: An outlying host exceeds the median by this many deviations of the others, and by this part (1).
_DEVIATIONS, _LONGER = 4.0, 0.05
#: Fewest hosts of one job for a comparison.
LEAST_HOSTS = 4
#: Part (1) of running and queueing time from which queueing starves a host (`queue.least` of the verdict).
STARVED = 0.1


@dataclass(frozen=True, slots=True)
class FleetHost:
    """A host in one job, against the median of the job's hosts; ``None`` if unknown.

    `work`: CPU time per call, median ratio of its functions. `wall`: ratio of the runs' first processes.
    `queued`: part (1) of running and queueing time spent queueing. `yardsticks`: ratio for the machine's fixed work.
    """

    job: str
    host: str
    runs: int
    work: float | None
    wall: float | None
    queued: float | None
    yardsticks: float | None
    slower: bool = False
    starved: bool = False


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of each job, outlying ones first."""

    hosts: tuple[FleetHost, ...]


@asking
def hosts(store: Store, job: str = "") -> Hosts:
    """Compare the hosts of each job: how long the same work takes, and how much of it is queueing."""
    connection = opened(store, ("runs", "processes", "functions", "counters"))
    connection.execute(
        """
        CREATE TEMP TABLE ran AS SELECT job, date_trunc('week', day) AS week, run, process, host, wall_s, cpu_s,
            run_queue_wait_s FROM processes WHERE host IS NOT NULL AND $1 IN ('', job)
            AND run NOT IN (SELECT run FROM runs WHERE coalesce(exit_status, 0) <> 0)
        """,
        [job],
    )
    connection.execute(
        """
        CREATE TEMP TABLE calls AS SELECT f.job, date_trunc('week', f.day) AS week, f.run, ran.host, f.function,
            sum(coalesce(f.tottime - f.wait - f.blocked, f.tottime)) / sum(f.ncalls) AS per_call, max(f.day) AS day
        FROM functions f JOIN ran ON f.run = ran.run AND f.process = ran.process
        WHERE f.share >= $1 AND f.ncalls > 0 AND $2 IN ('', f.job)
        GROUP BY ALL
        """,
        [_FLOOR, job],
    )
    heavy = connection.execute(
        "SELECT function, strftime(max(day), '%Y-%m-%d') FROM calls GROUP BY function"
    ).fetchall()
    keys = named(connection, heavy)
    waits = [
        number
        for number, key in keys.items()
        if is_wait(key.qualname, key.root) or waits_for_ranks(key.qualname)
    ]
    connection.execute("DELETE FROM calls WHERE list_contains($1::BIGINT[], function)", [waits])
    found = connection.execute(
        """
        WITH usual AS
            (SELECT job, week, function, median(per_call) AS usual FROM calls GROUP BY ALL HAVING usual > 0),
        works AS
            (SELECT job, host, median(work) AS work FROM
                (SELECT job, host, run, median(per_call / usual) AS work
                 FROM calls JOIN usual USING (job, week, function) GROUP BY ALL) GROUP BY ALL),
        walls AS
            (SELECT job, host, median(wall_s / usual) AS wall FROM ran
             JOIN (SELECT job, week, median(wall_s) AS usual FROM ran WHERE process = 0 AND wall_s > 0 GROUP BY ALL)
             USING (job, week) WHERE process = 0 GROUP BY ALL),
        queues AS
            (SELECT job, host, count(DISTINCT run) AS runs,
                sum(run_queue_wait_s) / nullif(sum(cpu_s + run_queue_wait_s), 0) AS queued FROM ran GROUP BY ALL),
        sticks AS MATERIALIZED
            (SELECT host, name, median(value) AS value FROM counters
             WHERE starts_with(name, 'yardstick ') GROUP BY ALL),
        speeds AS
            (SELECT host, median(value / usual) AS speed FROM sticks
             JOIN (SELECT name, median(value) AS usual FROM sticks GROUP BY name) USING (name) GROUP BY host)
        SELECT job, host, runs, work, wall, queued, speed FROM queues LEFT JOIN works USING (job, host)
            LEFT JOIN walls USING (job, host) LEFT JOIN speeds USING (host) ORDER BY job, host
        """,
    ).fetchall()
    if not found:
        if not connection.execute("SELECT 1 FROM runs WHERE $1 IN ('', job) LIMIT 1", [job]).fetchall():
            raise no_such_job(connection, job)
        raise UsageError("no run of the store that succeeded says on which host it ran")
    of_job: dict[str, list[FleetHost]] = {}
    for row in found:
        of_job.setdefault(row[0], []).append(FleetHost(*row))
    judged = [judged for several in of_job.values() for judged in _judged(several)]
    return Hosts(tuple(sorted(judged, key=lambda h: (-h.slower - h.starved, -(h.work or 0), h.job, h.host))))


def _judged(several: Sequence[FleetHost]) -> Iterator[FleetHost]:
    """Yield the hosts of one job, marked as slower or starved."""
    work = np.array([host.work for host in several], np.float64)  # NaN where unknown
    queued = np.array([host.queued for host in several], np.float64)
    slower = _beyond(work, np.nanmedian(work) * _LONGER if np.isfinite(work).any() else 0.0)
    starved = _beyond(queued, 0.0) & (queued >= STARVED)
    for host, is_slower, is_starved in zip(several, slower.tolist(), starved.tolist(), strict=True):
        yield replace(host, slower=is_slower, starved=is_starved)


def _beyond(values: Floats, least: float) -> Bools:
    """Return which values exceed the median by `least` and by `_DEVIATIONS` of the scatter."""
    if np.isfinite(values).sum() < LEAST_HOSTS:
        return np.zeros(len(values), np.bool_)
    middle, scatter = location_and_spread(values)
    return values > middle + max(least, _DEVIATIONS * scatter)
