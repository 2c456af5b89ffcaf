"""The machine under a run, in words and as JSON: load, limits, and the cost of sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.measure.machine_speed import speeds
from profkit.measure.side_facts import gpu_share
from profkit.model import Machine, Run
from profkit.report import units
from profkit.report.jsonvalues import members
from profkit.report.neighbours import neighbour_objects
from profkit.report.notices import notice_text
from profkit.report.text import clean

#: Stolen CPU seconds per second of wall (1) from which they are reported: quiet virtual machines show less.
NOTICEABLE_STEAL = 0.02
#: Seconds of tracing below which nothing is said of it.
LEAST_TRACING_S = 0.01


def machine_items(run: Run) -> list[tuple[str, str]]:
    """Return facts of machines and sampler; empty for a run that was not sampled."""
    if run.machines:
        own = run.manifest.host.name if run.manifest is not None else None
        machines = {f"machine {clean(name)}": (m, name == own) for name, m in run.machines.items()}
    else:
        machines = {} if run.machine is None else {"machine": (run.machine, True)}
    items = [
        (label, _machine(machine, watched=is_own and run.series is not None))
        for label, (machine, is_own) in machines.items()
    ]
    items += [
        ("fixed work", _fixed_work(run)),
        ("GPU", _gpu(run)),
        ("sampler", _sampler(run)),
        ("tracer", _tracer(run)),
    ]
    return [(label, text) for label, text in items if text]


def _fixed_work(run: Run) -> str:
    """How fast the machine was: microseconds of each piece of fixed work, before and after the run."""
    known = speeds((run,))
    return ", ".join(
        f"{clean(name)} {1e6 * speed.seconds:,.0f}"
        + (f" ±{50 * speed.scatter:.0f} %" if speed.scatter else "")
        for name, speed in known.items()
    ) + (" µs" if known else "")


def _gpu(run: Run) -> str:
    """How much the GPUs were used, by any program; empty if not sampled."""
    share = gpu_share(run)
    if share is None or run.series is None:
        return ""
    memory = run.series.columns.get("gpu_memory_bytes")
    most = 0.0 if memory is None or np.isnan(memory).all() else float(np.nanmax(memory))
    return f"in use {units.share(share)} of the time" + (
        f", at most {most / 1e9:,.1f} GB of memory" if most else ""
    )


def _tracer(run: Run) -> str:
    """What tracing cost; empty if the run was not traced or was too short."""
    took = sum(thread.tracer_s or 0.0 for process in run.processes for thread in process.threads)
    if took < LEAST_TRACING_S:
        return ""
    cpu = sum(process.cpu_s or 0.0 for process in run.processes)
    part = f", {units.share(min(1.0, took / cpu))} of the CPU time" if cpu > 0 else ""
    return f"took {units.seconds(took)}{part}, which are in no function's time"


def _machine(machine: Machine, *, watched: bool) -> str:
    parts = []
    # From two readings, before and after the run, it is no peak of the run.
    if watched and machine.peak_runnable is not None:
        number = machine.peak_runnable
        of = f" on {machine.cpus} CPU{'s' if machine.cpus != 1 else ''}" if machine.cpus else ""
        parts.append(f"at most {number:,} runnable thread{'' if number == 1 else 's'}{of}")
    if machine.psi_some_s is not None and machine.wall_s:
        share = units.share(min(1.0, machine.psi_some_s / machine.wall_s))
        parts.append(f"in {share} of the time some thread waited for a CPU")
    if machine.throttled_periods:
        share = units.share(machine.throttled_periods / machine.periods) if machine.periods else "some"
        parts.append(f"throttled by its CPU quota in {share} of the periods")
    if machine.steal_s and machine.wall_s and machine.steal_s >= NOTICEABLE_STEAL * machine.wall_s:
        parts.append(f"{units.seconds(machine.steal_s)} of CPU taken by the hypervisor")
    if machine.load is not None:
        parts.append(f"load {machine.load:.1f}")
    return ", ".join(parts)


def _sampler(run: Run) -> str:
    """What sampling cost, and what it missed."""
    sampler = run.manifest.sampler if run.manifest is not None else None
    if sampler is None:
        return ""
    parts = []
    samples, period, cpu = sampler.get("samples"), sampler.get("period_s"), sampler.get("cpu_s")
    if samples and period is not None:
        parts.append(f"{samples:,} samples, one every {units.seconds(period)}")
        if cpu is not None and run.manifest is not None and run.manifest.wall_s > 0:
            parts.append(f"{units.share(cpu / run.manifest.wall_s)} of one CPU")
    parts += [clean(notice_text(note)) for note in sampler.get("notes", ())]
    return "; ".join(parts)


def machine_object(machine: Machine) -> dict[str, Any]:
    """Return ``machine`` of ``profkit.show/2``."""
    psi = machine.psi_some_s
    return members(
        machine,
        "cpus quota_cpus wall_s busy_s tree_cpu_s peak_runnable psi_some steal=steal_s throttled_s throttled_periods "
        "periods load neighbours",
        psi_some=psi / machine.wall_s if psi is not None and machine.wall_s else None,
        neighbours=neighbour_objects(machine.neighbours),
    )
