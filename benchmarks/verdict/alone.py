"""What `profkit show` says of each run alone, judged by what is true of it.

A run by itself can only lack something: CPUs, data, or what it waits for. So of the causes of a comparison three can
be right, and each is decided as for a pair, against the clean runs of the same program whatever the condition's own
baseline is: ``contention`` where the run was contended (`truth.of_pair`, the clean side being the medians of the
clean runs), with every kind that was set up; ``data-starvation`` and ``blocked`` where the condition was set up to
cause them, unless the run gained time. Any such claim about another run is wrong. Silence claims nothing: it is
counted as ``inconclusive`` is for a pair, neither right nor wrong.

Left out are runs whose truth cannot be decided against the clean runs. So are the runs without contention of programs
of which the observer saw more threads run or queue than there are CPUs, on average over the clean runs: they compete
with themselves in every run, and no run shows what they do without.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.verdict.corpus import CLEAN, Sample, full_run
from benchmarks.verdict.judge import Judgement
from benchmarks.verdict.pairs import LeftOut, intent_against, measured
from benchmarks.verdict.truth import CONTENTION, Truth, of_pair, summary
from profkit.verdict.alone import judge_run

#: Arm and form of a judgement of one run.
ALONE = "alone"
#: Verdicts that can be right of one run.
CAUSES = frozenset((CONTENTION, "data-starvation", "blocked"))
#: What the tables call the truth of a run that lacked nothing.
NOTHING = "nothing lacking"


def alone(samples: Sequence[Sample]) -> tuple[list[Judgement], list[LeftOut]]:
    """Judge every run whose truth can be decided; the rest is left out."""
    cells: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        cells[sample.workload][sample.condition].append(sample)
    judged, left_out = [], []
    for workload, conditions in sorted(cells.items()):
        clean = conditions.get(CLEAN, ())
        for condition, runs in sorted(conditions.items()):
            for sample in runs:
                truth = _truth(clean, sample) if clean else None
                if truth is None:
                    left_out.append(LeftOut(workload, condition, ALONE, 1))
                else:
                    judged.append(_judgement(sample, truth))
    return judged, left_out


def _truth(clean: Sequence[Sample], sample: Sample) -> Truth | None:
    """What is true of one run against the clean ones, itself left out."""
    others = [run for run in measured(clean) if run is not sample.measured]
    intent = intent_against(sample, clean[0])
    usual = summary(measured(clean))
    competes = usual.demand_cores > usual.cpus
    if competes and not intent.kinds:
        return None
    truth = of_pair(intent, others, [summary(others)], [sample.measured]) if others else None
    if truth is not None and truth.contended and competes:
        return replace(truth, kinds=truth.kinds | {"self-oversubscription"})
    return truth


def _judgement(sample: Sample, truth: Truth) -> Judgement:
    causes = truth.causes & ({CONTENTION} if truth.contended else CAUSES - {CONTENTION})
    run = full_run(sample)
    verdict = judge_run(run, run.processes).verdict
    first = verdict.findings[0] if verdict else None
    return Judgement(
        arm=ALONE,
        runs=1,
        workload=sample.workload,
        programs=(sample.workload,),
        condition=sample.condition,
        form=ALONE,
        label=truth.label if causes else f"{NOTHING}: {sample.condition}",
        contended=truth.contended,
        causes=tuple(sorted(causes)),
        kinds=tuple(sorted(truth.kinds)),
        effect=round(truth.effect, 4),
        cause=verdict.cause if verdict else "inconclusive",
        kind=verdict.kind if verdict else None,
        confidence=verdict.confidence if verdict and verdict.confidence is not None else math.nan,
        rule=first.rule if first else "",
        strength=first.strength if first else math.nan,
        baseline=(),
        candidate=(sample.repeat,),
        stated=first.stated if first else math.nan,
        doubt=first.doubt if first else None,
        left=first.left if first else 1.0,
    )
