"""From verdicts and truths to figures: recall, false alarms, right kinds, other causes, calibration. Counts only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from benchmarks.verdict.catalogue import CONDITIONS, PROGRAMS
from benchmarks.verdict.judge import Judgement

#: Lower ends of the confidence buckets.
BUCKETS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
#: Rows of the table by condition that have a name of their own: by form, by condition, and the polling programs'.
FORM_ROWS = {
    "null": "clean",
    "same": "one condition on both sides",
    "reversed": "sides exchanged",
    "neighbour": "neighbour on both sides",
    "another": "another program",
}
BESIDE_ROWS = {
    "beside-changed": "neighbour + changed source",
    "beside-size": "neighbour + larger input",
    "beside-work2": "neighbour + twice the work",
}
POLLING_ROW = "polling wait"
#: Labels of conditions under which a program waits for something.
WAITING = frozenset(("contention", "cpu-quota", "blocked", "data-starvation"))
#: Order of the rows: conditions as in the catalogue, those of other corpora, then these.
LAST_ROWS = (
    "one condition on both sides",
    "sides exchanged",
    "neighbour on both sides",
    *BESIDE_ROWS.values(),
    POLLING_ROW,
    "another program",
)


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    hits: int
    of: int

    @property
    def part(self) -> float:
        """``hits / of``, NaN of nothing."""
        return self.hits / self.of if self.of else math.nan


@dataclass(frozen=True, slots=True)
class Figures:
    """What one group of verdicts comes to.

    Attributes
    ----------
    recall
        Contended pairs that were called contention.
    kind
        Of those, the ones whose kind is right.
    alarms
        Pairs without contention that were called contention, unless the observer saw that, too.
    other
        Pairs without contention whose verdict is right.
    wrong, inconclusive
        Of all pairs.
    """

    pairs: int
    recall: Share
    kind: Share
    alarms: Share
    other: Share
    wrong: Share
    inconclusive: Share


def figures(judged: Sequence[Judgement]) -> Figures:
    """Count one group."""
    contended = [j for j in judged if j.contended]
    rest = [j for j in judged if not j.contended]
    # Where a regression and contention hold together, either is right: it belongs to neither side of the recall.
    asked = [j for j in contended if set(j.causes) == {"contention"}]
    found = [j for j in asked if j.cause == "contention"]
    # A plain profile cannot tell the kind, and a verdict from it that names none claims nothing.
    kinds = [j for j in found if j.kinds and (j.kind or j.arm == "counters")]
    return Figures(
        pairs=len(judged),
        recall=Share(len(found), len(asked)),
        kind=Share(sum(j.kind in j.kinds for j in kinds), len(kinds)),
        alarms=_count(rest, lambda j: j.cause == "contention" and j.outcome == "wrong"),
        other=_count(rest, lambda j: j.outcome == "right"),
        wrong=_count(judged, lambda j: j.outcome == "wrong"),
        inconclusive=_count(judged, lambda j: j.outcome == "inconclusive"),
    )


def _count(judged: Sequence[Judgement], holds: Callable[[Judgement], bool]) -> Share:
    return Share(sum(map(holds, judged)), len(judged))


class _Compared(Protocol):
    """What the table by condition asks of a pair: judged, or left out."""

    @property
    def workload(self) -> str: ...
    @property
    def condition(self) -> str: ...
    @property
    def form(self) -> str: ...


AnyPair = TypeVar("AnyPair", bound=_Compared)


def rows_of(pair: _Compared) -> tuple[str, ...]:
    """Rows of the table by condition that a pair belongs to; what polls while it waits is in two."""
    if pair.form in FORM_ROWS:
        return (FORM_ROWS[pair.form],)
    row = BESIDE_ROWS.get(pair.condition, pair.condition)
    program, condition = PROGRAMS.get(pair.workload), CONDITIONS.get(pair.condition)
    polls = program is not None and condition is not None and program.polls and condition.label in WAITING
    return (row, POLLING_ROW) if polls else (row,)


def by_condition(pairs: Iterable[AnyPair]) -> dict[str, list[AnyPair]]:
    """Pairs by the rows of the table, in its order."""
    table: dict[str, list[AnyPair]] = {}
    for pair in pairs:
        for row in rows_of(pair):
            table.setdefault(row, []).append(pair)
    known = [*CONDITIONS, *sorted(row for row in table if row not in (*CONDITIONS, *LAST_ROWS)), *LAST_ROWS]
    return {row: table[row] for row in known if row in table}


def confusion(judged: Iterable[Judgement]) -> dict[str, Counter[str]]:
    """Verdicts by label; a pair whose sides were changed over, or are alike, is under its own label."""
    table: dict[str, Counter[str]] = {}
    for j in judged:
        table.setdefault(j.label, Counter())[j.cause] += 1
    return table


def calibration(judged: Iterable[Judgement]) -> list[tuple[float, float, Share]]:
    """For each bucket of confidence: its lower end, the mean confidence in it, and how many were right.

    Verdicts without a confidence, such as ``inconclusive``, are not counted.
    """
    said = [j for j in judged if j.cause != "inconclusive" and math.isfinite(j.confidence)]
    rows = []
    for low, high in zip(BUCKETS, (*BUCKETS[1:], math.inf), strict=True):
        within = [j for j in said if low <= j.confidence < high]
        if within:
            mean = sum(j.confidence for j in within) / len(within)
            rows.append((low, mean, _count(within, lambda j: j.outcome == "right")))
    return rows


def summary(judged: Sequence[Judgement]) -> list[dict[str, object]]:
    """Every figure as ``[hits, of]``, for each arm and runs a side: of all pairs, by program, and by condition.

    ``program`` and ``group`` are null where they do not apply.
    """
    rows: list[dict[str, object]] = []
    for arm, several in sorted({(j.arm, j.runs > 1) for j in judged}):
        part = [j for j in judged if (j.arm, j.runs > 1) == (arm, several)]
        for program in (None, *sorted({j.workload for j in part})):
            found = figures([j for j in part if program in (None, j.workload)])
            shares = {
                name: [share.hits, share.of]
                for name in ("recall", "kind", "alarms", "other", "wrong", "inconclusive")
                if isinstance(share := getattr(found, name), Share)
            }
            rows.append(
                {
                    "arm": arm,
                    "several": several,
                    "program": program,
                    "group": None,
                    "pairs": found.pairs,
                    **shares,
                }
            )
        for group, members in by_condition(part).items():
            outcomes = Counter(j.outcome for j in members)
            rows.append(
                {
                    "arm": arm,
                    "several": several,
                    "program": None,
                    "group": group,
                    "pairs": len(members),
                    **{name: [outcomes[name], len(members)] for name in ("right", "inconclusive", "wrong")},
                }
            )
    return rows
