"""The lost time: how much it is, and which buckets of the account hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from profkit.verdict.account import CAPTURE, Account
from profkit.verdict.readings.cpu_queueing import more_threads, workers_lack_cpus
from profkit.verdict.readings.known_values import grown, growth_of
from profkit.verdict.rule import Case, Judged, Reading
from profkit.verdict.thresholds import value


def _slowdown(case: Case) -> float:
    return math.exp(case.signals.log_slowdown)


def _surely_less(case: Case) -> bool:
    """Return whether time was saved even if capture added as much less to the candidate as its interval allows."""
    found = case.account
    return found.program_s + sum((b.high - b.low) / 2 for b in found.buckets if b.name == CAPTURE) < 0


def _drift(case: Case) -> float:
    """Return the factor by which totals of clean runs differ: pooled, or from the repeats' own scatter."""
    s = case.signals
    pooled = value("time.drift")
    if s.repeats < value("repeats.least") or not math.isfinite(s.total_scatter):
        return pooled
    return min(pooled, max(value("time.slower"), math.exp(value("repeats.sigmas") * s.total_scatter)))


def _part(case: Case, *names: str) -> float:
    """Return the part of the difference of the walls that some buckets hold, 0 to 1."""
    return of_lost(case.account, sum(map(case.account.seconds, names)))


def separate(case: Case, *names: str) -> float | None:
    """Return the part that some buckets hold, ``None`` where they are unknown or cannot be told apart."""
    known = {bucket.name for bucket in case.account.buckets}
    return None if case.account.merged or not known.intersection(names) else _part(case, *names)


def of_lost(found: Account, seconds: float) -> float:
    """Return added seconds as a part of the lost time."""
    return seconds / max(found.program_s, seconds) if seconds > 0 else 0.0


def _lost(what: str, *names: str, apart: bool = False) -> Reading:
    """Return the reading of the part that some buckets hold; if `apart`, only where they are known by themselves."""
    part = separate if apart else _part
    return Reading("share", f"part of the lost time: {what}", lambda case: part(case, *names))


def of_baseline(case: Case, *names: str) -> float | None:
    """Return the seconds of some buckets over the baseline's wall."""
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
    if not more_threads(case):
        return 0.0
    queue = found.seconds("queue")
    if found.imports_s > queue and not workers_lack_cpus(case):
        return 0.0  # they are busy importing, and hardly lack CPUs
    waited = sum(found.seconds(name) for name in ("startup", "blocked", "loading", "rest"))
    waited -= found.own_imports_added_s
    theirs = max(0.0, (b.rest_wait_s - a.rest_wait_s) - max(0.0, found.helpers_queue_s))
    return of_lost(found, queue + min(max(0.0, waited), theirs))


def reading_kind(case: Judged, part: str) -> str | None:
    """Return ``short-memory`` if at least a part of what storage delivered had been in memory before."""
    again, stored = case.number("memory.refaulted"), case.number("storage.added")
    return "short-memory" if again >= max(value("input.larger-bytes"), value(part) * stored) else None


def _imported(case: Case) -> float | None:
    added, whole = case.account.own_imports_added_s, case.account.seconds("startup")
    return max(0.0, min(1.0, added / whole)) if whole > 0 else None


def _compiled(case: Case) -> float | None:
    added = case.account.own_imports_added_s
    before, after = case.before.compiling_s, case.now.compiling_s
    if before is None or after is None or not added > 0:
        return None
    # All ranks compile, and one of them is on the path.
    each = after / max(1, case.now.mains) - before / max(1, case.before.mains)
    return min(1.0, max(0.0, each) / added)


def gil_held(found: Account) -> float | None:
    """Return the part of the waiting for the interpreter's lock during which known functions held it."""
    if not found.seconds("gil") > 0:
        return None
    held = sum(part.seconds for part in found.bucket("gil").parts if part.kind == "holder")
    return min(1.0, held / found.seconds("gil"))


def most_in(account: Account, bucket: str) -> str | None:
    """Return the function that makes up most of a bucket."""
    parts = account.bucket(bucket).parts
    return parts[0].name if parts else None


def blocked_on(account: Account) -> str | None:
    """Return what most time off the CPU waited for; ``None`` without a main wait, or if not seen."""
    bucket = account.bucket("blocked")
    if not bucket.waited:
        return None
    most = bucket.waited[0]
    longer = most.candidate_s - most.baseline_s
    return most.what if longer >= value("part.most") * bucket.seconds > 0 else None


LOST_TIME: Mapping[str, Reading] = {
    "time.slowdown": Reading(
        "factor", "candidate's time over the baseline's, without capture overhead", _slowdown
    ),
    "time.walls": Reading(
        "factor", "time.slowdown with capture overhead", lambda c: math.exp(c.signals.log_walls)
    ),
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
    "time.surely-less": Reading(
        "bool", "less time, whatever the interval of capture overhead allows", _surely_less
    ),
    "time.speedup": Reading("factor", "baseline's time over the candidate's", lambda c: 1 / _slowdown(c)),
    "account.queue": _lost("queueing for a CPU", "queue", apart=True),
    "account.queue-beyond": grown("queueing is beyond its noise", "queue"),
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
        lambda c: None if c.account.merged else of_lost(c.account, c.account.helpers_queue_s),
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
        lambda c: None if c.account.merged else of_baseline(c, "queue"),
    ),
    "account.off": _lost("off the CPU, not queueing", "blocked", "loading", "imbalance", apart=True),
    "account.waits": Reading(
        "share",
        "part of the lost time in functions that wait by design; includes queueing if that is not known",
        lambda c: _part(c, "blocked", "loading", "imbalance"),
    ),
    "started.part": Reading(
        "share",
        "part of the lost time in functions that start processes, or wait by design",
        lambda c: of_lost(
            c.account,
            sum(map(c.account.seconds, ("blocked", "loading", "imbalance"))) + max(0.0, c.account.starts_s),
        ),
    ),
    "blocked.on": Reading(
        "text", "what most of the added time off the CPU waited for", lambda c: blocked_on(c.account)
    ),
    "account.gil-over-queue": Reading(
        "bool",
        "more of the lost time is waiting for the interpreter's lock than for a CPU",
        lambda c: (separate(c, "gil") or 0.0) > max(separate(c, "queue") or 0.0, _settings_queue(c) or 0.0),
    ),
    "gil.held": Reading(
        "share",
        "part of the added waiting for the interpreter's lock during which known functions held it",
        lambda c: gil_held(c.account),
    ),
    "gil.looks": Reading(
        "count",
        "times that a thread was seen waiting for the interpreter's lock",
        lambda c: c.now.gil_looks,
    ),
    "account.imports": Reading(
        "share",
        "part of the lost time: imports in other processes than the main one",
        lambda c: of_lost(c.account, c.account.imports_s),
    ),
    "account.startup": _lost("start and end", "startup"),
    "imports.of-startup": Reading(
        "share", "part of the added start and end in which the main process imported libraries", _imported
    ),
    "account.slowed": _lost(
        "start and end, calls, cost per call, and the interpreter's lock and collector",
        *("startup", "work", "speed", "gil", "gc"),
    ),
    "account.reading": Reading(
        "share",
        "part of the lost time: reading files, on a CPU or off it",
        lambda c: of_lost(c.account, c.account.reading_s[1] - c.account.reading_s[0]),
    ),
    "storage.added": growth_of(
        "bytes",
        "additional bytes that storage delivered, since they were not in memory",
        lambda side: side.storage_bytes,
    ),
    "memory.refaulted": growth_of(
        "bytes",
        "additional bytes needed again after they were dropped for lack of memory",
        lambda side: side.refaulted_bytes,
    ),
    "memory.limit": Reading("bytes", "memory limit of its container", lambda c: c.now.memory_limit_bytes),
    "reading.kind": Reading(
        "text",
        "whether most of what storage delivered had been dropped for lack of memory",
        lambda c: reading_kind(c, "part.most"),
    ),
    "account.starts": Reading(
        "share",
        "part of the lost time in functions that start processes, and in calls that come with each",
        lambda c: of_lost(c.account, c.account.starts_s),
    ),
    "account.startup-beyond": grown("start and end are beyond their noise", "startup"),
    "imports.compiled": Reading(
        "share",
        "part of the added imports in which modules were compiled, since there was no byte code of them",
        _compiled,
    ),
    "account.gil": _lost("waiting for the interpreter's lock", "gil", apart=True),
    "account.gc": _lost("garbage collection", "gc", apart=True),
    "account.gc-of-baseline": Reading(
        "share", "added garbage collection over the baseline's wall", lambda c: of_baseline(c, "gc")
    ),
    "account.gc-beyond": grown("garbage collection is beyond its noise", "gc"),
    "gc.function": Reading("text", "function in which most of it struck", lambda c: most_in(c.account, "gc")),
    "gc.seconds": Reading("s", "garbage collection on the critical path", lambda c: c.account.collected_s[1]),
    "gc.seconds-before": Reading("s", "gc.seconds of the baseline", lambda c: c.account.collected_s[0]),
    "account.code": _lost("changed code", "code"),
    "account.code-of-baseline": Reading(
        "share", "seconds of changed code over the baseline's wall", lambda c: of_baseline(c, "code")
    ),
    "account.work": _lost("more calls", "work"),
    "account.work-beyond": grown("more calls are beyond their noise", "work"),
    "account.work-of-baseline": Reading(
        "share", "seconds of more calls over the baseline's wall", lambda c: of_baseline(c, "work")
    ),
    "account.speed": _lost("cost per call", "speed"),
    "account.calls-and-cost": _lost("more calls, and cost per call", "work", "speed"),
    "account.cost-and-off": _lost(
        "cost per call, and off the CPU, not queueing", "speed", "blocked", "loading", "imbalance"
    ),
    "account.cost-and-queue": _lost("cost per call, and queueing", "speed", "queue"),
    "account.capture": Reading(
        "share", "capture overhead, as a part of the overhead plus the program's own change", _captured
    ),
    "account.capture-beyond": Reading(
        "bool", "overhead is beyond its interval", lambda c: c.account.bucket(CAPTURE).beyond_noise
    ),
}

#: The slow-down as a logarithm and as a sign; docs/rules.md lists these last.
SLOWDOWN: Mapping[str, Reading] = {
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
