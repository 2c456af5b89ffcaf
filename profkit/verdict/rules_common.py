"""What several rules of the diagnosis ask of the `Facts`, and the thresholds that they share."""

from __future__ import annotations

import math

from profkit.measure import noise
from profkit.measure.signals import Facts
from profkit.measure.movement import is_wait
from profkit.verdict.types import Evidence
from profkit.verdict.wording import seconds, times

__all__ = [
    "ANOTHER_PROGRAM",
    "CALLS",
    "DOMINATES",
    "DRIFT",
    "MOST",
    "NOTICED",
    "SLOWER",
    "UNTOLD",
    "WAIT",
    "WAIT_GROWTH",
    "WORKING",
    "by_whom",
    "changed_below",
    "drift",
    "machines_differ",
    "same_calls",
    "share",
    "source_differs",
    "total_evidence",
    "worst_mover",
]

UNTOLD = "–"
#: Wait / (run + wait) from which queueing for a CPU is a cause (recall 1.00 at 0.2 % false alarms).
WAIT = 0.15
#: Growth of that fraction over the baseline from which it is another state.
WAIT_GROWTH = 0.10
#: Cores that the rest of the program uses from which its main thread waits for that work: half of one worker.
WORKING = 0.5
#: Slow-down from which lost time is worth a cause: the corpus calls a run contended from 1.15× on.
SLOWER = math.log(1.15)
#: Below this slow-down there is nothing to explain: clean repeats reach it.
NOTICED = math.log(1.12)
#: Part of the added time that a cause must explain to be the cause.
MOST = 0.5
#: Factor of total times that clean runs on a shared machine drift apart, from batch to batch too: repeats of
#: one batch do not show it.
DRIFT = math.log(noise.TOTAL_RATIO_P95)
#: Factor of calls that is a change of the workload.
CALLS = math.log(1.1)
#: Part of all gains in one function above which it dominates (regressions in the corpus: 0.60–0.85).
DOMINATES = 0.6
#: Part of either side's time in functions that the other lacks, above which they are two programs.
ANOTHER_PROGRAM = 0.5
#: Growth of the probe's time from which the CPU itself is slower: 20 repeats beside busy processes spread over 1.31×.
SLOWER_PROBE = 1.35
#: Variables that choose the instructions that libraries use.
INSTRUCTION_SETS = (
    "OPENBLAS_CORETYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "MKL_SERVICE_FORCE_INTEL",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "TF_ENABLE_ONEDNN_OPTS",
    "OPENCV_CPU_DISABLE",
    "BLIS_ARCH_TYPE",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
    "GLIBC_TUNABLES",
)
#: Standard deviations beyond which repeats' totals differ.
SIGMAS = 3.0


def by_whom(kind: str | None, itself: bool, others: bool) -> str:
    """Say through whom CPUs were lacking, by the kind of contention and by who wants more than there is."""
    if itself and others and kind == "self-oversubscription":
        return "by its own threads and processes, and by other programs too"
    return {
        "self-oversubscription": "by its own threads and processes",
        "external-load": "by other programs on the machine",
        None: "by what the counters cannot tell",
    }[kind]


def drift(facts: Facts) -> float:
    """ln of the factor that the totals of clean runs may differ by: pooled, or by the repeats' own scatter."""
    if facts.repeats < noise.MIN_RUNS_NOISE or not math.isfinite(facts.total_scatter):
        return DRIFT
    return min(DRIFT, max(SLOWER, SIGMAS * facts.total_scatter))


def same_calls(facts: Facts) -> bool:
    """Whether the functions that matter were called equally often."""
    factor = facts.movement.calls_factor
    return not factor > 0 or abs(math.log(factor)) < CALLS


def source_differs(facts: Facts) -> bool:
    """Whether functions with another source hold most of the gain."""
    return facts.movement.changed_row >= 0 and facts.movement.changed_part > DOMINATES


def changed_below(facts: Facts) -> bool:
    """Whether a function with another source gained most of what was gained, with what it calls."""
    moved = facts.movement
    least = noise.TV_P95 * moved.busy_total
    return moved.below_row >= 0 and moved.below_part > DOMINATES and moved.below_part * moved.gains > least


def machines_differ(facts: Facts) -> tuple[Evidence, ...]:
    """What says that the sides' CPUs do not do the same in a second: other models, other instructions; or nothing."""
    a, b = facts.baseline, facts.candidate
    found = []
    if a.cpu_model and b.cpu_model and a.cpu_model != b.cpu_model:
        found.append(Evidence("CPU model", a.cpu_model, b.cpu_model, "another CPU"))
    if a.probe and a.probe == b.probe and a.probe_s and b.probe_s and b.probe_s >= SLOWER_PROBE * a.probe_s:
        took = (seconds(a.probe_s), seconds(b.probe_s))
        found.append(Evidence("a fixed piece of work on one CPU", *took, "the CPU itself is slower"))
    for name in INSTRUCTION_SETS:
        before, after = a.environment.get(name), b.environment.get(name)
        if before != after:
            found.append(
                Evidence(name, before or "not set", after or "not set", "libraries use other instructions")
            )
    return tuple(found)


def share(part: float, whole: float) -> float:
    """A part of a logarithm as a share of it, NaN where there is none."""
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
