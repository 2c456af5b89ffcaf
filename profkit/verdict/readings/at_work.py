"""How many threads and processes work at once, and how many CPUs they kept busy."""

from __future__ import annotations

from collections.abc import Mapping

from profkit.measure.side_facts import SideFacts
from profkit.verdict.readings.known_values import factor_of, of_sides
from profkit.verdict.rule import Reading


def _at_once(side: SideFacts) -> float:
    return float(sum(host.working for host in side.inventory.hosts))


AT_WORK: Mapping[str, Reading] = {
    **of_sides("workers", "count", "processes that work at once", _at_once),
    "workers.factor": factor_of("workers", _at_once),
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
