"""Evidence of waiting for a CPU: which threads, functions and ranges queued, and who took the CPUs."""

from __future__ import annotations

import numpy as np

from profkit.measure.inventory import Inventory
from profkit.measure.range_stats import RangeChange
from profkit.measure.side_neighbours import NOTICED
from profkit.verdict.evidence.producing import LEAST_SHARE, NAMED, Found, Producers, of_sides
from profkit.verdict.rule import Case, Judged
from profkit.verdict.thresholds import value
from profkit.verdict.types import Evidence, Value

#: Least part of all queueing in functions for one to be named.
LEAST_PART = 0.05


def _active(run_s: float | None, wait_s: float | None) -> float | None:
    return None if run_s is None or wait_s is None else run_s + wait_s


def _queue(case: Judged) -> Found:
    """Return queueing of the threads that carry the cause: the main thread's, one rank's, or the helpers'."""
    a, b = case.before, case.now
    who = str(case.read("contention.who"))
    if who == "main":
        yield Evidence(
            "main.queue",
            "s",
            a.main_wait_s,
            b.main_wait_s,
            reading="no-cpu-free",
            whole=(_active(a.main_run_s, a.main_wait_s), _active(b.main_run_s, b.main_wait_s)),
        )
    if who == "rank":
        yield Evidence(
            "rank.wait",
            "share",
            a.worst_wait_fraction,
            b.worst_wait_fraction,
            value("wait.much"),
            "others-wait-for-rank",
        )
    if who == "helpers" or (b.rest_wait_fraction or 0.0) >= value("wait.much"):
        yield from _helpers_queue(case)


def _helpers_queue(case: Judged) -> Found:
    a, b = case.before, case.now
    if b.rest_wait_s is None:
        return
    yield Evidence(
        "helpers.queue",
        "s",
        a.rest_wait_s,
        b.rest_wait_s,
        reading="main-waits-for-helpers" if str(case.read("contention.who")) == "helpers" else "no-cpu-free",
        whole=(_active(a.rest_run_s, a.rest_wait_s), _active(b.rest_run_s, b.rest_wait_s)),
    )


def _main_wait(case: Judged) -> Found:
    before, now, much = case.before.wait_fraction, case.now.wait_fraction, value("wait.much")
    if now is not None:
        as_before = before is not None and now - before <= value("wait.growth")
        reading = "cpus-were-free" if now <= much else "as-beside-baseline" if as_before else ""
        yield Evidence("main.wait", "share", before, now, much, reading)


def _main_wait_before(case: Case) -> Found:
    a, b = case.before, case.now
    before, fell = case.number("main.wait-before"), case.number("main.wait-fell")
    if before >= value("wait.much") and fell >= value("wait.growth"):
        yield Evidence(
            "main.wait", "share", a.wait_fraction, b.wait_fraction, value("wait.much"), "baseline-starved"
        )


def _demand(case: Judged) -> Found:
    a, b = case.before, case.now
    if b.demand_cores is None or b.available_cpus is None:
        return
    reading = "own-threads-compete" if case.read("contention.itself") else "within-cpus"
    if case.read("throttled") and b.throttled and b.throttled > value("throttled"):
        reading = "quota"
    alone = not case.account.baseline_s > 0
    yield Evidence(
        "demand.after-start" if alone else "demand",
        "cores",
        a.demand_cores,
        case.number("demand") * b.available_cpus,
        value("demand.self") * b.available_cpus,
        reading,
        whole=(a.available_cpus, b.available_cpus),
    )


def _asked(case: Case) -> Found:
    """Return the cores that both sides' pools ask for, if known and too many."""
    a, b = case.before.inventory, case.now.inventory
    if not case.read("contention.itself") or a.expected_cores is None or b.expected_cores is None:
        return
    library, threads, alike, origin, variable = _largest_pool(b)
    yield Evidence(
        "pools.asked",
        "cores",
        a.expected_cores,
        b.expected_cores,
        b.available_cpus,
        "pool" if library else "",
        subject=library,
        whole=(a.available_cpus, b.available_cpus),
        numbers={"threads": threads, "processes": alike, "origin": origin, "variable": variable},
    )


def _pool_widths(case: Case) -> Found:
    """Return the threads of all pools, and what set the size of the candidate's largest, of the same library."""
    a, b = case.before, case.now
    if a.pool_threads == b.pool_threads:
        return
    library = _largest_pool(a.inventory)[0]
    pools = [
        pool for process in b.inventory.processes for pool in process.pools or () if pool.library == library
    ]
    largest = max(pools, key=lambda pool: pool.threads or 0, default=None)
    numbers = (
        {"threads": largest.threads, "origin": largest.origin, "variable": largest.variable}
        if largest
        else {}
    )
    yield Evidence(
        "pools.threads",
        "count",
        a.pool_threads,
        b.pool_threads,
        reading="pool" if largest else "",
        subject=library,
        numbers=numbers,
    )


def _cores_used(case: Case) -> Found:
    a, b = case.before, case.now
    yield Evidence(
        "cores.used", "cores", a.own_cores, b.own_cores, whole=(a.available_cpus, b.available_cpus)
    )


def _largest_pool(of: Inventory) -> tuple[str, int, int, str, str]:
    """Return library, threads, processes with that pool, the size's origin, and the variable."""
    working = [process for process in of.processes if not process.idle]
    pools = [(pool.threads or 0, pool, process.pid) for process in working for pool in process.pools or ()]
    threads, largest, _ = max(pools, key=lambda found: found[0], default=(0, None, None))
    if largest is None or threads <= 1:
        return "", 0, 0, "", ""
    alike = len({pid for size, _, pid in pools if size == threads})
    return largest.library, threads, alike, largest.origin, largest.variable


def _others(case: Judged) -> Found:
    a, b = case.before, case.now
    if b.others_cores is None:
        return
    reading = "machine-idle"
    if case.read("contention.others"):
        reading = "other-programs"
    elif b.others_cores >= value("others"):
        reading = "as-beside-baseline" if a.others_cores is not None else "other-programs"
    yield Evidence("others", "cores", a.others_cores, b.others_cores, value("others"), reading)


def _neighbours(case: Judged) -> Found:
    """Return other programs that ran while the candidate queued, most CPU first."""
    found = case.now.neighbours
    if found is None or not case.read("contention.others"):
        return
    named = [one for one in found.listed if one.cores >= NOTICED]
    numbers: dict[str, Value] = {"named": len(named)}
    for place, one in enumerate(named[:NAMED]):
        numbers |= {
            f"name-{place}": one.name,
            f"pid-{place}": one.pid,
            f"processes-{place}": one.processes,
            f"group-{place}": one.group,
            f"children-{place}": one.children,
            f"cores-{place}": one.cores,
        }
    unseen = found.unseen_cores or 0.0
    if unseen >= value("others") and unseen > sum(one.cores for one in named):
        numbers["hidden" if not found.all_visible else "unseen"] = unseen
    if len(numbers) > 1:
        yield Evidence("neighbours", "text", reading="who-ran", numbers=numbers)


def _steal(case: Case) -> Found:
    a, b = case.before, case.now
    stolen, before = b.steal_cores or 0.0, a.steal_cores or 0.0
    if stolen >= value("steal") and stolen - before >= value("steal.growth"):
        yield Evidence("steal", "cores", a.steal_cores, b.steal_cores, value("steal"), "other-guests")


def _pressure(case: Case) -> Found:
    a, b = case.before, case.now
    if b.psi_share is not None and a.psi_share is not None:
        yield Evidence("pressure", "share", a.psi_share, b.psi_share, reading="pressure")


def _queue_functions(case: Case) -> Found:
    table = case.signals.table
    after, before = table.candidate.wait, table.baseline.wait
    if after is None or float(after.sum()) <= 0:
        return
    whole = float(after.sum())
    for row in np.argsort(-after, kind="stable")[:NAMED].tolist():
        if after[row] < LEAST_PART * whole:
            break
        yield Evidence(
            "function.queue",
            "s",
            None if before is None else float(before[row]),
            float(after[row]),
            reading="of-all-queueing",
            subject=table.shown(row),
            whole=(float(table.baseline.tottime[row]), float(table.candidate.tottime[row])),
            numbers={"share": float(after[row]) / whole},
        )


def _queue_ranges(case: Case) -> Found:
    changes: list[tuple[float, RangeChange]] = [
        (change.candidate.wait_s, change)
        for change in case.signals.ranges
        if change.candidate is not None
        and change.candidate.wait_s is not None
        and (change.candidate.wait_share or 0.0) >= LEAST_SHARE
    ]
    for _, change in sorted(changes, key=lambda item: -item[0])[:NAMED]:
        rows = (change.baseline, change.candidate)
        seconds = [None if row is None else row.wait_s for row in rows]
        wholes = [
            row.wait_s / row.wait_share if row is not None and row.wait_s and row.wait_share else None
            for row in rows
        ]
        yield Evidence(
            "range.queue",
            "s",
            seconds[0],
            seconds[1],
            subject=change.key.name,
            reading="nvtx-range",
            whole=(wholes[0], wholes[1]),
        )


CPU_COMPETITION: Producers = {
    "queue": _queue,
    "helpers-queue": _helpers_queue,
    "main-wait": _main_wait,
    "main-wait-before": _main_wait_before,
    "demand": _demand,
    "asked": _asked,
    "python-threads": of_sides("threads.python", "count", lambda side: float(side.python_threads)),
    "threads-at-work": of_sides("threads.working", "count", lambda side: side.working_threads),
    "pool-widths": _pool_widths,
    "workers-at-once": lambda case: [
        Evidence("workers", "count", case.read("workers-before"), case.read("workers"))
    ],
    "cores-used": _cores_used,
    "cpu-time": of_sides("cpu.time", "s", lambda side: side.own_run_s),
    "others": _others,
    "neighbours": _neighbours,
    "steal": _steal,
    "pressure": _pressure,
    "throttled": of_sides(
        "throttled", "share", lambda side: side.throttled, reading="quota-used-up", threshold="throttled"
    ),
    "queue-functions": _queue_functions,
    "queue-ranges": _queue_ranges,
}
