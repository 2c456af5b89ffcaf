"""What is true of a pair of runs, by what was done to them and by what was measured outside of profkit.

A condition states an intent. Whether a run was really contended is not decided by the intent but by the time that it
lost and by the kernel's own counters, read by the harness and not by the code that is judged: one busy process beside
one thread on two cores is no contention. Where intent and measurement disagree, the pair is left out. Nothing here
looks at a profile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = [
    "CONTENTION",
    "INTENTS",
    "Intent",
    "Measured",
    "Truth",
    "of_pair",
    "of_reversed",
    "of_same",
    "summary",
]

#: Slow-down from which lost time is worth a cause (the same figure that the corpus of DETECTION used).
SLOWER = 1.15
#: Slow-down below which nobody would look for a cause.
UNTOUCHED = 1.05
#: Growth of the process tree's run-queue wait fraction from which a slowed run counts as contended, and up to which
#: an unslowed one counts as left alone. Between them a pair proves nothing.
WAIT_GROWTH = 0.05
#: Throttled part of the cgroup's periods from which a quota was felt.
THROTTLED = 0.05
#: Demand of the tree over the CPUs that it may use from which it starves itself.
SELF_DEMAND = 1.25
#: … and growth of that over the clean runs': what starves itself in either case is pushed aside by others.
MORE_DEMAND = 1.1
#: Cores that others used more than beside the clean runs, from which they are the ones who starve it.
OTHERS = 0.2

CONTENTION = "contention"
ANY_KIND = frozenset(("self-oversubscription", "external-load", "cpu-quota"))


@dataclass(frozen=True, slots=True)
class Intent:
    """What a condition was meant to do.

    Attributes
    ----------
    label
        Row of the confusion matrix.
    causes
        Verdicts that are right.
    kinds
        Kinds of contention that are right; empty where they are measured or there is none.
    """

    label: str
    causes: frozenset[str]
    kinds: frozenset[str] = frozenset()


def _intent(label: str, *causes: str, kinds: Sequence[str] = ()) -> Intent:
    return Intent(label, frozenset(causes or (label,)), frozenset(kinds))


#: By label. ``larger-input``: the same source makes the same calls on more data. Per call that looks exactly like a
#: machine whose memory or arithmetic is slower, so both readings are right; a change of code, contention or
#: blocking are not.
INTENTS = {
    intent.label: intent
    for intent in (
        _intent("no-change"),
        _intent(CONTENTION),
        _intent("cpu-quota", CONTENTION, kinds=["cpu-quota"]),
        _intent("blocked"),
        _intent("data-starvation"),
        _intent("slower-machine"),
        _intent("code-change"),
        _intent("workload-change"),
        _intent("larger-input", "workload-change", "slower-machine"),
        _intent("code-change+contention", "code-change", CONTENTION),
    )
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, as the harness saw it from outside.

    Attributes
    ----------
    wall_s
        Seconds from start to end.
    tree_run_s, tree_wait_s
        CPU seconds and run-queue wait of the target's processes.
    others_cores
        CPU that everything else on the machine used, per second.
    throttled
        Part of the cgroup's periods, 0 without a quota.
    cpus
        CPUs that the target might use.
    """

    wall_s: float
    tree_run_s: float
    tree_wait_s: float
    others_cores: float
    throttled: float
    cpus: float

    @property
    def waiting(self) -> float:
        """Run-queue wait over run-queue wait and CPU time, of the whole tree."""
        active = self.tree_run_s + self.tree_wait_s
        return self.tree_wait_s / active if active > 0 else 0.0

    @property
    def demand_cores(self) -> float:
        """CPUs that the tree would have used."""
        return (self.tree_run_s + self.tree_wait_s) / self.wall_s


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of one pair.

    Attributes
    ----------
    causes, kinds
        Right verdicts, and right kinds where the verdict is contention (empty: any).
    contended
        Whether the candidate lost time to contention that the baseline did not.
    effect
        Candidate's wall over the baseline's.
    """

    label: str
    causes: frozenset[str]
    kinds: frozenset[str]
    contended: bool
    effect: float


def summary(runs: Sequence[Measured]) -> Measured:
    """Medians over runs."""
    return Measured(
        *(
            median(getattr(run, name) for run in runs)
            for name in ("wall_s", "tree_run_s", "tree_wait_s", "others_cores", "throttled", "cpus")
        )
    )


def of_pair(
    intent: Intent, usual: Measured, candidate: Measured, baseline: Measured | None = None
) -> Truth | None:
    """Return the truth of a clean baseline and a candidate of a condition; ``None`` where it cannot be told.

    Parameters
    ----------
    intent
        Of the candidate's condition.
    usual
        Medians of all clean runs: one clean run's luck does not change what was done to the candidate.
    candidate
        The run, or the medians of the side's runs.
    baseline
        The clean side that it is compared with, where that is not `usual`. A slow one can hide what was lost: a
        pair whose own walls show no loss may be called unchanged, and proves nothing about contention.
    """
    effect = candidate.wall_s / usual.wall_s
    own = effect if baseline is None else candidate.wall_s / baseline.wall_s
    if CONTENTION in intent.causes:
        truth = _contention(intent, usual, candidate, effect)
        return truth if truth is None or truth.contended == (own >= SLOWER) else None
    causes = intent.causes
    if min(effect, own) < SLOWER:
        causes |= {"no-change"}
    if min(effect, own) < 1 / SLOWER:
        causes |= {"faster"}
    return Truth(intent.label, causes, frozenset(), False, effect)


def _contention(intent: Intent, a: Measured, b: Measured, effect: float) -> Truth | None:
    if intent.label == "cpu-quota":
        if effect >= SLOWER and b.throttled > THROTTLED:
            return Truth(intent.label, intent.causes, intent.kinds, True, effect)
        untouched = b.throttled <= 0 and effect < UNTOUCHED
        return (
            Truth("no-change", frozenset(("no-change",)), frozenset(), False, effect) if untouched else None
        )
    grown = b.waiting - a.waiting
    if effect >= SLOWER and grown >= WAIT_GROWTH:
        kinds = set()
        if b.demand_cores > max(SELF_DEMAND, MORE_DEMAND * a.demand_cores / a.cpus) * b.cpus:
            kinds.add("self-oversubscription")
        if b.others_cores - a.others_cores >= OTHERS:
            kinds.add("external-load")
        return Truth(intent.label, intent.causes, frozenset(kinds), True, effect)
    if intent.causes != frozenset((CONTENTION,)) or grown >= WAIT_GROWTH or effect >= SLOWER:
        return None
    causes = frozenset(("no-change", "faster") if effect < 1 / SLOWER else ("no-change",))
    return Truth("no-change", causes, frozenset(), False, effect)


def of_same(label: str, baseline: Measured, candidate: Measured) -> Truth | None:
    """Return the truth of two sides of one condition: nothing changed.

    Two runs that fought for CPUs need not have lost the same time. A pair that did not is left out. A machine under
    a machine has neighbours that cannot be seen: where the same work took another number of CPU seconds, it was
    slower or faster, and where most of the time added was neither that nor queueing, it stood still: saying so is
    right, too.
    """
    effect = candidate.wall_s / baseline.wall_s
    fought = max(baseline.waiting, candidate.waiting) >= WAIT_GROWTH
    if label != "no-change" and fought and abs(math.log(effect)) >= math.log(SLOWER):
        return None
    causes = {"no-change"}
    if effect <= 1 / SLOWER:
        causes.add("faster")
    run = candidate.tree_run_s / max(baseline.tree_run_s, 1e-9)
    if min(effect, run) >= SLOWER:
        causes.add("slower-machine")
    if effect >= SLOWER and run < math.sqrt(effect) and candidate.waiting - baseline.waiting < WAIT_GROWTH:
        causes.add("blocked")
    return Truth("no-change", frozenset(causes), frozenset(), False, effect)


def of_reversed(truth: Truth) -> Truth | None:
    """Return the truth of the same pair with its sides changed over: it became faster.

    What was called by other calls or other code is still rightly named so, and what showed no loss shows no gain.
    """
    if truth.label == "no-change" or truth.effect < SLOWER:
        return None
    still = truth.causes & {"workload-change", "code-change", "no-change"}
    return Truth("faster", frozenset(("faster",)) | still, frozenset(), False, 1 / truth.effect)
