"""How many threads and processes work at once, and how many CPUs they kept busy."""

from __future__ import annotations

from collections.abc import Mapping

from profkit.measure.side_facts import SideFacts
from profkit.verdict.readings.known_values import factor
from profkit.verdict.rule import Reading


def at_once(side: SideFacts) -> float:
    """Return how many processes of a side work at once."""
    return float(sum(host.working for host in side.inventory.hosts))


AT_WORK: Mapping[str, Reading] = {
    "workers": Reading("count", "processes that work at once", lambda c: at_once(c.now)),
    "workers-before": Reading("count", "workers of the baseline", lambda c: at_once(c.before)),
    "workers.factor": Reading(
        "factor", "workers over the baseline's", lambda c: factor(at_once(c.before), at_once(c.now))
    ),
    "processes": Reading("count", "processes of the run, one after another too", lambda c: c.now.processes),
    "processes-before": Reading("count", "processes of the baseline", lambda c: c.before.processes),
    "processes.factor": Reading(
        "factor",
        "processes over the baseline's",
        lambda c: factor(c.before.processes, c.now.processes),
    ),
    "threads-at-work": Reading(
        "count",
        "threads that run or queue for a part of the wall that counts",
        lambda c: c.now.working_threads,
    ),
    "threads-at-work-before": Reading(
        "count", "threads-at-work of the baseline", lambda c: c.before.working_threads
    ),
    "threads-at-work.factor": Reading(
        "factor",
        "threads-at-work over the baseline's",
        lambda c: factor(c.before.working_threads, c.now.working_threads),
    ),
    "pools.factor": Reading(
        "factor",
        "widths of the thread pools of libraries, over the baseline's",
        lambda c: factor(c.before.pool_threads, c.now.pool_threads),
    ),
    "cpus.factor": Reading(
        "factor",
        "CPUs available over the baseline's",
        lambda c: factor(c.before.available_cpus, c.now.available_cpus),
    ),
    "cores": Reading("cores", "CPUs that the program kept busy", lambda c: c.now.own_cores),
    "cores.factor": Reading(
        "factor",
        "CPUs that the program kept busy, over the baseline's",
        lambda c: factor(c.before.own_cores, c.now.own_cores),
    ),
    "cpu.factor": Reading(
        "factor",
        "CPU time of the whole program over the baseline's",
        lambda c: factor(c.before.own_run_s, c.now.own_run_s),
    ),
}
