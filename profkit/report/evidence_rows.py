"""`Evidence` → a row of a table: its words, and the sizes of its bars, on scales that do not depend on them.

Shares are of all there is, seconds of the active time, cores are seen against the CPUs available; only what has
no such whole is drawn against its other side.
"""

from __future__ import annotations

from collections.abc import Sequence

from profkit.report.document import Measured, Row
from profkit.report.wording import evidence_texts
from profkit.verdict.types import Evidence


def evidence_row(evidence: Evidence) -> Row:
    """One row of evidence: texts for reading, and the values for drawing."""
    texts = evidence_texts(evidence)
    values = tuple(
        float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        for value in (evidence.baseline, evidence.candidate)
    )
    (first, first_limit), (second, second_limit) = _scales(evidence, values)
    return Row(
        (
            texts.signal,
            Measured(values[0], texts.baseline, first, first_limit),
            Measured(values[1], texts.candidate, second, second_limit),
            texts.says,
        )
    )


def _scales(
    evidence: Evidence, values: Sequence[float | None]
) -> tuple[tuple[float | None, float | None], ...]:
    """What a full bar stands for on either side, and what it is seen against: all of it, or the CPUs available."""
    whole = evidence.whole or (None, None)
    if evidence.unit == "share":
        return (1.0, None), (1.0, None)
    if evidence.unit == "cores" and whole[1] is not None:
        most = max(v for v in (*values, *whole) if v is not None)
        return tuple((most if most > 0 else None, limit) for limit in whole)
    if evidence.unit == "s":
        return tuple((of if of and of > 0 else None, None) for of in whole)
    return (None, None), (None, None)
