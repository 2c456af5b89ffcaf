"""`Run` → `Document`: what one run was, what it waited for, and where its time went."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from profkit.measure.import_table import imports_of
from profkit.measure.iterations import IterationNames, iteration_model
from profkit.measure.range_functions import range_functions
from profkit.measure.range_stats import range_rows
from profkit.measure.range_waiting import range_waiting
from profkit.measure.side_facts import queued_share
from profkit.model import Host, Manifest, Process, Run, Window
from profkit.model.arrays import known_sum
from profkit.model.notices import grouped
from profkit.report import units
from profkit.report.document import Bullets, Document, Facts, Section, laid_out
from profkit.report.estimates import capture_items
from profkit.report.functions import (
    Ranked,
    function_sections,
    open_call_sections,
    ranked_run,
    throttled_sections,
)
from profkit.report.imports import import_sections
from profkit.report.inventory_sections import pool_sections
from profkit.report.iterations import model_sections
from profkit.report.lines import line_sections
from profkit.report.listed import Listed, Of
from profkit.report.machine import gpu_sections, machine_items, neighbour_sections
from profkit.report.notices import notice_texts
from profkit.report.range_sections import inside_sections, range_sections
from profkit.report.text import clean
from profkit.report.ticketdoc import reproduce_run
from profkit.report.wording.accounts import waterfall
from profkit.report.wording.advice import advice_blocks
from profkit.report.wording.evidence import evidence_table
from profkit.report.wording.explain import explain_sections
from profkit.report.wording.verdicts import run_block
from profkit.verdict.alone import READINGS_ALONE
from profkit.verdict.rules import RULES_ALONE
from profkit.verdict.types import RunVerdict, Verdict

#: Share of runnable time (0 to 1) spent queueing from which a process was clearly contended.
CONTENDED_WAIT = 0.15
#: Seconds running or queueing below which a process is not called contended: a short one queues once, and a
#: scheduler's slice of 3 ms is most of its time.
CONTENDED_ACTIVE_S = 0.1


def show_document(
    run: Run,
    *,
    limit: int = 50,
    by: str = "tottime",
    judged: RunVerdict,
    names: IterationNames | None = None,
    attachment: str = "",
    explain: bool = False,
) -> Document:
    """Return the document of one run, which has only the processes to show; `limit` 0 lists all.

    `judged` is the run's account and verdict; `names` is what the user specified about NVTX ranges;
    `attachment` names the file with the run; `explain` lists every condition of every rule.
    """
    functions = ranked_run(run, by)
    verdict = judged.verdict or Verdict("", "")  # it lacked nothing
    # Without counters, the account would only repeat the functions.
    in_parts = not judged.account.merged and judged.account.candidate_s > 0
    profiled = not run.processes or any(process.profiled for process in run.processes)
    return laid_out(
        "profkit show",
        Section("", (*run_block(judged), Facts(run_facts(run, functions)))),
        Section("Where the time went", (waterfall(judged.account),) if in_parts else (), role="account"),
        Section("Evidence", (evidence_table(verdict.evidence, limit, alone=True),), role="evidence"),
        *line_sections(judged.lines),
        *neighbour_sections(None if run.machine is None else run.machine.neighbours),
        Section("Warnings", (Bullets(tuple(run_warnings(run))),)),
        *_windows(run.windows, limit),
        *_processes(run.processes, limit),
        *pool_sections(run, limit),
        *import_sections(imports_of(run, run.processes), limit),
        *gpu_sections(run.gpu, limit),
        *(function_sections(functions, limit, by) if profiled else ()),
        *(throttled_sections(run, limit) if profiled else ()),
        *model_sections(iteration_model(run, names)),
        *_ranges(run, limit),
        *_threads(run.processes, limit),
        *open_call_sections(run, limit),
        *(explain_sections(RULES_ALONE, READINGS_ALONE, judged.checks, verdict.findings) if explain else ()),
        Section("What to do next", advice_blocks(verdict.advice), role="advice"),
        *((reproduce_run(run, attachment),) if attachment else ()),
    )


def _ranges(run: Run, limit: int) -> list[Section]:
    waits = map(range_waiting, run.processes)
    periods = [waited.period_s for waited in waits if waited is not None]
    rows = range_rows(run.processes)
    unmatched = sum(process.ranges.unmatched for process in run.processes if process.ranges is not None)
    return [
        *range_sections(rows, unmatched, limit, max(periods, default=None)),
        *inside_sections(rows, range_functions(run), limit),
    ]


def run_facts(run: Run, functions: Ranked) -> tuple[tuple[str, str], ...]:
    main = run.processes[0] if run.processes else Process()
    manifest = run.manifest
    command = run.command if manifest else main.command
    host = run.host or main.host
    named = host is not None and (host.name or host.cpu_model or host.cpus)
    known = (
        ("command", clean(shlex.join(command))),
        ("host", _host(host) if host is not None and named else ""),
        ("python", clean(main.python)),
        ("started", "" if manifest is None else clean(manifest.started)),
        ("time", _times(run, functions)),
        ("window", "" if manifest is None or manifest.whole_s is None else _window(manifest)),
        ("exit status", "" if manifest is None else str(manifest.exit_status or "")),
        *machine_items(run),
        *capture_items(run),
        ("profiled", _profiled(run, functions)),
    )
    return (("file", clean(run.path)), *((label, text) for label, text in known if text))


def _profiled(run: Run, functions: Ranked) -> str:
    processes = [process for process in run.processes if process.profiled]
    others = len(run.processes) - len(processes)
    if others and not processes:
        return f"nothing; {units.counted(others, 'process', 'processes')} seen"
    numbers = (
        units.counted(len(processes), "process", "processes"),
        units.counted(sum(len(process.threads) for process in processes), "thread"),
        units.counted(len(functions), "function"),
    )
    rest = f"; {units.counted(others, 'other process', 'other processes')} seen" if others else ""
    return ", ".join(numbers) + rest


def _host(host: Host) -> str:
    parts = [clean(host.name), clean(host.cpu_model)]
    if host.cpus:
        parts.append(units.counted(host.cpus, "CPU"))
    if host.affinity and host.affinity != host.cpus:
        parts.append(f"{host.affinity} of them usable")
    if host.quota_cpus:
        parts.append(f"quota of {units.cpus(host.quota_cpus)}")
    return ", ".join(part for part in parts if part)


def _times(run: Run, functions: Ranked) -> str:
    wall = run.wall_s
    cpu = known_sum(process.cpu_s for process in run.processes)
    wait = known_sum(process.run_queue_wait_s for process in run.processes)
    fraction = queued_share(cpu, wait)
    of_all = f" ({units.share(fraction)})" if fraction else ""
    counters = (
        "" if cpu is None else f"{units.seconds(cpu)} CPU",
        "" if wait is None else f"{units.seconds(wait)} queued for a CPU{of_all}",
    )
    of_threads = ", ".join(filter(None, counters))
    if wall is None:
        return of_threads or f"{units.seconds(functions.profile.total)} self time"
    return f"{units.seconds(wall)} wall" + (f"; all threads: {of_threads}" if of_threads else "")


def _window(manifest: Manifest) -> str:
    assert manifest.whole_s is not None
    captured = [window for window in manifest.windows if window.captured]
    said = f"{units.seconds(manifest.wall_s)} of {units.seconds(manifest.whole_s)}"
    if len(captured) > 1:
        return f"{said}, {len(captured):,} windows"
    return f"{said}, from {units.seconds(captured[0].begin_s)} on" if captured else said


def _windows(windows: Sequence[Window], limit: int) -> list[Section]:
    """Return windows and named parts of the program, unless there is only one unnamed window."""
    if len(windows) < 2 and not any(window.name for window in windows):
        return []
    table = Listed(windows, limit, "windows").table(
        Of("name", lambda window: clean(window.name)),
        Of("from", lambda window: window.begin_s, "seconds"),
        Of("length", lambda window: window.end_s - window.begin_s, "seconds"),
        Of("window", lambda window: "yes" if window.captured else "no", "text", 1),
        notes=("Seconds after the start of the command.",),
    )
    return [Section("Windows", (table,))]


def run_warnings(run: Run) -> list[str]:
    """Return the run's warnings, and its processes' notes that are not among them."""
    known = {warning.anywhere() for warning in run.warnings}
    notes = [(process.pid, note) for process in run.processes for note in process.notes if note not in known]
    return notice_texts((*run.warnings, *grouped(notes)))


def _processes(processes: Sequence[Process], limit: int) -> list[Section]:
    if len(processes) < 2 and not any(
        p.run_queue_wait_s is not None or p.wall_s is not None for p in processes
    ):
        return []
    listed = Listed(processes, limit, "processes")
    # Only the command identifies processes without functions.
    unprofiled = any(not process.profiled for process in listed.shown)
    queued = any(p.run_queue_wait_s is not None for p in listed.shown)
    contended = any(map(_contended, listed.shown))
    table = listed.table(
        Of("role", lambda p: clean(p.role)),
        Of("rank", lambda p: p.rank, "count", 1),
        Of("local rank", lambda p: p.local_rank, "count", 6),
        Of("node", lambda p: p.node, "count", 6),
        Of("pid", lambda p: _id(p.pid), "pid"),
        Of("wall", lambda p: p.wall_s, "seconds"),
        Of("CPU", lambda p: p.cpu_s, "seconds"),
        Of("CPU queue", lambda p: p.run_queue_wait_s, "seconds", 1),
        Of(
            "of run+queue",
            lambda p: queued_share(p.cpu_s, p.run_queue_wait_s),
            "share",
            3 if unprofiled else 1,
        ),
        Of("switches", _switches, "count", 6),
        Of("forced", lambda p: p.involuntary_switches, "count", 5 if unprofiled else 4),
        Of("threads", lambda p: p.peak_threads, "count", 7),
        Of("exit", lambda p: clean(p.exit), "text", 4 if unprofiled else 2),
        Of("command", lambda p: clean(shlex.join(p.command)), "path", 2 if unprofiled else 5),
        notes=(
            "CPU queue: ready to run, but waiting for a CPU." if queued else "",
            f"● waited for more than {units.share(CONTENDED_WAIT)} of its time." if contended else "",
        ),
        marked=_contended,
        tone=lambda p: "bad" if _contended(p) else "",
    )
    return [Section("Processes", (table,))]


def _id(number: int | None) -> str:
    return "" if number is None else str(number)


def _switches(process: Process) -> int | None:
    voluntary, forced = process.voluntary_switches, process.involuntary_switches
    return None if voluntary is None or forced is None else voluntary + forced


def _contended(process: Process) -> bool:
    fraction = queued_share(process.cpu_s, process.run_queue_wait_s)
    active = (process.cpu_s or 0.0) + (process.run_queue_wait_s or 0.0)
    return fraction is not None and fraction >= CONTENDED_WAIT and active >= CONTENDED_ACTIVE_S


def _threads(processes: Sequence[Process], limit: int) -> list[Section]:
    """Return the threads if some process has several; else the table of processes suffices."""
    if not any(len(process.threads) > 1 for process in processes):
        return []
    every = [(process.pid, thread) for process in processes for thread in process.threads]
    # Idle pool threads say nothing.
    did = [(pid, t) for pid, t in every if not limit or len(t.profile) or t.run_s or t.run_queue_wait_s]
    idle = len(every) - len(did)
    listed = Listed(did, limit, "threads")
    table = listed.table(
        Of("pid", lambda row: _id(row[0]), "pid"),
        Of("tid", lambda row: _id(row[1].tid), "pid", 3),
        Of("thread", lambda row: clean(row[1].name), "name"),
        # Native threads run no Python: their self time is unknown, not 0.
        Of("self time", lambda row: row[1].profile.total if len(row[1].profile) else None, "seconds"),
        Of("CPU", lambda row: row[1].run_s, "seconds", 1),
        Of("CPU queue", lambda row: row[1].run_queue_wait_s, "seconds", 1),
        Of("of run+queue", lambda row: queued_share(row[1].run_s, row[1].run_queue_wait_s), "share", 1),
        Of("functions", lambda row: len(row[1].profile) or None, "count", 2),
        notes=(listed.cut, f"{idle:,} idle threads are not listed." if idle else ""),
    )
    return [Section("Threads", (table,), detail=True)]
