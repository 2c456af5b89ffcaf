"""What is true of two sides: from the condition as it was set up and from what an observer outside measured.

The verdict's rules decide by thresholds on what profkit recorded. Nothing of that is used here: this module imports
nothing of profkit, reads no profile and holds no threshold. It knows

- the condition (`catalogue`): what was put around the program or changed in it, and therefore which causes and which
  kinds of contention can be right at all;
- the observer's figures (`watch`): the wall, the CPU seconds and the queueing seconds of the process tree;
- the same figures of the program's other runs of the baseline condition, ten of them where that is ``clean``. They
  take the place of a threshold: a difference counts where it is greater than any difference among those runs.

Three questions follow, and each is a comparison of measured figures with measured figures.

*Did it take longer?* One run a side: the ratio of the two walls is greater than that of the longest and the shortest
run of the baseline condition, that is, greater than the ratio of any two of them. Several runs a side: every run of
the candidate is longer than every run of the baseline condition (an exact rank test: five runs above ten have a
probability of 1 in 3003 where nothing differs, five above five 1 in 252). One run above ten would have a probability
of 1 in 11, which is why single runs are asked for more than their rank.

*Did it queue longer?* The same two criteria on the seconds that the program queued for a CPU, differences instead of
ratios.

*What took the time?* The wall is the sum of computing, queueing and standing still (`_Account`). A part explains the
loss where it is more than all other parts together.

A run that was meant to be contended was contended where it took longer, queued longer and the queueing explains the
loss. It lost nothing where it took as long as runs of the baseline condition do and did not queue longer, or by less
than two of those typically differ in their walls. In any other case the truth cannot be decided and the pair is left
out: a loss without queueing (a neighbour that shares a core or a cache), queueing without a loss (the surplus threads
of a program that is none the slower), a loss that queueing explains in its smaller part only, a loss that a slow run
on the other side hides. Nothing is left out of the other conditions: there the cause is what was done, and
``no-change`` is right as well where the observer saw no difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from benchmarks.verdict.catalogue import Condition

CONTENTION = "contention"
NO_CHANGE = "no-change"
FASTER = "faster"

#: Verdicts that are right by the label of a condition. ``larger-input``: the same source makes the same calls on more
#: data. Per call that looks exactly like a machine whose memory or arithmetic is slower, so both readings are right.
RIGHT: dict[str, frozenset[str]] = {
    NO_CHANGE: frozenset((NO_CHANGE,)),
    CONTENTION: frozenset((CONTENTION,)),
    "cpu-quota": frozenset((CONTENTION,)),
    "blocked": frozenset(("blocked",)),
    "data-starvation": frozenset(("data-starvation",)),
    "slower-machine": frozenset(("slower-machine",)),
    "code-change": frozenset(("code-change",)),
    "thread-settings": frozenset(("thread-settings",)),
    "thread-overhead": frozenset(("thread-settings",)),
    "start-up": frozenset(("start-up",)),
    "environment": frozenset(("environment",)),
    "workload-change": frozenset(("workload-change",)),
    "larger-input": frozenset(("workload-change", "slower-machine")),
    "code-change+contention": frozenset(("code-change", CONTENTION)),
    "another-program": frozenset(("inconclusive",)),
}
#: Verdicts that stay right when the sides are exchanged: other calls and other code are so in either direction.
EITHER_WAY = frozenset(("code-change", "workload-change"))


@dataclass(frozen=True, slots=True)
class Intent:
    """What a condition was meant to do to the runs of its baseline condition.

    Attributes
    ----------
    label
        Row of the tables.
    causes
        Verdicts that are right where it did it.
    kinds
        Kinds of contention that were set up; empty without contention.
    """

    label: str
    causes: frozenset[str]
    kinds: frozenset[str] = frozenset()

    @property
    def mixed(self) -> bool:
        """Whether contention was set up together with something else."""
        return CONTENTION in self.causes and self.causes != {CONTENTION}


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, as the observer saw it from outside.

    Attributes
    ----------
    wall_s
        Seconds from start to end.
    tree_run_s, tree_wait_s
        CPU seconds and queueing seconds, added up over all threads of the program's processes.
    others_cores
        CPUs that everything else on the machine used, on average.
    throttled
        Part of the cgroup's periods in which it was throttled, 0 without a quota.
    cpus
        CPUs that the program was allowed to use.
    lead_wait_s
        Queueing seconds of the first thread that queued longest, of all processes' first threads.
    """

    wall_s: float
    tree_run_s: float
    tree_wait_s: float
    others_cores: float
    throttled: float
    cpus: float
    lead_wait_s: float

    @property
    def demand_cores(self) -> float:
        """Threads that ran or queued, on average."""
        return (self.tree_run_s + self.tree_wait_s) / self.wall_s


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of one pair.

    Attributes
    ----------
    causes, kinds
        Right verdicts, and right kinds where the verdict is contention (empty: any).
    contended
        Whether the candidate lost time to contention that the baseline did not have.
    effect
        Candidate's wall over the baseline's.
    longer
        Whether the candidate took longer than the baseline by more than runs of one condition differ.
    """

    label: str
    causes: frozenset[str]
    kinds: frozenset[str]
    contended: bool
    effect: float
    longer: bool


def intent_of(condition: Condition, reference: Condition) -> Intent:
    """Return what one condition was meant to do to a program that otherwise runs under another one.

    The kinds of contention follow from what was set up and is not set up in the reference too: busy neighbours are
    external load; more threads or workers, or fewer CPUs for them, make the program compete with itself; a quota is a
    quota. Contention that a condition adds to another cause by its neighbours is right beside that cause.
    """

    def differs(*names: str) -> bool:
        return any(getattr(condition, name) != getattr(reference, name) for name in names)

    kinds = set()
    if condition.hogs and differs("hogs", "hog_duty", "hog_cpu"):
        kinds.add("external-load")
    if differs("threads", "workers", "cpu"):
        kinds.add("self-oversubscription")
    if differs("quota"):
        kinds.add("cpu-quota")
    label, causes = condition.label, RIGHT[condition.label]
    if kinds and CONTENTION not in causes:
        label, causes = f"{label}+{CONTENTION}", causes | {CONTENTION}
    return Intent(label, causes, frozenset(kinds))


def summary(runs: Sequence[Measured]) -> Measured:
    """Return the median of every figure over runs."""
    names = ("wall_s", "tree_run_s", "tree_wait_s", "others_cores", "throttled", "cpus", "lead_wait_s")
    return Measured(*(median(getattr(run, name) for run in runs) for name in names))


def of_pair(
    intent: Intent, usual: Sequence[Measured], baseline: Sequence[Measured], candidate: Sequence[Measured]
) -> Truth | None:
    """Return the truth of runs of a condition against runs of its baseline condition.

    Parameters
    ----------
    intent
        Of the candidate's condition.
    usual
        All runs of the baseline condition.
    baseline, candidate
        The sides, one run each or several each.

    Returns
    -------
    Truth or None
        ``None`` where it cannot be decided.
    """
    if len(usual) < 2:
        return None  # nothing shows how far runs of one condition differ
    account = _Account(usual, usual)
    way = account.took(baseline, candidate)
    effect = _effect(baseline, candidate)
    if CONTENTION in intent.causes:
        return _contention(intent, account, way, baseline, candidate, effect)
    causes = {1: intent.causes, 0: intent.causes | {NO_CHANGE}, -1: intent.causes & EITHER_WAY | {FASTER}}
    return Truth(intent.label, causes[way], frozenset(), contended=False, effect=effect, longer=way > 0)


def _contention(
    intent: Intent,
    account: _Account,
    way: int,
    a: Sequence[Measured],
    b: Sequence[Measured],
    effect: float,
) -> Truth | None:
    if way > 0 and account.queued(a, b) > 0:
        if not intent.mixed and CONTENTION not in account.explained(a, b):
            return None
        return Truth(intent.label, intent.causes, intent.kinds, contended=True, effect=effect, longer=True)
    if intent.mixed or way > 0 or not account.lost_nothing(a, b):
        return None
    causes = frozenset((NO_CHANGE, FASTER) if way < 0 else (NO_CHANGE,))
    return Truth(NO_CHANGE, causes, frozenset(), contended=False, effect=effect, longer=False)


def of_same(
    intent: Intent, usual: Sequence[Measured], baseline: Sequence[Measured], candidate: Sequence[Measured]
) -> Truth | None:
    """Return the truth of two sides of one condition: nothing changed.

    Two runs of one condition can differ all the same: the machine of the observer is a virtual one, and two runs that
    compete with the same neighbours need not have the same luck. Where the sides differ by more than any two of the
    other runs do, what the observer saw of the difference is right beside ``no-change``: ``faster``; or, of the part
    that explains the loss, ``slower-machine`` for computing, ``blocked`` for standing still, ``contention`` for
    queueing, the last only where the condition has what to queue behind.

    Parameters
    ----------
    intent
        Of the condition that both sides are of.
    usual
        The program's runs that show how far runs differ for no reason; the sides do not count among them.
    baseline, candidate
        The sides.

    Returns
    -------
    Truth or None
        ``None`` where nothing shows how far runs differ.
    """
    sides = [*baseline, *candidate]
    others = [run for run in usual if not any(run is side for side in sides)]
    if len(candidate) < 2 and len(others) < 2:
        return None
    account = _Account(others, usual)
    way = account.took(baseline, candidate)
    causes: set[str] = {NO_CHANGE}
    kinds: frozenset[str] = frozenset()
    if way < 0:
        causes.add(FASTER)
    elif way > 0:
        explained = account.explained(baseline, candidate)
        causes |= explained if intent.kinds else explained - {CONTENTION}
        if CONTENTION in causes:
            kinds = intent.kinds
    effect = _effect(baseline, candidate)
    return Truth(NO_CHANGE, frozenset(causes), kinds, contended=False, effect=effect, longer=way > 0)


def of_reversed(truth: Truth) -> Truth | None:
    """Return the truth of the same pair with its sides exchanged: it became faster, if there was a loss.

    What is due to other calls or other code is still rightly named so.
    """
    if not truth.longer:
        return None
    causes = truth.causes & EITHER_WAY | {FASTER}
    return Truth(FASTER, causes, frozenset(), contended=False, effect=1 / truth.effect, longer=False)


def of_another(baseline: Sequence[Measured], candidate: Sequence[Measured]) -> Truth:
    """Return the truth of two programs: whatever differs between them has no cause that a verdict could name."""
    label = "another-program"
    effect = _effect(baseline, candidate)
    return Truth(label, RIGHT[label], frozenset(), contended=False, effect=effect, longer=False)


def _effect(a: Sequence[Measured], b: Sequence[Measured]) -> float:
    return median(run.wall_s for run in b) / median(run.wall_s for run in a)


class _Account:
    """What two sides differ by, measured against the differences among other runs of the program.

    ``wall = computing + queueing + standing still``, in seconds along the path that the program's time passes on. An
    outside observer sees the sums over all threads only. Computing is the sum of CPU seconds divided by the threads
    that are active in the usual runs, on average and at least one. Queueing is the same of the queueing seconds, or
    what one process's first thread queued where that is more: a program of several processes may wait for the one
    that queues. Standing still is the rest.
    """

    def __init__(self, others: Sequence[Measured], usual: Sequence[Measured]) -> None:
        self._others = others
        self._threads = max(1, median(run.demand_cores for run in usual))

    def took(self, a: Sequence[Measured], b: Sequence[Measured]) -> int:
        """Return 1 where `b` took longer than `a`, -1 where it took less time, 0 where neither is certain."""
        return _way(*([math.log(run.wall_s) for run in runs] for runs in (self._others, a, b)))

    def queued(self, a: Sequence[Measured], b: Sequence[Measured]) -> int:
        """Return the same for the seconds that were queued, or throttled."""
        return _way(*([self._waited(run) for run in runs] for runs in (self._others, a, b)))

    def lost_nothing(self, a: Sequence[Measured], b: Sequence[Measured]) -> bool:
        """Whether `b` took no longer than other runs did, and queued for no longer than can be seen in walls."""
        walls = [run.wall_s for run in self._others]
        if median(run.wall_s for run in b) > max(walls):
            return False
        typical = median(abs(one - other) for one, other in combinations(walls, 2))
        return self.queued(a, b) <= 0 or _more(self._waited, a, b) <= typical

    def explained(self, a: Sequence[Measured], b: Sequence[Measured]) -> frozenset[str]:
        """Return the causes that explain what `b` took longer than `a`: whose part is more than all the rest of it.

        There can be none; or two, where the third part became smaller.
        """
        lost = _more(lambda run: run.wall_s, a, b)
        computed, queued = _more(self._computed, a, b), _more(self._waited, a, b)
        parts = {CONTENTION: queued, "slower-machine": computed, "blocked": lost - computed - queued}
        return frozenset(cause for cause, part in parts.items() if part > lost - part)

    def _computed(self, run: Measured) -> float:
        return run.tree_run_s / self._threads

    def _waited(self, run: Measured) -> float:
        # A throttled period can have cost the whole of its length, not more.
        return max(run.tree_wait_s / self._threads, run.lead_wait_s, run.throttled * run.wall_s)


def _more(of: Callable[[Measured], float], a: Sequence[Measured], b: Sequence[Measured]) -> float:
    return median(map(of, b)) - median(map(of, a))


def _way(usual: Sequence[float], a: Sequence[float], b: Sequence[float]) -> int:
    """Compare two sides: by the range of the usual values where each is one value, by their order where not."""
    if len(a) == len(b) == 1:
        spread, change = max(usual) - min(usual), b[0] - a[0]
        return (change > spread) - (-change > spread)
    below = (*usual, *a)
    return (min(b) > max(below)) - (max(b) < min(below))
