"""`Run` and `read`: one run file, or any profile, and its results."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from profkit.api.columns import Column, Columns, columns_of
from profkit.api.reported import Layout, Reported
from profkit.errors import UsageError
from profkit.formats import load_run
from profkit.measure.iterations import IterationNames
from profkit.measure.range_stats import range_rows
from profkit.measure.selected_processes import check_ranked_by, select_processes
from profkit.report.reports import RunReport

if TYPE_CHECKING:
    from profkit import model
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

    Raises
    ------
    FormatError
        The file cannot be read.
    UsageError
        The run has no such process, or `by` or `batch_size` is invalid.
    """
    check_ranked_by(by)
    running = None if os.path.isfile(path) else _running(path)
    whole = running or load_run(path)
    names = iteration_names(iteration, load, compute, batch_size)
    return Run(whole, replace(whole, processes=select_processes(whole, process)), by, names)


def _running(named: str | os.PathLike[str]) -> model.Run | None:
    """Return a run in progress by name, ``None`` if there is none."""
    from profkit.capture import running

    spool = running.spool_of(named)
    return None if spool is None else running.read_running(spool)


def iteration_names(
    iteration: Sequence[str], load: Sequence[str], compute: Sequence[str], batch_size: int | None
) -> IterationNames | None:
    """Return the user's names of ranges; ``None`` without any."""
    if batch_size is not None and batch_size < 1:
        raise UsageError("give the number of samples, 1 or more", "batch_size", batch_size)
    if not (iteration or load or compute or batch_size):
        return None
    return IterationNames(_names(iteration), _names(load), _names(compute), batch_size)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Return names; one text is one name, and not a sequence of letters."""
    return (given,) if isinstance(given, str) else tuple(given)


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
        """Seconds of the run, or of its windows if it was captured in windows; ``None`` if unknown."""
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
        from profkit.verdict.alone import judge_run  # comparisons import this module without needing it

        return judge_run(self._selected, self._selected.processes, self._by)

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
        from profkit.report.functions import ranked_run

        rows = list(ranked_run(self._selected, self._by).rows())
        counted = [row.calls_low == row.calls_low for row in rows]  # not NaN
        return Columns(
            columns_of(
                rows,
                "rank:whole name:text file:text line:whole root=key.root:text path=key.path:text ncalls:whole "
                "primitive_calls:whole tottime:number active:number cumtime:number share:number wait:number "
                "blocked:number cumwait:number cumblocked:number calls_low:number calls_high:number samples:whole "
                "tottime_error:number",
                ncalls=[row.ncalls if known else None for row, known in zip(rows, counted, strict=True)],
                primitive_calls=[
                    row.primitive_calls if known else None for row, known in zip(rows, counted, strict=True)
                ],
            )
        )

    def ranges(self) -> Columns:
        """Return the NVTX ranges, summed by name.

        Returns
        -------
        Columns
            ``name, domain, kind, count, total_s, median_s, p95_s, parent, share_of_parent, wait_s,
            wait_share, unbalanced``; `kind` is ``range`` or ``mark``. See docs/ranges.md.
        """
        rows = range_rows(self._selected.processes)
        kinds = ["mark" if row.key.mark else "range" for row in rows]
        named = columns_of(rows, "name=key.name:text domain=key.domain:text kind:text", kind=kinds)
        return Columns({**named, **range_columns(rows)})

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
        owners = columns_of([process for process, _ in found], "pid:whole rank:whole")
        own = columns_of(
            threads,
            "tid:whole name:text run_s:number run_queue_wait_s:number user_s:number system_s:number "
            "voluntary_switches:whole involuntary_switches:whole functions:whole tottime=profile.total:number",
            functions=[len(thread.profile) for thread in threads],
        )
        return Columns({**owners, **own})

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
        found = self._selected.processes
        return Columns(
            columns_of(
                found,
                "pid:whole parent:whole role:text rank:whole local_rank:whole node:whole command:text exit:text "
                "python:text host=host.name:text profiled:flag threads:whole wall_s:number cpu_s:number "
                "run_queue_wait_s:number voluntary_switches:whole involuntary_switches:whole peak_threads:whole "
                "peak_memory_bytes:whole page_faults:whole read_bytes:whole storage_bytes:whole",
                command=[shlex.join(process.command) for process in found],
                threads=[len(process.threads) for process in found],
            )
        )

    def __repr__(self) -> str:
        said = [] if self.wall_s is None else [f"{self.wall_s:.2f} s"]
        count = len(self._selected.processes)
        said.append("1 process" if count == 1 else f"{count} processes")
        if self.verdict is not None:
            said.append(self.verdict.cause)
        return f"<profkit.Run {os.path.basename(self.path)}: {', '.join(said)}>"

    # For profkit's own packages

    def unmasked(self, layout: Layout) -> RunReport:
        judged = self._judged
        if layout.full_paths and judged.lines is not None:
            from profkit.api.source_lines import with_text

            judged = replace(judged, lines=with_text(judged.lines, (), (self._whole,)))
        return RunReport(self._selected, self._by, judged, self._names, layout.explain, layout.attachment)

    def whole_runs(self) -> Mapping[str, model.Run]:
        return {"run.prof": self._whole}

    @property
    def whole(self) -> model.Run:
        """The run with all processes."""
        return self._whole


def range_columns(rows: Sequence[Any], prefix: str = "") -> dict[str, Column]:
    """Return the measured columns of `profkit.measure.range_stats.RangeRow`; nulls for a row ``None``."""
    return columns_of(
        rows,
        "count:whole total_s:number median_s:number p95_s:number parent=parent.name:text share_of_parent:number "
        "wait_s:number wait_share:number unbalanced:whole",
        prefix,
    )
