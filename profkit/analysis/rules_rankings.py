"""Rules that rest on calls, sources and times per call: what two rankings can say, and where they must not.

Each takes the `Facts` and returns a `Finding` or ``None``; `diagnose` asks them in order. Without counters,
contention, another machine and a larger input look much alike: a rule here names contention only where the
rankings leave no other reading (total variation above 0.25 had no false alarm in the corpus at 0.56 recall).
"""

from __future__ import annotations

import math
import shlex

from profkit.analysis import noise
from profkit.analysis.advice import capture_both, more_runs
from profkit.analysis.compare import MUCH_RESIDUE
from profkit.analysis.facts import Facts
from profkit.analysis.movement import is_wait
from profkit.analysis.rules_counters import MOST, SLOWER, WAIT, contention, throttling
from profkit.analysis.types import Evidence, Finding
from profkit.analysis.wording import count, number, percent, readable_name, seconds, times
from profkit.model import BUILTIN

__all__ = [
    "code_change",
    "faster",
    "identical",
    "noisier",
    "reordered",
    "slower_machine",
    "total_evidence",
    "unchanged",
    "workload_change",
    "worst_mover",
]

UNTOLD = "–"
#: Factor of total times that clean runs on a shared machine drift apart, from batch to batch too: repeats of
#: one batch do not show it.
DRIFT = math.log(noise.TOTAL_RATIO_P95)
#: Factor of calls that is a change of the workload.
CALLS = math.log(1.1)
#: Part of the time in functions with changed calls above which the whole workload changed, not one function.
CALLS_EVERYWHERE = 0.5
#: Part of all gains in one function above which it dominates (regressions in the corpus: 0.60–0.85).
DOMINATES = 0.6
#: Total variation of shares that no clean, regressed or merely slower run reached.
SHARES_APART = 0.25
#: Growth of the replicates' scatter that other machines, regressions and larger inputs show in at most 2 %.
NOISIER = math.log(2.0)
#: Part of either side's time in functions that the other lacks, above which they are two programs.
ANOTHER_PROGRAM = 0.5
#: Runs a side from which the scatter rule was measured; with fewer it is less sure.
MEASURED_RUNS = 5


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
    if not everywhere and _source_differs(facts):
        return None
    return Finding(
        rule="call-counts",
        cause="workload-change",
        confidence=_calls_confidence(facts, everywhere),
        severity=_share(part, facts.log_slowdown),
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


def _code_finding(facts: Facts, row: int, part: float, confidence: float, *, known: bool) -> Finding:
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
            f"{percent(part)} of the added time" + (", with all that changed or is new" if known else ""),
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
        summary = f"{what}; functions that changed or are new hold {percent(part)} of the added time"
    else:
        summary = f"{name} alone got slower per call, and holds {percent(part)} of the added time"
    whole = facts.cpu_part
    return Finding(
        rule="changed-source" if known else "one-function",
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


def noisier(facts: Facts) -> Finding | None:
    """Replicates scatter much more than the baseline's: starved in lumps (only without counters)."""
    moved = facts.movement
    if facts.counters or not moved.noise_log_ratio > NOISIER or facts.log_slowdown < SLOWER:
        return None
    if not _same_calls(facts):
        return None
    runs = min(facts.baseline.runs, facts.candidate.runs)
    return Finding(
        rule="replicate-noise",
        cause="contention",
        confidence=0.8 if runs >= MEASURED_RUNS else 0.7,
        severity=float("nan"),
        summary=(
            "The candidate's repeats scatter far more than the baseline's: it was denied CPU in lumps, by "
            "contention, by throttling, or because it was stopped."
        ),
        evidence=(
            Evidence(
                "scatter of time per call over repeats",
                times(1.0),
                times(math.exp(moved.noise_log_ratio)),
                "another machine, a regression or a larger input leave it where it was",
            ),
            total_evidence(facts),
        ),
        advice=capture_both(facts),
    )


def reordered(facts: Facts) -> Finding | None:
    """Shares so far apart, with the same calls and no single function to blame, that contention is left."""
    moved = facts.movement
    if (
        facts.counters
        or facts.python_differs
        or facts.sampled_differs
        or facts.total_variation <= SHARES_APART
    ):
        return None
    slow = facts.log_slowdown > DRIFT
    if not slow or not _same_calls(facts) or not moved.spread > 2 * noise.R_SPREAD_P95:
        return None
    row = moved.top_row
    lone = moved.top_part > DOMINATES and facts.table.same_source[row] is not True
    if lone or _models_differ(facts) or _source_differs(facts):
        return None
    return Finding(
        rule="shares-apart",
        cause="contention",
        confidence=0.75,
        severity=float("nan"),
        summary=(
            "The same calls cost very different factors more, spread over several functions: the candidate "
            "was starved of CPU; the files cannot tell by whom."
        ),
        evidence=(
            Evidence(
                "time that sits in other functions",
                percent(0.0),
                percent(facts.total_variation),
                f"clean repeats reach {percent(noise.TV_P95)}",
            ),
            Evidence(
                "scatter of per-call factors over functions",
                UNTOLD,
                number(moved.spread),
                f"clean repeats reach {number(noise.R_SPREAD_P95)}",
            ),
            total_evidence(facts),
        ),
        advice=capture_both(facts) + more_runs(facts),
    )


def slower_machine(facts: Facts) -> Finding | None:
    """Slower with the same calls and no waiting: the CPUs themselves do less per second."""
    moved = facts.movement
    if not facts.counters or facts.log_slowdown < DRIFT or not _same_calls(facts):
        return None
    waiting = facts.candidate.wait_fraction
    uniform = moved.spread <= 2 * noise.R_SPREAD_P95
    known_same = bool(facts.baseline.cpu_model) and facts.baseline.cpu_model == facts.candidate.cpu_model
    if waiting is None or waiting >= WAIT or moved.ratio < SLOWER or _source_differs(facts):
        return None
    if not uniform and not _models_differ(facts):
        return None
    if throttling(facts) is not None or contention(facts) is not None:
        return None
    if not facts.cpu_part >= MOST:
        # The time was not spent on a CPU.
        return None
    models = _models_differ(facts)
    return Finding(
        rule="one-factor",
        cause="slower-machine",
        confidence=0.95 if uniform and models else 0.85 if models else 0.5 if known_same else 0.6,
        severity=_share(moved.ratio, facts.log_slowdown),
        summary=f"Calls take {times(math.exp(moved.ratio))} the time, without waiting for a CPU.",
        evidence=(
            Evidence(
                "time per call, median over functions",
                times(1.0),
                times(math.exp(moved.ratio)),
                f"scatter over functions {number(moved.spread)}",
            ),
            Evidence(
                "run-queue wait fraction",
                percent(facts.baseline.wait_fraction),
                percent(waiting),
                "no CPU was lacking",
            ),
            Evidence(
                "CPU model", facts.baseline.cpu_model or UNTOLD, facts.candidate.cpu_model or UNTOLD, ""
            ),
        ),
        advice=("lscpu | grep -E 'Model name|MHz'  # on both machines",),
    )


def faster(facts: Facts) -> Finding | None:
    """The candidate took less time."""
    if facts.log_slowdown > -DRIFT or facts.identical or facts.unmatched > ANOTHER_PROGRAM:
        return None
    evidence = [total_evidence(facts)]
    wait_a, wait_b = facts.baseline.wait_fraction, facts.candidate.wait_fraction
    if wait_a is not None and wait_b is not None and wait_a >= WAIT and wait_a - wait_b > 0.1:
        evidence.append(
            Evidence(
                "run-queue wait fraction", percent(wait_a), percent(wait_b), "the baseline was starved of CPU"
            )
        )
    return Finding(
        rule="less-time",
        cause="faster",
        confidence=0.9,
        severity=1.0,
        summary=f"The candidate takes {times(math.exp(facts.log_slowdown))} the baseline's time.",
        evidence=tuple(evidence),
    )


def unchanged(facts: Facts) -> Finding | None:
    """Neither the order, nor the total, nor any function left the noise."""
    if facts.moved or abs(facts.log_slowdown) > DRIFT or not _same_calls(facts):
        return None
    if worst_mover(facts) >= 0:
        return None
    known = facts.counters
    total = f"the total ({times(math.exp(facts.log_slowdown))}) is within what clean repeats drift"
    waits = (percent(facts.baseline.wait_fraction), percent(facts.candidate.wait_fraction))
    return Finding(
        rule="within-noise",
        cause="no-change",
        confidence=0.9 if known else 0.6,
        severity=float("nan"),
        summary=(
            f"No reordering beyond noise, {total}, and the main thread queued for a CPU in {waits[1]} of its "
            f"active time, against {waits[0]}."
            if known
            else f"No reordering beyond noise, and {total}; waiting for a CPU was not measured."
        ),
        evidence=(
            Evidence(
                "distance of the rankings",
                number(0.0),
                number(facts.rbo),
                f"noise reaches {number(facts.rbo_floor)}",
            ),
            total_evidence(facts),
        ),
        advice=() if known else capture_both(facts),
    )


def _same_calls(facts: Facts) -> bool:
    factor = facts.movement.calls_factor
    return not factor > 0 or abs(math.log(factor)) < CALLS


def _source_differs(facts: Facts) -> bool:
    """Whether functions with another source hold most of the gain."""
    return facts.movement.changed_row >= 0 and facts.movement.changed_part > DOMINATES


def _models_differ(facts: Facts) -> bool:
    a, b = facts.baseline.cpu_model, facts.candidate.cpu_model
    return bool(a) and bool(b) and a != b


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 and math.isfinite(part) else float("nan")


def worst_mover(facts: Facts) -> int:
    """Row of the function that changed most beyond the noise, waits left out; −1 where none did."""
    table = facts.table
    for row in table.anomalous.nonzero()[0].tolist():
        if not is_wait(table.name[row], table.keys[row].root):
            return int(row)
    return -1


def total_evidence(facts: Facts) -> Evidence:
    """Wall times of both sides, or their self times where a wall is not known."""
    a, b = facts.baseline, facts.candidate
    walls = bool(a.wall_s) and bool(b.wall_s)
    return Evidence(
        "wall time" if walls else "self time of all functions",
        seconds(a.wall_s if walls else a.total_s),
        seconds(b.wall_s if walls else b.total_s),
        times(math.exp(facts.log_slowdown)) if walls or min(a.total_s, b.total_s) > 0 else UNTOLD,
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
