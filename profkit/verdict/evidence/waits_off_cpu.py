"""Evidence of time off the CPU: what the main thread and the GPUs waited for, and imports of other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from profkit.measure.side_facts import LEAST_GPU_SHARE, SideFacts
from profkit.model.pauses import FOR_EACH_OTHER
from profkit.verdict.account import Waited
from profkit.verdict.evidence.producing import LEAST_SHARE, NAMED, Found, Producers, of_sides
from profkit.verdict.readings.lost_time import blocked_on
from profkit.verdict.rule import Case, Judged
from profkit.verdict.thresholds import value
from profkit.verdict.types import Evidence

#: Factor of the baseline's GPU utilisation at which it has fallen: single readings vary.
GPU_FELL = 0.8


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


def _compiled(case: Case) -> Found:
    if case.number("imports.compiled") >= LEAST_SHARE:
        yield Evidence("imports.compiled", "s", case.before.compiling_s, case.now.compiling_s)


def _processes(case: Judged) -> Found:
    a, b = case.before, case.now
    if a.processes != b.processes:
        yield Evidence("processes", "count", a.processes, b.processes)


def _of_waits(case: Judged, waits: Iterable[Waited], signal: str, reading: str) -> Found:
    """Return how long was waited for what, and the main function of each wait."""
    for waited in waits:
        yield Evidence(
            signal,
            "s",
            waited.baseline_s if case.account.baseline_s > 0 else None,
            waited.candidate_s,
            reading=reading,
            subject=waited.name,
            numbers={"what": waited.what},
        )


def _waited(name: str, signal: str) -> Callable[[Judged], Found]:
    """Make a producer for what a bucket's time waited for."""

    def found(case: Judged) -> Found:
        bucket = case.account.bucket(name)
        least = LEAST_SHARE * abs(bucket.seconds)
        waits = [one for one in bucket.waited[:NAMED] if abs(one.candidate_s - one.baseline_s) >= least]
        return _of_waits(case, waits, signal, "mostly-in")

    return found


def _helpers_waited(case: Judged) -> Found:
    """Return what helpers waited for longer, where the path's thread waits for helpers."""
    account = case.account
    blocked, loading = account.seconds("blocked"), account.seconds("loading")
    if loading < blocked and blocked_on(account) not in FOR_EACH_OTHER:
        return ()
    least = LEAST_SHARE * max(blocked, loading)
    longer = [one for one in account.helpers_waited if one.candidate_s - one.baseline_s >= least]
    return _of_waits(case, longer[:NAMED], "helpers.blocked-on", "waits-for")


def _gil_holders(case: Judged) -> Found:
    held = [part for part in case.account.bucket("gil").parts if part.kind == "holder"][:NAMED]
    for part in held:
        if part.seconds >= LEAST_SHARE * held[0].seconds:
            yield Evidence("gil.held", "s", None, part.seconds, reading="had-the-lock", subject=part.name)


def _collected(case: Judged) -> Found:
    before, now = case.account.collected_s
    alone = not case.account.baseline_s > 0
    function = str(case.read("gc.function") or "")
    yield Evidence("gc", "s", None if alone else before, now, reading="mostly-in", subject=function)


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


def _refaulted(case: Judged) -> Found:
    """Return what was dropped from memory and needed again, where it is of note."""
    before, now = (side.refaulted_bytes for side in (case.before, case.now))
    if now is not None and now >= value("input.larger-bytes"):
        yield Evidence("memory.refaulted", "bytes", before, now)
        if case.now.memory_limit_bytes is not None:
            before, now = case.before.memory_limit_bytes, case.now.memory_limit_bytes
            yield Evidence("memory.limit", "bytes", before, now)


def _gpu(case: Case) -> Found:
    """Return the GPUs' utilisation if only the candidate's is known, or if it clearly fell."""
    a, b = case.before, case.now
    if a.gpu_share is None:
        if b.gpu_share is not None and b.gpu_share >= LEAST_GPU_SHARE:
            yield Evidence("gpu", "share", None, b.gpu_share)
    elif b.gpu_share is not None and a.gpu_share >= LEAST_GPU_SHARE and b.gpu_share <= GPU_FELL * a.gpu_share:
        yield Evidence("gpu", "share", a.gpu_share, b.gpu_share, reading="gpu-waited")


def _gpu_wait(case: Case) -> Found:
    yield Evidence(
        "gpu.wait",
        "s",
        case.number("gpu.waited-before"),
        case.number("gpu.waited"),
        reading="mostly-in",
        subject=str(case.read("gpu.function") or ""),
    )


def _gpu_others(case: Case) -> Found:
    """Return the use of GPUs by other programs, where the candidate knows it."""
    a, b = case.before.gpu_others_share, case.now.gpu_others_share
    if b is not None:
        reading = "gpu-shared" if case.read("gpu.shared") else ""
        yield Evidence("gpu.others", "share", a, b, value("gpu.others"), reading)


def _locked(case: Judged) -> Found:
    alone = not case.account.baseline_s > 0
    subject = str(case.read("locked.in") or "")
    yield Evidence("locked", "s", None if alone else case.before.locked_s, case.now.locked_s, subject=subject)


def _children(case: Judged) -> Found:
    a, b = case.before, case.now
    yield Evidence("children", "s", a.children_s, b.children_s, subject=b.child_program)
    yield Evidence("children.awaited", "s", a.children_awaited_s, b.children_awaited_s)


def _children_number(case: Judged) -> Found:
    a, b = case.before, case.now
    yield Evidence("children.number", "count", a.children, b.children, subject=b.child_program)


WAITS_OFF_CPU: Producers = {
    "children": _children,
    "children-number": _children_number,
    "locked": _locked,
    "off": _off,
    "blocked-on": _waited("blocked", "blocked.on"),
    "helpers-blocked-on": _helpers_waited,
    "imports": _imports,
    "own-imports": lambda case: [Evidence("own.imports", "s", *case.account.own_imports_s)],
    "starts": lambda case: [Evidence("starts", "s", 0.0, case.account.starts_s)],
    "reading": lambda case: [Evidence("reading", "s", *case.account.reading_s)],
    "storage": of_sides("storage.bytes", "bytes", lambda side: side.storage_bytes),
    "refaulted": _refaulted,
    "compiled": _compiled,
    "processes": _processes,
    "gil": _waited("gil", "gil"),
    "gil-holders": _gil_holders,
    "gc": _collected,
    "delivery": of_sides("delivery", "s", lambda side: side.delivery_s, reading="functions-that-hand-over"),
    "iterations": _iterations,
    "gpu": _gpu,
    "gpu-wait": _gpu_wait,
    "gpu-others": _gpu_others,
}
