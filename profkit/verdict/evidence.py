"""Evidence for each name in a rule: measured facts of both sides, or nothing if not measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from profkit.measure.inventory import Inventory
from profkit.measure.side_facts import SideFacts
from profkit.measure.side_neighbours import NOTICED
from profkit.model.arrays import median
from profkit.verdict.machine_differences import fixed_work, models_differ, other_instructions
from profkit.verdict.readings import Case
from profkit.verdict.readings.code_and_calls import code_row, ranges_repeated, uncalled_row
from profkit.verdict.readings.function_times import waited_row
from profkit.verdict.readings.given_inputs import larger_inputs
from profkit.verdict.rule import Judged
from profkit.verdict.thresholds import value
from profkit.verdict.types import Evidence, Value

if TYPE_CHECKING:
    from profkit.measure.range_stats import RangeChange

#: Most functions and ranges that are named.
NAMED = 3
#: Least part of a range's time in queueing for it to be named.
LEAST_SHARE = 0.1
#: Least part of all queueing in functions for one to be named.
LEAST_PART = 0.05
#: GPU utilisation below which GPUs are not in use (the least that NVML reports), and factor of the baseline's
#: at which it has fallen: single readings vary.
LEAST_GPU_SHARE, GPU_FELL = 0.01, 0.8
#: Table rows that are searched for a function with changed calls.
LOOKED_AT = 20

Found = Iterable[Evidence]


def produce(names: Iterable[str], case: Judged) -> tuple[Evidence, ...]:
    """Return the evidence of some names in their order, without duplicates."""
    found: list[Evidence] = []
    for name in names:
        found += [evidence for evidence in PRODUCERS[name](case) if evidence not in found]
    return tuple(found)


# Time ---------------------------------------------------------------------------------------------------------


def wall(case: Case) -> Found:
    """Return the walls of both sides, or their self times where a wall is unknown."""
    a, b = case.before, case.now
    walls = bool(a.wall_s) and bool(b.wall_s)
    factor = math.exp(case.signals.log_walls)
    yield Evidence(
        "wall" if walls else "self-time",
        "s",
        a.wall_s if walls else a.total_s,
        b.wall_s if walls else b.total_s,
        reading="times" if walls or min(a.total_s, b.total_s) > 0 else "",
        numbers={"factor": factor},
    )


def _self_time(case: Case) -> Found:
    s = case.signals
    yield Evidence("self-time", "s", s.baseline.total_s, s.candidate.total_s, reading="identical")


# Waiting for a CPU --------------------------------------------------------------------------------------------


def _active(run_s: float | None, wait_s: float | None) -> float | None:
    return None if run_s is None or wait_s is None else run_s + wait_s


def _queue(case: Judged) -> Found:
    """Return queueing of the threads that carry the cause: the main thread's, one rank's, or the helpers'."""
    a, b = case.before, case.now
    who = str(case.read("contention.who"))
    if who == "main":
        yield Evidence(
            "main.queue",
            "s",
            a.main_wait_s,
            b.main_wait_s,
            reading="no-cpu-free",
            whole=(_active(a.main_run_s, a.main_wait_s), _active(b.main_run_s, b.main_wait_s)),
        )
    if who == "rank":
        yield Evidence(
            "rank.wait",
            "share",
            a.worst_wait_fraction,
            b.worst_wait_fraction,
            value("wait.much"),
            "others-wait-for-rank",
        )
    if who == "helpers" or (b.rest_wait_fraction or 0.0) >= value("wait.much"):
        yield from _helpers_queue(case)


def _helpers_queue(case: Judged) -> Found:
    a, b = case.before, case.now
    if b.rest_wait_s is None:
        return
    yield Evidence(
        "helpers.queue",
        "s",
        a.rest_wait_s,
        b.rest_wait_s,
        reading="main-waits-for-helpers" if str(case.read("contention.who")) == "helpers" else "no-cpu-free",
        whole=(_active(a.rest_run_s, a.rest_wait_s), _active(b.rest_run_s, b.rest_wait_s)),
    )


def _main_wait(case: Judged) -> Found:
    a, b = case.before, case.now
    if b.wait_fraction is not None:
        yield Evidence(
            "main.wait", "share", a.wait_fraction, b.wait_fraction, value("wait.much"), "cpus-were-free"
        )


def _main_wait_before(case: Case) -> Found:
    a, b = case.before, case.now
    before, fell = case.number("main.wait-before"), case.number("main.wait-fell")
    if before >= value("wait.much") and fell >= value("wait.growth"):
        yield Evidence(
            "main.wait", "share", a.wait_fraction, b.wait_fraction, value("wait.much"), "baseline-starved"
        )


def _demand(case: Judged) -> Found:
    a, b = case.before, case.now
    if b.demand_cores is None or b.available_cpus is None:
        return
    reading = "own-threads-compete" if case.read("contention.itself") else "within-cpus"
    if case.read("throttled") and b.throttled and b.throttled > value("throttled"):
        reading = "quota"
    yield Evidence(
        "demand",
        "cores",
        a.demand_cores,
        b.demand_cores,
        value("demand.self") * b.available_cpus,
        reading,
        whole=(a.available_cpus, b.available_cpus),
    )


def _asked(case: Case) -> Found:
    """Return the cores that both sides' pools ask for, if known and too many."""
    a, b = case.before.inventory, case.now.inventory
    if not case.read("contention.itself") or a.expected_cores is None or b.expected_cores is None:
        return
    library, threads, alike, origin, variable = _largest_pool(b)
    yield Evidence(
        "pools.asked",
        "cores",
        a.expected_cores,
        b.expected_cores,
        b.available_cpus,
        "pool" if library else "",
        subject=library,
        whole=(a.available_cpus, b.available_cpus),
        numbers={"threads": threads, "processes": alike, "origin": origin, "variable": variable},
    )


def _largest_pool(of: Inventory) -> tuple[str, int, int, str, str]:
    """Return library, threads, processes with that pool, the size's origin, and the variable."""
    working = [process for process in of.processes if not process.idle]
    pools = [(pool.threads or 0, pool, process.pid) for process in working for pool in process.pools or ()]
    threads, largest, _ = max(pools, key=lambda found: found[0], default=(0, None, None))
    if largest is None or threads <= 1:
        return "", 0, 0, "", ""
    alike = len({pid for size, _, pid in pools if size == threads})
    return largest.library, threads, alike, largest.origin, largest.variable


def _others(case: Judged) -> Found:
    a, b = case.before, case.now
    if b.others_cores is None:
        return
    reading = "machine-idle"
    if case.read("contention.others"):
        reading = "other-programs"
    elif b.others_cores >= value("others"):
        reading = "as-beside-baseline" if a.others_cores is not None else "other-programs"
    yield Evidence("others", "cores", a.others_cores, b.others_cores, value("others"), reading)


def _neighbours(case: Judged) -> Found:
    """Return other programs that ran while the candidate queued, most CPU first."""
    found = case.now.neighbours
    if found is None or not case.read("contention.others"):
        return
    named = [one for one in found.listed if one.cores >= NOTICED]
    numbers: dict[str, Value] = {"named": len(named)}
    for place, one in enumerate(named[:NAMED]):
        numbers |= {
            f"name-{place}": one.name,
            f"pid-{place}": one.pid,
            f"processes-{place}": one.processes,
            f"group-{place}": one.group,
            f"children-{place}": one.children,
            f"cores-{place}": one.cores,
        }
    unseen = found.unseen_cores or 0.0
    if unseen >= value("others") and unseen > sum(one.cores for one in named):
        numbers["hidden" if not found.all_visible else "unseen"] = unseen
    if len(numbers) > 1:
        yield Evidence("neighbours", "text", reading="who-ran", numbers=numbers)


def _gpu(case: Case) -> Found:
    """Return the GPUs' utilisation if only the candidate's is known, or if it clearly fell."""
    a, b = case.before, case.now
    if a.gpu_share is None:
        if b.gpu_share is not None and b.gpu_share >= LEAST_GPU_SHARE:
            yield Evidence("gpu", "share", None, b.gpu_share)
    elif b.gpu_share is not None and a.gpu_share >= LEAST_GPU_SHARE and b.gpu_share <= GPU_FELL * a.gpu_share:
        yield Evidence("gpu", "share", a.gpu_share, b.gpu_share, reading="gpu-waited")


def _steal(case: Case) -> Found:
    a, b = case.before, case.now
    stolen, before = b.steal_cores or 0.0, a.steal_cores or 0.0
    if stolen >= value("steal") and stolen - before >= value("steal.growth"):
        yield Evidence("steal", "cores", a.steal_cores, b.steal_cores, value("steal"), "other-guests")


def _pressure(case: Case) -> Found:
    a, b = case.before, case.now
    if b.psi_share is not None and a.psi_share is not None:
        yield Evidence("pressure", "share", a.psi_share, b.psi_share, reading="pressure")


def _throttled(case: Judged) -> Found:
    a, b = case.before, case.now
    yield Evidence("throttled", "share", a.throttled, b.throttled, value("throttled"), "quota-used-up")


def _queue_functions(case: Case) -> Found:
    table = case.signals.table
    after, before = table.candidate.wait, table.baseline.wait
    if after is None or float(after.sum()) <= 0:
        return
    whole = float(after.sum())
    for row in np.argsort(-after, kind="stable")[:NAMED].tolist():
        if after[row] < LEAST_PART * whole:
            break
        yield Evidence(
            "function.queue",
            "s",
            None if before is None else float(before[row]),
            float(after[row]),
            reading="of-all-queueing",
            subject=table.shown(row),
            whole=(float(table.baseline.tottime[row]), float(table.candidate.tottime[row])),
            numbers={"share": float(after[row]) / whole},
        )


def _ranges_count(case: Case) -> Found:
    """Return how often the NVTX range that takes longest ran."""
    if (found := ranges_repeated(case)) is not None:
        yield Evidence(
            "range.count",
            "count",
            *found.counts,
            value("work.calls") * found.counts[0],
            "times",
            subject=found.key.name,
            numbers={"factor": found.factor},
        )


def _queue_ranges(case: Case) -> Found:
    changes: list[tuple[float, RangeChange]] = [
        (change.candidate.wait_s, change)
        for change in case.signals.ranges
        if change.candidate is not None
        and change.candidate.wait_s is not None
        and (change.candidate.wait_share or 0.0) >= LEAST_SHARE
    ]
    for _, change in sorted(changes, key=lambda item: -item[0])[:NAMED]:
        rows = (change.baseline, change.candidate)
        seconds = [None if row is None else row.wait_s for row in rows]
        wholes = [
            row.wait_s / row.wait_share if row is not None and row.wait_s and row.wait_share else None
            for row in rows
        ]
        yield Evidence(
            "range.queue",
            "s",
            seconds[0],
            seconds[1],
            subject=change.key.name,
            reading="nvtx-range",
            whole=(wholes[0], wholes[1]),
        )


# Off the CPU --------------------------------------------------------------------------------------------------


def _life(side: SideFacts) -> float | None:
    parts = (side.main_run_s, side.main_wait_s, side.main_off_s)
    return None if any(p is None for p in parts) else sum(p for p in parts if p is not None)


def _off(case: Judged) -> Found:
    a, b = case.before, case.now
    # One run alone shows no loss.
    part = case.read("account.off") if b.wall_s and a.wall_s else None
    yield Evidence(
        "main.off",
        "s",
        a.main_off_s,
        b.main_off_s,
        reading="of-lost-time" if isinstance(part, float) else "waiting-for-something",
        whole=(_life(a), _life(b)),
        numbers={"share": part},
    )


def _imports(case: Judged) -> Found:
    """Return what other processes import, and for how long on the path."""
    if case.account.imports_s > 0:
        packages = case.now.worker_packages
        yield Evidence(
            "worker.imports",
            "s",
            None,
            case.account.imports_s,
            subject=", ".join(packages) or "modules",
        )


def _processes(case: Judged) -> Found:
    a, b = case.before, case.now
    if a.processes != b.processes:
        yield Evidence("processes", "count", a.processes, b.processes)


def _waited(name: str, signal: str) -> Callable[[Judged], Found]:
    """Make a producer for what a bucket's time waited for, and the main function of each wait."""

    def found(case: Judged) -> Found:
        for bucket in case.account.buckets:
            for waited in bucket.waited[:NAMED] if bucket.name == name else ():
                if abs(waited.candidate_s - waited.baseline_s) >= LEAST_SHARE * abs(bucket.seconds):
                    yield Evidence(
                        signal,
                        "s",
                        waited.baseline_s if case.account.baseline_s > 0 else None,
                        waited.candidate_s,
                        reading="mostly-in",
                        subject=waited.name,
                        numbers={"what": waited.what},
                    )

    return found


def _gil_holders(case: Judged) -> Found:
    for bucket in case.account.buckets:
        held = [part for part in bucket.parts if part.kind == "holder"][:NAMED]
        for part in held:
            if part.seconds >= LEAST_SHARE * held[0].seconds:
                yield Evidence("gil.held", "s", None, part.seconds, reading="had-the-lock", subject=part.name)


def _delivery(case: Judged) -> Found:
    a, b = case.before, case.now
    if b.delivery_s is not None:
        yield Evidence("delivery", "s", a.delivery_s, b.delivery_s, reading="functions-that-hand-over")


def _iterations(case: Case) -> Found:
    before, after = case.signals.iterations
    if before is None or after is None or after.consumer_wait_share is None:
        return
    if after.consumer_wait_share < value("part.iterations-wait"):
        return
    yield Evidence(
        "iterations.wait",
        "share",
        before.consumer_wait_share,
        after.consumer_wait_share,
        value("part.iterations-wait"),
        "iteration-rate",
        numbers={"before": before.steps_per_s, "after": after.steps_per_s},
    )


# Code, work, speed --------------------------------------------------------------------------------------------


def _calls(case: Case) -> Found:
    yield Evidence(
        "calls",
        "factor",
        1.0,
        case.signals.movement.calls_factor,
        value("work.calls"),
        "calls-of-same-functions",
    )


def _calls_known(case: Case) -> Found:
    yield Evidence(
        "calls.known",
        "share",
        None,
        case.read("calls.known"),
        value("calls.known"),
        "known-within",
        numbers={"within": value("calls.half-width")},
    )


def _calls_between(case: Case) -> Found:
    """Return the interval of the calls' factor, over functions with well-known calls."""
    low, high = case.read("calls.low"), case.read("calls.high")
    if low is not None and high is not None:
        yield Evidence(
            "calls",
            "factor",
            1.0,
            case.signals.movement.calls_factor,
            value("work.calls"),
            "between",
            numbers={"low": low, "high": high},
        )


def _capture(case: Case) -> Found:
    before, after = case.signals.capture_s
    yield Evidence(
        "capture",
        "s",
        before,
        after,
        reading="of-difference",
        numbers={"share": case.read("account.capture")},
    )


def _calls_everywhere(case: Case) -> Found:
    yield Evidence(
        "calls.share", "share", None, case.signals.movement.calls_changed, reading="waiting-left-out"
    )


def _origin(case: Case, *, from_code: bool) -> Found:
    """Return where most changed calls come from: calls of a function per call of its caller."""
    table = case.signals.table
    for origin in [one for one in case.signals.origins.found if one.from_code == from_code][:1]:
        yield Evidence(
            "origin",
            "count",
            origin.before,
            origin.after,
            reading="per-call-of",
            subject=table.shown(origin.callee),
            numbers={"caller": table.shown(origin.row), "calls": origin.calls},
        )


def _top_calls(case: Case) -> Found:
    """Return the calls of the function that changed most in seconds and was called differently."""
    table = case.signals.table
    shown = case.signals.origins.ratios.changed
    for row in range(min(len(table), LOOKED_AT)):
        before, after = int(table.baseline.ncalls[row]), int(table.candidate.ncalls[row])
        if not shown[row] or table.waits(row):
            continue
        if before and after and abs(math.log(after / before)) > math.log(value("work.calls")):
            yield Evidence(
                "function.calls",
                "count",
                before,
                after,
                subject=table.shown(row),
                reading="times",
                numbers={"factor": after / before},
            )
            return


def _of_function(case: Case, row: int, part: str, reading: str) -> Found:
    if row < 0:
        return
    table = case.signals.table
    yield Evidence(
        "function.self-time",
        "s",
        float(table.baseline.tottime[row]),
        float(table.candidate.tottime[row]),
        subject=table.shown(row),
        reading=reading,
        numbers={"share": case.read(part)},
    )


def _started(case: Case) -> Found:
    before, after = case.read("started.processes-before"), case.read("started.processes")
    if before or after:
        yield Evidence("started.processes", "count", before, after)
    before, after = case.read("started.threads-before"), case.read("started.threads")
    if before or after:
        yield Evidence("started.threads", "count", before, after)


def _function_calls(case: Case, row: int) -> Found:
    if row < 0:
        return
    table = case.signals.table
    ratios = case.signals.origins.ratios
    if not ratios.weighed[row]:
        return
    before, after = int(table.baseline.ncalls[row]), int(table.candidate.ncalls[row])
    reading = "same" if before == after else "changed" if ratios.changed[row] else "not-clearly"
    yield Evidence("function.calls", "count", before, after, subject=table.shown(row), reading=reading)


def _code_source(case: Case) -> Found:
    row = code_row(case)
    if row < 0:
        return
    table = case.signals.table
    added = int(table.added_lines[row])
    usual = "source-lines" if added else "source-changed"
    reading = {"new": "source-new", "gone": "source-gone"}.get(table.match[row], usual)
    numbers: dict[str, Value] = {"lines": added} if added else {}
    subject = table.shown(row)
    yield Evidence("function.source", "text", subject=subject, reading=reading, numbers=numbers)


def _function_per_call(case: Case, row: int) -> Found:
    if row < 0:
        return
    own = float(case.signals.table.per_call_ratio[row])
    if math.isfinite(own) and math.isfinite(case.signals.movement.ratio):
        yield Evidence(
            "function.per-call",
            "factor",
            1.0,
            own,
            subject=case.signals.table.shown(row),
            reading="median-of-all",
            numbers={"factor": math.exp(case.signals.movement.ratio)},
        )


def _per_call(case: Case) -> Found:
    moved = case.signals.movement
    if math.isfinite(moved.ratio):
        yield Evidence(
            "per-call",
            "factor",
            1.0,
            math.exp(moved.ratio),
            reading="scatter-over-functions",
            numbers={"spread": moved.spread},
        )


def _machines(case: Case) -> Found:
    a, b = case.before, case.now
    if models_differ(a, b):
        yield Evidence("cpu.model", "text", a.cpu_model, b.cpu_model, reading="another-cpu")
    for name, before, after in other_instructions(a, b):
        yield Evidence(
            "variable", "text", before or None, after or None, subject=name, reading="other-instructions"
        )
    yield from _fixed_work(case)


def _fixed_work(case: Case) -> Found:
    known = fixed_work(case.before, case.now)
    if known:
        yield Evidence(
            "fixed-work",
            "factor",
            1.0,
            float(median([one.factor for one in known])),
            reading="machine-slower" if known[0].beyond > 1.0 else "machine-as-fast",
            numbers={"of": float(len(known))},
        )
    for one in known[:NAMED]:
        if one.beyond > 1.0:
            yield Evidence("yardstick", "s", one.before_s, one.after_s, subject=one.name)


def _inputs(case: Case) -> Found:
    for name, before, after in larger_inputs(case.before, case.now):
        yield Evidence(name, "bytes", before, after, reading="more-data", numbers={"factor": after / before})


def _command(case: Case) -> Found:
    a, b = case.before, case.now
    if not case.read("command.differs"):
        return
    words: list[tuple[Value, Value]] = [(x, y) for x, y in zip(a.command, b.command, strict=False) if x != y]
    first = words[0] if words else (" ".join(a.command), " ".join(b.command))
    yield Evidence("command", "text", first[0], first[1], reading="differs")


# Rankings -----------------------------------------------------------------------------------------------------


def _distance(case: Case) -> Found:
    s = case.signals
    yield Evidence("order.distance", "distance", 0.0, s.ranking.rbo, s.ranking.noise_floor, "noise-reaches")


def _elsewhere(case: Case) -> Found:
    yield Evidence(
        "order.elsewhere",
        "share",
        0.0,
        case.signals.ranking.total_variation,
        value("moved.tv"),
        "noise-reaches",
    )


def _scatter(case: Case) -> Found:
    yield Evidence(
        "scatter",
        "factor",
        1.0,
        math.exp(case.signals.noisier),
        math.exp(value("repeats.noisier")),
        "only-lost-slices",
    )


def _signs(case: Case) -> Found:
    starved = case.signals.starved
    yield Evidence("signs", "share", None, starved.probability, starved.threshold, "signs-weighed")


def _lumps(case: Case) -> Found:
    found = case.signals.lumps
    if math.isfinite(found.median_s):
        hit = case.signals.signs["all_hit"]
        yield Evidence(
            "lumps", "share", None, hit, reading="lost-slices", numbers={"seconds": found.median_s}
        )


def _lumps_alike(case: Case) -> Found:
    found = case.signals.lumps
    if math.isfinite(found.alike):
        yield Evidence("lumps.alike", "share", None, found.alike, numbers={"count": found.count})


#: By the name that rules use.
PRODUCERS: Mapping[str, Callable[[Any], Found]] = {
    "wall": wall,
    "self-time": _self_time,
    "queue": _queue,
    "helpers-queue": _helpers_queue,
    "main-wait": _main_wait,
    "main-wait-before": _main_wait_before,
    "demand": _demand,
    "asked": _asked,
    "others": _others,
    "neighbours": _neighbours,
    "steal": _steal,
    "gpu": _gpu,
    "pressure": _pressure,
    "throttled": _throttled,
    "queue-functions": _queue_functions,
    "queue-ranges": _queue_ranges,
    "ranges-count": _ranges_count,
    "off": _off,
    "blocked-on": _waited("blocked", "blocked.on"),
    "imports": _imports,
    "processes": _processes,
    "gil": _waited("gil", "gil"),
    "gil-holders": _gil_holders,
    "delivery": _delivery,
    "iterations": _iterations,
    "calls": _calls,
    "calls-everywhere": _calls_everywhere,
    "calls-known": _calls_known,
    "calls-between": _calls_between,
    "capture": _capture,
    "origin": partial(_origin, from_code=False),
    "origin-in-code": partial(_origin, from_code=True),
    "top-calls": _top_calls,
    "code-function": lambda case: _of_function(case, code_row(case), "account.code", "code-part"),
    "code-calls": lambda case: _function_calls(case, code_row(case)),
    "code-source": _code_source,
    "waited-function": lambda case: _of_function(case, waited_row(case), "account.waits", "waits-part"),
    "started": _started,
    "per-call-function": lambda case: _function_per_call(case, code_row(case)),
    "top-function": lambda case: _of_function(
        case, case.signals.movement.top_row, "function.part", "of-gains"
    ),
    "uncalled-function": lambda case: _of_function(
        case, uncalled_row(case.signals), "uncalled.part", "uncalled-part"
    ),
    "top-function-calls": lambda case: _function_calls(case, case.signals.movement.top_row),
    "top-function-per-call": lambda case: _function_per_call(case, case.signals.movement.top_row),
    "per-call": _per_call,
    "fixed-work": _fixed_work,
    "machines": _machines,
    "inputs": _inputs,
    "command": _command,
    "distance": _distance,
    "elsewhere": _elsewhere,
    "scatter": _scatter,
    "signs": _signs,
    "lumps": _lumps,
    "lumps-alike": _lumps_alike,
}
