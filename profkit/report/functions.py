"""The functions of one profile or a whole run, ranked, and the tables of them that ``profkit show`` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.compare.replicates import VALUE_COLUMNS, ranked_seconds
from profkit.compare.result_types import DiffTable, SideTable
from profkit.identity.function_keys import function_keys
from profkit.identity.lookup_columns import Keys
from profkit.measure.selected_processes import select
from profkit.measure.waits_by_name import only_waits
from profkit.model import FunctionKey, Process, Profile, Roots, Run, Thread
from profkit.model.arrays import Bools, Floats
from profkit.model.estimates import call_kind, estimates_of, time_kind
from profkit.report import units
from profkit.report.document import Note, Section, Table, format_one
from profkit.report.estimates import ESTIMATES_NOTE, calls_cell
from profkit.report.listed import Listed, Of, cut_note
from profkit.report.wording.functions import SMALL_SHARE, WAITING_NOTE, display_name, location


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One function as a report lists it; times in seconds, ``None`` if not measured.

    `active` is self time on a CPU, queueing, or waiting for busy native threads; `share` is of all active time.
    The last four fields are those of a `Profile`.
    """

    rank: int
    key: FunctionKey
    name: str
    file: str
    line: int
    ncalls: int
    primitive_calls: int
    tottime: float
    cumtime: float
    wait: float | None
    blocked: float | None
    cumwait: float | None
    cumblocked: float | None
    active: float
    share: float
    calls_low: float
    calls_high: float
    samples: int
    tottime_error: float

    @property
    def waits(self) -> bool:
        return only_waits(self.name, self.key.root, measured=self.blocked is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A profile, the keys of its rows, and their order: int64, shape (n,), greatest first."""

    profile: Profile
    keys: Keys
    order: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.profile)

    def rows(self, limit: int = 0) -> Iterator[FunctionRow]:
        p = self.profile
        active = ranked_seconds(p, "tottime")
        total = float(active.sum())
        columns = {**{name: getattr(p, name) for name in VALUE_COLUMNS}, **estimates_of(p)}
        for rank, row in enumerate(map(int, self.order[: limit or None]), start=1):
            numbers: dict[str, Any] = {
                name: None if column is None else column[row].item() for name, column in columns.items()
            }
            yield FunctionRow(
                rank,
                self.keys[row],
                *p.function(row),
                active=float(active[row]),
                share=float(active[row]) / total if total > 0 else 0.0,
                **numbers,
            )


def seconds_by(side: SideTable, by: str) -> Floats:
    """Return what a comparison ranks by: active self time, or ``cumtime``."""
    return side.cumtime if by == "cumtime" else side.active


def working(table: DiffTable, chosen: Bools) -> npt.NDArray[np.intp]:
    """Return the chosen rows of a comparison, without waits by design."""
    return np.array([i for i in np.flatnonzero(chosen).tolist() if not waits_only(table, i)], np.intp)


def waits_only(table: DiffTable, row: int) -> bool:
    measured = table.baseline.wait is not None and table.candidate.wait is not None
    return only_waits(table.name[row], table.keys[row].root, measured=measured)


def ranked(profile: Profile, roots: Roots, by: str = "tottime") -> Ranked:
    """Rank functions by active self time or ``cumtime``; ties keep their order."""
    values = ranked_seconds(profile, by)
    return Ranked(profile, function_keys(profile, roots), np.argsort(-values, kind="stable"))


def ranked_run(run: Run, by: str = "tottime", *, edges: bool = False) -> Ranked:
    """Rank a run's functions, summed over threads, so cumulative times may exceed the wall."""
    chosen = select(run, edges=edges)
    return ranked(chosen.profile, chosen.roots, by)


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


def share_of(functions: Ranked, by: str) -> Callable[[FunctionRow], float]:
    """Return what gives a function's share: of all active time, or by ``cumtime`` of the largest one."""
    if by == "tottime":
        return lambda row: row.share
    most = float(functions.profile.cumtime.max(initial=0.0))
    return lambda row: row.cumtime / most if most > 0 else 0.0


def _function_table(functions: Ranked, shown: Sequence[FunctionRow], by: str, note: str) -> Table:
    profile, own = functions.profile, by == "tottime"
    # Waiting columns need room, so they appear only with noticeable waiting.
    traced = profile.wait is not None and float(profile.wait.sum()) >= NOTICEABLE_WAIT * profile.total
    active = own and profile.blocked is not None and bool(profile.blocked.any())
    # Cumulative time includes the callees' waiting, which older run files lack.
    within = traced and by == "cumtime" and profile.cumwait is not None
    timed, counted = any(map(_error, shown)), any(map(_limits, shown))
    share = share_of(functions, by)
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
        Of("cumtime", lambda row: row.cumtime, "seconds", there=not own),
        Of("share", share, "share", there=not own),
        Of("tottime", lambda row: row.tottime, "seconds", there=not active),
        Of("95 %", _error, "seconds", 3, there=timed),
        Of("share", share, "share", there=own),
        Of("cumtime", lambda row: row.cumtime, "seconds", 3, there=own),
        Of("calls", _calls, "count", 4),
        Of("calls, 95 %", _limits, "count", 6, there=counted),
        Of("per call", _per_call, "seconds", 5),
        Of("cum. queue", lambda row: row.cumwait, "seconds", 1, there=within),
        Of("cum. off CPU", lambda row: row.cumblocked, "seconds", 6, there=within),
        Of("CPU queue", lambda row: row.wait, "seconds", 1, there=traced),
        Of("off CPU", lambda row: row.blocked, "seconds", 6, there=traced),
        Of("where", lambda row: location(row.key, row.file, row.line), "path", 2),
        notes=notes,
    )


def _error(row: FunctionRow) -> str:
    sampled = time_kind(row.samples, row.tottime_error) == "sampled"
    return f"± {units.seconds(row.tottime_error)}" if sampled else ""


def _limits(row: FunctionRow) -> str:
    low, high = row.calls_low, row.calls_high
    return units.between(low, high) if call_kind(low, high) == "estimated" else ""


def _calls(row: FunctionRow) -> float | str:
    calls, primitive = (
        calls_cell(n, row.calls_low, row.calls_high) for n in (row.ncalls, row.primitive_calls)
    )
    if calls is None:
        return units.UNKNOWN
    if row.primitive_calls == row.ncalls:
        return calls
    return f"{format_one('count', calls)}/{format_one('count', primitive)}"


def _per_call(row: FunctionRow) -> float | str:
    known = calls_cell(row.ncalls, row.calls_low, row.calls_high)
    return row.tottime / row.ncalls if known else units.UNKNOWN


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
    )
    return [Section("Calls that had not returned", (table,))]


def _named(process: Process, thread: Thread, rows: Sequence[int]) -> list[tuple[str, str]]:
    keys = function_keys(thread.profile, process.roots)
    found = ((keys[row], *thread.profile.function(row)) for row in rows)
    return [(display_name(name), location(key, file, line)) for key, name, file, line in found]
