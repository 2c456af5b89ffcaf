"""Rules that rest on calls, sources and times per call: what two rankings can say, and where they must not.

Each takes the `Facts` and returns a `Finding` or ``None``; `diagnose` asks them in order. Without counters,
contention, another machine and a larger input look much alike: a rule here names contention only where the
rankings leave no other reading (total variation above 0.25 had no false alarm in the corpus at 0.56 recall).
"""

from __future__ import annotations

import math
import shlex

from profkit.measure import noise
from profkit.verdict.advice import capture_both, more_runs
from profkit.measure.comparability import MUCH_RESIDUE
from profkit.measure.signals import Facts
from profkit.measure.movement import ROOT_SHARE, is_wait
from profkit.verdict.rules_common import (
    ANOTHER_PROGRAM,
    CALLS,
    DOMINATES,
    DRIFT,
    SLOWER,
    UNTOLD,
    WAIT,
    changed_below,
    same_calls,
    share,
    source_differs,
    total_evidence,
)
from profkit.measure.signs import SIGNS
from profkit.verdict.types import Evidence, Finding
from profkit.identity.readable import readable_name
from profkit.verdict.wording import count, percent, seconds, times
from profkit.model import BUILTIN

__all__ = ["code_change", "identical", "starved", "workload_change"]

#: Part of the time in functions with changed calls above which the whole workload changed, not one function.
CALLS_EVERYWHERE = 0.5
#: Part of all gains in functions of another source, and of the baseline's time, from which the change matters,
#: although others gained as well.
NOTABLE = 0.35
NOTABLE_GAIN = 0.15
#: Mean of ln of the ratio of scatters from which repeats were denied CPU: five runs a side of twenty programs reached
#: it in 1 of 282 pairs without contention and in 61 of 73 with, all beside as many busy neighbours as CPUs.
NOISIER = 0.5


def identical(facts: Facts) -> Finding | None:
    """A file compared with itself."""
    if not facts.identical:
        return None
    total = seconds(facts.baseline.total_s)
    return Finding(
        rule="identical",
        cause="no-change",
        confidence=0.99,
        severity=float("nan"),
        summary="Both sides are the same capture.",
        evidence=(
            Evidence(
                "self time", total, seconds(facts.candidate.total_s), "equal to the last bit throughout"
            ),
        ),
    )


def workload_change(facts: Facts) -> Finding | None:
    """Functions were called more or less often."""
    moved = facts.movement
    if not moved.calls_factor > 0 or abs(math.log(moved.calls_factor)) < CALLS:
        return None
    everywhere = moved.calls_changed >= CALLS_EVERYWHERE
    part = math.log(moved.calls_factor)
    more, often = ("more", "more often") if part > 0 else ("fewer", "less often")
    evidence = [
        Evidence(
            "calls, weighted by time",
            times(1.0),
            times(moved.calls_factor),
            f"{more} calls of the same functions",
        ),
        Evidence(
            "time in functions whose calls changed", UNTOLD, percent(moved.calls_changed), "waiting left out"
        ),
    ]
    evidence += _top_calls(facts)
    # Another source that holds the gains, in itself or below it, calls others differently, too.
    if (not everywhere and _some_source_differs(facts)) or changed_below(facts) or _spared_by_source(facts):
        return None
    return Finding(
        rule="call-counts",
        cause="workload-change",
        confidence=_calls_confidence(facts, everywhere),
        severity=share(part, facts.log_slowdown),
        summary=(
            f"The candidate does {times(moved.calls_factor)} the work: the functions where the time is spent "
            f"are called {often}."
        ),
        evidence=tuple(evidence),
        advice=("# compare runs with equal inputs, epochs and batch sizes",),
    )


def _calls_confidence(facts: Facts, everywhere: bool) -> float:
    """How far different calls tell of different work, and not of what was recorded."""
    if facts.threads_differ or facts.unmatched > MUCH_RESIDUE:
        # More threads recorded, another profiler, another program: more calls, whatever the work.
        return 0.4
    if facts.python_differs:
        # Another Python calls its library differently, above all while importing.
        return 0.6
    return 0.95 if everywhere else 0.7


def code_change(facts: Facts) -> Finding | None:
    """Functions with another source hold the excess, or one function alone got slower per call."""
    moved = facts.movement
    # A drifting total may hide a regression: what was gained counts, in shares of the baseline.
    least = noise.TV_P95 * moved.busy_total
    if moved.changed_row >= 0 and moved.changed_part > DOMINATES and moved.changed_gain > least:
        confidence = 0.95 if facts.counters else 0.85
        return _code_finding(facts, moved.changed_row, moved.changed_part, confidence, known=True)
    if changed_below(facts):
        return _code_finding(facts, moved.below_row, moved.below_part, 0.85, known=True, below=True)
    if (
        moved.changed_row >= 0
        and max(moved.changed_part, moved.changed_beyond) > NOTABLE
        and moved.changed_gain > NOTABLE_GAIN * moved.busy_total
    ):
        return _code_finding(facts, moved.changed_row, moved.changed_part, 0.8, known=True)
    row = moved.top_row
    if row < 0 or not moved.top_part > DOMINATES or moved.top_gain < least:
        return None
    own = float(facts.table.per_call_ratio[row])
    # Native code has no source here; where it alone is slower, its threads or its input are as likely. And equal
    # sources, slower alone: neither the code nor anything measured says why.
    if facts.table.same_source[row] is not None or facts.table.keys[row].root == BUILTIN:
        return None
    waiting = facts.candidate.wait_fraction
    alone = math.isfinite(own) and math.log(own) - moved.ratio > DRIFT
    others_same = abs(moved.ratio) < DRIFT and moved.spread < 2 * noise.R_SPREAD_P95
    if not alone or not others_same or (waiting is not None and waiting >= WAIT):
        return None
    return _code_finding(facts, row, moved.top_part, 0.85 if facts.counters else 0.6, known=False)


def _spared_by_source(facts: Facts) -> bool:
    """Whether the candidate is faster, by much of what functions of another source and what they call took."""
    table = facts.table
    spared = facts.baseline.total_s - facts.candidate.total_s
    if spared <= 0:
        return False
    best = max(
        (
            float(table.baseline.cumtime[row] - table.candidate.cumtime[row])
            for row in range(len(table))
            if table.same_source[row] is False
            and table.baseline.cumtime[row] <= ROOT_SHARE * facts.baseline.total_s
        ),
        default=0.0,
    )
    return best > NOTABLE * spared


def _some_source_differs(facts: Facts) -> bool:
    """Whether any function that matters has another source."""
    return facts.movement.changed_row >= 0 or facts.movement.below_row >= 0


def _code_finding(
    facts: Facts, row: int, part: float, confidence: float, *, known: bool, below: bool = False
) -> Finding:
    table, moved = facts.table, facts.movement
    name = readable_name(table.name[row])
    new = table.match[row] == "new"
    calls_a, calls_b = int(table.baseline.ncalls[row]), int(table.candidate.ncalls[row])
    own = float(table.per_call_ratio[row])
    evidence = [
        Evidence(
            f"self time of {name}",
            seconds(float(table.baseline.tottime[row])),
            seconds(float(table.candidate.tottime[row])),
            "part of the time that it and what it calls gained"
            if below
            else f"{percent(part)} of the added time"
            + (", with all that changed or is new" if known else ""),
        ),
        Evidence("its calls", count(calls_a), count(calls_b), "same" if calls_a == calls_b else "changed"),
    ]
    if known:
        evidence.append(
            Evidence("its source", UNTOLD if new else "one hash", "another", "new" if new else "changed")
        )
    if math.isfinite(own) and math.isfinite(moved.ratio):
        says = f"median of all functions: {times(math.exp(moved.ratio))}"
        evidence.append(Evidence("time per call", times(1.0), times(own), says))
    if known:
        what = f"{name} is new" if new else f"The source of {name} changed"
        held = "it and what it calls" if below else "functions that changed or are new"
        summary = f"{what}; {held} hold {percent(part)} of the added time"
    else:
        summary = f"{name} alone got slower per call, and holds {percent(part)} of the added time"
    whole = facts.cpu_part
    return Finding(
        rule="changed-below" if below else "changed-source" if known else "one-function",
        cause="code-change",
        confidence=confidence,
        severity=part if math.isnan(whole) else part * whole,
        # Whoever waits for a slow function gains as much as it does: that is no time of its own.
        summary=f"{summary} (waiting left out).",
        evidence=tuple(evidence),
        advice=(f"git log -p -- {shlex.quote(table.keys[row].path)}  # what changed in {name}",)
        if known
        else (),
    )


def starved(facts: Facts) -> Finding | None:
    """Without counters: repeats that scatter more, or of single runs the lumps and shares of starvation, weighed."""
    if facts.counters or facts.python_differs or facts.sampled_differs or facts.log_slowdown < SLOWER:
        return None
    repeated = math.isfinite(facts.noisier)
    holds = facts.noisier >= NOISIER if repeated else facts.starved.holds
    if not holds or not same_calls(facts) or facts.unmatched > ANOTHER_PROGRAM:
        return None
    told = dict(zip(SIGNS, facts.signs.tolist(), strict=True))
    # One function alone may have another source, or more data; a scheduler hits others, too.
    alone = facts.movement.top_part > DOMINATES and told["hits"] <= 0
    if source_differs(facts) or alone:
        return None
    evidence = [
        Evidence(
            "scatter of time per call over repeats",
            times(1.0),
            times(math.exp(facts.noisier)),
            "another machine, a regression or a larger input leave it where it was",
        )
        if repeated
        else Evidence(
            "signs of starvation, weighed",
            UNTOLD,
            percent(facts.starved.probability),
            f"at most 15 in 1000 other pairs reach {percent(facts.starved.threshold)}",
        ),
        Evidence(
            "time that sits in other functions",
            percent(0.0),
            percent(told["shares_apart"]),
            f"clean repeats reach {percent(noise.TV_P95)}",
        ),
    ]
    if math.isfinite(facts.lump_s):
        evidence.append(
            Evidence(
                "short functions that lost a lump of time",
                UNTOLD,
                f"{percent(told['all_hit'])} of them, {seconds(facts.lump_s)} each",
                "the others stayed as they were: what a scheduler's slices do",
            )
        )
    evidence.append(total_evidence(facts))
    return Finding(
        rule="starved-repeats" if repeated else "starved",
        cause="contention",
        confidence=0.9,
        strength=facts.noisier if repeated else facts.starved.probability,
        severity=float("nan"),
        summary=(
            "The candidate was denied CPU in lumps, as by contention: the same calls cost very different factors "
            "more. Plain profiles cannot tell by whom, nor a quota or a stopped process from it."
        ),
        evidence=tuple(evidence),
        advice=capture_both(facts) + more_runs(facts),
    )


def _top_calls(facts: Facts) -> list[Evidence]:
    """Calls of the function that changed most in seconds and was called differently."""
    table = facts.table
    for row in range(min(len(table), 20)):
        calls_a, calls_b = int(table.baseline.ncalls[row]), int(table.candidate.ncalls[row])
        waits = is_wait(table.name[row], table.keys[row].root)
        if calls_a and calls_b and not waits and abs(math.log(calls_b / calls_a)) > CALLS:
            name = readable_name(table.name[row])
            return [Evidence(f"calls of {name}", count(calls_a), count(calls_b), times(calls_b / calls_a))]
    return []
