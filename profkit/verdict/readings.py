"""Every value that the rules of a comparison may read: its unit, its meaning, and its computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from profkit.compare.process_calls import Started, started
from profkit.compare.signals import Signals
from profkit.identity.lookup_columns import rows_where
from profkit.measure.side_facts import SideFacts
from profkit.model import BUILTIN
from profkit.verdict.account import CAPTURE, Account
from profkit.verdict.machine_differences import (
    fixed_work,
    machine_slower,
    models_differ,
    one_machine,
    other_instructions,
)
from profkit.verdict.rule import Reading, less, more
from profkit.verdict.thresholds import value
from profkit.verdict.types import Bounded, Value

if TYPE_CHECKING:  # only runs with NVTX ranges need it
    from profkit.measure.range_stats import Repeated

#: Native functions that do the same work at every program start: they read code and compile it.
YARDSTICKS = frozenset(("<built-in method marshal.loads>", "<built-in method builtins.compile>"))


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is known before the account; enough for some readings."""

    signals: Signals

    @property
    def before(self) -> SideFacts:
        """Counters of the baseline."""
        return self.signals.baseline

    @property
    def now(self) -> SideFacts:
        """Counters of the candidate."""
        return self.signals.candidate

    def read(self, name: str) -> Value:
        """Return the value of a reading."""
        return READINGS[name].value(self)

    def number(self, name: str) -> float:
        """Return the value of a numeric reading; NaN, which reaches no threshold, where it is unknown."""
        found = self.read(name)
        return found if isinstance(found, float) else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class Case(Known):
    """Everything by which a comparison is judged."""

    account: Account


# The lost time ------------------------------------------------------------------------------------------------


def _part(case: Case, *names: str) -> float:
    """Return the part of the difference of the walls that some buckets hold, 0 to 1."""
    return _of_lost(case.account, sum(map(case.account.seconds, names)))


def _separate(case: Case, *names: str) -> float | None:
    """Return the same, ``None`` where buckets cannot be told apart."""
    return None if case.account.merged else _part(case, *names)


def _of_lost(found: Account, seconds: float) -> float:
    return seconds / max(found.program_s, seconds) if seconds > 0 else 0.0


def _of_baseline(case: Case, *names: str) -> float | None:
    found = case.account
    return sum(map(found.seconds, names)) / found.baseline_s if found.baseline_s > 0 else None


def _saved(case: Case) -> float | None:
    found = case.account
    if found.program_s >= 0:
        return None
    left_out = ("speed", "startup", "rest", CAPTURE)
    less = [b.seconds for b in found.buckets if b.high < 0 and b.name not in left_out]
    return min(1.0, sum(less) / found.program_s)


def _captured(case: Case) -> float | None:
    """Return capture's part of the summed absolute changes by capture and by the program."""
    found = case.account
    whole = abs(found.capture_s) + abs(found.program_s)
    if not whole or all(bucket.name != CAPTURE for bucket in found.buckets):
        return None
    return abs(found.capture_s) / whole


def _settings_queue(case: Case) -> float | None:
    """Return the part of the lost time that more threads or workers explain, by queueing or waiting."""
    found, a, b = case.account, case.before, case.now
    if found.merged or a.rest_wait_s is None or b.rest_wait_s is None:
        return None
    if not _more_threads(case):
        return 0.0
    queue = found.seconds("queue")
    if found.imports_s > queue:
        return 0.0  # they are busy importing, and hardly lack CPUs
    waited = sum(found.seconds(name) for name in ("startup", "blocked", "loading", "rest"))
    theirs = max(0.0, (b.rest_wait_s - a.rest_wait_s) - max(0.0, found.helpers_queue_s))
    return _of_lost(found, queue + min(max(0.0, waited), theirs))


def _slowdown(case: Case) -> float:
    return math.exp(case.signals.log_slowdown)


def _drift(case: Case) -> float:
    """Return the factor by which totals of clean runs differ: pooled, or from the repeats' own scatter."""
    s = case.signals
    pooled = value("time.drift")
    if s.repeats < value("repeats.least") or not math.isfinite(s.total_scatter):
        return pooled
    return min(pooled, max(value("time.slower"), math.exp(value("repeats.sigmas") * s.total_scatter)))


# Waiting for a CPU --------------------------------------------------------------------------------------------


def _growth(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _worst(case: Case) -> float | None:
    return case.now.worst_wait_fraction if case.now.mains > 1 else None


def _itself(case: Case) -> bool:
    """Return whether the program's own threads ask for more than the CPUs, or for more than before."""
    if (case.now.demand or 0.0) > value("demand.self"):
        return True
    return not _others(case) and bool(_more_threads(case))


def _others(case: Case) -> bool:
    b = case.now
    if (b.others_cores or 0.0) >= value("others") and _others_added(case) >= value("others.growth"):
        return True
    stolen = (b.steal_cores or 0.0) >= value("steal") and _more_stolen(case) >= value("steal.growth")
    return stolen and not (b.demand or 0.0) > value("demand.self")


def _others_added(case: Case) -> float:
    return (case.now.others_cores or 0.0) - (case.before.others_cores or 0.0)


def _more_stolen(case: Case) -> float:
    return (case.now.steal_cores or 0.0) - (case.before.steal_cores or 0.0)


def _more_threads(case: Known) -> bool | None:
    """Return whether the candidate has more runnable threads per CPU; ``None`` if unknown."""
    growth = _threads_growth(case)
    return None if growth is None else growth >= value("threads.more")


def _threads_growth(case: Known) -> float | None:
    """Return the greatest growth factor of threads or processes per CPU, over the ways to count them."""
    a, b = case.before, case.now
    most = None
    # Contention may raise the count of working threads, so more of them count only if there are more threads.
    working = b.working_threads if b.threads > a.threads else a.working_threads
    for before, after in (
        (a.pool_threads, b.pool_threads),
        (a.working_threads, working),
        (float(a.processes), float(b.processes)),
    ):
        if not before or after is None or not a.available_cpus or not b.available_cpus:
            continue
        most = max(most or 0.0, after * a.available_cpus / (before * b.available_cpus))
    return most


def _kind(case: Case) -> str | None:
    """Return who takes the CPUs; if both do, the one whose demand grew."""
    a, b = case.before, case.now
    itself, others = _itself(case), _others(case)
    if itself and others:
        more = _more_threads(case)
        if more is None:
            own = (b.demand_cores or 0.0) - (a.demand_cores or 0.0)
            more = own >= (b.others_cores or 0.0) - (a.others_cores or 0.0)
        return "self-oversubscription" if more else "external-load"
    if itself or others:
        return "self-oversubscription" if itself else "external-load"
    # Others used as much beside the baseline: they were running, but did not take more.
    return "external-load" if (b.others_cores or 0.0) >= value("others") else None


def spinning(known: Known) -> float:
    """Return the most seconds for which main threads can have spun, or worked, in place of queued threads."""
    a, b = known.before, known.now
    if a.rest_wait_s is None or b.rest_wait_s is None:
        return 0.0
    # If all threads together ran no longer, what the main threads added is no work of the program's.
    no_more_work = a.own_run_s is not None and b.own_run_s is not None and b.own_run_s <= a.own_run_s
    if not (no_more_work or _more_threads(known)):
        return 0.0
    return max(0.0, (b.rest_wait_s - a.rest_wait_s) / max(1, b.mains))


def _started(case: Case) -> Started | None:
    return None if case.signals.table.by_share or not case.signals.exact else started(case.signals.table)


def _of(find: Callable[[Case], Any], part: Callable[[Any], float]) -> Callable[[Case], float | None]:
    """Return a reading of a part of what `find` returns, ``None`` without that."""
    return lambda case: None if (found := find(case)) is None else part(found)


def waited_row(case: Case) -> int:
    """Return the row of the function that waits by design and gained most; −1 where none gained."""
    table = case.signals.table
    gained = table.candidate.tottime - table.baseline.tottime
    for row in np.argsort(-gained, kind="stable").tolist():
        if gained[row] <= 0:
            break
        if table.waits(row):
            return int(row)
    return -1


def periodic(case: Case) -> bool:
    """Return whether lost slices have one length beyond a scheduler's tick, as if a timer stopped it."""
    found = case.signals.lumps
    return (
        found.count >= value("lumps.fewest")
        and found.alike >= value("lumps.alike")
        and found.median_s >= value("lumps.ticks")
    )


def _who_queued(case: Case) -> str:
    """Return whose queueing is beyond its thresholds: the main thread's, one rank's, or the helpers'."""
    if case.account.helpers_queue:
        return "helpers"
    for name, before, after in (
        ("main", case.before.wait_fraction, case.now.wait_fraction),
        ("rank", case.before.worst_wait_fraction, _worst(case)),
    ):
        if before is None or after is None:
            continue
        if after >= value("wait.some") and after - before >= value("wait.some-growth"):
            return name
    return "helpers"


def _stopped(case: Case) -> float:
    # If no time off the CPU was added, nothing was stopped.
    part = case.signals.movement.stopped_work
    return part if math.isfinite(part) else 0.0


def _loading_of_off(case: Case) -> float | None:
    seconds = case.account.seconds
    off = seconds("blocked") + seconds("loading") + seconds("imbalance")
    return min(1.0, seconds("loading") / off) if off > 0 else None


def gil_held(found: Account) -> float | None:
    """Return the part of the waiting for the interpreter's lock during which known functions held it."""
    if not found.seconds("gil") > 0:
        return None
    held = sum(part.seconds for part in found.bucket("gil").parts if part.kind == "holder")
    return min(1.0, held / found.seconds("gil"))


def blocked_on(account: Account) -> str | None:
    """Return what most time off the CPU waited for; ``None`` without a main wait, or if not seen."""
    for bucket in account.buckets:
        if bucket.name == "blocked" and bucket.waited:
            most = bucket.waited[0]
            if most.candidate_s - most.baseline_s >= value("part.most") * bucket.seconds > 0:
                return most.what
    return None


# Code, work, speed --------------------------------------------------------------------------------------------


def _calls(case: Case) -> float | None:
    moved = case.signals.movement
    if not moved.calls_factor > 0 or moved.calls_known < value("part.most"):
        return None
    if case.signals.exact:
        return moved.calls_factor
    return Bounded(moved.calls_factor, moved.calls_low, moved.calls_high)


def _calls_known(case: Case) -> float:
    """Return the share of CPU time, or of its growth if smaller, in functions with well-known calls."""
    return min(case.signals.movement.calls_known, case.signals.movement.gains_known)


def _same_calls(case: Case) -> bool | None:
    """Return whether changed calls cost no time; ``None`` where the intervals of the calls allow both."""
    factor = _calls(case)
    if case.signals.exact:
        if factor is None or value("work.fewer") < factor < value("work.calls"):
            return True
        work = _of_baseline(case, "work")
        return work is not None and value("work.less-of-baseline") < work < value("work.of-baseline")
    moved = case.signals.movement
    few = _calls_known(case) < value("calls.known")
    if value("work.fewer") < moved.calls_low and moved.calls_high < value("work.calls"):
        return None if few else True
    bucket, whole = case.account.bucket("work"), case.account.baseline_s
    if (
        value("work.less-of-baseline") * whole < bucket.low
        and bucket.high < value("work.of-baseline") * whole
    ):
        return None if few else True
    beyond = moved.calls_low >= value("work.calls") or moved.calls_high <= value("work.fewer")
    return False if beyond and factor is not None else None


def _top_known(case: Case) -> bool | None:
    row = case.signals.movement.top_row
    return None if row < 0 else case.signals.table.same_source[row] is not None


def _top_native(case: Case) -> bool | None:
    row = case.signals.movement.top_row
    return None if row < 0 else case.signals.table.keys[row].root == BUILTIN


def _top_apart(case: Case) -> float | None:
    s = case.signals
    row = s.movement.top_row
    own = float(s.table.per_call_ratio[row]) if row >= 0 else math.nan
    return own / math.exp(s.movement.ratio) if math.isfinite(own) else None


def _top_gain(case: Case) -> float | None:
    s = case.signals
    whole = s.movement.busy_total
    return s.movement.top_gain / whole if s.movement.top_row >= 0 and whole > 0 else None


def _dearer(case: Case) -> float | None:
    """Return the part of the baseline's active time in functions dearer by ``per-call.dearer``."""
    if _calls_known(case) < value("calls.known"):
        return None
    table = case.signals.table
    known = np.isfinite(table.per_call_ratio) & table.baseline.present & table.candidate.present
    whole = float(table.baseline.active[known].sum())
    if whole <= 0:
        return None
    dearer = known & (np.where(known, table.per_call_ratio, 0.0) >= value("per-call.dearer"))
    return float(table.baseline.active[dearer].sum()) / whole


def code_row(case: Case) -> int:
    """Return the row of the function whose code changed, −1 without one."""
    s = case.signals
    if s.movement.changed_row >= 0 and s.table.same_source[s.movement.changed_row] is False:
        return s.movement.changed_row
    if s.movement.below_row >= 0:
        return s.movement.below_row
    for origin in s.origins.found:
        if origin.from_code:
            return origin.row
    return s.movement.changed_row


def uncalled_row(signals: Signals) -> int:
    """Return the row of the longest function that the baseline defines but did not call, or −1."""
    table = signals.table
    rows = np.flatnonzero(table.candidate.present & table.uncalled)
    return int(rows[table.candidate.cumtime[rows].argmax()]) if len(rows) else -1


def _uncalled_part(case: Case) -> float | None:
    """Return the part of the lost time in this function with callees, less what one like it held before."""
    table, row, lost = case.signals.table, uncalled_row(case.signals), case.account.program_s
    if lost <= 0:
        return None
    if row < 0:
        return 0.0
    held = float(table.baseline.cumtime[~table.candidate.present & table.uncalled].max(initial=0.0))
    return min(1.0, max(0.0, float(table.candidate.cumtime[row]) - held) / lost)


def _code_place(case: Case) -> str:
    row = code_row(case)
    table = case.signals.table
    if row < 0 or not table.keys[row].path:
        return ""
    line = int(table.line[row])
    return f"{table.keys[row].path}:{line}" if line else table.keys[row].path


def _machine_part(case: Case) -> float | None:
    slower = machine_slower(case.before, case.now)
    whole = _dearer_or_slower(case)
    return min(1.0, math.log(slower) / whole) if slower is not None and whole > 0 else None


def _dearer_or_slower(case: Case) -> float:
    """Return the log of the cost per call or of the whole time, whichever grew more."""
    moved = case.signals.movement.ratio
    return max(case.signals.log_slowdown, moved if math.isfinite(moved) else 0.0)


def _machine_as_fast(case: Case) -> bool:
    a, b = case.before, case.now
    known = fixed_work(a, b)
    most = math.exp(value("part.most") * max(0.0, _dearer_or_slower(case)))
    return bool(known) and one_machine(a, b) and all(one.factor <= max(most, one.scatter) for one in known)


def _yardsticks(case: Case) -> tuple[float, float]:
    """Return the CPU seconds of the program start's own work, which is the same on both sides."""
    table = case.signals.table
    a, b = table.baseline, table.candidate
    before = after = 0.0
    for row in np.flatnonzero(table.native & (a.ncalls == b.ncalls) & (b.ncalls > 0)).tolist():
        if table.name[row] in YARDSTICKS:
            before += float(a.active[row]) - (0.0 if a.wait is None else float(a.wait[row]))
            after += float(b.active[row]) - (0.0 if b.wait is None else float(b.wait[row]))
    return before, after


def _yardstick(case: Case) -> float | None:
    before, after = _yardsticks(case)
    return after / before if min(before, after) >= value("yardstick.least") else None


def _yardstick_apart(case: Case) -> float | None:
    known = _yardstick(case)
    return math.exp(case.signals.movement.ratio) / known if known else None


def larger_inputs(a: SideFacts, b: SideFacts) -> tuple[tuple[str, float, float], ...]:
    """Return sizes by which the candidate worked on more data: (which, bytes before, after)."""
    found = []
    for name, before, after, throughout in (
        ("memory.peak", a.memory_bytes, b.memory_bytes, _more_memory_throughout(a, b)),
        ("bytes.read", a.read_bytes, b.read_bytes, False),
    ):
        if before and after and _larger(before, after, throughout):
            found.append((name, before, after))
    return tuple(found)


def _larger(before: float, after: float, throughout: bool) -> bool:
    factor = value("input.larger-throughout") if throughout else value("input.larger")
    return after >= factor * before and after - before >= value("input.larger-bytes")


def _more_memory_throughout(a: SideFacts, b: SideFacts) -> bool:
    """Return whether each of several repeats needed more memory than every run of the other side."""
    several = min(a.runs, b.runs) >= value("repeats.least")
    return several and (b.memory_least or 0.0) > (a.memory_most or math.inf)


def _ratio(before: float | None, after: float | None) -> float:
    return after / before if before and after else math.nan


def worst_mover(signals: Signals) -> int:
    """Return the row of the function that changed most beyond noise, except waits; −1 if none did."""
    rows: list[int] = signals.table.anomalous.nonzero()[0].tolist()
    return next((row for row in rows if not signals.table.waits(row)), -1)


def ranges_repeated(case: Case) -> Repeated | None:
    """Return how much more often NVTX ranges ran; ``None`` without ranges of both sides."""
    if not case.signals.ranges:
        return None
    from profkit.measure.range_stats import repeated

    return repeated(case.signals.ranges, value("ranges.same-factor"))


def _ranges_part(case: Case) -> float | None:
    found, lost = ranges_repeated(case), case.account.program_s
    # Ranges of several threads may overlap.
    return None if found is None or lost <= 0 else min(1.0, max(0.0, found.added_s / lost))


def _iterations(case: Case, grown: bool) -> float | None:
    before, after = case.signals.iterations
    if before is None or after is None or after.consumer_wait_share is None:
        return None
    return after.consumer_wait_share - ((before.consumer_wait_share or 0.0) if grown else 0.0)


READINGS: Mapping[str, Reading] = {
    # The pair
    "pair.identical": Reading("bool", "both sides are the same capture", lambda c: c.signals.identical),
    "pair.unfinished": Reading(
        "bool", "the exit statuses differ, or a signal ended a target", lambda c: c.signals.unfinished
    ),
    "pair.counters": Reading(
        "bool", "the kernel's counters of both sides are known", lambda c: c.signals.counters or None
    ),
    "pair.plain": Reading("bool", "a side has no counters", lambda c: not c.signals.counters),
    "pair.python-differs": Reading(
        "bool", "the versions of Python differ", lambda c: c.signals.python_differs
    ),
    "pair.sampled-differs": Reading(
        "bool", "only one side comes from a sampling profiler", lambda c: c.signals.sampled_differs
    ),
    "pair.threads-differ": Reading(
        "bool",
        "one side has calls of threads that the other could not see",
        lambda c: c.signals.threads_differ,
    ),
    "pair.residue": Reading(
        "share", "self time in functions that the other side lacks", lambda c: c.signals.unmatched
    ),
    # Time
    "time.slowdown": Reading("factor", "candidate's time over the baseline's", _slowdown),
    "time.over-drift": Reading(
        "factor", "the slow-down over the drift of clean repeats", lambda c: _slowdown(c) / _drift(c)
    ),
    "time.under-drift": Reading(
        "factor", "the speed-up over the drift of clean repeats", lambda c: 1 / _slowdown(c) / _drift(c)
    ),
    "time.lost": Reading(
        "bool",
        "each of several repeats took longer than every baseline run, and the medians differ beyond their noise",
        lambda c: c.signals.lost_throughout,
    ),
    "time.speedup": Reading("factor", "baseline's time over the candidate's", lambda c: 1 / _slowdown(c)),
    # The account
    "account.queue": Reading(
        "share", "part of the lost time: queueing for a CPU", lambda c: _separate(c, "queue")
    ),
    "account.queue-beyond": Reading(
        "bool", "queueing is beyond its noise", lambda c: c.account.bucket("queue").low > 0
    ),
    "account.within-noise": Reading(
        "bool",
        "no bucket of the account is beyond its noise",
        lambda c: not any(b.beyond_noise for b in c.account.buckets if b.name not in ("rest", CAPTURE)),
    ),
    "account.saved": Reading(
        "share",
        "part of the saved time in buckets beyond their noise, without speed, startup, rest and capture",
        _saved,
    ),
    "account.helpers-queue": Reading(
        "share",
        "part of the lost time: queueing of threads and processes that the main thread waits for",
        lambda c: None if c.account.merged else _of_lost(c.account, c.account.helpers_queue_s),
    ),
    "settings.queue": Reading(
        "share",
        (
            "if there are more threads or workers: part of the lost time in queueing, in their start, and in "
            "waits for them"
        ),
        _settings_queue,
    ),
    "account.queue-of-baseline": Reading(
        "share",
        "added queueing over the baseline's wall",
        lambda c: None if c.account.merged else _of_baseline(c, "queue"),
    ),
    "account.off": Reading(
        "share",
        "part of the lost time: off the CPU, not queueing",
        lambda c: _separate(c, "blocked", "loading", "imbalance"),
    ),
    "account.waits": Reading(
        "share",
        "part of the lost time in functions that wait by design; includes queueing if that is not known",
        lambda c: _part(c, "blocked", "loading", "imbalance"),
    ),
    "blocked.on": Reading(
        "text", "what most of the added time off the CPU waited for", lambda c: blocked_on(c.account)
    ),
    "account.gil-over-queue": Reading(
        "bool",
        "more of the lost time is waiting for the interpreter's lock than for a CPU",
        lambda c: c.account.seconds("gil") > max(0.0, c.account.seconds("queue")),
    ),
    "gil.held": Reading(
        "share",
        "part of the added waiting for the interpreter's lock during which known functions held it",
        lambda c: gil_held(c.account),
    ),
    "account.imports": Reading(
        "share",
        "part of the lost time: imports in other processes than the main one",
        lambda c: _of_lost(c.account, c.account.imports_s),
    ),
    "account.gil": Reading(
        "share",
        "part of the lost time: waiting for the interpreter's lock",
        lambda c: _separate(c, "gil"),
    ),
    "account.code": Reading("share", "part of the lost time: changed code", lambda c: _part(c, "code")),
    "account.code-of-baseline": Reading(
        "share", "seconds of changed code over the baseline's wall", lambda c: _of_baseline(c, "code")
    ),
    "account.work-of-baseline": Reading(
        "share", "seconds of more calls over the baseline's wall", lambda c: _of_baseline(c, "work")
    ),
    "account.speed": Reading("share", "part of the lost time: cost per call", lambda c: _part(c, "speed")),
    "account.capture": Reading(
        "share", "capture overhead, as a part of the overhead plus the program's own change", _captured
    ),
    "account.capture-beyond": Reading(
        "bool",
        "overhead is beyond its interval",
        lambda c: any(b.name == CAPTURE and b.beyond_noise for b in c.account.buckets),
    ),
    # Waiting for a CPU
    "main.wait": Reading(
        "share", "queueing of the main threads, share of their active time", lambda c: c.now.wait_fraction
    ),
    "main.wait-growth": Reading(
        "share",
        "growth of main.wait over the baseline",
        lambda c: _growth(c.before.wait_fraction, c.now.wait_fraction),
    ),
    "main.wait-fell": Reading(
        "share",
        "decrease of main.wait from the baseline",
        lambda c: _growth(c.now.wait_fraction, c.before.wait_fraction),
    ),
    "main.wait-before": Reading(
        "share",
        "main.wait of the baseline",
        lambda c: c.before.wait_fraction,
    ),
    "rank.wait": Reading("share", "queueing of the rank that queues most, share of its active time", _worst),
    "rank.wait-before": Reading("share", "rank.wait of the baseline", lambda c: c.before.worst_wait_fraction),
    "rank.wait-growth": Reading(
        "share",
        "growth of rank.wait over the baseline",
        lambda c: _growth(c.before.worst_wait_fraction, _worst(c)),
    ),
    "helpers.wait": Reading(
        "share",
        "queueing of all other threads and processes, share of their active time",
        lambda c: c.now.rest_wait_fraction,
    ),
    "helpers.wait-before": Reading(
        "share", "helpers.wait of the baseline", lambda c: c.before.rest_wait_fraction
    ),
    "helpers.wait-growth": Reading(
        "share",
        "growth of helpers.wait over the baseline",
        lambda c: _growth(c.before.rest_wait_fraction, c.now.rest_wait_fraction),
    ),
    "any.wait": Reading(
        "share",
        "the greater of main.wait and helpers.wait",
        lambda c: max(
            (v for v in (c.now.wait_fraction, c.now.rest_wait_fraction) if v is not None), default=None
        ),
    ),
    "throttled": Reading("share", "throttled part of the cgroup's periods", lambda c: c.now.throttled),
    "throttled-growth": Reading(
        "share",
        "growth of throttled over the baseline",
        lambda c: _growth(c.before.throttled or 0.0, c.now.throttled),
    ),
    "demand": Reading(
        "factor", "CPUs that its threads ask for, over those available", lambda c: c.now.demand
    ),
    "threads.growth": Reading(
        "factor", "growth of the threads, workers or processes per CPU", _threads_growth
    ),
    "others": Reading("cores", "CPU that other programs used", lambda c: c.now.others_cores),
    "others.growth": Reading(
        "cores", "growth of others over the baseline; an unknown side counts as 0", _others_added
    ),
    "steal": Reading("cores", "CPU that the machine's other guests took", lambda c: c.now.steal_cores),
    "steal.growth": Reading("cores", "growth of steal over the baseline", _more_stolen),
    "contention.itself": Reading(
        "bool",
        "its own threads and processes compete",
        _itself,
        (more("demand", "demand.self"), more("threads.growth", "threads.more")),
    ),
    "contention.others": Reading(
        "bool",
        "other programs take CPUs",
        _others,
        (
            more("others", "others"),
            more("others.growth", "others.growth"),
            more("steal", "steal"),
            more("steal.growth", "steal.growth"),
            less("demand", "demand.self"),
        ),
    ),
    "contention.known": Reading("bool", "it is known who takes the CPUs", lambda c: _itself(c) or _others(c)),
    "others.added": Reading(
        "cores",
        "growth of others over the baseline, if both sides know it",
        lambda c: _growth(c.before.others_cores, c.now.others_cores),
    ),
    "contention.beside": Reading(
        "bool",
        "other programs took CPUs during the candidate, whatever they took during the baseline",
        lambda c: (c.now.others_cores or 0.0) >= value("others.alone"),
        (more("others", "others.alone"),),
    ),
    "kind.itself": Reading("text", "contention of a program with itself", lambda c: "self-oversubscription"),
    "kind.quota": Reading("text", "a quota's kind of contention", lambda c: "cpu-quota"),
    "kind.hardware": Reading(
        "text", "the kind of contention for what CPUs share", lambda c: "shared-hardware"
    ),
    "contention.kind": Reading(
        "text",
        "who takes the CPUs; if both, whose demand grew",
        _kind,
        (more("threads.growth", "threads.more"), more("others", "others")),
    ),
    "contention.who": Reading(
        "text",
        "which threads queue",
        _who_queued,
        (
            more("main.wait", "wait.some"),
            more("main.wait-growth", "wait.some-growth"),
            more("rank.wait", "wait.some"),
            more("rank.wait-growth", "wait.some-growth"),
        ),
    ),
    "both.lacked-cpus": Reading(
        "bool",
        "the main threads of both sides queued for long",
        lambda c: all(
            (side.wait_fraction or 0.0) >= value("headline.lacked-cpus") for side in (c.before, c.now)
        ),
        (more("main.wait", "headline.lacked-cpus"), more("main.wait-before", "headline.lacked-cpus")),
    ),
    # Off the CPU
    "stopped": Reading("share", "part of the added time off the CPU in functions that compute", _stopped),
    "loading.of-off": Reading(
        "share", "waiting for loaders and workers, as a part of all added time off the CPU", _loading_of_off
    ),
    "off": Reading(
        "share",
        "part of the main threads' lifetime off the CPU, not queueing",
        lambda c: c.now.off_cpu_fraction,
    ),
    "off-before": Reading("share", "off of the baseline", lambda c: c.before.off_cpu_fraction),
    "delivery": Reading(
        "s", "seconds in functions that deliver data from loaders", lambda c: c.now.delivery_s
    ),
    "delivery-before": Reading("s", "delivery of the baseline", lambda c: c.before.delivery_s),
    "iterations.wait": Reading(
        "share", "part of the iterations spent waiting for the loader", lambda c: _iterations(c, grown=False)
    ),
    "iterations.wait-growth": Reading(
        "share", "growth of iterations.wait over the baseline", lambda c: _iterations(c, grown=True)
    ),
    "helpers.busy": Reading(
        "share",
        "CPU time of all other threads and processes over the wall",
        lambda c: c.now.rest_run_s / c.now.wall_s if c.now.rest_run_s is not None and c.now.wall_s else None,
    ),
    # Code, work, speed
    "calls.factor": Reading("factor", "calls of the same functions, weighted by time", _calls),
    "calls.same": Reading(
        "bool",
        "functions that matter are called equally often",
        _same_calls,
        (
            less("calls.factor", "work.calls"),
            more("calls.factor", "work.fewer"),
            less("account.work-of-baseline", "work.of-baseline"),
            more("account.work-of-baseline", "work.less-of-baseline"),
            more("calls.known", "calls.known"),
        ),
    ),
    "calls.differ": Reading(
        "bool",
        "calls differ: by exact counts, or over their whole interval",
        lambda c: _same_calls(c) is False,
    ),
    "calls.undecided": Reading(
        "bool",
        "a side was sampled, and its calls may or may not differ",
        lambda c: not c.signals.exact and _same_calls(c) is None,
    ),
    "calls.known": Reading(
        "share",
        "part of the CPU time, or of its growth if smaller, in functions whose calls are known well enough",
        _calls_known,
    ),
    "calls.low": Reading(
        "factor", "lower limit of the 95 % interval of calls.factor", lambda c: c.signals.movement.calls_low
    ),
    "calls.high": Reading("factor", "upper limit of that interval", lambda c: c.signals.movement.calls_high),
    "calls.everywhere": Reading(
        "share",
        "part of the time in functions whose calls changed",
        lambda c: c.signals.movement.calls_changed,
    ),
    "ranges.factor": Reading(
        "factor",
        "count of the NVTX range that takes longest",
        _of(ranges_repeated, lambda found: found.factor),
    ),
    "ranges.alike": Reading(
        "share",
        "part of the innermost ranges' time in ranges whose counts changed alike",
        _of(ranges_repeated, lambda found: found.share),
    ),
    "ranges.of-growth": Reading(
        "share",
        "part of these ranges' growth that their counts explain",
        _of(ranges_repeated, lambda found: found.of_growth),
    ),
    "ranges.part": Reading("share", "part of the lost time that so many more ranges take", _ranges_part),
    "code.subject": Reading(
        "text", "the function whose code changed", lambda c: c.signals.table.shown(code_row(c))
    ),
    "code.place": Reading("text", "file and line of code.subject", _code_place),
    "revision": Reading("text", "revision of the candidate's source", lambda c: c.now.revision or None),
    "revision-before": Reading(
        "text", "revision of the baseline's source", lambda c: c.before.revision or None
    ),
    "code.source-known": Reading(
        "bool",
        "the source of a function that matters is known to differ",
        lambda c: c.signals.movement.changed_row >= 0 or c.signals.movement.below_row >= 0,
    ),
    "code.loop": Reading(
        "bool",
        "one function calls others more often each time it runs, and its source is not known",
        lambda c: any(o.from_code for o in c.signals.origins.found),
    ),
    "code.new": Reading(
        "bool",
        "the function whose code changed is new",
        lambda c: code_row(c) >= 0 and c.signals.table.match[code_row(c)] == "new",
    ),
    "ranges.name": Reading(
        "text",
        "the range of ranges.factor",
        lambda c: "" if (found := ranges_repeated(c)) is None else found.key.name,
    ),
    "work.subject": Reading(
        "text",
        "the function from which the changed calls come",
        lambda c: c.signals.table.shown(
            next((origin.row for origin in c.signals.origins.found if not origin.from_code), -1)
        ),
    ),
    "work.function": Reading(
        "text",
        "the function with most of the added time",
        lambda c: (
            c.signals.table.shown(c.signals.movement.top_row)
            if c.signals.movement.top_part >= value("part.most")
            else ""
        ),
    ),
    "uncalled.part": Reading(
        "share",
        "part of the lost time in a function that the baseline defines but did not call, and its callees",
        _uncalled_part,
    ),
    "uncalled.function": Reading(
        "text",
        "the function of uncalled.part",
        lambda c: c.signals.table.shown(uncalled_row(c.signals)),
    ),
    "function.part": Reading(
        "share", "part of all added time in function.subject", lambda c: c.signals.movement.top_part
    ),
    "function.gain": Reading(
        "share", "added time of function.subject, as a part of the baseline's CPU time", _top_gain
    ),
    "function.apart": Reading(
        "factor", "change per call of function.subject over that of all functions", _top_apart
    ),
    "function.source-known": Reading("bool", "the sources of function.subject are known", _top_known),
    "function.native": Reading("bool", "function.subject is native", _top_native),
    "function.subject": Reading(
        "text",
        "the function that added most time",
        lambda c: c.signals.table.shown(c.signals.movement.top_row),
    ),
    "others.moved": Reading(
        "factor",
        "median factor of the cost per call over all functions, up or down",
        lambda c: math.exp(abs(c.signals.movement.ratio)),
    ),
    "per-call": Reading(
        "factor", "cost per call, median over functions", lambda c: math.exp(c.signals.movement.ratio)
    ),
    "per-call.everywhere": Reading(
        "share",
        "part of the active time in functions of both sides whose cost per call grew",
        _dearer,
    ),
    "per-call.functions": Reading(
        "count",
        "functions whose cost per call is known",
        lambda c: float(c.signals.movement.functions),
    ),
    "yardstick.known": Reading(
        "bool",
        "the slow-down of the start-up work, which is the same on both sides, is known",
        lambda c: _yardstick(c) is not None,
        (more("yardstick.seconds", "yardstick.least"),),
    ),
    "yardstick.seconds": Reading(
        "s", "start-up work on the side with less of it", lambda c: min(_yardsticks(c))
    ),
    "yardstick.apart": Reading(
        "factor", "cost per call over the slow-down of the start-up work", _yardstick_apart
    ),
    "spread": Reading(
        "factor", "scatter of ln of the cost per call over functions", lambda c: c.signals.movement.spread
    ),
    "machines.differ": Reading(
        "bool",
        "the CPUs' models or the instructions in use differ",
        lambda c: models_differ(c.before, c.now) or bool(other_instructions(c.before, c.now)),
    ),
    "instructions.differ": Reading(
        "bool",
        "variables select another instruction set",
        lambda c: bool(other_instructions(c.before, c.now)),
    ),
    "machine.one": Reading(
        "bool", "both ran on one host, with the same instructions", lambda c: one_machine(c.before, c.now)
    ),
    "machine.known": Reading(
        "bool",
        "both runs timed the same fixed work and know its scatter",
        lambda c: any(one.measured for one in fixed_work(c.before, c.now)),
    ),
    "machine.part": Reading(
        "share",
        "part of ln of the slow-down that the most slowed fixed work shows too, beyond its scatter",
        _machine_part,
    ),
    "machine.same": Reading(
        "bool",
        "both ran on one host, which did fixed work as fast as before",
        _machine_as_fast,
        (less("machine.part", "part.most"),),
    ),
    "sources.same": Reading(
        "bool",
        "sources are known, and no function that matters has changed",
        lambda c: (
            c.signals.movement.changed_row < 0
            and c.signals.movement.below_row < 0
            and bool(rows_where(c.signals.table.same_source, bool).any())
        ),
    ),
    "input.larger": Reading(
        "bool",
        "more memory or more bytes read",
        lambda c: bool(larger_inputs(c.before, c.now)),
        (
            more("memory.growth", "input.larger"),
            more("memory.growth", "input.larger-throughout"),
            more("memory.added", "input.larger-bytes"),
            more("read.growth", "input.larger"),
            more("read.added", "input.larger-bytes"),
        ),
    ),
    "memory.growth": Reading(
        "factor",
        "growth of the memory; the lower threshold applies if each of several repeats needed more",
        lambda c: _ratio(c.before.memory_bytes, c.now.memory_bytes),
    ),
    "memory.added": Reading(
        "bytes", "added memory", lambda c: _growth(c.before.memory_bytes, c.now.memory_bytes)
    ),
    "read.growth": Reading(
        "factor", "growth of the bytes read", lambda c: _ratio(c.before.read_bytes, c.now.read_bytes)
    ),
    "read.added": Reading(
        "bytes", "additional bytes read", lambda c: _growth(c.before.read_bytes, c.now.read_bytes)
    ),
    "command.differs": Reading(
        "bool",
        "the command lines differ",
        lambda c: bool(c.before.command and c.now.command) and c.before.command != c.now.command,
    ),
    "cpu.part": Reading(
        "share", "part of ln of the slow-down that is CPU time", lambda c: c.signals.cpu_part
    ),
    # Rankings
    "order.moved": Reading(
        "bool", "the order of functions moved beyond the noise", lambda c: c.signals.ranking.reordered
    ),
    "order.tv": Reading(
        "share", "time that moved to other functions", lambda c: c.signals.ranking.total_variation
    ),
    "order.any": Reading(
        "bool",
        "a function, or time between functions, moved beyond the noise",
        lambda c: c.signals.moved or worst_mover(c.signals) >= 0,
    ),
    "functions": Reading("bool", "there are functions", lambda c: len(c.signals.table) > 0),
    "repeats.noisier": Reading(
        "factor",
        "mean over functions of ln of the ratio of their scatters over repeats",
        lambda c: c.signals.noisier,
    ),
    "repeats.known": Reading(
        "bool", "the scatter over repeats is known", lambda c: math.isfinite(c.signals.noisier)
    ),
    "lumps.periodic": Reading(
        "bool",
        "the lost slices have one length, as if a timer stopped the program",
        periodic,
        (
            more("lumps.count", "lumps.fewest"),
            more("lumps.alike", "lumps.alike"),
            more("lumps.median", "lumps.ticks"),
        ),
    ),
    "lumps.count": Reading("count", "time slices that short functions lost", lambda c: c.signals.lumps.count),
    "lumps.alike": Reading(
        "share", "part of the lost slices near their median length", lambda c: c.signals.lumps.alike
    ),
    "lumps.median": Reading("s", "median length of lost slices", lambda c: c.signals.lumps.median_s),
    "started.any": Reading(
        "bool",
        "a side started processes or threads, or is a rank: it may wait for its own program",
        _of(_started, lambda found: found.any),
    ),
    "started.growth": Reading(
        "factor",
        "growth of the number of processes or threads started",
        _of(_started, lambda found: found.growth),
    ),
    "started.processes": Reading(
        "count", "processes started", _of(_started, lambda found: found.processes[1])
    ),
    "started.processes-before": Reading(
        "count", "started in the baseline", _of(_started, lambda found: found.processes[0])
    ),
    "started.threads": Reading("count", "threads started", _of(_started, lambda found: found.threads[1])),
    "started.threads-before": Reading(
        "count", "started in the baseline", _of(_started, lambda found: found.threads[0])
    ),
    "waited.function": Reading(
        "text",
        "the function that waits by design and added most time",
        lambda c: c.signals.table.shown(waited_row(c)),
    ),
    "starved.holds": Reading(
        "bool",
        "the weighted signs of lost time slices are beyond the learnt threshold",
        lambda c: c.signals.starved.holds,
        (more("starved.probability", "starved.holds"),),
    ),
    "starved.probability": Reading(
        "share",
        "probability of starvation by the signs of lost time slices",
        lambda c: c.signals.starved.probability,
    ),
    "starved.one-function": Reading(
        "bool",
        "one function has most of the added time and no other lost a slice",
        lambda c: c.signals.movement.top_part > value("one-function.part") and c.signals.signs["hits"] <= 0,
        (more("function.part", "one-function.part"),),
    ),
    "time.factor-above-1": Reading(
        "bool", "the candidate is not faster", lambda c: c.signals.log_slowdown >= 0
    ),
    "no-change.strength": Reading(
        "factor",
        "how near the totals are to each other: the negative absolute ln of the slow-down",
        lambda c: -abs(c.signals.log_slowdown),
    ),
    "time.log-slowdown": Reading("factor", "ln of the slow-down", lambda c: c.signals.log_slowdown),
}
