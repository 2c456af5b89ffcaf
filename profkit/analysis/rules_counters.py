"""Rules that rest on the kernel's counters: throttling, run-queue wait, blocking.

Each takes the `Facts` and returns a `Finding` or ``None``; `diagnose` asks them in order. Thresholds were
chosen on a labelled corpus of 439 runs of seven programs on two cores (held out by program, the wait rule has
recall 1.00 at 0.7 % false alarms); demand is compared with the available CPUs, so that it is per core.
"""

from __future__ import annotations

import math

from profkit.analysis.advice import limit_threads, look_for_others, raise_quota
from profkit.analysis.counters import SideFacts
from profkit.analysis.facts import Facts
from profkit.analysis.movement import is_wait
from profkit.analysis.types import Evidence, Finding
from profkit.analysis.wording import cores, percent, seconds

__all__ = ["blocked", "contention", "throttling"]

#: Throttled part of the enforcement periods from which the quota is the cause (350 of 350 right).
THROTTLED = 0.05
#: Main thread's wait / (run + wait) in the candidate, and its growth over the baseline.
WAIT = 0.15
WAIT_GROWTH = 0.10
#: Demand over available CPUs from which the program starves itself (with `OTHERS`: 134 of 134 pure cases).
SELF_DEMAND = 1.25
#: Cores used by others from which they are the cause.
OTHERS = 0.25
#: Slow-down from which lost time is worth a cause: the corpus calls a run contended from 1.15× on.
SLOWER = math.log(1.15)
#: Cores that the rest of the program uses from which its main thread waits for that work: half of one worker.
WORKING = 0.5
#: Part of the slow-down that time off the CPU must explain.
MOST = 0.5


def throttling(facts: Facts) -> Finding | None:
    """The cgroup's quota stopped the candidate: asked before waiting, as it shows as waiting too."""
    a, b = facts.baseline, facts.candidate
    if b.throttled is None or b.throttled <= THROTTLED or b.throttled - (a.throttled or 0.0) <= THROTTLED:
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
        severity=_explained(facts, _wait_part(facts)),
        summary=f"A CPU quota throttled the candidate in {percent(b.throttled)} of its periods.",
        evidence=tuple(evidence),
        advice=raise_quota(b),
    )


def contention(facts: Facts) -> Finding | None:
    """The candidate queued for CPUs where the baseline did not; demand and others' load say through whom."""
    a, b = facts.baseline, facts.candidate
    wait_a, wait_b = a.wait_fraction, b.wait_fraction
    if wait_a is None or wait_b is None or wait_b < WAIT or wait_b - wait_a < WAIT_GROWTH:
        return None
    if throttling(facts) is not None or facts.log_slowdown < 0:
        return None
    evidence = [
        Evidence(
            "run-queue wait of the main thread",
            f"{seconds(a.main_wait_s)} ({percent(wait_a)} of its active time)",
            f"{seconds(b.main_wait_s)} ({percent(wait_b)} of its active time)",
            "ready to run, but no CPU was free",
        )
    ]
    crowded = b.demand_cores is not None and b.available_cpus is not None
    itself = crowded and (b.demand_cores or 0.0) > SELF_DEMAND * (b.available_cpus or 1.0)
    others = b.others_cores is not None and b.others_cores >= OTHERS
    if crowded:
        says = (
            "more than there are: its own threads and processes compete" if itself else "within what there is"
        )
        evidence.append(_demand(a, b, says))
    if b.others_cores is not None:
        says = "other programs take CPUs" if others else "the rest of the machine was idle"
        evidence.append(Evidence("CPU used by others", cores(a.others_cores), cores(b.others_cores), says))
    if b.psi_share is not None and a.psi_share is not None:
        says = "time in which some task of the machine waited for a CPU"
        evidence.append(Evidence("CPU pressure (PSI some)", percent(a.psi_share), percent(b.psi_share), says))
    kind = _kind(bool(itself), others, a, b)
    what = {
        "self-oversubscription": "by its own threads and processes",
        "external-load": "by other programs on the machine",
        None: "by what the counters cannot tell",
    }[kind]
    if itself and others:
        what = "by its own threads and processes, and by other programs too"
    return Finding(
        rule="run-queue-wait",
        cause="contention",
        kind=kind,
        confidence=0.97 if facts.log_slowdown > SLOWER else 0.85,
        severity=_explained(facts, _wait_part(facts)),
        summary=(
            f"The candidate was starved of CPU {what}: its main thread queued for a CPU in {percent(wait_b)} "
            f"of its active time, against {percent(wait_a)}."
        ),
        evidence=tuple(evidence),
        advice=limit_threads(b) if itself else look_for_others(b),
    )


def blocked(facts: Facts) -> Finding | None:
    """The candidate spent its time off the CPU without queueing for one: I/O, locks, stops, loaders."""
    a, b = facts.baseline, facts.candidate
    off_a, off_b = a.off_cpu_fraction, b.off_cpu_fraction
    if off_a is None or off_b is None or facts.log_slowdown < SLOWER or off_b <= off_a or off_b >= 1:
        return None
    part = math.log((1 - off_a) / (1 - off_b))
    # A main thread that waits while its own workers compute longer is not what slowed the run down.
    if part < MOST * facts.log_slowdown or facts.cpu_part >= MOST:
        return None
    loaders = _loader_gain(facts)
    starving = loaders > MOST
    if not starving and _others_compute(b):
        return None
    evidence = [
        Evidence(
            "main thread off the CPU, not queueing",
            percent(off_a),
            percent(off_b),
            f"explains {percent(min(1.0, part / facts.log_slowdown))} of the slow-down",
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
                "gain in functions that wait for data",
                "–",
                percent(loaders),
                "the consumer waits for its loaders",
            )
        )
    return Finding(
        rule="off-cpu",
        cause="data-starvation" if starving else "blocked",
        confidence=0.85 if starving or loaders < 0.2 else 0.75,
        severity=_explained(facts, part),
        summary=(
            "The candidate waited for its data loaders, not for a CPU."
            if starving
            else f"The candidate was off the CPU without queueing for one in {percent(off_b)} of its time, "
            f"against {percent(off_a)}: I/O, locks, or it was stopped."
        ),
        evidence=tuple(evidence),
        advice=(
            ("profkit show CANDIDATE  # which workers are busy, and for how long",)
            if starving
            else ("profkit show CANDIDATE --by cumtime  # what it waited in",)
        ),
    )


def _kind(itself: bool, others: bool, a: SideFacts, b: SideFacts) -> str | None:
    """Who takes the CPUs; where both do, whichever grew more over the baseline."""
    if itself and others:
        own = (b.demand_cores or 0.0) - (a.demand_cores or 0.0)
        foreign = (b.others_cores or 0.0) - (a.others_cores or 0.0)
        return "self-oversubscription" if own >= foreign and (b.own_cores or 0.0) > 0 else "external-load"
    return "self-oversubscription" if itself else "external-load" if others else None


def _demand(a: SideFacts, b: SideFacts, says: str) -> Evidence:
    def text(side: SideFacts) -> str:
        return f"{cores(side.demand_cores)} of {cores(side.available_cpus)}"

    return Evidence("CPU demand of the whole program", text(a), text(b), says)


def _wait_part(facts: Facts) -> float:
    """Part of the logarithm of the slow-down that queueing explains: Δ ln 1 / (1 − w)."""
    wait_a, wait_b = facts.baseline.wait_fraction, facts.candidate.wait_fraction
    if wait_a is None or wait_b is None or wait_b >= 1:
        return float("nan")
    return math.log((1 - wait_a) / (1 - wait_b))


def _explained(facts: Facts, part: float) -> float:
    """``part`` of the logarithm of the slow-down as a share, NaN where nothing slowed down."""
    if not facts.log_slowdown > 0 or math.isnan(part):
        return float("nan")
    return min(1.0, max(0.0, part / facts.log_slowdown))


def _others_compute(side: SideFacts) -> bool:
    """Whether threads and workers of the program kept a CPU busy: who waits for them is not blocked."""
    if side.own_cores is None or side.main_run_s is None or not side.wall_s:
        return False
    return side.own_cores - side.main_run_s / side.wall_s >= WORKING


def _loader_gain(facts: Facts) -> float:
    """Part of the gain in self time that sits in waiting while a loader's queue was being read."""
    table = facts.table
    gain = table.candidate.tottime - table.baseline.tottime
    gains = float(gain[gain > 0].sum())
    if gains <= 0:
        return 0.0
    waits = sum(
        float(gain[i])
        for i in range(min(len(table), 50))
        if gain[i] > 0 and is_wait(table.name[i], table.keys[i].root)
    )
    cumulative = table.candidate.cumtime - table.baseline.cumtime
    queues = max(
        (
            float(cumulative[i])
            for i in range(len(table))
            if table.baseline.cumtime[i] + table.candidate.cumtime[i] > 0
            and _is_loader(table.keys[i].path, table.name[i])
        ),
        default=0.0,
    )
    return min(waits, max(0.0, queues)) / gains


def _is_loader(path: str, name: str) -> bool:
    place = path.endswith(("torch/utils/data/dataloader.py", "multiprocessing/queues.py", "queue.py"))
    place = place or path.endswith("multiprocessing/pool.py")
    return place and name.rpartition(".")[2] in (
        "_next_data",
        "_get_data",
        "_try_get_data",
        "get",
        "next",
        "__next__",
    )
