"""What to do next, as commands to paste, computed from what the runs say of themselves."""

from __future__ import annotations

import shlex

from profkit.measure.counters import SideFacts
from profkit.measure.signals import Facts
from profkit.verdict.limits import limit_advice

__all__ = ["capture_both", "limit_threads", "look_for_others", "more_runs", "raise_quota"]

#: Variables that size thread pools; those that the run had set come first, OpenMP's is always named.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: Runs a side from which replicates separate causes that one pair confuses (recall 0.89, false alarms 1.6 %).
ENOUGH_RUNS = 5


def limit_threads(side: SideFacts) -> tuple[str, ...]:
    """Cut thread pools so that all processes together fit the CPUs they may use, by their inventory if known."""
    told = limit_advice(side.inventory, side.command, side.environment)
    if told:
        return told
    if not side.available_cpus:
        return ()
    each = max(1, int(side.available_cpus // max(1, side.processes)))
    names = [n for n in THREAD_VARIABLES if n in side.environment] or list(THREAD_VARIABLES[:2])
    setting = " ".join(f"{n}={each}" for n in names)
    advice = [f"{setting} profkit capture -o limited.prof -- {_command(side.command)}"]
    if side.processes > side.available_cpus:
        advice.append(
            f"# {side.processes} processes share {side.available_cpus:g} CPUs: start at most "
            f"{max(1, int(side.available_cpus))} of them (workers, ranks, jobs)"
        )
    return tuple(advice)


def look_for_others(side: SideFacts) -> tuple[str, ...]:
    """Find out who else runs, and measure once more without them."""
    return (
        "ps -eo pid,user,psr,pcpu,etime,comm --sort=-pcpu | head -15  # who else takes CPUs",
        f"profkit capture -o quiet.prof -- {_command(side.command)}  # on an idle or exclusive node",
    )


def raise_quota(side: SideFacts) -> tuple[str, ...]:
    """Look at the limit, and run within it."""
    advice = ["cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu.stat  # the limit, and how often it was hit"]
    if side.available_cpus:
        threads = max(1, int(side.available_cpus))
        advice.append(
            f"OMP_NUM_THREADS={threads} profkit capture -o within-quota.prof -- {_command(side.command)}"
        )
    return tuple(advice)


def capture_both(facts: Facts) -> tuple[str, ...]:
    """Counters for the sides that have none."""
    return tuple(
        f"profkit capture -o {name}.prof -- {_command(side.command)}"
        for name, side in (("baseline", facts.baseline), ("candidate", facts.candidate))
        if side.wait_fraction is None
    )


def more_runs(facts: Facts) -> tuple[str, ...]:
    """Replicates up to where they tell causes apart."""
    missing = ENOUGH_RUNS - min(facts.baseline.runs, facts.candidate.runs)
    if missing <= 0:
        return ()
    return (
        f"# {missing} more run{'s' if missing > 1 else ''} per side: profkit capture --repeat {missing} …",
    )


def _command(command: tuple[str, ...]) -> str:
    return shlex.join(command) if command else "python your_script.py"
