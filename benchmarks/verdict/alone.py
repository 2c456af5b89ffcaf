"""What `profkit show` says of each run alone, beside what is true of it.

The truth is that of a comparison with the clean runs of its program: a run by itself can only show that it lacked
CPUs, not that it lost anything by it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.verdict.corpus import Sample, full_run
from benchmarks.verdict.truth import of_pair, summary
from profkit.verdict.alone import judge_run

__all__ = ["Alone", "alone", "counts"]


@dataclass(frozen=True, slots=True)
class Alone:
    """One run: its program, its label, whether it was contended, and the cause that is said, if any."""

    workload: str
    label: str
    contended: bool
    cause: str


def alone(samples: Sequence[Sample]) -> list[Alone]:
    """Judge every run whose truth can be told."""
    cells: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        cells[sample.workload, sample.condition].append(sample)
    found = []
    for (workload, condition), runs in sorted(cells.items()):
        baseline = cells.get((workload, runs[0].baseline), [])
        usual = summary([s.measured for s in baseline]) if baseline else None
        for sample in runs:
            label, contended = "clean", False
            if condition != sample.baseline:
                truth = of_pair(sample.intent, usual, sample.measured) if usual else None
                if truth is None:
                    continue
                label, contended = truth.label, truth.contended
            run = full_run(sample)
            verdict = judge_run(run, run.processes).verdict
            found.append(Alone(workload, label, contended, verdict.cause if verdict else ""))
    return found


def counts(found: Iterable[Alone]) -> dict[str, Counter[str]]:
    """How often each cause was said, by label; the empty cause is silence."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for run in found:
        table[run.label][run.cause] += 1
    return dict(table)
