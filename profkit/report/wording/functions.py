"""Words about functions: names, places, movements."""

from __future__ import annotations

import math

from profkit.compare.result_types import UNCALLED, UNSEEN, DiffTable
from profkit.compare.sampled_calls import CALLS_CHANGED
from profkit.identity.readable_names import readable_name
from profkit.model import FunctionKey
from profkit.model.estimates import call_kind
from profkit.report import units
from profkit.report.text import clean

#: Share of the self time (0 to 1) below which an unmoved function is only counted: a fifth of the 0.5 % below
#: which rankings mean nothing.
SMALL_SHARE = 0.001
#: Share of a function's self time spent queueing from which its sentence says so.
MENTION_WAIT = 0.1

WAITING_NOTE = (
    "They wait by design (locks, pipes, polls, pool threads): their time depends on everything else and is "
    "not a cause in itself."
)


def display_name(name: str) -> str:
    """Return a function's name for people: ``<method 'sort' of 'list' objects>`` becomes ``list.sort``."""
    return clean(readable_name(name))


def location(key: FunctionKey, file: str, line: int) -> str:
    """Return a function's file, relative to its root, and line; ``built-in`` without a file."""
    path = key.path or ("" if file in ("", "~") else file)
    if not path:
        return "built-in"
    return clean(f"{path}:{line}" if line else path)


def match_text(match: str) -> str:
    return "" if match in ("exact", "rooted") else match


def _calls_text(table: DiffTable, row: int) -> list[str]:
    """Return how the calls changed; of estimates only what their intervals prove."""
    a, b = table.baseline, table.candidate
    calls_a, calls_b = int(a.ncalls[row]), int(b.ncalls[row])
    (low_a, high_a, *_), (low_b, high_b, *_) = a.estimate(row), b.estimate(row)
    kinds = call_kind(low_a, high_a), call_kind(low_b, high_b)
    if "unknown" in kinds:
        return ["calls not known"]
    if "estimated" in kinds:
        if low_a <= high_b and low_b <= high_a:
            return ["no clear change in calls"]
        return [f"about {units.factor(calls_b / calls_a)} the calls"] if calls_a else []
    if calls_a == calls_b:
        return ["same calls"]
    if abs(calls_b - calls_a) <= CALLS_CHANGED * calls_a:
        return ["nearly the same calls"]
    return [f"{units.factor(calls_b / calls_a)} the calls"] if calls_a else []


def moved_text(table: DiffTable, row: int) -> str:
    """Return how a function moved beyond the noise: rank, source, calls, cost per call, queueing."""
    a, b = table.baseline, table.candidate
    if not a.present[row] or not b.present[row]:
        return {UNSEEN: "may have been missed by samples", UNCALLED: "called on this side only"}.get(
            table.match[row], "new" if b.present[row] else "gone"
        )
    before, after = int(a.rank[row]), int(b.rank[row])
    if before == after:
        moved = f"stays #{after}"
    else:
        moved = f"{'rose' if after < before else 'fell'} from #{before} to #{after}"
    said = ["waits by design"] if table.waits(row) else []
    same = table.same_source[row]
    if same is not None:
        said.append("same source" if same else "source changed")
    if table.by_share:
        said.append(f"{units.share(float(a.share[row]))} → {units.share(float(b.share[row]))} of the time")
    else:
        said += _calls_text(table, row)
    per_call = float(table.per_call_ratio[row])
    if math.isfinite(per_call):
        said.append(f"{units.factor(per_call)} per call")
    if b.wait is not None and b.tottime[row] > 0:
        part = min(1.0, float(b.wait[row] / b.tottime[row]))  # sampled waiting may exceed the self time
        if part >= MENTION_WAIT:
            said.append(f"{units.share(part)} of it waiting for a CPU")
    return f"{moved}; {', '.join(said)}"
