"""Waiting for a CPU: which threads queue, and who takes the CPUs."""

from __future__ import annotations

from collections.abc import Mapping

from profkit.model.arrays import known
from profkit.verdict.readings.known_values import growth, growth_of, of_sides
from profkit.verdict.rule import Case, Reading, less, more
from profkit.verdict.thresholds import value


def _worst(case: Case) -> float | None:
    return case.now.worst_wait_fraction if case.now.mains > 1 else None


def _who_queued(case: Case) -> str:
    """Return whose queueing is beyond its thresholds: the main thread's, one rank's, or the helpers'."""
    if case.account.helpers_queue:
        return "helpers"
    for name, before, after in (
        ("main", case.before.wait_fraction, case.now.wait_fraction),
        ("rank", case.before.worst_wait_fraction, _worst(case)),
    ):
        if before is None or after is None:
            continue
        if after >= value("wait.some") and after - before >= value("wait.some-growth"):
            return name
    return "helpers"


def _itself(case: Case) -> bool:
    """Return whether the program's own threads ask for more than the CPUs, or for more than before."""
    if (case.now.demand or 0.0) > value("demand.self"):
        return True
    return not _others(case) and bool(more_threads(case))


def _nobody_else(case: Case) -> bool:
    """Return whether no one else took CPUs, by the kernel's counts, from a program of more threads than CPUs."""
    b = case.now
    if b.others_cores is None or not b.available_cpus or b.threads <= b.available_cpus:
        return False
    free_of_others = b.others_cores < value("others.none") and (b.steal_cores or 0.0) < value("steal.growth")
    return free_of_others and not b.throttled


def _others(case: Case) -> bool:
    b = case.now
    if (b.others_cores or 0.0) >= value("others") and _others_added(case) >= value("others.growth"):
        return True
    stolen = (b.steal_cores or 0.0) >= value("steal") and _more_stolen(case) >= value("steal.growth")
    return stolen and not (b.demand or 0.0) > value("demand.self")


def _others_added(case: Case) -> float:
    return (case.now.others_cores or 0.0) - (case.before.others_cores or 0.0)


def _more_stolen(case: Case) -> float:
    return (case.now.steal_cores or 0.0) - (case.before.steal_cores or 0.0)


def more_threads(case: Case) -> bool | None:
    """Return whether the candidate has more runnable threads per CPU; ``None`` if unknown."""
    growth = _threads_growth(case)
    return None if growth is None else growth >= value("threads.more")


def _threads_growth(case: Case) -> float | None:
    """Return the greatest growth factor of threads or processes per CPU, over the ways to count them."""
    a, b = case.before, case.now
    most = None
    # Contention may raise the count of working threads, so more of them count only if there are more threads.
    working = b.working_threads if b.threads > a.threads else a.working_threads
    for before, after in (
        (a.pool_threads, b.pool_threads),
        (a.working_threads, working),
        (float(a.processes), float(b.processes)),
    ):
        if not before or after is None or not a.available_cpus or not b.available_cpus:
            continue
        most = max(most or 0.0, after * a.available_cpus / (before * b.available_cpus))
    return most


def workers_lack_cpus(case: Case) -> bool:
    """Return whether more workers and ranks live at once than before, and than there are CPUs, and mostly queue."""
    before, now = (side.inventory.workers + side.inventory.ranks for side in (case.before, case.now))
    cpus = case.now.available_cpus
    if not cpus or now <= max(cpus, value("threads.more") * before):
        return False
    return (case.now.rest_wait_fraction or 0.0) >= value("part.most")


def _kind(case: Case) -> str | None:
    """Return who takes the CPUs; if both do, the one whose demand grew."""
    a, b = case.before, case.now
    itself, others = _itself(case), _others(case)
    if itself and others:
        more = more_threads(case)
        if more is None:
            own = (b.demand_cores or 0.0) - (a.demand_cores or 0.0)
            more = own >= (b.others_cores or 0.0) - (a.others_cores or 0.0)
        return "self-oversubscription" if more else "external-load"
    if itself or others:
        return "self-oversubscription" if itself else "external-load"
    # Others used as much beside the baseline: they were running, but did not take more.
    if (b.others_cores or 0.0) >= value("others"):
        return "external-load"
    return "self-oversubscription" if _nobody_else(case) else None


def spinning(case: Case) -> float:
    """Return the most seconds for which main threads can have spun, or worked, in place of queued threads."""
    a, b = case.before, case.now
    if a.rest_wait_s is None or b.rest_wait_s is None:
        return 0.0
    # If all threads together ran no longer, what the main threads added is no work of the program's.
    no_more_work = a.own_run_s is not None and b.own_run_s is not None and b.own_run_s <= a.own_run_s
    if not (no_more_work or more_threads(case)):
        return 0.0
    return max(0.0, (b.rest_wait_s - a.rest_wait_s) / max(1, b.mains))


def _apart(case: Case) -> bool:
    """Return whether few functions do more, for most of the lost time, while others cost as much as before.

    What lacks CPUs costs all functions about the same, but those whose pool of threads spins meanwhile.
    """
    pool = (case.now.pool_threads or 1.0) > max(1, case.now.mains)
    return (
        case.number("account.calls-and-cost") >= value("part.most")
        and case.number("others.moved") <= value("others-same")
        and case.number("function.apart") >= value("one-function.far")
        and not (pool and case.read("function.may-wait"))
    )


CPU_QUEUEING: Mapping[str, Reading] = {
    "main.wait": Reading(
        "share", "queueing of the main threads, share of their active time", lambda c: c.now.wait_fraction
    ),
    "main.wait-growth": growth_of(
        "share", "growth of main.wait over the baseline", lambda side: side.wait_fraction
    ),
    "main.wait-fell": Reading(
        "share",
        "decrease of main.wait from the baseline",
        lambda c: growth(c.now.wait_fraction, c.before.wait_fraction),
    ),
    "main.wait-before": Reading("share", "main.wait of the baseline", lambda c: c.before.wait_fraction),
    "rank.wait": Reading("share", "queueing of the rank that queues most, share of its active time", _worst),
    "rank.wait-before": Reading("share", "rank.wait of the baseline", lambda c: c.before.worst_wait_fraction),
    "rank.wait-growth": Reading(
        "share",
        "growth of rank.wait over the baseline",
        lambda c: growth(c.before.worst_wait_fraction, _worst(c)),
    ),
    **of_sides(
        "helpers.wait",
        "share",
        "queueing of all other threads and processes, share of their active time",
        lambda side: side.rest_wait_fraction,
    ),
    "helpers.wait-growth": growth_of(
        "share", "growth of helpers.wait over the baseline", lambda side: side.rest_wait_fraction
    ),
    "any.wait": Reading(
        "share",
        "the greater of main.wait and helpers.wait",
        lambda c: max(known((c.now.wait_fraction, c.now.rest_wait_fraction)), default=None),
    ),
    "workers.lack-cpus": Reading(
        "bool",
        "more workers and ranks live at once than in the baseline, and than there are CPUs, and mostly queue for one",
        workers_lack_cpus,
        (more("helpers.wait", "part.most"),),
    ),
    "throttled": Reading("share", "throttled part of the cgroup's periods", lambda c: c.now.throttled),
    "throttled-growth": Reading(
        "share",
        "growth of throttled over the baseline",
        lambda c: growth(c.before.throttled or 0.0, c.now.throttled),
    ),
    "demand": Reading(
        "factor", "CPUs that its threads ask for, over those available", lambda c: c.now.demand
    ),
    "threads.growth": Reading(
        "factor", "growth of the threads, workers or processes per CPU", _threads_growth
    ),
    "others": Reading("cores", "CPU that other programs used", lambda c: c.now.others_cores),
    "others.growth": Reading(
        "cores", "growth of others over the baseline; an unknown side counts as 0", _others_added
    ),
    "steal": Reading("cores", "CPU that the machine's other guests took", lambda c: c.now.steal_cores),
    "steal.growth": Reading("cores", "growth of steal over the baseline", _more_stolen),
    "contention.itself": Reading(
        "bool",
        "its own threads and processes compete",
        _itself,
        (more("demand", "demand.self"), more("threads.growth", "threads.more")),
    ),
    "contention.others": Reading(
        "bool",
        "other programs take CPUs",
        _others,
        (
            more("others", "others"),
            more("others.growth", "others.growth"),
            more("steal", "steal"),
            more("steal.growth", "steal.growth"),
            less("demand", "demand.self"),
        ),
    ),
    "contention.known": Reading("bool", "it is known who takes the CPUs", lambda c: _itself(c) or _others(c)),
    "contention.of-loss": Reading(
        "bool",
        "it is known who takes the CPUs, and queueing is a part of the lost time that counts (contention.apart)",
        lambda c: (
            (_itself(c) or _others(c)) and c.number("account.queue") >= value("wait.much") and not _apart(c)
        ),
        (more("account.queue", "wait.much"),),
    ),
    "contention.apart": Reading(
        "bool",
        "most of the lost time is what few functions do more, others cost as much as before, and no pool spins",
        _apart,
        (
            more("account.calls-and-cost", "part.most"),
            less("others.moved", "others-same"),
            more("function.apart", "one-function.far"),
        ),
    ),
    "contention.grew": Reading(
        "bool",
        "it has more threads or processes per CPU than the baseline, or other programs take more",
        lambda c: bool(more_threads(c)) or _others(c),
        (
            more("threads.growth", "threads.more"),
            more("others", "others"),
            more("others.growth", "others.growth"),
            more("steal", "steal"),
            more("steal.growth", "steal.growth"),
        ),
    ),
    "others.added": growth_of(
        "cores", "growth of others over the baseline, if both sides know it", lambda side: side.others_cores
    ),
    "contention.beside": Reading(
        "bool",
        "other programs took CPUs during the candidate, whatever they took during the baseline",
        lambda c: (c.now.others_cores or 0.0) >= value("others.alone"),
        (more("others", "others.alone"),),
    ),
    "kind.itself": Reading("text", "contention of a program with itself", lambda c: "self-oversubscription"),
    "kind.quota": Reading("text", "a quota's kind of contention", lambda c: "cpu-quota"),
    "kind.hardware": Reading(
        "text", "the kind of contention for what CPUs share", lambda c: "shared-hardware"
    ),
    "contention.kind": Reading(
        "text",
        "who takes the CPUs; if both, whose demand grew; if no other program used any, its own threads",
        _kind,
        (
            more("threads.growth", "threads.more"),
            more("others", "others"),
            less("others", "others.none"),
            less("steal", "steal.growth"),
        ),
    ),
    "contention.who": Reading(
        "text",
        "which threads queue",
        _who_queued,
        (
            more("main.wait", "wait.some"),
            more("main.wait-growth", "wait.some-growth"),
            more("rank.wait", "wait.some"),
            more("rank.wait-growth", "wait.some-growth"),
        ),
    ),
    "both.lacked-cpus": Reading(
        "bool",
        "the main threads of both sides queued for long",
        lambda c: all(
            (side.wait_fraction or 0.0) >= value("headline.lacked-cpus") for side in (c.before, c.now)
        ),
        (more("main.wait", "headline.lacked-cpus"), more("main.wait-before", "headline.lacked-cpus")),
    ),
}
