"""How well a run's numbers are known, in words and as JSON: estimates, intervals, capture tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profkit.compare.result_types import DiffTable, SideTable
from profkit.model import Process, Run
from profkit.model.estimates import call_kind, time_kind
from profkit.report import units
from profkit.report.document import About
from profkit.report.jsonvalues import json_number

#: Share of a process's wall (0 to 1) from which capture overhead is reported.
NOTICEABLE_EFFECT = 0.05
ESTIMATES_NOTE = (
    "Calls with ~ are estimates, those with – are not known; ± is half of the 95 % interval of the self time."
)


def calls_cell(ncalls: float, low: float, high: float) -> float | None:
    """Return a number of calls for a table, ``None`` if not known."""
    kind = call_kind(low, high)
    return None if kind == "unknown" else ncalls if kind == "exact" else About(ncalls)


def estimate_object(low: float, high: float, samples: int, error: float) -> dict[str, Any]:
    """Return a function's JSON fields on how well its calls and self time are known."""
    kind = call_kind(low, high)
    return {
        "ncalls_kind": kind,
        "ncalls_interval": None if kind == "unknown" else [json_number(low), json_number(high)],
        "tottime_kind": time_kind(samples, error),
        "tottime_error": json_number(error),
        "samples": samples,
    }


#: The same for a function whose time is a share sampled by another profiler.
OF_SHARES: Mapping[str, Any] = {
    "ncalls_kind": "unknown",
    "ncalls_interval": None,
    "tottime_kind": "sampled",
    "tottime_error": None,
    "samples": None,
}


def side_calls(table: DiffTable, side: SideTable, row: int) -> float | None:
    if table.by_share:
        return None
    low, high, _, _ = side.estimate(row)
    return calls_cell(int(side.ncalls[row]), low, high)


def capture_items(run: Run) -> list[tuple[str, str]]:
    """Return how functions were recorded and what that added, each empty if there is nothing to say."""
    if not run.processes:
        return []
    main, *others = run.processes
    more = sum(any(tier.kind == "sampled" for tier in process.tiers) for process in others)
    own = _tiers(main)
    said = f"; {units.counted(more, 'other process', 'other processes')} sampled" if more else ""
    effect, added = main.effect, ""
    if effect is not None and main.wall_s and effect.seconds > NOTICEABLE_EFFECT * main.wall_s:
        share = units.share(effect.seconds / main.wall_s)
        low, high = units.seconds(effect.low_s), units.seconds(effect.high_s)
        added = f"added about {units.seconds(effect.seconds)} ({low} to {high}), {share} of the wall"
    return [
        ("functions", (own or "exact") + said if own or more else ""),
        ("capture", "; ".join(filter(None, (added, _added_to(others))))),
    ]


def _added_to(others: Sequence[Process]) -> str:
    """Return what capture added to processes besides the main one; empty if little or not known."""
    known = [(p.effect.seconds, p.cpu_s) for p in others if p.effect is not None and p.cpu_s is not None]
    added, cpu = sum(effect for effect, _ in known), sum(seconds for _, seconds in known)
    if not (cpu > 0 and added > NOTICEABLE_EFFECT * cpu):
        return ""
    number = units.counted(len(known), "other process", "other processes")
    return f"added about {units.seconds(added)} to {number}, {units.share(added / cpu)} of their CPU time"


def _tiers(process: Process) -> str:
    """Return when a process was captured exactly and when sampled; empty if never sampled."""
    tiers = process.tiers
    if all(tier.kind == "exact" for tier in tiers):
        return ""
    columns = [thread.profile.samples for thread in process.threads]
    samples = f"({units.counted(sum(int(c.sum()) for c in columns if c is not None), 'sample')})"
    if len(tiers) == 1:
        return f"sampled {samples}"
    if len(tiers) == 2:
        first, second = tiers
        return (
            f"{first.kind} for {units.seconds(second.begin_s - first.begin_s)}, then {second.kind} {samples}"
        )
    ends = [tier.begin_s for tier in tiers[1:]]
    ends.append(max(tiers[-1].begin_s, process.wall_s or 0.0))
    took = {"exact": 0.0, "sampled": 0.0}
    for tier, end in zip(tiers, ends, strict=True):
        took[tier.kind] += end - tier.begin_s
    parts = " and ".join(f"{kind} for {units.seconds(seconds)}" for kind, seconds in took.items())
    return f"{parts}, in {len(tiers)} turns {samples}"
