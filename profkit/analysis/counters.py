"""One side's counters: what the kernel counted for its runs, as medians over them.

Read by every rule of the diagnosis through `Facts`; what was not measured is ``None``, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profkit.model import Process, Run, RunSet

__all__ = ["SideFacts", "side_facts"]


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
