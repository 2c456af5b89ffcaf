"""`Evidence` → rows of a table: its words, and its bars on scales of their own.

Shares are of the whole, seconds of active time, cores of the CPUs available; other values are drawn against
the other side.
"""

from __future__ import annotations

from collections.abc import Sequence

from profkit.report.document import Column, Measured, Row, Table
from profkit.report.listed import Listed
from profkit.report.wording.evidence import evidence_texts
from profkit.verdict.types import Evidence


def evidence_table(evidence: Sequence[Evidence], candidate: str = "candidate", limit: int = 0) -> Table:
    """Return a table of at most `limit` (0: all) pieces of evidence; `candidate` is the title of that side."""
    listed = Listed(evidence, limit)
    titles = (
        Column("what was measured"),
        Column("baseline"),
        Column(candidate),
        Column("what it says", "prose"),
    )
    return Table(titles, tuple(map(evidence_row, listed.shown)), listed.cut)


def evidence_row(evidence: Evidence) -> Row:
    """Return one row of evidence: texts to read, and values to draw."""
    texts = evidence_texts(evidence)
    values = tuple(
        float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        for value in (evidence.baseline, evidence.candidate)
    )
    first, second = _scales(evidence, values)
    sides = (Measured(values[0], texts.baseline, *first), Measured(values[1], texts.candidate, *second))
    return Row((texts.signal, *sides, texts.says))


def _scales(
    evidence: Evidence, values: Sequence[float | None]
) -> tuple[tuple[float | None, float | None], ...]:
    """What a full bar stands for on either side, and what to compare it with."""
    whole = evidence.whole or (None, None)
    if evidence.unit == "share":
        return (1.0, None), (1.0, None)
    if evidence.unit == "cores" and whole[1] is not None:
        most = max(v for v in (*values, *whole) if v is not None)
        return tuple((most if most > 0 else None, limit) for limit in whole)
    if evidence.unit == "s":
        return tuple((of if of and of > 0 else None, None) for of in whole)
    return (None, None), (None, None)
