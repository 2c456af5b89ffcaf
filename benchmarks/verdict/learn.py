"""Weights of `profkit.compare.starvation_signs`, learnt on labelled pairs of plain profiles.

A logistic regression with a quadratic penalty (Hoerl and Kennard 1970; Newton's method), every program weighing the
same. By the threshold, at most `ALARMS` of the pairs without contention are called contended, each judged by weights
learnt without its program. Pairs whose time was taken in lumps for another reason (a quota, stopped
processes) are not learnt from: without counters they look the same as contention.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.verdict.calibrate import Table
from benchmarks.verdict.pairs import Pair
from benchmarks.verdict.truth import CONTENTION
from profkit.compare.starvation_signs import Starvation, starvation
from profkit.compare.starvation_weights import Weights
from profkit.measure import noise
from profkit.verdict.calibration import STEPS
from profkit.verdict.judge import judge
from profkit.verdict.rule import Case
from profkit.verdict.thresholds import THRESHOLDS

#: Strength of the penalty on standardised inputs, relative to one example of average weight.
PENALTY = 3.0
#: Part of the other pairs that may be called contended.
ALARMS = 0.015
#: Least probability from which starvation is said.
LEAST = 0.2
#: No second machine is in the corpus: clean pairs are also learnt from as if the candidate's were so much slower.
SLOWER_MACHINE = 1.5
#: Signs that a common factor moves.
FOLLOW_THE_FACTOR = ("slower", "python_median", "python_upper", "native_median", "native_upper")
#: Labels that are not learnt from.
LUMPS_OF_OTHERS = frozenset(("cpu-quota", "blocked", "code-change+contention"))
#: Percentile of what clean runs differ by that is the noise of a bucket, and the least that it is taken for.
NOISE_PERCENTILE, LEAST_NOISE = 95.0, 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One pair: what the model reads of it, and whether the candidate was contended.

    `decides`: the model alone decides whether the verdict is contention. Other rules come first in other pairs, which
    the threshold therefore does not need to keep out.
    """

    workload: str
    signs: Mapping[str, float]
    contended: bool
    decides: bool = True


def examples(pairs: Iterable[Pair]) -> Iterator[Example]:
    """Read what the model sees of every pair of single runs that may be learnt from."""
    from benchmarks.verdict.judge import compared, was_sampled

    for pair in pairs:
        if pair.truth.label in LUMPS_OF_OTHERS or pair.runs >= noise.MIN_RUNS_NOISE or was_sampled(pair):
            continue
        # Two programs show nothing of one; two runs beside the same neighbours may be contended, too.
        if pair.form == "another" or (CONTENTION in pair.truth.causes and not pair.truth.contended):
            continue
        case = compared(pair, "plain")[0]
        signs = case.signals.signs
        yield Example(pair.workload, signs, pair.truth.contended, _decides(case))
        if not pair.truth.contended and pair.form == "null":
            yield Example(pair.workload, _slower(signs, SLOWER_MACHINE), False)


def _decides(case: Case) -> bool:
    """Return whether the verdict is contention if the signs are certain, and something else if there are none."""
    surely, never = (
        judge(replace(case, signals=replace(case.signals, starved=Starvation(probability, 0.5)))).cause
        for probability in (1.0, 0.0)
    )
    return surely == CONTENTION != never


def _slower(signs: Mapping[str, float], factor: float) -> Mapping[str, float]:
    """Return what the same pair would show if the candidate's machine were slower by one factor throughout."""
    return {
        name: value + math.log(factor) if name in FOLLOW_THE_FACTOR else value
        for name, value in signs.items()
    }


def learn_without(pairs: Iterable[Pair]) -> dict[str, Weights]:
    """Return, for every program, the weights that were learnt on all others."""
    found = list(examples(pairs))
    return {
        workload: learn([e for e in found if e.workload != workload])
        for workload in sorted({e.workload for e in found})
    }


def noise_without(pairs: Iterable[Pair]) -> dict[str, dict[str, float]]:
    """Return, for every program, the noise of the account's buckets on all others, as parts of the wall.

    Of clean runs, one a side, as captured. ``noise.queue-again`` is not learnt: it stays what the table has.
    """
    from benchmarks.verdict.judge import compared

    of: dict[str, list[dict[str, float]]] = defaultdict(list)
    for pair in pairs:
        workload = pair.workload
        of[workload] = of[workload]
        account = compared(pair, "counters")[0].account if (pair.form, pair.runs) == ("null", 1) else None
        if account is not None and account.baseline_s > 0 and account.basis == "other-programs":
            parts = {b.name: abs(b.seconds) / account.baseline_s for b in account.buckets}
            of[workload].append(parts)
    result = {}
    for workload in sorted(of):
        others = [parts for name, found in of.items() if name != workload for parts in found]
        names = sorted({name for parts in others for name in parts if f"noise.{name}" in THRESHOLDS})
        result[workload] = {
            name: max(
                LEAST_NOISE,
                float(np.percentile([parts[name] for parts in others if name in parts], NOISE_PERCENTILE)),
            )
            for name in names
        }
    return result


def learn(found: Sequence[Example]) -> Weights:
    """Return the weights of one model, its threshold chosen on held-out programs."""
    weights = _fit(found)
    scores = []
    for workload in sorted({e.workload for e in found}):
        without = [e for e in found if e.workload != workload]
        if len({e.contended for e in without}) < 2:
            continue
        fitted = _fit(without)
        scores += [
            starvation(e.signs, fitted).probability if e.decides else 0.0
            for e in found
            if e.workload == workload and not e.contended
        ]
    threshold = max(LEAST, float(np.quantile(scores, 1 - ALARMS, method="higher")) if scores else LEAST)
    return Weights(weights.signs, weights.intercept, min(0.99, threshold))


def _fit(found: Sequence[Example]) -> Weights:
    x = np.array([list(e.signs.values()) for e in found])
    y = np.array([e.contended for e in found], np.float64)
    centre, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
    z = np.column_stack([(x - centre) / scale, np.ones(len(x))])
    names, of = np.unique([e.workload for e in found], return_inverse=True)
    counts = np.bincount(of)
    share = (len(found) / len(names) / counts)[of]
    penalty = np.full(z.shape[1], PENALTY)
    penalty[-1] = 0.0
    beta = np.zeros(z.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(z @ beta, -30, 30)))
        gradient = z.T @ (share * (p - y)) + penalty * beta
        curvature = (z * (share * p * (1 - p))[:, None]).T @ z + np.diag(penalty + 1e-9)
        step = np.linalg.solve(curvature, gradient)
        beta -= step
        if np.abs(step).max() < 1e-8:
            break
    signs = zip(centre.tolist(), scale.tolist(), beta[:-1].tolist(), strict=True)
    return Weights(dict(zip(found[0].signs, signs, strict=True)), float(beta[-1]), LEAST)


def write(path: Path, weights: Weights) -> None:
    """Write the module that the analysis reads."""
    lines = ["ONE_RUN = Weights(", "    signs={"]
    for name, numbers in weights.signs.items():
        lines.append(f'        "{name}": ({", ".join(f"{number:.6g}" for number in numbers)}),')
    lines.append("    },")
    lines += [f"    intercept={weights.intercept:.6g},", f"    threshold={weights.threshold:.4g},", ")"]
    head = path.read_text(encoding="utf-8").partition("\nONE_RUN = ")[0]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def write_steps(path: Path, tables: Mapping[str, Table]) -> None:
    """Write the table of confidences into the module that the analysis reads; a rule not learnt keeps what it had."""
    lines = ["STEPS: Mapping[str, Steps] = {"]
    for group in sorted({*STEPS, *tables}):
        lines.append(f"    {group!r}: {{")
        for rule, steps in sorted({**STEPS.get(group, {}), **tables.get(group, {})}.items()):
            written = ", ".join(
                f"({'-math.inf' if strength == -math.inf else f'{strength:.4g}'}, {confidence:.3f})"
                for strength, confidence in steps
            )
            lines.append(f"        {rule!r}: ({written}{',' * (len(steps) == 1)}),")
        lines.append("    },")
    lines.append("}")
    head = path.read_text(encoding="utf-8").partition("\nSTEPS: ")[0]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
