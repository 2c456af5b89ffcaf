"""Rules that rest on the kernel's counters: throttling, run-queue wait, blocking.

Each takes the `Facts` and returns a `Finding` or ``None``; `diagnose` asks them in order. What decides is where the
main threads' added time went (`Growth`): queueing, running, or neither. Thresholds come from a labelled corpus of
439 runs of seven programs on two cores, and are checked on the runs of ``benchmarks/verdict``; demand is compared
with the available CPUs, so that it is per core.
"""

from __future__ import annotations

import math

from profkit.verdict.advice import limit_threads, look_for_others, raise_quota
from profkit.measure.counters import SideFacts
from profkit.measure.signals import Facts
from profkit.verdict.rules_common import MOST, NOTICED, SLOWER, WAIT, WAIT_GROWTH, WORKING, by_whom
from profkit.verdict.types import Evidence, Finding
from profkit.verdict.where import what_asked, where_it_fell
from profkit.verdict.wording import cores, percent, seconds

__all__ = ["blocked", "contention", "throttling"]

#: Throttled part of the enforcement periods from which the quota is the cause (350 of 350 right).
THROTTLED = 0.05
#: The same where queueing explains at least `MUCH` of the added time: mild contention queues less.
SOME_WAIT = 0.08
SOME_GROWTH = 0.05
MUCH = 0.4
#: … and less where others' load or the program's own demand for CPUs says who took them.
MUCH_KNOWN = 0.3
#: Part of the added time that must be queueing in any case: a benign neighbour makes a program queue, too. Where
#: nothing says who takes the CPUs it must be `MOST` of it.
LEAST = 0.1
#: … and where only workers and threads that the main thread waits for queue: repeats of a program whose threads
#: hand data to each other reach 0.22.
LEAST_HIDDEN = 0.3
#: Demand over available CPUs from which the program starves itself (with `OTHERS`: 134 of 134 pure cases).
SELF_DEMAND = 1.25
#: Cores used by others from which they are the cause, and how much more than beside the baseline.
OTHERS = 0.25
OTHERS_GROWTH = 0.15
#: Cores that the hypervisor gave to others from which it is the cause.
STEAL = 0.1
#: Growth of a program's own threads per CPU from which it is another setting and not chance.
MORE_THREADS = 1.25
#: Part of the growth of time off the CPU in functions that do not wait by purpose, from which they were stopped.
STOPPED = 0.3
#: Part of the iterations' time for which the consumer waits for its loader, from which that is the cause.
STARVED_SHARE = 0.3


def throttling(facts: Facts) -> Finding | None:
    """The cgroup's quota stopped the candidate: asked before waiting, as it shows as waiting too."""
    a, b = facts.baseline, facts.candidate
    if b.throttled is None or b.throttled <= THROTTLED or b.throttled - (a.throttled or 0.0) <= THROTTLED:
        return None
    if facts.log_slowdown < 0:
        return None
    evidence = [
        Evidence(
            "throttled periods",
            percent(a.throttled),
            percent(b.throttled),
            "the cgroup's CPU quota stopped the candidate again and again",
        )
    ]
    if b.demand_cores is not None and b.available_cpus is not None:
        evidence.append(_demand(a, b, "CPU asked for against what the quota and the affinity allow"))
    return Finding(
        rule="throttling",
        cause="contention",
        kind="cpu-quota",
        confidence=0.97,
        severity=_starved_part(facts),
        summary=f"A CPU quota throttled the candidate in {percent(b.throttled)} of its periods.",
        evidence=tuple(evidence),
        advice=raise_quota(b),
    )


def contention(facts: Facts) -> Finding | None:
    """The candidate queued for CPUs where the baseline did not; demand and others' load say through whom."""
    if not facts.counters or throttling(facts) is not None:
        return None
    a, b = facts.baseline, facts.candidate
    if facts.log_slowdown < NOTICED and not _lost_anyway(facts):
        return None
    kind, itself, others = _kind(a, b)
    spun = _spun(facts) if itself else 0.0
    part = min(1.0, _starved_part(facts) + spun)
    much, least = (MUCH_KNOWN, LEAST) if itself or others else (MUCH, MOST)
    main = _queues(a.wait_fraction, b.wait_fraction, part >= much)
    # One rank of several, or the workers that the main thread waits for.
    one = _queues(a.worst_wait_fraction, b.worst_wait_fraction, part >= much) if b.mains > 1 else False
    rest = (
        _queues(a.rest_wait_fraction, b.rest_wait_fraction, part >= much)
        and max(_hidden(facts), spun) >= LEAST_HIDDEN
    )
    if not (main or one or rest) or part < least:
        return None
    evidence = []
    if main or not (one or rest):
        evidence.append(_waiting("run-queue wait of the main thread", a, b))
    if one and not main:
        evidence.append(
            Evidence(
                "run-queue wait of the worst rank",
                percent(a.worst_wait_fraction),
                percent(b.worst_wait_fraction),
                "the others wait for it",
            )
        )
    if rest and not main:
        evidence.append(
            Evidence(
                "run-queue wait of its workers and threads",
                f"{seconds(a.rest_wait_s)} ({percent(a.rest_wait_fraction)} of their active time)",
                f"{seconds(b.rest_wait_s)} ({percent(b.rest_wait_fraction)} of their active time)",
                "the main thread waits for them, and they for a CPU",
            )
        )
    if b.demand_cores is not None and b.available_cpus is not None:
        says = (
            "more than there are: its own threads and processes compete" if itself else "within what there is"
        )
        evidence.append(_demand(a, b, says))
    if itself:
        evidence += what_asked(facts)
    if b.others_cores is not None:
        says = "other programs take CPUs" if others else "the rest of the machine was idle"
        if not others and b.others_cores >= OTHERS:
            says = "about as much as beside the baseline"
        evidence.append(Evidence("CPU used by others", cores(a.others_cores), cores(b.others_cores), says))
    if _stolen(a, b):
        evidence.append(
            Evidence(
                "CPU given to other machines (steal)",
                cores(a.steal_cores),
                cores(b.steal_cores),
                "the hypervisor's other guests take CPUs",
            )
        )
    if b.psi_share is not None and a.psi_share is not None:
        says = "time in which some task of the machine waited for a CPU"
        evidence.append(Evidence("CPU pressure (PSI some)", percent(a.psi_share), percent(b.psi_share), says))
    evidence += where_it_fell(facts)
    return Finding(
        rule="run-queue-wait",
        cause="contention",
        kind=kind,
        confidence=0.97 if facts.log_slowdown > SLOWER else 0.85,
        severity=part,
        summary=(
            f"The candidate was starved of CPU {by_whom(kind, itself, others)}: "
            f"{_what_waited(a, b, main, one)}."
        ),
        evidence=tuple(evidence),
        advice=limit_threads(b) if kind == "self-oversubscription" else look_for_others(b),
    )


def blocked(facts: Facts) -> Finding | None:
    """The candidate spent its time off the CPU without queueing for one: I/O, locks, stops, loaders."""
    a, b = facts.baseline, facts.candidate
    growth = facts.growth
    if growth is None or facts.log_slowdown < NOTICED:
        return None
    off = growth.off - growth.hidden_wait
    added = growth.seconds * max(1, b.mains)
    delivery = max(0.0, (b.delivery_s or 0.0) - (a.delivery_s or 0.0)) / added
    iterations = _iterations_starved(facts)
    # Who waits for threads, workers or ranks that compute longer is not blocked: what they compute is the cause.
    if off < MOST or _others_compute_longer(facts, off * added) or _ranks_compute_longer(facts):
        return None
    busy = (b.rest_run_s or 0.0) >= WORKING * (b.wall_s or math.inf)
    # Functions that do not wait by purpose stood still as well: loaders are not what was missing.
    stopped = facts.movement.stopped_work > STOPPED
    starving = (min(delivery, off) >= MOST * off or bool(iterations)) and not stopped
    evidence = [
        Evidence(
            "main thread off the CPU, not queueing",
            f"{seconds(a.main_off_s)} ({percent(a.off_cpu_fraction)})",
            f"{seconds(b.main_off_s)} ({percent(b.off_cpu_fraction)})",
            f"{percent(min(1.0, off))} of the added time",
        ),
        Evidence(
            "run-queue wait fraction",
            percent(a.wait_fraction),
            percent(b.wait_fraction),
            "CPUs were free for it",
        ),
    ]
    if starving:
        evidence.append(
            Evidence(
                "main thread waiting for loaders and workers",
                seconds(a.delivery_s),
                seconds(b.delivery_s),
                "in the functions that hand over what they bring",
            )
        )
        evidence += iterations
    return Finding(
        rule="off-cpu",
        cause="data-starvation" if starving else "blocked",
        # Workers that were busy all along may be what it waited for.
        confidence=0.6 if busy and not starving else 0.9 if facts.log_slowdown > SLOWER else 0.75,
        severity=min(1.0, off),
        summary=(
            f"The candidate's main thread waited for its data loaders or workers, not for a CPU: "
            f"{seconds(b.delivery_s)} against {seconds(a.delivery_s)}."
            if starving
            else f"The candidate was off the CPU without queueing for one in {percent(b.off_cpu_fraction)} of its "
            f"time, against {percent(a.off_cpu_fraction)}: I/O, locks, or it was stopped."
        ),
        evidence=tuple(evidence),
        advice=(
            ("profkit show CANDIDATE  # which workers are busy, and for how long",)
            if starving
            else ("profkit show CANDIDATE --by cumtime  # what it waited in",)
        ),
    )


def _others_compute_longer(facts: Facts, off_s: float) -> bool:
    """Whether the program's other threads and processes computed while the main threads were off the CPU."""
    before, after = facts.baseline.rest_run_s or 0.0, facts.candidate.rest_run_s or 0.0
    if after - before < MOST * off_s / max(1.0, facts.candidate.own_cores or 1.0):
        return False
    return before <= 0 or math.log(after / before) >= MOST * facts.log_slowdown


def _ranks_compute_longer(facts: Facts) -> bool:
    """Whether some rank computed longer, and the others waited for it."""
    growth, ranks = facts.growth, facts.candidate.mains
    return growth is not None and ranks > 1 and growth.run * ranks >= MOST


def _lost_anyway(facts: Facts) -> bool:
    """Whether the candidate queued for a noticeable time, though the baseline happened to be as slow."""
    a, b = facts.baseline, facts.candidate
    if a.main_wait_s is None or b.main_wait_s is None or not a.wall_s or facts.log_slowdown < -NOTICED:
        return False
    added = b.main_wait_s / max(1, b.mains) - a.main_wait_s / max(1, a.mains)
    if facts.growth is not None:
        added += facts.growth.hidden_wait * facts.growth.seconds
    queued = max(b.wait_fraction or 0.0, b.rest_wait_fraction or 0.0)
    return queued >= WAIT and added >= math.expm1(NOTICED) * a.wall_s


def _iterations_starved(facts: Facts) -> list[Evidence]:
    """That iterations came to wait for their loader, where NVTX ranges tell; or nothing."""
    before, after = facts.iterations
    if before is None or after is None or after.consumer_wait_share is None:
        return []
    earlier = before.consumer_wait_share or 0.0
    if after.consumer_wait_share < STARVED_SHARE or after.consumer_wait_share - earlier < STARVED_SHARE / 2:
        return []
    return [
        Evidence(
            "part of the iterations in which the consumer waited for its loader",
            percent(earlier),
            percent(after.consumer_wait_share),
            f"{after.steps_per_s:.3g} iterations/s, against {before.steps_per_s:.3g}",
        )
    ]


def _queues(before: float | None, after: float | None, explains_much: bool) -> bool:
    """Whether a wait fraction grew to what harms; less is enough where it explains much of the added time."""
    if before is None or after is None:
        return False
    growth = after - before
    return (after >= WAIT and growth >= WAIT_GROWTH) or (
        after >= SOME_WAIT and growth >= SOME_GROWTH and explains_much
    )


def _hidden(facts: Facts) -> float:
    growth = facts.growth
    return 0.0 if growth is None else growth.hidden_wait


def _spun(facts: Facts) -> float:
    """Part of the added time in which main threads ran while more threads than before queued: they wait spinning."""
    growth = facts.growth
    before, after = facts.baseline.rest_wait_s, facts.candidate.rest_wait_s
    if (
        growth is None
        or before is None
        or after is None
        or not _more_threads(facts.baseline, facts.candidate)
    ):
        return 0.0
    queued = (after - before) / (growth.seconds * max(1, facts.candidate.mains))
    return max(0.0, min(growth.run, queued))


def _starved_part(facts: Facts) -> float:
    """Part of the added time that is want of a CPU: queueing, and waiting for workers that queue."""
    growth = facts.growth
    if growth is None:
        return float("nan")
    return min(1.0, max(0.0, growth.wait + growth.hidden_wait))


def _kind(a: SideFacts, b: SideFacts) -> tuple[str | None, bool, bool]:
    """Who takes the CPUs, and whether the program itself and whether others want more than there is.

    Where both do, it is whose want differs between the sides: with the same threads as in the baseline, a
    program that is pushed aside shows a greater demand too.
    """
    demand, cpus = b.demand_cores, b.available_cpus
    itself = demand is not None and cpus is not None and demand > SELF_DEMAND * cpus
    foreign, before = b.others_cores or 0.0, a.others_cores or 0.0
    others = foreign >= OTHERS and foreign - before >= OTHERS_GROWTH
    if itself and others:
        more = _more_threads(a, b)
        if more is None:
            own = (demand or 0.0) - (a.demand_cores or 0.0)
            more = own >= foreign - before
        return ("self-oversubscription" if more else "external-load"), True, True
    if itself or others:
        return ("self-oversubscription" if itself else "external-load"), itself, others
    if _stolen(a, b):
        return "external-load", False, True
    if _more_threads(a, b):
        return "self-oversubscription", True, False
    # As much as beside the baseline: that they are there is known, that they took more is not.
    return ("external-load" if foreign >= OTHERS else None), False, False


def _more_threads(a: SideFacts, b: SideFacts) -> bool | None:
    """Whether the candidate has more threads per CPU to run than the baseline; ``None`` where that is not known."""
    known = None
    for before, after in (
        (a.pool_threads, b.pool_threads),
        (a.working_threads, b.working_threads),
        (float(a.processes), float(b.processes)),
    ):
        if not before or after is None or not a.available_cpus or not b.available_cpus:
            continue
        known = True
        if after / b.available_cpus >= MORE_THREADS * before / a.available_cpus:
            return True
    return False if known else None


def _stolen(a: SideFacts, b: SideFacts) -> bool:
    return (b.steal_cores or 0.0) >= STEAL and (b.steal_cores or 0.0) - (a.steal_cores or 0.0) >= STEAL / 2


def _what_waited(a: SideFacts, b: SideFacts, main: bool, one: bool) -> str:
    if main:
        return (
            f"its main thread queued for a CPU in {percent(b.wait_fraction)} of its active time, against "
            f"{percent(a.wait_fraction)}"
        )
    if one:
        return (
            f"one rank queued for a CPU in {percent(b.worst_wait_fraction)} of its active time, against "
            f"{percent(a.worst_wait_fraction)}, and the others wait for it"
        )
    return (
        f"the workers and threads that it waits for queued in {percent(b.rest_wait_fraction)} of their active "
        f"time, against {percent(a.rest_wait_fraction)}"
    )


def _waiting(signal: str, a: SideFacts, b: SideFacts) -> Evidence:
    def text(side: SideFacts) -> str:
        return f"{seconds(side.main_wait_s)} ({percent(side.wait_fraction)} of its active time)"

    return Evidence(signal, text(a), text(b), "ready to run, but no CPU was free")


def _demand(a: SideFacts, b: SideFacts, says: str) -> Evidence:
    def text(side: SideFacts) -> str:
        return f"{cores(side.demand_cores)} of {cores(side.available_cpus)}"

    return Evidence("CPU demand of the whole program", text(a), text(b), says)
