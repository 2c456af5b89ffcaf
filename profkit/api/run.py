"""`Run` and `read`: one run file, or any profile, and its results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from profkit.api.columns import Columns, attributes, flags, numbers, texts, wholes
from profkit.api.reported import Layout, Reported
from profkit.formats import load_run
from profkit.measure.selected_processes import check_ranked_by, select_processes
from profkit.report.renderers import RunReport

if TYPE_CHECKING:
    from profkit import model
    from profkit.measure.iterations import IterationNames
    from profkit.verdict.account import Account
    from profkit.verdict.types import RunVerdict, Verdict


def read(
    path: str | os.PathLike[str],
    *,
    process: str | None = None,
    by: str = "tottime",
    iteration: Sequence[str] = (),
    load: Sequence[str] = (),
    compute: Sequence[str] = (),
    batch_size: int | None = None,
    calls: bool = True,
) -> Run:
    """Read one file.

    Parameters
    ----------
    path
        A run file, or a pstats file of any profiler. For a run in progress: its spool directory, its future
        run file, or the number of one of its processes.
    process
        Only this process: ``main``, ``rank:N`` or ``pid:N``; by default all.
    by
        Order of functions: ``tottime`` or ``cumtime``.
    iteration, load, compute
        NVTX ranges of an iteration, of loading data, of computing; ``*`` matches anything. By default
        recognised by name.
    batch_size
        Samples in one iteration; by default the payload of its range.
    calls
        Whether to read callers and callees, which pages show. Reading is faster without.

    Raises
    ------
    FormatError
        The file cannot be read.
    UsageError
        The run has no such process, or `by` is invalid.
    """
    check_ranked_by(by)
    running = None if os.path.isfile(path) else _running(path)
    # Imports of workers are found by calling contexts, and packages by callers.
    whole = running or load_run(path, edges=calls or None)
    one = running is None and not calls and len(whole.processes) == 1
    if one and (_names_places(whole) or _imports(whole)):
        whole = load_run(path)
    names = iteration_names(iteration, load, compute, batch_size)
    return Run(whole, replace(whole, processes=select_processes(whole, process)), by, names)


def _imports(run: model.Run) -> bool:
    from profkit.measure.import_table import imports_of

    found = imports_of(run, run.processes)
    return found is not None and found.matter


def _names_places(run: model.Run) -> bool:
    """Return whether advice will name the program's functions that set sizes, which needs callers."""
    from profkit.measure.inventory import inventory
    from profkit.measure.size_calls import sizes_itself

    return sizes_itself(run) and inventory(run).crowded


def _running(named: str | os.PathLike[str]) -> model.Run | None:
    """Return a run in progress by name, ``None`` if there is none."""
    from profkit.capture import running

    spool = running.spool_of(named)
    return None if spool is None else running.read_running(spool)


def iteration_names(
    iteration: Sequence[str], load: Sequence[str], compute: Sequence[str], batch_size: int | None
) -> IterationNames | None:
    """Return the user's names of ranges; ``None`` without any."""
    if not (iteration or load or compute or batch_size):
        return None
    from profkit.measure.iterations import IterationNames

    return IterationNames(tuple(iteration), tuple(load), tuple(compute), batch_size)


class Run(Reported):
    """One captured command, or one profile of another tool; made by `read`. Only its reports are masked.

    What a foreign profile lacks is ``None``, and null in tables. `selected` has the selected processes of
    `whole`, and `names` are the user's NVTX ranges.
    """

    def __init__(self, whole: model.Run, selected: model.Run, by: str, names: IterationNames | None) -> None:
        self._whole = whole
        self._selected = selected
        self._by = by
        self._names = names

    @property
    def path(self) -> str:
        """The path that was read."""
        return self._whole.path

    @property
    def command(self) -> tuple[str, ...]:
        """The captured command line; empty if unknown."""
        return self._whole.command

    @property
    def wall_s(self) -> float | None:
        """Seconds from its start to its end; ``None`` if unknown."""
        return self._whole.wall_s

    @property
    def warnings(self) -> tuple[Any, ...]:
        """What limits trust in the run."""
        return self._whole.warnings

    @property
    def verdict(self) -> Verdict | None:
        """What it lacked, as far as a run without a baseline shows; ``None`` if it lacked nothing."""
        return self._judged.verdict

    @property
    def account(self) -> Account:
        """How its wall is made up: ``buckets`` of seconds that add up to it (`profkit.verdict.account`)."""
        return self._judged.account

    @property
    def summary(self) -> str:
        """The verdict in one sentence, empty without one."""
        from profkit.report.wording.summaries import summary_of

        return "" if self.verdict is None else summary_of(self.verdict, alone=True)

    @cached_property
    def _judged(self) -> RunVerdict:
        return _judge(self._selected, self._by)

    def functions(self) -> Columns:
        """Return the functions of the selected processes, summed over threads, in rank order.

        Returns
        -------
        Columns
            ``rank, name, file, line, root, path, ncalls, primitive_calls, tottime, active, cumtime, share,
            wait, blocked, cumwait, cumblocked, calls_low, calls_high, samples, tottime_error``. Times are
            seconds. `path` is relative to `root`: ``project``, ``site``, ``stdlib``, ``builtin`` or
            ``generated``. `active` is self time on a CPU, queueing, or waiting for busy native threads
            (plain self time if not measured), `blocked` the rest of it, and `share` the part (1) of all active
            time. The last four are the accuracy: the 95 % interval of `ncalls` (equal to `ncalls` if exact, null
            like it if unknown), `samples` (0 if the time is exact), and half the 95 % interval of `tottime`.
        """
        from profkit.model.estimates import estimates_of
        from profkit.report.functions import active_seconds, ranked_run

        ranked = ranked_run(self._selected, self._by)
        profile, order, keys = ranked.profile, ranked.order, ranked.keys
        rows = order.tolist()
        named = np.where(profile.qualname != 0, profile.qualname, profile.name)
        active = active_seconds(profile)
        total = float(active.sum())
        share = active / total if total > 0 else np.zeros(len(profile))
        known = {name: values[order] for name, values in estimates_of(profile).items()}
        counted = ~np.isnan(known["calls_low"])
        columns = {
            "rank": wholes(np.arange(1, len(rows) + 1)),
            "name": texts(profile.strings[i] for i in named[order].tolist()),
            "file": texts(profile.strings[i] for i in profile.file[order].tolist()),
            "line": wholes(profile.line[order]),
            "root": texts(keys[row].root for row in rows),
            "path": texts(keys[row].path for row in rows),
            "ncalls": wholes(profile.ncalls[order], counted),
            "primitive_calls": wholes(profile.primitive_calls[order], counted),
            "tottime": numbers(profile.tottime[order]),
            "active": numbers(active[order]),
            "cumtime": numbers(profile.cumtime[order]),
            "share": numbers(share[order]),
        }
        for name in ("wait", "blocked", "cumwait", "cumblocked"):
            values = getattr(profile, name)
            columns[name] = numbers(np.full(len(rows), np.nan) if values is None else values[order])
        return Columns(
            {
                **columns,
                "calls_low": numbers(known["calls_low"]),
                "calls_high": numbers(known["calls_high"]),
                "samples": wholes(known["samples"]),
                "tottime_error": numbers(known["tottime_error"]),
            }
        )

    def ranges(self) -> Columns:
        """Return the NVTX ranges, summed by name.

        Returns
        -------
        Columns
            ``name, domain, kind, count, total_s, median_s, p95_s, parent, share_of_parent, wait_s,
            wait_share, unbalanced``; `kind` is ``range`` or ``mark``. See docs/ranges.md.
        """
        from profkit.measure.range_stats import range_rows

        rows = range_rows(self._selected.processes)
        return Columns(
            {
                **attributes([row.key for row in rows], text=("name", "domain")),
                "kind": texts("mark" if row.key.mark else "range" for row in rows),
                **range_columns(rows),
            }
        )

    def threads(self) -> Columns:
        """Return the threads of the selected processes.

        Returns
        -------
        Columns
            ``pid, rank, tid, name, run_s, run_queue_wait_s, user_s, system_s, voluntary_switches,
            involuntary_switches, functions, tottime``. The last two are the number of recorded functions and
            their self time in seconds.
        """
        found = [(p, t) for p in self._selected.processes for t in p.threads]
        threads = [thread for _, thread in found]
        return Columns(
            {
                **attributes([process for process, _ in found], whole=("pid", "rank")),
                **attributes(threads, whole=("tid",)),
                **attributes(
                    threads, text=("name",), number=("run_s", "run_queue_wait_s", "user_s", "system_s")
                ),
                **attributes(threads, whole=("voluntary_switches", "involuntary_switches")),
                "functions": wholes(len(thread.profile) for thread in threads),
                "tottime": numbers(thread.profile.total for thread in threads),
            }
        )

    def processes(self) -> Columns:
        """Return the selected processes, the main one or rank 0 first.

        Returns
        -------
        Columns
            ``pid, parent, role, rank, local_rank, node, command, exit, python, host, profiled, threads,
            wall_s, cpu_s, run_queue_wait_s, voluntary_switches, involuntary_switches, peak_threads,
            peak_memory_bytes, page_faults, read_bytes, storage_bytes``. `command` is one
            string, quoted for a shell.
        """
        import shlex

        found = self._selected.processes
        return Columns(
            {
                **attributes(found, whole=("pid", "parent")),
                **attributes(found, text=("role",), whole=("rank", "local_rank", "node")),
                "command": texts(shlex.join(p.command) for p in found),
                **attributes(found, text=("exit", "python")),
                "host": texts(None if p.host is None else p.host.name for p in found),
                "profiled": flags(p.profiled for p in found),
                "threads": wholes(len(p.threads) for p in found),
                **attributes(found, number=("wall_s", "cpu_s", "run_queue_wait_s")),
                **attributes(found, whole=("voluntary_switches", "involuntary_switches", "peak_threads")),
                **attributes(
                    found, whole=("peak_memory_bytes", "page_faults", "read_bytes", "storage_bytes")
                ),
            }
        )

    def __repr__(self) -> str:
        said = [] if self.wall_s is None else [f"{self.wall_s:.2f} s"]
        count = len(self._selected.processes)
        said.append("1 process" if count == 1 else f"{count} processes")
        if self.verdict is not None:
            said.append(self.verdict.cause)
        return f"<profkit.Run {os.path.basename(self.path)}: {', '.join(said)}>"

    # For profkit's own packages

    def laid_out(self, layout: Layout) -> RunReport:
        """Implement `Reported`."""
        report = self._unmasked if layout.full_paths else self._masked
        return replace(report, explain=layout.explain, attachment=layout.attachment)

    def whole_runs(self) -> Mapping[str, model.Run]:
        """Implement `Reported`."""
        return {"run.prof": self._whole}

    def inputs(self) -> Iterable[str]:
        """Implement `Reported`."""
        return (self.path,)

    @property
    def whole(self) -> model.Run:
        """The run with all processes."""
        return self._whole

    @property
    def _unmasked(self) -> RunReport:
        judged = self._judged
        if judged.lines is not None:
            from profkit.api.source_lines import with_text

            judged = replace(judged, lines=with_text(judged.lines, (), (self._whole,)))
        return RunReport(self._selected, self._by, judged, self._names)

    @cached_property
    def _masked(self) -> RunReport:
        run = self._masker.run(self._selected)
        return RunReport(run, self._by, _judge(run, self._by), self._names)


def _judge(run: model.Run, by: str) -> RunVerdict:
    from profkit.verdict.alone import judge_run  # comparisons import this module without needing it

    return judge_run(run, run.processes, by)


def range_columns(rows: Sequence[Any], prefix: str = "") -> dict[str, Any]:
    """Return the measured columns of `profkit.measure.range_stats.RangeRow`; nulls for a row ``None``."""

    columns = {
        **attributes(rows, whole=("count",), number=("total_s", "median_s", "p95_s")),
        "parent": texts(None if row is None or row.parent is None else row.parent.name for row in rows),
        **attributes(rows, number=("share_of_parent", "wait_s", "wait_share"), whole=("unbalanced",)),
    }
    return {prefix + name: column for name, column in columns.items()}
