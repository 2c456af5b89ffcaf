"""Turns a spool directory, with one record per process image, into a `profkit.model.Run`; writes nothing."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from profkit import __version__
from profkit.capture import captured_windows, counters, endings, machines, nvtx, program_files, record_notices
from profkit.capture import host as host_facts
from profkit.capture.agent import settings
from profkit.capture.lightning_ranks import with_lightning_ranks
from profkit.capture.pool_records import pools_of
from profkit.capture.proc_files import is_alive
from profkit.capture.provenance import installed_packages
from profkit.capture.record_types import Launch, Launcher, ProcessKey, Record, Sampled, SeenProcess
from profkit.capture.records import read_launch
from profkit.capture.source_cache import Sources
from profkit.capture.spool import absent_directories
from profkit.capture.spool_records import SpoolRecords, last_records
from profkit.capture.tables import ThreadTables
from profkit.errors import FormatError
from profkit.formats.runfile import SCHEMA
from profkit.model import Host, Manifest, Notice, Process, Profile, ProfileError, Roots, Run, Sampler, Thread

#: Seconds to wait for processes that outlive the target briefly and still write their last record.
_STRAGGLER_WAIT = 0.3
#: A later program of a script is the main one if it runs this many times as long. With a lower factor, the main
#: program could differ from run to run.
_MUCH_LONGER = 2.0
#: Facts of a process as its record has them.
_AS_RECORDED = (
    *("cpu_s", "voluntary_switches", "involuntary_switches", "peak_memory_bytes", "page_faults"),
    *("read_bytes", "storage_bytes", "environment", "tiers", "effect"),
)


def pack_spool(
    spool: Path,
    *,
    wait_for_stragglers: bool = False,
    sources: Sources | None = None,
    progress: Callable[[str], None] = lambda doing: None,
    now: Callable[[Path, Launcher | None, Sampled | None], Sampled | None] | None = None,
) -> Run:
    """Return the run in a spool directory of ``profkit capture``; a damaged record is a notice.

    `now` brings the samples up to date while the run goes on. Raise `FormatError` if it is no such directory, or
    if its records cannot be those of a run.
    """
    launch = _read_launch(spool)
    reader = SpoolRecords(spool, attached=launch.attached)
    progress("reading records")
    found = reader.read()
    sampled, of_samples = counters.read_sampled(spool)
    launcher_alive = _launcher_alive(launch)
    if now is not None and launcher_alive and not launch.attached:  # whose counters begin when it attached
        sampled, of_samples = now(spool, launch.launcher, sampled), []
    seen = {} if sampled is None else sampled.by_process
    found, living = last_records(reader, found, seen, _STRAGGLER_WAIT if wait_for_stragglers else 0.0)
    # The time of day may be set back between records, but several machines have no other clock in common.
    one_clock = len({record.kernel for record in found}) == 1
    found.sort(key=lambda record: (record.begin_perf if one_clock else record.begin_time, record.pid))
    root = launch.target.pid if launch.attached and launch.target is not None else None
    if root is not None:  # tracing of its processes began in any order
        found.sort(key=lambda record: record.pid != root)
    machine_host = launch.host or host_facts.read_host()
    sources = sources or Sources()
    tables = ThreadTables(sources)
    cores = host_facts.physical_cores()
    # Whether processes of other machines still run is unknown here.
    goes_on = ("running", "unknown") if launcher_alive else ("running",)
    packed: list[tuple[Record, endings.Ending, Process]] = []
    for number, (record, end) in enumerate(_ends(spool, launch, found, living, seen), 1):
        progress(f"process {number} of {len(found)}")
        whole = reader.with_tables(record, end, seen.get(record.process), growing=end.state in goes_on)
        try:
            packed.append((whole, end, _process(whole, end, machine_host, tables, cores)))
        except ProfileError as error:  # each row is possible, but not all together
            reader.leave_out(record, str(error))
    ends = [end for _, end, _ in packed]
    found = with_lightning_ranks([record for record, _, _ in packed])
    processes = _described([process for _, _, process in packed], tables, sources)
    processes = _with_roles(processes, found, root)
    whole_s = launch.wall_s or _so_far(launch, found, launcher_alive)
    warnings = _notices(spool, reader, launch, launcher_alive, whole_s, found, processes, ends)
    processes, thread_names, of_ranges = nvtx.attach(spool, found, processes)
    warnings += [*of_ranges, *of_samples]
    processes = counters.attach(sampled, launch, found, processes, machine_host)
    processes = nvtx.with_thread_names(processes, thread_names)
    machine = machines.of_run(launch, sampled, machine_host)
    if one_clock:
        machine = counters.with_orphans(machine, found, processes)
    series = sampled.series if sampled is not None else None
    begin_ns = launch.begin_ns or 0
    selected = captured_windows.read_windows(spool, launch, found, begin_ns + int(whole_s * 1e9))
    summary = counters.summary(sampled, counters.unseen(machine, processes))
    if selected.opened:
        processes = _in_windows(selected, processes, found, ends, "" if sampled is None else sampled.kernel)
        here = "" if launch.launcher is None else launch.launcher.kernel
        machine, series = selected.machine(machine, series, here), selected.series(series, here)
        warnings += selected.notices(whole_s)
    elif selected.chosen:
        warnings.append(captured_windows.never_opened(launch, whole_s))
    if now is not None and launcher_alive and not launch.attached:  # whose counters begin when it attached
        # The run as a whole says that its processes run.
        warnings = [notice for notice in warnings if notice.code != "process-running"]
    state = "unknown" if launch.status is None else ("killed" if launch.status < 0 else "exited")
    run = Run(
        path=str(spool),
        processes=tuple(_primary_first(processes))
        or (Process(command=launch.command, exit=state, profiled=False),),
        manifest=_manifest(launch, machine_host, found, summary, selected, whole_s),
        machine=machine,
        warnings=tuple(dict.fromkeys(warnings)),
        series=series,
        machines={} if selected.opened else machines.by_host(machine, machine_host, found),
    )
    try:
        return run.validate()
    except ProfileError as error:
        raise FormatError(spool, str(error), "its records are damaged, or not profkit's") from None


def _ends(
    spool: Path,
    launch: Launch,
    found: Sequence[Record],
    living: Mapping[ProcessKey, bool | None],
    seen: Mapping[ProcessKey, SeenProcess],
) -> list[tuple[Record, endings.Ending]]:
    """Return each record with the end of its process."""
    alive = [living[record.process] for record in found]
    left = endings.left_ends(spool)
    attached_to = launch.target if launch.attached else None
    now_s = time.perf_counter() if attached_to is None else attached_to.ended_ns / 1e9
    ends = endings.of_records(found, alive, launch, seen, left, now_s)
    if attached_to is not None:  # nothing is lost: what these do later is not of this run
        ends = [replace(end, complete=end.complete or end.kept or end.state == "running") for end in ends]
    return list(zip(found, ends, strict=True))


def _described(processes: Sequence[Process], tables: ThreadTables, sources: Sources) -> list[Process]:
    """Return the processes with what their program's files say of their functions."""
    processes = program_files.with_sizes(processes, sources)
    processes = program_files.with_dynamic_files(processes, tables.strings, sources)
    return program_files.with_definitions(tables.sharing_strings(processes), sources)


def _notices(
    spool: Path,
    reader: SpoolRecords,
    launch: Launch,
    launcher_alive: bool | None,
    whole_s: float,
    found: Sequence[Record],
    processes: Sequence[Process],
    ends: Sequence[endings.Ending],
) -> list[Notice]:
    """Return what limits the run, its processes and its interpreters."""
    unrecorded = endings.unrecorded(spool, reader.files)
    interpreters = (path.stem for path in spool.glob("*" + settings.SUBINTERPRETER_SUFFIX))
    elsewhere = absent_directories(spool)
    return [
        *reader.damaged,
        *record_notices.of_launch(
            launch, launcher_alive, whole_s, found, unrecorded, reader.damaged, elsewhere
        ),
        *record_notices.of_processes(found, processes, ends),
        *record_notices.of_interpreters(interpreters),
    ]


def _manifest(
    launch: Launch,
    host: Host,
    found: Sequence[Record],
    sampler: Sampler | None,
    selected: captured_windows.Windows,
    whole_s: float,
) -> Manifest:
    return Manifest(
        schema=SCHEMA,
        profkit=__version__,
        command=launch.command,
        cwd=launch.cwd,
        exit_status=launch.exit_status,
        started=launch.started,
        wall_s=selected.captured_s if selected.opened else whole_s,
        host=host,
        environment=launch.environment,
        packages=installed_packages(entry for record in found[:1] for entry in record.path),
        git=launch.git,
        job=launch.job,
        clocks=launch.clocks,
        sampler=sampler,
        whole_s=whole_s if selected.opened else None,
        windows=selected.shown,
        yardsticks=launch.yardsticks,
    )


def _read_launch(spool: Path) -> Launch:
    path = spool / "launch.json"
    try:
        return read_launch(path)
    except OSError as error:
        raise FormatError(spool, f"is not a spool directory: {error.strerror}: launch.json") from None
    except ValueError as error:
        raise FormatError(path, f"is damaged ({error})") from None


def captures_on(spool: Path) -> bool:
    """Return whether the capture that owns this spool directory may still be running."""
    try:
        return _launcher_alive(_read_launch(spool)) is not False
    except FormatError:
        return False


def _launcher_alive(launch: Launch) -> bool | None:
    own = launch.launcher
    return None if own is None else is_alive(own.kernel, own.pid, own.born, own.pid_namespace)


def _so_far(launch: Launch, found: Sequence[Record], launcher_alive: bool | None) -> float:
    """Return the seconds of a run of unknown length: until now if its launcher still runs."""
    if launcher_alive and launch.begin_ns is not None:
        return max(0.0, time.monotonic() - launch.begin_ns / 1e9)
    return _span(found)


def _in_windows(
    selected: captured_windows.Windows,
    processes: Sequence[Process],
    found: Sequence[Record],
    ends: Sequence[endings.Ending],
    kernel: str,
) -> list[Process]:
    """Return the processes cut to windows; those without a record are on the sampler's `kernel`."""
    lives: list[tuple[str, tuple[int, int] | None]] = [
        (record.kernel, (int(record.begin_perf * 1e9), int((record.perf + (end.lost_s or 0.0)) * 1e9)))
        for record, end in zip(found, ends, strict=True)
    ]
    lives += [(kernel, None)] * (len(processes) - len(found))
    kept = (selected.process(process, *life) for process, life in zip(processes, lives, strict=True))
    return [process for process in kept if process is not None]


def _span(found: Sequence[Record]) -> float:
    """Return the seconds from the first begin to the last end; of several machines, the longest."""
    spans: dict[str, tuple[float, float]] = {}
    for record in found:
        begin, end = spans.get(record.kernel, (math.inf, -math.inf))
        spans[record.kernel] = min(begin, record.begin_perf), max(end, record.perf)
    return max((end - begin for begin, end in spans.values()), default=0.0)


def _process(
    record: Record, end: endings.Ending, launch_host: Host, tables: ThreadTables, cores: int | None
) -> Process:
    tasks = {task.tid: task for task in record.tasks}
    threads = []
    for index, table in enumerate(record.threads):
        if table.native in record.agent_tids:
            continue  # the agent's own thread, which follows windows
        thread = tables.thread(record, table)
        # Only the main thread keeps a table without functions: its counters belong there.
        if len(thread.profile) == 0 and index > 0:
            continue
        task = tasks.pop(table.native, None) if table.native is not None else None
        known = counters.of_task(task) if task is not None else {}
        threads.append(replace(thread, **known))
    for task in tasks.values():  # threads of native libraries
        threads.append(Thread(Profile.empty(), task.tid, task.name, **counters.of_task(task)))
    here = record.host in ("", launch_host.name)
    host = replace(
        launch_host if here else Host(name=record.host, system=launch_host.system),
        cpus=record.cpus,
        affinity=record.affinity,
        affinity_cpus=record.affinity_cpus,
    )
    return Process(
        pid=record.pid,
        parent=record.ppid,
        role="child",
        command=record.argv,
        exit=end.state,
        python=record.version,
        wall_s=record.wall_s + (end.lost_s or 0.0),  # to its end, like its CPU time
        run_queue_wait_s=sum(task.wait_ns for task in record.tasks) / 1e9 if record.tasks else None,
        threads=tuple(threads),
        roots=_roots(record),
        host=host,
        notes=record_notices.of_process(record),
        profiled=not record.notes.not_traced,
        pools=pools_of(record, host, cores if here else None),
        **{name: getattr(record, name) for name in _AS_RECORDED},
    )


def _roots(record: Record) -> Roots:
    """Return the interpreter's standard library, installed packages, and other paths."""
    site, project = [], []
    for entry in record.path:
        if not entry or entry.endswith(".zip"):
            continue
        name = os.path.basename(entry.rstrip("/"))
        if name in ("site-packages", "dist-packages"):
            site.append(entry)
        elif not f"{entry}/".startswith(record.stdlib.rstrip("/") + "/"):
            project.append(entry)
    if record.cwd:
        project.append(record.cwd)
    return Roots((record.stdlib,), tuple(dict.fromkeys(site)), tuple(dict.fromkeys(project)))


def _with_roles(processes: Sequence[Process], found: Sequence[Record], root: int | None) -> list[Process]:
    """Set roles: the first process of each rank is that rank; for the main one see `_main_process`."""
    main = _main_process(processes, found, root)
    by_pid: dict[tuple[str, int | None], int] = {}
    by_process: dict[ProcessKey, int] = {}
    result: list[Process] = []
    launchers = set()
    for index, (process, record) in enumerate(zip(processes, found, strict=True)):
        parent = by_pid.get((record.kernel, process.parent))
        of_rank = record.rank is not None and record.of_job
        above = None if parent is None or result[parent].rank is None else found[parent]
        if of_rank and parent is not None and above is not None and above.world_size != record.world_size:
            launchers.add(parent)  # such as torchrun, which has the rank of the srun that started it
        if record.worker:
            role = "worker"
        elif of_rank and (
            above is None or (above.rank, above.world_size) != (record.rank, record.world_size)
        ):
            role = "rank"
        elif record.process == main:
            role = "main"
        else:
            previous = by_process.get(record.process)  # a process keeps its role after an exec
            role = result[previous].role if previous is not None else "child"
        process = replace(process, role=role)
        if of_rank:
            process = replace(process, rank=record.rank, local_rank=record.local_rank, node=record.node)
        result.append(process)
        by_pid[record.kernel, process.pid] = by_process[record.process] = index
    for index in launchers:
        role = "child" if index else "main"
        result[index] = replace(result[index], role=role, rank=None, local_rank=None, node=None)
    return result


def _main_process(
    processes: Sequence[Process], found: Sequence[Record], root: int | None
) -> ProcessKey | None:
    """Return the main process: `root` or the first, unless it is a rank, or a later one that runs much longer.

    That must begin after the end of those before it: two that run at once are not told apart by their times.
    """
    main: ProcessKey | None = None
    starters = set()
    end_s = life_s = 0.0
    has_ranks = any(record.of_job and record.rank is not None for record in found)
    for index, (process, record) in enumerate(zip(processes, found, strict=True)):
        started = (record.kernel, process.parent) in starters
        starters.add((record.kernel, process.pid))
        lived_s = process.wall_s or 0.0
        if index == 0:
            if (
                record.worker
                or (record.of_job and record.rank is not None)
                or root not in (None, process.pid)
            ):
                return None
        elif record.process == main:  # another program in the same process
            lived_s += life_s
        elif (
            started
            or has_ranks
            or root is not None
            or record.kernel != found[0].kernel
            or record.begin_perf < end_s
            or lived_s < _MUCH_LONGER * life_s
        ):
            continue
        main, life_s, end_s = record.process, lived_s, record.begin_perf + (process.wall_s or 0.0)
    return main


def _primary_first(processes: list[Process]) -> list[Process]:
    """Put first what viewers show: the ranks of a job in order, else the main process's last image."""

    def order(indexed: tuple[int, Process]) -> tuple[int, int]:
        index, process = indexed
        if process.role == "rank" and process.rank is not None and process.exit != "replaced":
            return 0, process.rank
        if process.role == "main":
            return (1 if process.exit != "replaced" else 2), index
        return 3, index

    return [process for _, process in sorted(enumerate(processes), key=order)]
