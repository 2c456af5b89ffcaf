"""What is known of a comparison, as numbers: the one object that every rule of the diagnosis reads.

Gathered by `diff` from the runs' counters and from the table; what was not measured is ``None`` (NaN in
ratios), never zero. Nothing is judged here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from profkit.analysis import noise
from profkit.analysis.rank import location_and_spread, log_ratios
from profkit.analysis.types import DiffTable
from profkit.model import PROJECT, STDLIB, Process, Run, RunSet

Floats = npt.NDArray[np.float64]

__all__ = ["Facts", "Movement", "SideFacts", "is_wait", "movement", "side_facts"]

#: Native functions whose self time is waiting by purpose; their time and calls follow everybody else's speed.
#: The types are named for verbs that other types use for computing (``str.join``, ``dict.get``).
_NATIVE_WAITS = re.compile(
    r"[.' ](?:acquire|poll|epoll_wait|kqueue|select|sleep|nanosleep|recv\w*|_?accept|connect|fsync|fdatasync|flock|"
    r"wait\w*|sigtimedwait|posix\.read\w*|nt\.read|WaitFor\w+|GetOverlappedResult)[' >]"
    r"|'(?:get|put)' of '_queue\.|'__enter__' of '_(?:multiprocessing|thread)\."
    r"|'read\w*' of '_io\.|'join' of '_thread"
)
#: Python functions that do nothing but wait; those of a pool's threads loop over blocking calls of native
#: iterators, which no profile shows.
_WAITS = frozenset(
    ("wait", "_wait", "_wait_for_tstate_lock", "sleep", "_handle_workers", "_handle_tasks", "_handle_results")
)


@dataclass(frozen=True, slots=True)
class SideFacts:
    """One side's counters, medians over its runs; ``None`` where some run lacks them.

    Attributes
    ----------
    wall_s, total_s
        Wall-clock seconds of the command, and the sum of self times that was compared.
    main_run_s, main_wait_s
        On a CPU and queueing for one: main threads of the main process or of all ranks.
    all_wait_fraction
        wait / (run + wait) over all threads of all processes.
    demand_cores
        (run + wait) of the whole process tree per second of wall: cores it would have used if it could.
    own_cores, others_cores
        CPU used per second by the process tree, and by everything else on the machine.
    throttled
        Throttled part of the cgroup's enforcement periods.
    psi_share
        Part of the wall in which some task of the machine waited for a CPU.
    """

    label: str
    runs: int
    wall_s: float | None
    total_s: float
    main_run_s: float | None
    main_wait_s: float | None
    all_wait_fraction: float | None
    demand_cores: float | None
    own_cores: float | None
    others_cores: float | None
    throttled: float | None
    psi_share: float | None
    available_cpus: float | None
    processes: int
    threads: int
    cpu_model: str
    host: str
    command: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def wait_fraction(self) -> float | None:
        """Main threads' wait / (run + wait), ``None`` without counters."""
        if self.main_run_s is None or self.main_wait_s is None:
            return None
        active = self.main_run_s + self.main_wait_s
        return self.main_wait_s / active if active > 0 else None

    @property
    def own_run_s(self) -> float | None:
        """CPU seconds of the whole process tree."""
        return self.own_cores * self.wall_s if self.own_cores is not None and self.wall_s else None

    @property
    def off_cpu_fraction(self) -> float | None:
        """Part of the wall in which the main thread neither ran nor queued."""
        if self.wall_s is None or self.main_run_s is None or self.main_wait_s is None or self.wall_s <= 0:
            return None
        ranks = max(1.0, round((self.main_run_s + self.main_wait_s) / self.wall_s))
        return max(0.0, 1.0 - (self.main_run_s + self.main_wait_s) / (self.wall_s * ranks))


@dataclass(frozen=True, slots=True)
class Movement:
    """How the table moved as a whole.

    Attributes
    ----------
    calls_factor
        What the baseline's time would become if only calls changed, over what it was; waits left out.
    calls_changed
        Part of the time in functions whose calls changed by more than `CALLS_CHANGED`; waits left out.
    ratio, spread
        Median and scaled MAD of the logarithm of self time per call, heavy functions without waits.
    top_row, top_part, top_gain
        Row with the greatest gain in busy seconds, its part of all gains, and seconds; −1 and NaN without any.
    changed_row, changed_part, changed_gain
        Of the functions whose source differs or that are new with it: the one that gained most, the part of
        all gains that they hold together, and seconds; −1 where no source is known to differ.
    busy_total
        Baseline's busy seconds.
    noise_log_ratio
        Median over functions of ln(scatter of candidate / scatter of baseline); NaN without replicates.
    """

    calls_factor: float
    calls_changed: float
    ratio: float
    spread: float
    top_row: int
    top_part: float
    top_gain: float
    changed_row: int
    changed_part: float
    changed_gain: float
    busy_total: float
    noise_log_ratio: float


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Everything that a rule may look at.

    Attributes
    ----------
    threads_differ
        One side holds the calls of threads that the other side was not able to see.
    unmatched
        Part of the self time in functions that only one side has, of the side with less of it.
    """

    baseline: SideFacts
    candidate: SideFacts
    table: DiffTable
    movement: Movement
    rbo: float
    rbo_floor: float
    reordered: bool
    total_variation: float
    identical: bool
    python_differs: bool
    sampled_differs: bool
    threads_differ: bool
    unmatched: float

    @property
    def counters(self) -> bool:
        """Whether both sides know how long their main threads queued for a CPU."""
        return self.baseline.wait_fraction is not None and self.candidate.wait_fraction is not None

    @property
    def moved(self) -> bool:
        """Whether the order of functions, or the time between them, left the noise."""
        return self.reordered or self.total_variation > noise.TV_P99

    @property
    def cpu_part(self) -> float:
        """Part of the logarithm of the slow-down that the tree's growth in CPU time explains; NaN if unknown."""
        run_a, run_b = self.baseline.own_run_s, self.candidate.own_run_s
        if not run_a or not run_b or self.log_slowdown <= 0:
            return float("nan")
        return min(1.0, max(0.0, math.log(run_b / run_a) / self.log_slowdown))

    @property
    def log_slowdown(self) -> float:
        """ln of the candidate's wall over the baseline's; of the totals where a wall is not known."""
        a, b = self.baseline, self.candidate
        if a.wall_s and b.wall_s:
            return math.log(b.wall_s / a.wall_s)
        return math.log(b.total_s / a.total_s) if a.total_s > 0 and b.total_s > 0 else 0.0


#: Part of the baseline's time in functions that the candidate has too, below which it is another program.
STILL_THERE = 0.5
#: Calls of a function that differ by more than this part have changed.
CALLS_CHANGED = 0.1


def is_wait(name: str, root: str) -> bool:
    """Whether a function's self time is waiting by purpose (``acquire``, ``poll``, ``recv`` …).

    A function in Python is believed to wait only in the standard library: a project's own ``wait`` may compute.
    """
    if name.startswith("<"):
        return _NATIVE_WAITS.search(name) is not None
    return root == STDLIB and name.rpartition(".")[2] in _WAITS


def side_facts(side: RunSet, total_s: float, selected: Callable[[Run], Sequence[Process]]) -> SideFacts:
    """Reduce the counters of a side's runs to medians.

    Parameters
    ----------
    side
        Its runs.
    total_s
        Sum of self times that is compared.
    selected
        Which processes of a run are compared.
    """
    each = [_run_facts(run, selected(run)) for run in side.runs]
    known = {key: _median([facts[key] for facts in each]) for key in each[0]}
    run = side.runs[0]
    host = run.manifest.host if run.manifest else next((p.host for p in run.processes if p.host), None)
    return SideFacts(
        label=side.label,
        runs=len(side.runs),
        wall_s=known["wall"],
        total_s=total_s,
        main_run_s=known["main_run"],
        main_wait_s=known["main_wait"],
        all_wait_fraction=known["all_wait_fraction"],
        demand_cores=known["demand"],
        own_cores=known["own"],
        others_cores=known["others"],
        throttled=known["throttled"],
        psi_share=known["psi"],
        available_cpus=known["available"],
        processes=len(run.processes),
        threads=sum(len(p.threads) for p in run.processes),
        cpu_model=host.cpu_model if host else "",
        host=host.name if host else "",
        command=run.manifest.command if run.manifest else (),
        environment=run.manifest.environment if run.manifest else {},
    )


def movement(
    table: DiffTable, busy_a: Floats, busy_b: Floats, noise_log_ratio: float, *, python_differs: bool = False
) -> Movement:
    """Summarise how times and calls moved over the table.

    Parameters
    ----------
    table
        All functions of both sides.
    busy_a, busy_b : float64 array, shape (n,)
        Seconds on a CPU where that was measured, self time elsewhere.
    noise_log_ratio
        From the replicates; NaN without.
    python_differs
        Whether library functions are new and changed for that reason.
    """
    a, b = table.baseline, table.candidate
    total_a, total_b = float(busy_a.sum()), float(busy_b.sum())
    share = np.maximum(busy_a / max(total_a, 1e-12), busy_b / max(total_b, 1e-12))
    heavy = np.flatnonzero(share >= noise.MIN_SHARE)
    heavy = (
        heavy[[not is_wait(table.name[i], table.keys[i].root) for i in heavy.tolist()]]
        if len(heavy)
        else heavy
    )
    active = heavy[(a.ncalls[heavy] > 0) & (b.ncalls[heavy] > 0)]
    time_a, time_b = busy_a[active], busy_b[active]
    before, after = float(time_a.sum()), float(time_b.sum())
    factor = b.ncalls[active] / a.ncalls[active]
    weight = 0.5 * (time_a / max(before, 1e-12) + time_b / max(after, 1e-12))
    altered = np.abs(np.log(factor)) > math.log1p(CALLS_CHANGED)
    ratios = log_ratios(time_a, a.ncalls[active], time_b, b.ncalls[active])
    location, spread = location_and_spread(ratios)

    gain = np.maximum(busy_b - busy_a, 0.0)[heavy]
    gains = float(gain.sum())
    top = int(heavy[gain.argmax()]) if gains > 0 else -1
    ours = [not python_differs or table.keys[i].root == PROJECT for i in heavy.tolist()]
    other = [table.same_source[i] is False for i in heavy.tolist()]
    new = [table.match[i] == "new" for i in heavy.tolist()]
    changed = np.array([o and (s or n) for o, s, n in zip(ours, other, new, strict=True)], np.bool_)
    # New functions are a change of the code where a source is known to differ, or in a project that is still there.
    still = float(busy_a[b.present].sum()) >= STILL_THERE * total_a > 0
    named = np.array(
        [
            o and (s or (n and still and table.keys[i].root == PROJECT))
            for o, s, n, i in zip(ours, other, new, heavy.tolist(), strict=True)
        ],
        np.bool_,
    )
    in_changed = float(gain[changed].sum()) if named.any() else 0.0
    return Movement(
        calls_factor=float((time_a * factor).sum()) / before if before > 0 else float("nan"),
        calls_changed=float(weight[altered].sum()) if len(active) else float("nan"),
        ratio=location,
        spread=spread,
        top_row=top,
        top_part=float(gain.max()) / gains if gains > 0 else float("nan"),
        top_gain=float(gain.max()) if gains > 0 else 0.0,
        changed_row=int(heavy[np.where(named, gain, -1.0).argmax()]) if named.any() else -1,
        changed_part=in_changed / gains if gains > 0 else 0.0,
        changed_gain=in_changed,
        busy_total=total_a,
        noise_log_ratio=noise_log_ratio,
    )


def noise_log_ratio(
    times_a: npt.NDArray[np.float64], times_b: npt.NDArray[np.float64], heavy: npt.NDArray[np.bool_]
) -> float:
    """Median over functions of ln(scatter of candidate / scatter of baseline), NaN below 3 runs a side.

    Parameters
    ----------
    times_a, times_b : float64 array, shape (runs of that side, n)
        Self time per call of functions that both sides have.
    heavy : bool array, shape (n,)
        Which of them count.
    """
    if min(len(times_a), len(times_b)) < noise.MIN_RUNS_NOISE or not heavy.any():
        return float("nan")
    scatter_a, scatter_b = noise.log_scatter(times_a[:, heavy]), noise.log_scatter(times_b[:, heavy])
    ratio = np.log(scatter_b) - np.log(scatter_a)
    ratio = ratio[np.isfinite(ratio)]
    return float(np.median(ratio)) if len(ratio) else float("nan")


def _median(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.median(known)) if known and len(known) == len(values) else None


def _run_facts(run: Run, selected: Sequence[Process]) -> dict[str, float | None]:
    machine = run.machine
    wall = run.manifest.wall_s if run.manifest else None
    if wall is None:
        wall = next((p.wall_s for p in run.processes if p.wall_s), None)
    mains = [p for p in selected if p.role in ("main", "rank")] or list(selected[:1])
    main_run = _sum([_main_thread(p, "run_s") for p in mains])
    main_wait = _sum([_main_thread(p, "run_queue_wait_s") for p in mains])
    run_s = _sum([_process(p, "cpu_s", "run_s") for p in run.processes])
    wait_s = _sum([_process(p, "run_queue_wait_s", "run_queue_wait_s") for p in run.processes])
    active = run_s + wait_s if run_s is not None and wait_s is not None else None
    own = run_s / wall if run_s is not None and wall else None
    busy = (
        machine.busy_s / machine.wall_s if machine and machine.busy_s is not None and machine.wall_s else None
    )
    host = run.manifest.host if run.manifest else next((p.host for p in run.processes if p.host), None)
    available = [host.available_cpus if host else None, machine.quota_cpus if machine else None]
    if host is None and machine and machine.cpus:
        available.append(float(machine.cpus))
    cpus = [c for c in available if c]
    return {
        "wall": wall,
        "main_run": main_run,
        "main_wait": main_wait,
        "all_wait_fraction": wait_s / active if active and wait_s is not None else None,
        "demand": active / wall if active is not None and wall else None,
        "own": own,
        "others": max(0.0, busy - own) if busy is not None and own is not None else None,
        "throttled": machine.throttled_periods / machine.periods
        if machine and machine.periods and machine.throttled_periods is not None
        else None,
        "psi": machine.psi_some_s / machine.wall_s
        if machine and machine.psi_some_s is not None and machine.wall_s
        else None,
        "available": min(cpus) if cpus else None,
    }


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _main_thread(process: Process, field: str) -> float | None:
    """A counter of the thread that the process started with; of its only thread where ids are not known."""
    for thread in process.threads:
        if thread.tid is not None and thread.tid == process.pid:
            value: float | None = getattr(thread, field)
            return value
    return getattr(process.threads[0], field) if process.threads else None


def _process(process: Process, own: str, of_threads: str) -> float | None:
    value: float | None = getattr(process, own)
    return value if value is not None else _sum([getattr(t, of_threads) for t in process.threads])
