"""What one run says of itself: whether it was starved of CPU, of data, or stood still, with nothing to compare.

The counterpart of `diagnose` for ``profkit show``. A regression, another workload or a slower machine need a
baseline: of them nothing is said here, and a run that lacks nothing gets no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from profkit.verdict.advice import limit_threads, look_for_others, raise_quota
from profkit.measure.counters import SideFacts, side_facts
from profkit.verdict.rules_common import UNTOLD, WAIT, WORKING, by_whom
from profkit.verdict.rules_counters import SELF_DEMAND, SOME_WAIT, STEAL, THROTTLED
from profkit.verdict.types import Evidence, Finding, Verdict
from profkit.verdict.wording import cores, percent, seconds
from profkit.model import Process, Run, RunSet

__all__ = ["diagnose_run"]

#: Part of the main threads' life that goes to waiting for loaders and workers from which they starve it.
STARVING = 0.3
#: Part of the main threads' life off the CPU from which it is what the run does.
IDLE = 0.5
#: Cores that others use from which they take what the run waited for: there is no other side to compare with.
OTHERS = 0.4
#: Wait / (run + wait) of the worst rank from which more ranks than CPUs compete.
RANKS_WAIT = 0.3
#: Seconds of wall below which a run is mostly its own start.
LEAST_S = 0.5


def diagnose_run(run: Run, processes: Sequence[Process]) -> Verdict | None:
    """Say what one run lacked.

    Parameters
    ----------
    run
        Any run.
    processes
        Those of it that are shown.

    Returns
    -------
    Verdict or None
        ``None`` where it lacked nothing, or the kernel's counters are not in it.
    """
    side = side_facts(RunSet(run.path, (run,)), 0.0, lambda _: processes)
    if side.wall_s is None or side.wall_s < LEAST_S:
        return None
    found = [f for rule in (_throttled, _starved, _waits_for_data, _stands) if (f := rule(side)) is not None]
    if not found:
        return None
    best = max(found, key=lambda f: f.severity)
    return Verdict(
        cause=best.cause,
        confidence=best.confidence,
        summary=best.summary,
        kind=best.kind,
        evidence=best.evidence,
        advice=best.advice,
        findings=(best, *(f for f in found if f is not best)),
    )


def _throttled(side: SideFacts) -> Finding | None:
    if side.throttled is None or side.throttled <= THROTTLED:
        return None
    return Finding(
        rule="throttling",
        cause="contention",
        kind="cpu-quota",
        confidence=0.95,
        severity=max(side.throttled, side.wait_fraction or 0.0),
        summary=f"A CPU quota throttled the run in {percent(side.throttled)} of its periods.",
        evidence=(
            _one("throttled periods", percent(side.throttled), "the cgroup's CPU quota was used up"),
            _demand(side),
        ),
        advice=raise_quota(side),
    )


def _starved(side: SideFacts) -> Finding | None:
    if _throttled(side) is not None:
        return None
    main, rest = side.wait_fraction or 0.0, side.rest_wait_fraction or 0.0
    worst = side.worst_wait_fraction or 0.0 if side.mains > 1 else 0.0
    waits_for_them = (side.off_cpu_fraction or 0.0) >= STARVING and (side.rest_run_s or 0.0) > 0
    hidden = rest if waits_for_them else 0.0
    part = max(main, worst, hidden)
    cpus = side.available_cpus or float("inf")
    others = (side.others_cores or 0.0) >= OTHERS or (side.steal_cores or 0.0) >= STEAL
    many = side.mains > cpus and worst >= RANKS_WAIT and not others
    itself = (side.demand_cores or 0.0) > SELF_DEMAND * cpus or many
    # Threads that hand data to each other queue on an idle machine, too: somebody must have wanted the CPUs.
    unknown = side.others_cores is None and not (itself or others)
    if not (itself or others or unknown) or (
        max(main, worst) < (WAIT if unknown else SOME_WAIT) and hidden < WAIT
    ):
        return None
    kind = "self-oversubscription" if itself else "external-load" if others else None
    who, said = "main thread", main
    if worst > main:
        who, said = "worst rank's main thread", worst
    if hidden > max(main, worst):
        who, said = "workers and threads, which the main thread waits for,", rest
    return Finding(
        rule="run-queue-wait",
        cause="contention",
        kind=kind,
        confidence=0.6 if unknown else 0.95 if part >= 2 * WAIT else 0.85,
        severity=part,
        summary=(
            f"The run was starved of CPU {by_whom(kind, itself, others)}: its {who} queued for a CPU in "
            f"{percent(said)} of the active time."
        ),
        evidence=(
            _one(
                "run-queue wait of the main thread",
                f"{seconds(side.main_wait_s)} ({percent(side.wait_fraction)} of its active time)",
                "ready to run, but no CPU was free",
            ),
            _one(
                "run-queue wait of all others",
                f"{seconds(side.rest_wait_s)} ({percent(side.rest_wait_fraction)} of their active time)",
                "the program's other threads and processes",
            ),
            _demand(side),
            _one("CPU used by others", cores(side.others_cores), "by everything else on the machine"),
        ),
        advice=limit_threads(side) if itself else look_for_others(side),
    )


def _waits_for_data(side: SideFacts) -> Finding | None:
    off, waited = side.main_off_s, side.delivery_s
    life = sum(v or 0.0 for v in (side.main_off_s, side.main_run_s, side.main_wait_s))
    if off is None or not waited or life <= 0 or min(waited, off) < STARVING * life:
        return None
    used = (side.own_cores or 0.0) + (side.others_cores or 0.0)
    if (side.rest_wait_fraction or 0.0) >= WAIT or used > (side.available_cpus or float("inf")) - WORKING:
        return None  # the loaders themselves lack CPUs, or use all there are
    return Finding(
        rule="off-cpu",
        cause="data-starvation",
        confidence=0.85,
        severity=min(waited, off) / life,
        summary=(
            f"The main thread waited for its data loaders or workers in {percent(min(waited, off) / life)} of its "
            "time, not for a CPU."
        ),
        evidence=(
            _one(
                "main thread waiting for loaders and workers",
                seconds(waited),
                "in the functions that hand over",
            ),
            _one("run-queue wait of all others", percent(side.rest_wait_fraction), "CPUs were free for them"),
            _demand(side),
        ),
        advice=("# more loader workers, or faster loading: CPUs were free",),
    )


def _stands(side: SideFacts) -> Finding | None:
    off = side.off_cpu_fraction
    if off is None or off < IDLE or _waits_for_data(side) is not None:
        return None
    if (side.rest_run_s or 0.0) >= WORKING * (side.wall_s or 0.0) or (side.rest_wait_fraction or 0.0) >= WAIT:
        return None
    return Finding(
        rule="off-cpu",
        cause="blocked",
        confidence=0.8,
        severity=off,
        summary=(
            f"The main thread was off the CPU without queueing for one in {percent(off)} of its time: I/O, locks or "
            "sleep."
        ),
        evidence=(
            _one(
                "main thread off the CPU, not queueing",
                f"{seconds(side.main_off_s)} ({percent(off)})",
                "waiting for something else",
            ),
            _one("run-queue wait of the main thread", percent(side.wait_fraction), "CPUs were free for it"),
        ),
        advice=("profkit show RUN --by cumtime  # what it waited in",),
    )


def _one(signal: str, value: str, says: str) -> Evidence:
    """Evidence of a run that has no other side."""
    return Evidence(signal, UNTOLD, value, says)


def _demand(side: SideFacts) -> Evidence:
    return _one(
        "CPU demand of the whole program",
        f"{cores(side.demand_cores)} of {cores(side.available_cpus)}",
        "running and queueing, against what it may use",
    )
