"""Numbers as text in fitting units; values come in base units, unknown ones are an en dash, never 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

UNKNOWN = "–"

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds(value: float | None) -> str:
    """Return three significant digits in the largest unit that fits; whole seconds from 1,000 s on."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    number, unit = _in_unit(value)
    return f"{number} {unit}"


def from_to(before: float, after: float, between: str = "→") -> str:
    """Return two times, with a word between them; a shared unit is written once."""
    (first, first_unit), (second, unit) = _in_unit(before), _in_unit(after)
    return f"{first}{'' if first_unit == unit else ' ' + first_unit} {between} {second} {unit}"


def interval(low: float, high: float) -> str:
    return f"{seconds(low)} – {seconds(high)}" if math.isfinite(low) and math.isfinite(high) else ""


def _in_unit(value: float) -> tuple[str, str]:
    """Return a finite number of seconds in the unit that fits, and that unit."""
    size = abs(value)
    if size < 0.5e-9:
        return "0", "s"
    if size >= 999.5:
        return _whole(value), "s"
    # 0.9995 of a unit already rounds to 1.00.
    fitting = (known for known in _SCALES if size >= 0.9995 * known[0])
    scale, unit = next(fitting, _SCALES[-1])
    return _three_digits(value / scale), unit


def _whole(value: float) -> str:
    """Return a whole number with separated thousands; from 1e12 on with an exponent."""
    return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.3g}"


def _three_digits(value: float) -> str:
    size = abs(value)
    if size < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if size < 99.95 else f"{value:.0f}"


def change(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return UNKNOWN
    difference = after - before
    text = seconds(difference)
    return text if difference < 0 or text in ("0 s", UNKNOWN) else "+" + text


def share(value: float | None) -> str:
    """Return a share (0 to 1) in percent."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    percent = 100.0 * value
    if percent == 0:
        return "0 %"
    if abs(percent) < 0.1:
        return "<0.1 %"
    return f"{percent:.1f} %" if abs(percent) < 99.95 else f"{percent:.0f} %"


def confidence(value: float) -> str:
    """Return a percentage below 100: 249 right of 250 is not certain."""
    return f"{min(99, round(100 * value))} %"


def count(value: float | None) -> str:
    """Return a whole number with separated thousands; from ten million on, in millions or more."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 1e15:
        return _whole(float(value))
    for limit, scale, suffix in ((1e13, 1e12, " T"), (1e10, 1e9, " G"), (1e7, 1e6, " M")):
        if abs(value) >= limit:
            return f"{value / scale:,.1f}{suffix}"
    return f"{round(value):,}"


def about(value: float) -> str:
    """Return an estimated number: a tilde and two or three digits."""
    number, suffix = _in_thousands(value)
    return f"~{number:.1f}{suffix}" if suffix and number < 9.95 else f"~{number:.0f}{suffix}"


def between(low: float, high: float) -> str:
    """Return the limits of an estimated number, with three digits."""
    limits = [_in_thousands(value) for value in (low, high)]
    return " to ".join(_three_digits(n) + suffix if suffix else f"{n:.0f}" for n, suffix in limits)


def _in_thousands(value: float) -> tuple[float, str]:
    """Return a number scaled below 1,000, and its suffix."""
    for scale, suffix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        # 0.9995 of a thousand already rounds to 1.00.
        if value >= 0.9995 * scale:
            return value / scale, suffix
    return value, ""


def factor(value: float | None) -> str:
    """Return a ratio: ``1.23×``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0×"
    if abs(value) < 0.01:
        return "<0.01×"
    return f"{_three_digits(value) if abs(value) < 99.95 else _whole(value)}×"


def counted(number: int, what: str, several: str = "") -> str:
    """Return a number of things: 1 run, 2,000 runs; `several` is an irregular plural."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def cpus(number: float) -> str:
    """Return a number of CPUs: 1 CPU, 1.5 CPUs."""
    return "1 CPU" if number == 1 else f"{float(f'{number:.3g}'):g} CPUs"


def rank(value: float | None) -> str:
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.0f}"


#: How numbers are written, by their units and by the kinds of columns.
WRITTEN: Mapping[str, Callable[[float | None], str]] = {
    **dict.fromkeys(("s", "seconds", "change"), seconds),
    **dict.fromkeys(("share", "bar"), share),
    "factor": factor,
    "count": count,
    "rank": rank,
}
