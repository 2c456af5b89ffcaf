"""How evidence is worded: numbers with units, and a dash for what was not measured."""

from __future__ import annotations

import math

__all__ = ["cores", "count", "number", "percent", "seconds", "times"]

UNKNOWN = "–"

def percent(part: float | None) -> str:
    """A part as a percentage."""
    if value_unknown(part):
        return UNKNOWN
    assert part is not None
    return f"{100 * part:.0f} %" if part >= 0.1 or part == 0 else f"{100 * part:.1f} %"


def seconds(value: float | None) -> str:
    """Seconds in a unit in which they can be read."""
    if value_unknown(value):
        return UNKNOWN
    assert value is not None
    if value == 0:
        return "0 s"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(value) * factor >= 1 or unit == "µs":
            return (
                f"{value * factor:.3g} {unit}"
                if abs(value) * factor < 999.5
                else f"{value * factor:,.0f} {unit}"
            )
    return UNKNOWN


def cores(value: float | None) -> str:
    """CPU seconds per second."""
    if value_unknown(value):
        return UNKNOWN
    return f"{value:.2f} cores" if value != 1 else "1 core"


def times(factor: float | None) -> str:
    """A factor."""
    if value_unknown(factor):
        return UNKNOWN
    assert factor is not None
    if 0 < factor < 0.01:
        return "<0.01×"
    if factor < 9.995:
        return f"{factor:.2f}×"
    return f"{factor:.1f}×" if factor < 99.95 else f"{factor:,.0f}×"


def count(value: int) -> str:
    """A whole number, thousands apart."""
    return f"{value:,}"


def number(value: float | None, digits: int = 2) -> str:
    """A plain number."""
    return UNKNOWN if value_unknown(value) else f"{value:.{digits}f}"


def value_unknown(value: float | None) -> bool:
    """Whether there is nothing to print."""
    return value is None or not math.isfinite(value)
