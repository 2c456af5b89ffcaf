"""How many threads and processes work at once, and how many CPUs they kept busy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from profkit.measure.side_facts import SideFacts
from profkit.verdict.readings.known_values import factor_of, of_sides
from profkit.verdict.rule import Case, Reading


def _at_once(side: SideFacts) -> float:
    """Return processes at once, whether they work or wait: a loader that waits for its storage is one as well."""
    return float(side.inventory.workers + max(1, side.inventory.ranks))


def _beyond_fewer(count: Callable[[SideFacts], int]) -> Callable[[Case], float | None]:
    """Return the slow-down over what fewer workers can cost, where they do all the work (Amdahl 1967)."""

    def read(case: Case) -> float | None:
        before, now = (max(1, count(side)) for side in (case.before, case.now))
        slowdown = case.read("time.slowdown")
        return slowdown * now / before if isinstance(slowdown, float) else None

    return read


AT_WORK: Mapping[str, Reading] = {
    **of_sides("workers", "count", "processes at once: the main process or the ranks, and workers", _at_once),
    "time.beyond-fewer": Reading(
        "factor",
        "the slow-down over the factor by which there are fewer workers or ranks",
        _beyond_fewer(lambda side: side.inventory.workers + side.inventory.ranks),
    ),
    **of_sides("python-threads", "count", "threads that run Python", lambda side: float(side.python_threads)),
    "pooled-threads.factor": factor_of(
        "threads that ThreadPoolExecutor or ThreadPool started,", lambda side: float(side.pooled_threads)
    ),
    "python-threads.factor": factor_of(
        "those besides the main one,", lambda side: float(side.python_threads - 1)
    ),
    "time.beyond-fewer-threads": Reading(
        "factor",
        "the slow-down over the factor by which there are fewer threads that run Python, besides the main one",
        _beyond_fewer(lambda side: side.python_threads - 1),
    ),
    "workers.factor": factor_of("processes at once", _at_once),
    **of_sides(
        "processes", "count", "processes of the run, one after another too", lambda side: side.processes
    ),
    "processes.factor": factor_of("processes", lambda side: side.processes),
    **of_sides(
        "threads-at-work",
        "count",
        "threads that run or queue for a part of the wall that counts",
        lambda side: side.working_threads,
    ),
    "threads-at-work.factor": factor_of("threads-at-work", lambda side: side.working_threads),
    "pools.factor": factor_of("widths of the thread pools of libraries,", lambda side: side.pool_threads),
    "cpus.factor": factor_of("CPUs available", lambda side: side.available_cpus),
    "cores": Reading("cores", "CPUs that the program kept busy", lambda c: c.now.own_cores),
    "cores.factor": factor_of("CPUs that the program kept busy,", lambda side: side.own_cores),
    "cpu.factor": factor_of("CPU time of the whole program", lambda side: side.own_run_s),
}
