"""Rules of speed as such: a CPU that does less, larger inputs, less time, and nothing beyond noise.

Each takes the `Facts` and returns a `Finding` or ``None``; `diagnose` asks them in order, after those that name what
was missing (CPUs, calls, sources).
"""

from __future__ import annotations

import math

from profkit.measure import noise
from profkit.verdict.advice import capture_both, more_runs
from profkit.measure.signals import Facts
from profkit.verdict.rules_common import (
    ANOTHER_PROGRAM,
    MOST,
    NOTICED,
    SLOWER,
    WAIT,
    WAIT_GROWTH,
    changed_below,
    drift,
    machines_differ,
    same_calls,
    share,
    source_differs,
    total_evidence,
    worst_mover,
)
from profkit.verdict.rules_counters import contention, throttling
from profkit.verdict.types import Evidence, Finding
from profkit.verdict.wording import number, percent, times

__all__ = ["faster", "longer_calls", "unchanged"]

#: Growth of memory or of bytes read from which the input is larger: repeats of one program differ by up to 1.063.
LARGER = 1.08
#: … and of memory, where each of several repeats needed more than all of the other side.
LARGER_THROUGHOUT = 1.03
#: … and by at least so many bytes.
LARGER_BYTES = 2e6
#: Part of the slow-down that must be CPU time where one factor for all functions is all that is known.
ALL_OF_IT = 0.8
#: What two command lines are called in the evidence.
COMMAND = "command line"
#: Slow-down of one run on one machine up to which no change is believed to be meant; beyond it, and within what
#: clean runs drift, it is open.
SURE_OF_NONE = math.log(1.2)


def longer_calls(facts: Facts) -> Finding | None:
    """The same calls of the same functions take longer on the CPU: it does less per second, or has more to do."""
    moved = facts.movement
    slow = facts.log_slowdown
    if not facts.counters or not same_calls(facts) or facts.unmatched > ANOTHER_PROGRAM:
        return None
    machines, inputs = machines_differ(facts), _larger_input(facts)
    # Another command line may mean nothing; then the difference itself must be beyond doubt.
    apart = facts.total_variation > noise.TV_P99 or machines or any(e.signal != COMMAND for e in inputs)
    if slow < (SLOWER if apart else drift(facts)) or not facts.cpu_part >= MOST:
        return None
    before, waiting = facts.baseline.wait_fraction, facts.candidate.wait_fraction
    queues = waiting is None or before is None or (waiting >= WAIT and waiting - before >= WAIT_GROWTH)
    changed = source_differs(facts) or changed_below(facts)
    if queues or changed or throttling(facts) is not None or contention(facts) is not None:
        return None
    uniform = moved.spread <= 2 * noise.R_SPREAD_P95
    if not machines and not inputs:
        return _one_factor(facts)
    if machines and inputs and not uniform:
        return None
    factor = moved.ratio if moved.ratio > 0 else slow
    evidence = (
        *(machines or inputs),
        _per_call(facts),
        Evidence(
            "run-queue wait fraction",
            percent(before),
            percent(waiting),
            "no CPU was lacking",
        ),
        total_evidence(facts),
    )
    if machines:
        return Finding(
            rule="slower-cpu",
            cause="slower-machine",
            confidence=0.9,
            severity=share(factor, slow),
            strength=slow,
            summary=(
                f"The same calls take {times(math.exp(slow))} the time on another CPU or with other instructions, "
                "without waiting for one."
            ),
            evidence=evidence,
            advice=("lscpu | grep -E 'Model name|MHz'  # on both machines",),
        )
    return Finding(
        rule="larger-input",
        cause="workload-change",
        confidence=0.8,
        severity=share(factor, slow),
        strength=slow,
        summary=(
            f"The same calls take {times(math.exp(slow))} the time on the same kind of CPU: each has more data to "
            "work on."
        ),
        evidence=evidence,
        advice=("# compare runs with equal inputs, epochs and batch sizes",),
    )


def _one_factor(facts: Facts) -> Finding | None:
    """Every function takes the same factor more CPU time, and nothing shows why."""
    slow, moved = facts.log_slowdown, facts.movement
    uniform = moved.spread <= noise.R_SPREAD_P95 and facts.total_variation <= noise.TV_P95
    if slow <= drift(facts) or not uniform or not facts.cpu_part >= ALL_OF_IT or facts.reordered:
        return None
    return Finding(
        rule="one-factor",
        cause="slower-machine",
        confidence=0.6,
        severity=facts.cpu_part,
        strength=slow,
        summary=(
            f"Every function takes about {times(math.exp(moved.ratio))} the CPU time for the same calls, without "
            "waiting for a CPU: it did less per second (clock, memory, other guests of its host)."
        ),
        evidence=(
            _per_call(facts, ": one factor"),
            Evidence(
                "time that sits in other functions",
                percent(0.0),
                percent(facts.total_variation),
                f"noise reaches {percent(noise.TV_P95)}",
            ),
            total_evidence(facts),
        ),
        advice=more_runs(facts),
    )


def _per_call(facts: Facts, says: str = "") -> Evidence:
    """How much longer a call takes, and how evenly."""
    moved = facts.movement
    scatter = f"scatter over functions {number(moved.spread)}{says}"
    return Evidence("time per call, median over functions", times(1.0), times(math.exp(moved.ratio)), scatter)


def _larger_input(facts: Facts) -> tuple[Evidence, ...]:
    """What says that the candidate worked on more data; or nothing."""
    a, b = facts.baseline, facts.candidate
    found = []
    throughout = min(a.runs, b.runs) >= noise.MIN_RUNS_NOISE and (b.memory_least or 0.0) > (
        a.memory_most or math.inf
    )
    for name, before, after, factor in (
        ("most memory at once", a.memory_bytes, b.memory_bytes, LARGER_THROUGHOUT if throughout else LARGER),
        ("bytes read", a.read_bytes, b.read_bytes, LARGER),
    ):
        if before and after and after >= factor * before and after - before >= LARGER_BYTES:
            text = (f"{before / 1e6:,.0f} MB", f"{after / 1e6:,.0f} MB")
            found.append(Evidence(name, *text, f"{times(after / before)}: more data"))
    if a.command and b.command and a.command != b.command:
        words = [(x, y) for x, y in zip(a.command, b.command, strict=False) if x != y]
        first = words[0] if words else (f"{len(a.command)} words", f"{len(b.command)} words")
        found.append(Evidence(COMMAND, *first, "not the same"))
    return tuple(found)


def faster(facts: Facts) -> Finding | None:
    """The candidate took less time."""
    wait_a, wait_b = facts.baseline.wait_fraction, facts.candidate.wait_fraction
    freed = wait_a is not None and wait_b is not None and wait_a >= WAIT and wait_a - wait_b > 0.1
    known = freed or not same_calls(facts) or facts.movement.changed_row >= 0
    # Within what clean runs drift, something must have moved as well.
    least = NOTICED if freed else SLOWER if facts.moved else drift(facts)
    if facts.log_slowdown > -least or facts.identical or facts.unmatched > ANOTHER_PROGRAM:
        return None
    evidence = [total_evidence(facts)]
    if freed:
        evidence.append(
            Evidence(
                "run-queue wait fraction", percent(wait_a), percent(wait_b), "the baseline was starved of CPU"
            )
        )
    return Finding(
        rule="less-time",
        cause="faster",
        confidence=0.9 if known else 0.75,
        severity=1.0,
        summary=f"The candidate takes {times(math.exp(facts.log_slowdown))} the baseline's time.",
        evidence=tuple(evidence),
    )


def unchanged(facts: Facts) -> Finding | None:
    """Neither the order, nor the total, nor any function left the noise; or nothing was lost, whatever moved."""
    if not len(facts.table) or not same_calls(facts) or _waits_differ(facts):
        return None
    if facts.moved or worst_mover(facts) >= 0:
        return _same_total(facts)
    if abs(facts.log_slowdown) > drift(facts):
        return None
    known = facts.counters
    sure = facts.log_slowdown <= SURE_OF_NONE
    if not known and not sure:
        return None
    total = f"the total ({times(math.exp(facts.log_slowdown))}) is within what clean repeats drift"
    waits = (percent(facts.baseline.wait_fraction), percent(facts.candidate.wait_fraction))
    return Finding(
        rule="within-noise",
        cause="no-change",
        confidence=0.6 if not known else 0.9 if sure else 0.7,
        severity=float("nan"),
        strength=-abs(facts.log_slowdown),
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


def _same_total(facts: Facts) -> Finding | None:
    """Functions moved, and the candidate is as fast: what some gained others lost."""
    if (
        not facts.counters
        or not -drift(facts) <= facts.log_slowdown <= NOTICED
        or facts.unmatched > ANOTHER_PROGRAM
    ):
        return None
    waits = (percent(facts.baseline.wait_fraction), percent(facts.candidate.wait_fraction))
    return Finding(
        rule="same-total",
        cause="no-change",
        confidence=0.8,
        severity=float("nan"),
        summary=(
            f"Time moved between functions, and none was lost: the candidate takes "
            f"{times(math.exp(facts.log_slowdown))} the baseline's time, and its main thread queued for a CPU in "
            f"{waits[1]} of its active time, against {waits[0]}."
        ),
        evidence=(
            total_evidence(facts),
            Evidence(
                "time that sits in other functions",
                percent(0.0),
                percent(facts.total_variation),
                f"noise reaches {percent(noise.TV_P99)}",
            ),
        ),
    )


def _waits_differ(facts: Facts) -> bool:
    """Whether one side queued for CPUs much more than the other: then something changed, whatever the totals say."""
    before, after = facts.baseline.wait_fraction, facts.candidate.wait_fraction
    return before is not None and after is not None and abs(after - before) >= WAIT
