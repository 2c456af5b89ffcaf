"""Judge one run without a baseline: how its wall is made up, and what it lacked or was blocked on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from profkit.identity.function_keys import function_keys
from profkit.identity.lookup_columns import Keys
from profkit.identity.readable_names import readable_name
from profkit.measure.critical_path import compose
from profkit.measure.line_times import FunctionLines, seen_lines
from profkit.measure.path_reading import path_rank, read_path
from profkit.measure.selected_processes import Selected, select
from profkit.measure.side_facts import no_side, side_facts
from profkit.measure.waits_by_name import also_computes, is_wait, waits_for_gpu, waits_for_ranks
from profkit.model import Process, Run, RunSet
from profkit.model.arrays import known
from profkit.model.pauses import STOPPED
from profkit.verdict.account import Account
from profkit.verdict.booking import account_of_run
from profkit.verdict.calibration import ALONE, STEPS
from profkit.verdict.judge import best_of, finding_of, rules_held, verdict_of
from profkit.verdict.named_lines import lines_of_account
from profkit.verdict.readings import READINGS
from profkit.verdict.readings.lost_time import blocked_on, reading_kind
from profkit.verdict.readings.off_the_cpu import helpers_busy
from profkit.verdict.rule import Judged, Reading, Rule, more
from profkit.verdict.rules import RULES_ALONE
from profkit.verdict.thresholds import value
from profkit.verdict.types import Finding, RunVerdict


def judge_run(run: Run, processes: Sequence[Process], by: str = "tottime") -> RunVerdict:
    """Return how one run's time is made up, and a verdict on what it lacked, ``None`` if nothing."""
    chosen = select(Run(run.path, tuple(processes), run.manifest, run.machine), edges=False)
    keys = function_keys(chosen.profile, chosen.roots)
    account = _account(run, chosen, keys)

    def lines(row: int) -> FunctionLines:
        every = np.arange(len(chosen.profile), dtype=np.int32)
        found = seen_lines([chosen], [every], chosen.profile, keys, row)
        return FunctionLines(readable_name(keys[row].qualname), (), found)

    side = side_facts(RunSet(run.path, (run,)), [processes], chosen.profile.total)
    one = Judged(no_side(), side, account, READINGS_ALONE)
    held, checks = rules_held(RULES_ALONE, one)
    findings = tuple(_finding(rule, one, by) for rule in held)
    best = best_of(findings)
    if best is None:
        return RunVerdict(account, None, checks, lines_of_account(None, account, lines))
    verdict = verdict_of((best, *(f for f in findings if f is not best)), checks)
    return RunVerdict(account, verdict, checks, lines_of_account(verdict, account, lines))


def _account(run: Run, chosen: Selected, keys: Keys) -> Account:
    names = keys.name
    waits = np.array([is_wait(key.qualname, key.root) for key in keys], np.bool_)
    reading = read_path(run, chosen, path_rank(chosen.processes, chosen.processes))
    masks = (names.where(of) for of in (waits_for_ranks, also_computes, waits_for_gpu))
    whole = compose(reading, waits, *masks)
    return account_of_run(whole, keys)


def _stopped(account: Account) -> float:
    return sum(w.candidate_s for w in account.bucket("blocked").waited if w.what == STOPPED)


def _of_wall(what: str, seconds: Callable[[Account], float]) -> Reading:
    def of(one: Judged) -> float:
        return max(0.0, seconds(one.account)) / (one.account.candidate_s or math.inf)

    return Reading("share", f"part of the wall{what}", of)


def _finding(rule: Rule, one: Judged, by: str) -> Finding:
    seconds = (
        one.number(rule.part) * one.account.candidate_s if rule.part else one.account.seconds(rule.bucket)
    )
    found = finding_of(rule, one, STEPS.get(ALONE, {}), seconds, _severity(rule, one))
    # A report ranked by cumtime already contains the table that this advice leads to.
    return replace(
        found, advice=tuple(a for a in found.advice if a.kind != "show-waiting" or by not in a.argv)
    )


def _severity(rule: Rule, one: Judged) -> float:
    """Return the part of the wall, or of active time that was queueing: one run shows no loss."""
    side = one.now
    if rule.id == "throttling":
        return max(side.throttled or 0.0, side.wait_fraction or 0.0)
    if rule.id == "run-queue-wait":
        return _most_wait(one)
    return max(0.0, min(1.0, one.number(rule.part) if rule.part else one.account.bucket(rule.bucket).share))


# Readings -----------------------------------------------------------------------------------------------------


def _own_wait(one: Judged) -> float | None:
    """Return queueing of the main threads, or of the rank that queues most."""
    side = one.now
    worst = side.worst_wait_fraction if side.mains > 1 else None
    return max(known((side.wait_fraction, worst)), default=None)


def _hidden_wait(one: Judged) -> float:
    """Return queueing of other threads and processes, where the main thread waits for them."""
    side = one.now
    waits = (side.off_cpu_fraction or 0.0) >= value("alone.waits") and (side.rest_run_s or 0.0) > 0
    return (side.rest_wait_fraction or 0.0) if waits else 0.0


def _most_wait(one: Judged) -> float:
    return max(_own_wait(one) or 0.0, _hidden_wait(one))


def _others(one: Judged) -> bool:
    side = one.now
    return (side.others_cores or 0.0) >= value("others.alone") or (side.steal_cores or 0.0) >= value("steal")


def _itself(one: Judged) -> bool:
    side = one.now
    cpus = side.available_cpus or math.inf
    # More ranks than CPUs compete, whatever their average demand.
    ranks = side.mains > cpus and (side.worst_wait_fraction or 0.0) >= value("alone.ranks")
    return (_demand(one) or 0.0) > value("demand.self") or (ranks and not _others(one))


def _demand(one: Judged) -> float | None:
    """Return the CPUs asked for after the start, in which each rank keeps one busy, over those available."""
    side, start = one.now, max(0.0, one.account.seconds("startup"))
    left = (side.wall_s or 0.0) - start
    if side.demand_cores is None or not side.available_cpus or left < value("alone.wall"):
        return side.demand
    asked_s = side.demand_cores * (left + start) - max(1, side.mains) * start
    return max(side.demand_cores, asked_s / left) / side.available_cpus


def _kind(one: Judged) -> str | None:
    """Return who takes the CPUs; if both do, compare own demand beyond the CPUs with the others' cores."""
    itself, others = _itself(one), _others(one)
    if itself and others:
        side = one.now
        cpus = side.available_cpus or 0.0
        # CPUs that it left free during its start are not taken off.
        free = max(0.0, cpus - max(1, side.mains)) * max(0.0, one.account.bucket("startup").share)
        own = (side.demand_cores or 0.0) - cpus + free
        itself = own > (side.others_cores or 0.0) + (side.steal_cores or 0.0)
    return "self-oversubscription" if itself else "external-load" if others else None


def _who(one: Judged) -> str:
    side = one.now
    main, own = side.wait_fraction or 0.0, _own_wait(one) or 0.0
    if one.account.helpers_queue or _hidden_wait(one) > own:
        return "helpers"
    return "rank" if own > main else "main"


def _of_run(seconds: float | None, wall_s: float | None) -> float | None:
    return min(1.0, seconds / wall_s) if seconds is not None and wall_s else None


def _free(one: Judged) -> float | None:
    side = one.now
    if side.own_cores is None or side.available_cpus is None:
        return None
    return side.available_cpus - side.own_cores - (side.others_cores or 0.0)


#: Readings of a comparison that need no baseline.
_SHARED = (
    "processes",
    "main.wait",
    "rank.wait",
    "throttled",
    "kind.quota",
    "memory.limit",
    "others",
    "steal",
    "off",
)

READINGS_ALONE: Mapping[str, Reading] = {
    **{name: READINGS[name] for name in _SHARED},
    "wall": Reading("s", "wall of the command", lambda o: o.now.wall_s),
    "pair.counters": Reading(
        "bool", "the kernel's counters are known", lambda o: o.now.wait_fraction is not None or None
    ),
    "account.queued": _of_wall(
        ": queueing for a CPU, also of threads and processes that the main thread waits for",
        lambda account: account.seconds("queue"),
    ),
    "account.loading": _of_wall(
        ": waiting for workers that do not run", lambda account: account.seconds("loading")
    ),
    "account.blocked": _of_wall(": off the CPU, not queueing", lambda account: account.seconds("blocked")),
    "account.stopped": _of_wall(": the whole process was stopped", _stopped),
    "blocked.on": Reading(
        "text", "what most of the time off the CPU waited for", lambda o: blocked_on(o.account)
    ),
    "account.reading": _of_wall(": reading files, on a CPU or off it", lambda account: account.reading_s[1]),
    "storage.added": Reading(
        "bytes", "bytes that storage delivered, since they were not in memory", lambda o: o.now.storage_bytes
    ),
    "memory.refaulted": Reading(
        "bytes",
        "bytes needed again after they were dropped for lack of memory",
        lambda o: o.now.refaulted_bytes,
    ),
    # Everything is read for a first time too, for which there is no baseline.
    "reading.kind": Reading(
        "text",
        "whether much of what storage delivered had been dropped for lack of memory",
        lambda o: reading_kind(o, "alone.waits"),
    ),
    "account.imports": _of_wall(
        ": imports in other processes than the main one", lambda account: account.imports_s
    ),
    "account.starts": _of_wall(
        " in functions that start processes, and in other processes outside their functions",
        lambda account: account.starts_s,
    ),
    "account.gil": _of_wall(": waiting for the interpreter's lock", lambda account: account.seconds("gil")),
    "account.gc": _of_wall(": garbage collection", lambda account: account.seconds("gc")),
    "gc.function": READINGS["gc.function"],
    "children": READINGS["children"],
    "children.named": READINGS["children.named"],
    "children.of-wall": Reading(
        "share", "part of the wall: children", lambda o: _of_run(o.now.children_s, o.now.wall_s)
    ),
    "children.awaited": Reading(
        "share",
        "part of the wall for which the main threads waited for child processes, or for what they write",
        lambda o: _of_run(o.now.children_awaited_s, o.now.wall_s),
    ),
    "locked": READINGS["locked"],
    "locked.in": READINGS["locked.in"],
    "locked.of-wall": Reading(
        "share", "part of the wall: locked", lambda o: _of_run(o.now.locked_s, o.now.wall_s)
    ),
    "gil.looks": READINGS["gil.looks"],
    "gil.held": replace(
        READINGS["gil.held"], about="part of account.gil during which known functions held the lock"
    ),
    "demand": Reading(
        "factor", "CPUs that its threads ask for after the start, over those available", _demand
    ),
    "helpers.wait": replace(READINGS["helpers.wait"], of=lambda o: o.now.rest_wait_fraction or 0.0),
    "helpers.queued": Reading(
        "share",
        "seconds that all other threads and processes queued, over the wall",
        lambda o: (o.now.rest_wait_s or 0.0) / (o.now.wall_s or math.inf),
    ),
    "own.wait": Reading("share", "the greater of main.wait and rank.wait", _own_wait),
    "hidden.wait": Reading(
        "share",
        "helpers.wait if the main thread waits for them",
        _hidden_wait,
        (more("off", "alone.waits"),),
    ),
    "most.wait": Reading("share", "the greater of own.wait and hidden.wait", _most_wait),
    "contention.itself": replace(
        READINGS["contention.itself"],
        of=_itself,
        compares=(more("demand", "demand.self"), more("rank.wait", "alone.ranks")),
    ),
    "contention.others": replace(
        READINGS["contention.others"],
        of=_others,
        compares=(more("others", "others.alone"), more("steal", "steal")),
    ),
    "contention.beside": Reading(
        "bool",
        "other programs take CPUs, but maybe too few to be the cause",
        lambda o: (o.now.others_cores or 0.0) >= value("others"),
        (more("others", "others"),),
    ),
    "contention.known": replace(READINGS["contention.known"], of=lambda o: _itself(o) or _others(o)),
    "contention.unknown": Reading(
        "bool",
        "what others used was not measured, and the program itself does not ask for too much",
        lambda o: o.now.others_cores is None and not (_itself(o) or _others(o)),
    ),
    "contention.kind": Reading("text", "who takes the CPUs", _kind),
    "contention.who": Reading("text", "which threads queue", _who),
    "cpus.free": Reading("cores", "CPUs that neither the program nor others used", _free),
    "helpers.busy": replace(READINGS["helpers.busy"], of=lambda o: helpers_busy(o.account, o.now) or 0.0),
}
