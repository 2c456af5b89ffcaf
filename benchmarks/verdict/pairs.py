"""Which sides are compared: a condition against its baseline condition, a condition against itself, and back.

Also one program against another. Chosen with fixed seeds, so that a changed score is a change of the rules and not of
the draw. Judges nothing.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.verdict.corpus import CLEAN, Sample
from benchmarks.verdict.truth import (
    Intent,
    Measured,
    Truth,
    intent_of,
    of_another,
    of_pair,
    of_reversed,
    of_same,
)

#: Runs a side of a comparison of replicates.
REPLICATES = 5
#: Null pairs of a program of one run a side; reversed pairs and same-condition pairs of a cell; pairs of runs beside
#: the same neighbours.
NULL_PAIRS, REVERSED_PAIRS, SAME_PAIRS, NEIGHBOUR_PAIRS = 20, 2, 2, 6
#: Splits of the clean runs into two sides.
NULL_SPLITS = 4
SEED = 20
#: The condition of a busy neighbour that is put around both sides.
NEIGHBOUR = "hogs-1x"

#: A program's runs by condition.
Cells = Mapping[str, Sequence[Sample]]
#: Form, sides, and the truth where it can be decided.
Draft = tuple[str, Sequence[Sample], Sequence[Sample], "Truth | None"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides and what is true of them.

    Attributes
    ----------
    workload, condition
        Of the side that is not the baseline condition's.
    form
        ``forward``: a condition against its baseline condition; ``reversed``: the other way round; ``null``: two
        clean sides; ``same``: two sides of another condition; ``neighbour``: of one that puts a busy neighbour beside
        both and costs time; ``another``: two programs.
    """

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

    @property
    def programs(self) -> frozenset[str]:
        """Programs whose runs are in the pair."""
        return frozenset(sample.workload for sample in (*self.baseline, *self.candidate))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A pair whose truth cannot be decided."""

    workload: str
    condition: str
    form: str
    runs: int


def make_pairs(samples: Iterable[Sample]) -> tuple[list[Pair], list[LeftOut]]:
    """Return the pairs of a corpus, and those that are left out because their truth cannot be decided."""
    cells: dict[str, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        cells[sample.workload][sample.condition].append(sample)
    drafts: list[Draft] = []
    for workload, conditions in sorted(cells.items()):
        draw = random.Random(f"{SEED} {workload}")
        for condition, runs in sorted(conditions.items()):
            if condition == CLEAN:
                drafts += _null(draw, runs)
            elif runs[0].baseline in conditions:
                drafts += _cell(draw, conditions, runs)
    drafts += _others(random.Random(f"{SEED} another program"), cells)
    pairs = [_pair(form, a, b, truth) for form, a, b, truth in drafts if truth is not None]
    left_out = [
        LeftOut(b[0].workload, b[0].condition, form, len(b)) for form, _, b, truth in drafts if truth is None
    ]
    return pairs, left_out


def intent_against(sample: Sample, reference: Sample) -> Intent:
    """Return what the condition of one run was meant to do to a run of the other's condition."""
    return intent_of(sample.setup, reference.setup)


def measured(runs: Sequence[Sample]) -> list[Measured]:
    """Return what the observer saw of runs."""
    return [run.measured for run in runs]


def _pair(form: str, a: Sequence[Sample], b: Sequence[Sample], truth: Truth) -> Pair:
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
    return [("null", a, b, _same_truth(runs, a, b)) for a, b in sides]


def _same_truth(clean: Sequence[Sample], a: Sequence[Sample], b: Sequence[Sample]) -> Truth | None:
    return of_same(intent_against(b[0], clean[0]), measured(clean), measured(a), measured(b))


def _cell(draw: random.Random, conditions: Cells, runs: Sequence[Sample]) -> list[Draft]:
    """A condition against its baseline's runs: each run once, and all together against two sets of those."""
    usual = conditions[runs[0].baseline]
    intent = intent_against(runs[0], usual[0])

    def truth(a: Sequence[Sample], b: Sequence[Sample]) -> Truth | None:
        return of_pair(intent, measured(usual), measured(a), measured(b))

    singles = [((draw.choice(usual),), (run,)) for run in runs]
    found: list[Draft] = [("forward", a, b, truth(a, b)) for a, b in singles]
    for run in draw.sample(list(runs), min(REVERSED_PAIRS, len(runs))):
        a = (draw.choice(usual),)
        found += _reversed(a, (run,), truth(a, (run,)))
    found += _same(draw, conditions, runs)
    if len(runs) >= REPLICATES and len(usual) >= REPLICATES:
        side = runs[:REPLICATES]
        parts = [usual[:REPLICATES], usual[-REPLICATES:]][: len(usual) // REPLICATES]
        for part in parts:
            found.append(("forward", part, side, truth(part, side)))
        found += _reversed(parts[0], side, truth(parts[0], side))
    return found


def _reversed(usual: Sequence[Sample], runs: Sequence[Sample], truth: Truth | None) -> list[Draft]:
    """The way back, where there is one: what was not slowed down does not become faster."""
    turned = of_reversed(truth) if truth is not None else None
    return [("reversed", runs, usual, turned)] if turned is not None else []


def _same(draw: random.Random, conditions: Cells, runs: Sequence[Sample]) -> list[Draft]:
    """Runs of one condition against each other; more of them where both are slowed by the same busy neighbours."""
    clean = conditions.get(CLEAN, ())
    if not clean:
        return []
    form, count = "same", SAME_PAIRS
    if runs[0].condition == NEIGHBOUR:
        cost = of_pair(intent_against(runs[0], clean[0]), measured(clean), measured(clean), measured(runs))
        if cost is not None and cost.contended:
            form, count = "neighbour", NEIGHBOUR_PAIRS
    ordered = [(a, b) for a in runs for b in runs if a is not b]
    drawn = draw.sample(ordered, min(count, len(ordered)))
    return [(form, (a,), (b,), _same_truth(clean, (a,), (b,))) for a, b in drawn]


def _others(draw: random.Random, cells: Mapping[str, Cells]) -> list[Draft]:
    """A clean run of every program against a clean run and, if there is one, a contended run of others."""
    found: list[Draft] = []
    for workload, conditions in sorted(cells.items()):
        for condition in (CLEAN, NEIGHBOUR):
            others = [
                other[condition]
                for name, other in sorted(cells.items())
                if name != workload and condition in other
            ]
            if CLEAN in conditions and others:
                a, b = draw.choice(conditions[CLEAN]), draw.choice(draw.choice(others))
                truth = of_another(measured((a,)), measured((b,)))
                found.append(("another", (a,), (b,), truth))
    return found
