"""Tables of one run's functions: working ones, waiting ones, and calls that had not returned."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.identity.keys import function_keys
from profkit.measure.movement import is_wait
from profkit.model import Run
from profkit.report.document import Column, Note, Row, Section, Table, format_one
from profkit.report.estimates import (
    ERROR_COLUMN,
    ESTIMATES_NOTE,
    LIMITS_COLUMN,
    calls_cell,
    calls_interval,
    error_text,
)
from profkit.report.functions import FunctionRow, Ranked
from profkit.report.wording import SMALL_SHARE, WAITING_NOTE, cut_note, display_name, location

#: Share of the self time (1) queued for a CPU from which functions show it; clean runs stay below.
NOTICEABLE_WAIT = 0.01


def function_sections(functions: Ranked, limit: int, by: str) -> list[Section]:
    """Return the working functions, then those that wait by design; ranks and shares are of all."""
    title = "Functions by self time" if by == "tottime" else "Functions by cumtime"
    if not len(functions):
        return [Section("Functions", (Note("The profile holds no function."),), role="functions")]
    work, waiting = _by_design(functions, limit)
    shown = len(work) + len(waiting)
    rest = cut_note(shown, len(functions), "functions")
    if not work:
        return [Section(title, (_function_table(functions, waiting, by, rest),), role="functions")]
    sections = [Section(title, (_function_table(functions, work, by, rest),), role="functions")]
    if waiting:
        table = _function_table(functions, waiting, by, WAITING_NOTE)
        sections.append(Section("Waiting", (table,), role="functions"))
    return sections


def _by_design(functions: Ranked, limit: int) -> tuple[list[FunctionRow], list[FunctionRow]]:
    """`limit` functions that work, and above the last of them those that wait by design."""
    work: list[FunctionRow] = []
    waiting: list[FunctionRow] = []
    for row in functions.rows():
        if is_wait(row.name, row.key.root):
            waiting.append(row)
        else:
            work.append(row)
            if len(work) == limit:
                break
    # Below what is worth a row a wait is one function among many.
    return work, [row for row in waiting if not limit or row.share >= SMALL_SHARE][: limit or None]


def _function_table(functions: Ranked, shown: Sequence[FunctionRow], by: str, note: str) -> Table:
    waits = functions.profile.wait
    # Columns of waiting earn their room where there was some.
    traced = waits is not None and float(waits.sum()) >= NOTICEABLE_WAIT * functions.profile.total
    active = functions.profile.blocked is not None and bool(functions.profile.blocked.any())
    # What a function and its callees waited belongs to its cumtime; a file of an older profkit does not have it.
    within = traced and by == "cumtime" and functions.profile.cumwait is not None
    errors = [error_text(row.samples, row.tottime_error) for row in shown]
    limits = [calls_interval(row.calls_low, row.calls_high) for row in shown]
    timed, counted = any(errors), any(limits)
    columns = [
        Column("rank", "rank"),
        Column("function", "name"),
        Column("active" if by == "tottime" and active else "tottime", "seconds"),
        *((ERROR_COLUMN,) if timed else ()),
        Column("share", "share"),
        Column("cumtime", "seconds", 3 if by == "tottime" else 0),
        Column("calls", "count", 4),
        *((LIMITS_COLUMN,) if counted else ()),
        Column("per call", "seconds", 5),
        *((Column("cum. queue", "seconds", 1), Column("cum. off CPU", "seconds", 6)) if within else ()),
        *((Column("CPU queue", "seconds", 1), Column("off CPU", "seconds", 6)) if traced else ()),
        Column("where", "path", 2),
    ]
    rows = tuple(
        _function_row(row, by, traced, within, (error,) if timed else (), (of_calls,) if counted else ())
        for row, error, of_calls in zip(shown, errors, limits, strict=True)
    )
    if active and by == "tottime" and note != WAITING_NOTE:
        note = f"active: self time on a CPU or queueing for one. {note}".strip()
    if within and note != WAITING_NOTE:
        note = f"cum. queue: the part of cumtime spent queued for a CPU. {note}".strip()
    if (timed or counted) and note != WAITING_NOTE:
        note = f"{ESTIMATES_NOTE} {note}".strip()
    return Table(tuple(columns), rows, note)


def _function_row(
    row: FunctionRow,
    by: str,
    traced: bool,
    within: bool,
    error: tuple[str, ...],
    limits: tuple[str, ...],
) -> Row:
    calls: str | float | None = calls_cell(row.ncalls, row.calls_low, row.calls_high)
    if calls is not None and row.primitive_calls != row.ncalls:
        both = (calls_cell(n, row.calls_low, row.calls_high) for n in (row.ncalls, row.primitive_calls))
        calls = "/".join(format_one("count", n) for n in both)
    return Row(
        (
            row.rank,
            display_name(row.name),
            row.active if by == "tottime" else row.tottime,
            *error,
            row.share,
            row.cumtime,
            calls,
            *limits,
            row.tottime / row.ncalls if calls and row.ncalls else None,
            *((row.cumwait, row.cumblocked) if within else ()),
            *((row.wait, row.blocked) if traced else ()),
            location(row.key, row.file, row.line),
        )
    )


def throttled_sections(run: Run, limit: int) -> list[Section]:
    """Return functions called too often to count to the end, most counted calls first."""
    found: dict[tuple[str, str], list[int]] = {}
    for process in run.processes:
        for thread in process.threads:
            if thread.throttled:
                profile, keys = thread.profile, function_keys(thread.profile, process.roots)
            for row in thread.throttled:
                name = profile.strings[int(profile.qualname[row])] or profile.strings[int(profile.name[row])]
                where = location(
                    keys.key(row), profile.strings[int(profile.file[row])], int(profile.line[row])
                )
                found.setdefault((display_name(name), where), []).append(int(profile.ncalls[row]))
    if not found:
        return []
    every = sorted(found.items(), key=lambda item: -sum(item[1]))
    shown = every[:limit] if limit else every
    columns = (
        Column("function", "name"),
        Column("calls counted", "count"),
        Column("threads", "count", 1),
        Column("where", "path", 2),
    )
    rows = tuple(Row((name, sum(calls), len(calls), where)) for (name, where), calls in shown)
    note = "Counting went beyond the budget for overhead; later calls and their time are part of the callers."
    cut = cut_note(len(shown), len(every), "functions")
    return [
        Section(
            "Functions that were not counted to the end", (Table(columns, rows, f"{note} {cut}".strip()),)
        )
    ]


def open_call_sections(run: Run, limit: int) -> list[Section]:
    """Return where processes were when they were ended, without helpers of one that ended itself."""
    ended_well = run.manifest is not None and run.manifest.exit_status == 0
    every = [
        (call.cumtime, process, thread.profile, call.function)
        for process in run.processes
        # A pool ends its workers by a signal when it is closed: that is no news of a run that went well.
        if process.exit != "exited" and not (ended_well and process.role == "worker")
        for thread in process.threads
        for call in sorted(thread.open_calls, key=lambda call: -call.cumtime)
    ]
    if not every:
        return []
    # One stack after the other from the outside in, those of the program itself before its workers'.
    every.sort(key=lambda entry: entry[1].role == "worker")
    shown = every[:limit] if limit else every
    columns = (
        Column("function", "name"),
        Column("open for at least", "seconds"),
        Column("pid", "pid", 1),
        Column("where", "path", 2),
    )
    rows = tuple(
        Row(
            (
                display_name(
                    profile.strings[int(profile.qualname[at])] or profile.strings[int(profile.name[at])]
                ),
                cumtime,
                "" if process.pid is None else str(process.pid),
                location(
                    function_keys(profile, process.roots).key(at),
                    profile.strings[int(profile.file[at])],
                    int(profile.line[at]),
                ),
            )
        )
        for cumtime, process, profile, at in shown
    )
    note = "Not returned when the process was last read; their times are lower bounds."
    cut = cut_note(len(shown), len(every), "open calls")
    return [Section("Calls that had not returned", (Table(columns, rows, f"{note} {cut}".strip()),))]
