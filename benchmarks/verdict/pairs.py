"""Which sides are compared: clean against a condition, clean against clean, a condition against itself, and back.

Chosen with a fixed seed, so that a changed score is a change of the rules and not of the draw. Judges
nothing.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.verdict.corpus import Sample
from benchmarks.verdict.truth import Measured, Truth, of_pair, of_reversed, of_same, summary

__all__ = ["FORMS", "Pair", "make_pairs"]

#: How the sides of a pair relate.
FORMS = ("forward", "null", "same", "reversed")
#: Runs a side of a comparison of replicates.
REPLICATES = 5
#: Null pairs of a program of one run a side; reversed pairs and same-condition pairs of a cell.
NULL_PAIRS, REVERSED_PAIRS, SAME_PAIRS = 20, 2, 2
#: Splits of the clean runs into two sides.
NULL_SPLITS = 4
SEED = 20

#: Form, sides, and the truth where it can be told.
Draft = tuple[str, Sequence[Sample], Sequence[Sample], "Truth | None"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides and what is true of them."""

    workload: str
    condition: str
    form: str
    baseline: tuple[Sample, ...]
    candidate: tuple[Sample, ...]
    truth: Truth

    @property
    def runs(self) -> int:
        """Runs a side."""
        return len(self.candidate)


def make_pairs(samples: Iterable[Sample]) -> tuple[list[Pair], int]:
    """Return the pairs of a corpus, and how many were left out because their truth cannot be told."""
    cells: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        cells[sample.workload][sample.condition].append(sample)
    drafts: list[Draft] = []
    for workload, conditions in sorted(cells.items()):
        draw = random.Random(f"{SEED} {workload}")
        for _, runs in sorted(conditions.items()):
            baseline = conditions.get(runs[0].baseline)
            if baseline is runs:
                drafts += _null(draw, runs)
            elif baseline is not None:
                drafts += _cell(draw, baseline, runs)
    pairs = [_pair(*draft) for draft in drafts if draft[-1] is not None]
    return pairs, len(drafts) - len(pairs)


def _measured(side: Sequence[Sample]) -> Measured:
    return summary([s.measured for s in side])


def _pair(form: str, a: Sequence[Sample], b: Sequence[Sample], truth: Truth | None) -> Pair:
    assert truth is not None
    named = a[0] if form == "reversed" else b[0]
    return Pair(named.workload, named.condition, form, tuple(a), tuple(b), truth)


def _null(draw: random.Random, runs: Sequence[Sample]) -> list[Draft]:
    """Clean against clean: one run a side in both directions, and halves of the runs."""
    ordered = [(a, b) for a in runs for b in runs if a is not b]
    sides: list[tuple[Sequence[Sample], Sequence[Sample]]] = [
        ((a,), (b,)) for a, b in draw.sample(ordered, min(NULL_PAIRS, len(ordered)))
    ]
    if len(runs) >= 2 * REPLICATES:
        for _ in range(NULL_SPLITS):
            mixed = draw.sample(list(runs), 2 * REPLICATES)
            sides.append((mixed[:REPLICATES], mixed[REPLICATES:]))
    label = runs[0].intent.label
    return [("null", a, b, of_same(label, _measured(a), _measured(b))) for a, b in sides]


def _cell(draw: random.Random, clean: Sequence[Sample], runs: Sequence[Sample]) -> list[Draft]:
    """A condition against its clean runs: each run once, and all together against two sets of clean runs."""
    usual, intent = _measured(clean), runs[0].intent

    def truth(a: Sequence[Sample], b: Sequence[Sample]) -> Truth | None:
        return of_pair(intent, usual, _measured(b), _measured(a))

    singles = [((draw.choice(clean),), (run,)) for run in runs]
    found: list[Draft] = [("forward", a, b, truth(a, b)) for a, b in singles]
    for run in draw.sample(list(runs), min(REVERSED_PAIRS, len(runs))):
        a = (draw.choice(clean),)
        found += _reversed(a, (run,), truth(a, (run,)))
    for _ in range(min(SAME_PAIRS, len(runs) // 2)):
        one, other = draw.sample(list(runs), 2)
        found.append(("same", (one,), (other,), of_same(intent.label, one.measured, other.measured)))
    if len(runs) >= REPLICATES and len(clean) >= REPLICATES:
        side = runs[:REPLICATES]
        for part in (clean[:REPLICATES], clean[-REPLICATES:]):
            found.append(("forward", part, side, truth(part, side)))
        found += _reversed(clean[:REPLICATES], side, truth(clean[:REPLICATES], side))
    return found


def _reversed(clean: Sequence[Sample], runs: Sequence[Sample], truth: Truth | None) -> list[Draft]:
    """The way back, where there is one: what was not slowed down does not become faster."""
    turned = of_reversed(truth) if truth is not None else None
    return [("reversed", runs, clean, turned)] if turned is not None else []
