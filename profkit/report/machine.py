"""The machine under a run: load, limits, sampling cost, idle GPUs, other programs."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from profkit.measure.machine_speed import speeds
from profkit.measure.side_facts import LEAST_GPU_SHARE, gpu_share
from profkit.measure.side_neighbours import NOTICED
from profkit.model import Machine, Neighbour, Neighbours, Run
from profkit.model.run import GpuUse
from profkit.report import units
from profkit.report.document import Note, Section
from profkit.report.jsonvalues import members
from profkit.report.listed import Listed, Of
from profkit.report.notices import notice_texts
from profkit.report.text import clean
from profkit.report.wording.evidence import value_text
from profkit.report.wording.functions import display_name
from profkit.verdict.thresholds import value

#: Stolen CPU seconds per second of wall from which they are reported; quiet virtual machines have less.
NOTICEABLE_STEAL = 0.02
#: Seconds of tracing below which its cost is not reported.
LEAST_TRACING_S = 0.01


def machine_items(run: Run) -> list[tuple[str, str]]:
    """Return facts of machines, GPU, sampler and tracer, with an empty text for what is not known."""
    watched = run.series is not None
    if run.machines:
        own = run.host and run.host.name
        machines = [
            (f"machine {clean(name)}", _machine(machine, watched=watched and name == own))
            for name, machine in run.machines.items()
        ]
    else:
        machines = [] if run.machine is None else [("machine", _machine(run.machine, watched=watched))]
    return [
        *machines,
        ("fixed work", _fixed_work(run)),
        ("GPU", _gpu(run)),
        ("sampler", _sampler(run)),
        ("tracer", _tracer(run)),
    ]


def _fixed_work(run: Run) -> str:
    """Return the microseconds of each piece of fixed work, run before and after the program."""
    known = speeds((run,))
    return ", ".join(
        f"{clean(name)} {1e6 * speed.seconds:,.0f}"
        + (f" ±{50 * speed.scatter:.0f} %" if speed.scatter else "")
        for name, speed in known.items()
    ) + (" µs" if known else "")


def _gpu(run: Run) -> str:
    share = gpu_share(run)
    if share is None or run.series is None:
        return ""
    most = float(run.series.known("gpu_memory_bytes")[1].max(initial=0.0))
    others = gpu_share(run, "gpu_others") or 0.0
    return (
        f"in use {units.share(share)} of the time"
        + (f", {units.share(others)} by other programs" if others >= LEAST_GPU_SHARE else "")
        + (f", at most {most / 1e9:,.1f} GB of memory" if most else "")
    )


def _tracer(run: Run) -> str:
    took = sum(thread.tracer_s or 0.0 for process in run.processes for thread in process.threads)
    if took < LEAST_TRACING_S:
        return ""
    cpu = sum(process.cpu_s or 0.0 for process in run.processes)
    part = f", {units.share(min(1.0, took / cpu))} of the CPU time" if cpu > 0 else ""
    return f"took {units.seconds(took)}{part}, which is in no function's time"


def _machine(machine: Machine, *, watched: bool) -> str:
    parts = []
    # Two readings, before and after the run, show no peak.
    if watched and machine.peak_runnable is not None:
        number = machine.peak_runnable
        of = f" on {units.counted(machine.cpus, 'CPU')}" if machine.cpus else ""
        parts.append(f"at most {units.counted(number, 'runnable thread')}{of}")
    if machine.psi_some_s is not None and machine.wall_s:
        share = units.share(min(1.0, machine.psi_some_s / machine.wall_s))
        parts.append(f"in {share} of the time some thread waited for a CPU")
    if machine.throttled_periods:
        share = units.share(machine.throttled_periods / machine.periods) if machine.periods else "some"
        parts.append(f"throttled by its CPU quota in {share} of the periods")
    if machine.memory_limit_bytes is not None:
        parts.append(f"memory limited to {value_text('bytes', machine.memory_limit_bytes)}")
    if machine.refaulted_bytes and machine.refaulted_bytes >= value("input.larger-bytes"):
        parts.append(f"{value_text('bytes', machine.refaulted_bytes)} dropped from memory and needed again")
    if machine.steal_s and machine.wall_s and machine.steal_s >= NOTICEABLE_STEAL * machine.wall_s:
        parts.append(f"{units.seconds(machine.steal_s)} of CPU taken by the hypervisor")
    if machine.load is not None:
        parts.append(f"load {machine.load:.1f}")
    return ", ".join(parts)


def _sampler(run: Run) -> str:
    sampler = run.manifest.sampler if run.manifest is not None else None
    if sampler is None:
        return ""
    parts = []
    samples, period, cpu = sampler.get("samples"), sampler.get("period_s"), sampler.get("cpu_s")
    if samples and period is not None:
        parts.append(f"{samples:,} samples, one every {units.seconds(period)}")
        if cpu is not None and run.wall_s:
            parts.append(f"{units.share(cpu / run.wall_s)} of one CPU")
    return "; ".join((*parts, *notice_texts(sampler.get("notes", ()))))


def machine_object(machine: Machine) -> dict[str, Any]:
    """Return ``machine`` of ``profkit.show/2``."""
    psi = machine.psi_some_s
    return members(
        machine,
        "cpus quota_cpus wall_s busy_s tree_cpu_s peak_runnable psi_some steal=steal_s throttled_s throttled_periods "
        "periods memory_limit_bytes refaulted_bytes load neighbours",
        psi_some=psi / machine.wall_s if psi is not None and machine.wall_s else None,
    )


MOST = 10


def gpu_sections(use: GpuUse | None, limit: int) -> list[Section]:
    """Return what ran while no GPU worked; empty without a GPU or without a pause."""
    idle = 0.0 if use is None else use.span_s - use.busy_s
    if use is None or idle <= 0 or not use.idle:
        return []
    share = units.share(idle / use.span_s)
    table = Listed(use.idle[: min(limit or MOST, MOST)]).table(
        Of(
            "while the GPU was idle",
            lambda row: display_name(row.function) or "nothing that was recorded",
            "name",
        ),
        Of("in", lambda row: display_name(row.within), "name", 2),
        Of("time", lambda row: row.seconds, "seconds"),
        Of("of its idle time", lambda row: row.seconds / idle, "share"),
        notes=(
            f"Its work spans {units.seconds(use.span_s)},",
            f"of which it was idle for {units.seconds(idle)} ({share}).",
            "The functions are those of the thread that feeds it.",
        ),
    )
    return [Section("GPU idle", (table,))]


#: Name of processes known only by their cgroup.
HIDDEN = "(hidden processes)"
#: What identifies a program on both sides.
_key = attrgetter("name", "pid", "user", "group")


def neighbour_sections(found: Neighbours | None, before: Neighbours | None = None) -> list[Section]:
    """Return who ran while the run, or the candidate, queued; `before` is the baseline's."""
    if found is None:
        return []
    listed = [one for one in found.listed if one.cores >= NOTICED]
    earlier = {_key(one): f"{one.cores:.2f}" for one in (before.listed if before is not None else ())}
    unseen = found.unseen_cores
    if not listed and (unseen is None or unseen < NOTICED):
        return []
    notes = ["CPU used per second by other programs while this one queued for a CPU."]
    if unseen is not None and unseen >= NOTICED:
        why = (
            "by the kernel, by short-lived processes and by many small ones"
            if found.all_visible
            else "by processes that are not visible from here (of another container or user)"
        )
        notes.append(f"Another {unseen:.2f} cores were used {why}.")
    if not listed:
        return [Section("Who else ran meanwhile", (Note(" ".join(notes)),))]
    table = Listed(listed).table(
        Of("program", _program, "name"),
        Of("pid", lambda one: "" if one.pid is None else str(one.pid), "pid", 2),
        Of("user", lambda one: clean(one.user), "text", 3),
        Of("belongs to", lambda one: clean(one.group), "text", 1),
        *([Of("baseline", lambda one: earlier.get(_key(one), ""))] if before is not None else []),
        Of("cores", lambda one: f"{one.cores:.2f}"),
        notes=notes,
    )
    return [Section("Who else ran meanwhile", (table,))]


def _program(one: Neighbour) -> str:
    name = clean(one.name) or HIDDEN
    many = f"{one.processes} × " if one.processes > 1 else ""
    return many + name + (", with its children" if one.children else "")
