"""Tables of one run's functions: working, waiting, not counted to the end, and not returned."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.identity.function_keys import function_keys
from profkit.model import Process, Run, Thread
from profkit.model.estimates import call_kind, time_kind
from profkit.report import units
from profkit.report.document import Note, Section, Table, format_one
from profkit.report.estimates import ESTIMATES_NOTE, calls_cell
from profkit.report.functions import FunctionRow, Ranked, name_of
from profkit.report.listed import Listed, Of, cut_note
from profkit.report.wording.functions import SMALL_SHARE, WAITING_NOTE, display_name, location

#: Share of the self time (0 to 1) queued for a CPU from which it is shown; clean runs stay below.
NOTICEABLE_WAIT = 0.01


def function_sections(functions: Ranked, limit: int, by: str) -> list[Section]:
    """Return the working functions, then those that wait by design; ranks and shares are of all."""
    title = "Functions by self time" if by == "tottime" else "Functions by cumtime"
    if not len(functions):
        return [Section("Functions", (Note("The profile holds no function."),), role="functions")]
    work, waiting = _by_design(functions, limit)
    rest = cut_note(len(work) + len(waiting), len(functions), "functions")
    first, second = (work, waiting) if work else (waiting, [])
    return [
        Section(title, (_function_table(functions, first, by, rest),), role="functions"),
        Section("Waiting", (_function_table(functions, second, by, WAITING_NOTE),), role="functions"),
    ]


def _by_design(functions: Ranked, limit: int) -> tuple[list[FunctionRow], list[FunctionRow]]:
    """Return the first `limit` working functions, and the waiting ones ranked above the last of them."""
    work: list[FunctionRow] = []
    waiting: list[FunctionRow] = []
    for row in functions.rows():
        if row.waits:
            waiting.append(row)
        else:
            work.append(row)
            if len(work) == limit:
                break
    return work, [row for row in waiting if not limit or row.share >= SMALL_SHARE][: limit or None]


def _function_table(functions: Ranked, shown: Sequence[FunctionRow], by: str, note: str) -> Table:
    profile, own = functions.profile, by == "tottime"
    # Waiting columns need room, so they appear only with noticeable waiting.
    traced = profile.wait is not None and float(profile.wait.sum()) >= NOTICEABLE_WAIT * profile.total
    active = own and profile.blocked is not None and bool(profile.blocked.any())
    # Cumulative time includes the callees' waiting, which older run files lack.
    within = traced and by == "cumtime" and profile.cumwait is not None
    timed, counted = any(map(_error, shown)), any(map(_limits, shown))
    notes = [note]
    if note != WAITING_NOTE:
        notes = [
            ESTIMATES_NOTE if timed or counted else "",
            "cum. queue: the part of cumtime spent queued for a CPU." if within else "",
            "active: self time on a CPU, queueing for one, or waiting for busy native threads."
            if active
            else "",
            note,
        ]
    return Listed(shown).table(
        Of("rank", lambda row: row.rank, "rank"),
        Of("function", lambda row: display_name(row.name), "name"),
        Of("active", lambda row: row.active, "seconds", there=active),
        Of("tottime", lambda row: row.tottime, "seconds", there=not active),
        Of("95 %", _error, "seconds", 3, there=timed),
        Of("share", lambda row: row.share, "share"),
        Of("cumtime", lambda row: row.cumtime, "seconds", 3 if own else 0),
        Of("calls", _calls, "count", 4),
        Of("calls, 95 %", _limits, "count", 6, there=counted),
        Of("per call", _per_call, "seconds", 5),
        Of("cum. queue", lambda row: row.cumwait, "seconds", 1, there=within),
        Of("cum. off CPU", lambda row: row.cumblocked, "seconds", 6, there=within),
        Of("CPU queue", lambda row: row.wait, "seconds", 1, there=traced),
        Of("off CPU", lambda row: row.blocked, "seconds", 6, there=traced),
        Of("where", lambda row: location(row.key, row.file, row.line), "path", 2),
        notes=notes,
        whole=True,
    )


def _error(row: FunctionRow) -> str:
    """Return the error of a sampled time; empty for an exact one."""
    sampled = time_kind(row.samples, row.tottime_error) == "sampled"
    return f"± {units.seconds(row.tottime_error)}" if sampled else ""


def _limits(row: FunctionRow) -> str:
    """Return the 95 % interval of the calls; empty if they are exact or not known."""
    low, high = row.calls_low, row.calls_high
    return units.between(low, high) if call_kind(low, high) == "estimated" else ""


def _calls(row: FunctionRow) -> float | str | None:
    calls, primitive = (
        calls_cell(n, row.calls_low, row.calls_high) for n in (row.ncalls, row.primitive_calls)
    )
    if calls is None or row.primitive_calls == row.ncalls:
        return calls
    return f"{format_one('count', calls)}/{format_one('count', primitive)}"


def _per_call(row: FunctionRow) -> float | None:
    return row.tottime / row.ncalls if _calls(row) and row.ncalls else None


def throttled_sections(run: Run, limit: int) -> list[Section]:
    """Return functions called too often to count to the end, most counted calls first."""
    found: dict[tuple[str, str], list[int]] = {}
    for process in run.processes:
        for thread in process.threads:
            calls = thread.profile.ncalls[list(thread.throttled)].tolist()
            for function, counted in zip(_named(process, thread, thread.throttled), calls, strict=True):
                found.setdefault(function, []).append(counted)
    table = Listed(sorted(found.items(), key=lambda item: -sum(item[1])), limit, "functions").table(
        Of("function", lambda item: item[0][0], "name"),
        Of("calls counted", lambda item: sum(item[1]), "count"),
        Of("threads", lambda item: len(item[1]), "count", 1),
        Of("where", lambda item: item[0][1], "path", 2),
        notes=("Counting exceeded the overhead budget; later calls and their time are part of the callers.",),
    )
    return [Section("Functions whose counting stopped early", (table,))]


def open_call_sections(run: Run, limit: int) -> list[Section]:
    """Return calls that were open when a process ended, unless it exited by itself."""
    ended_well = run.manifest is not None and run.manifest.exit_status == 0
    every = []
    for process in run.processes:
        # Closing a pool kills its workers by a signal: no news in a successful run.
        if process.exit != "exited" and not (ended_well and process.role == "worker"):
            for thread in process.threads:
                calls = sorted(thread.open_calls, key=lambda call: -call.cumtime)
                functions = _named(process, thread, [call.function for call in calls])
                every += [(process, *one) for one in zip(calls, functions, strict=True)]
    # Stacks from the outermost call inwards, workers last.
    table = Listed(sorted(every, key=lambda entry: entry[0].role == "worker"), limit, "open calls").table(
        Of("function", lambda entry: entry[2][0], "name"),
        Of("open for at least", lambda entry: entry[1].cumtime, "seconds"),
        Of("pid", lambda entry: "" if entry[0].pid is None else str(entry[0].pid), "pid", 1),
        Of("where", lambda entry: entry[2][1], "path", 2),
        notes=("Not returned when the process was last read; their times are lower bounds.",),
        whole=True,
    )
    return [Section("Calls that had not returned", (table,))]


def _named(process: Process, thread: Thread, rows: Sequence[int]) -> list[tuple[str, str]]:
    profile = thread.profile
    keys, files = function_keys(profile, process.roots), profile.strings
    return [
        (
            display_name(name_of(profile, row)),
            location(keys[row], files[int(profile.file[row])], int(profile.line[row])),
        )
        for row in rows
    ]
