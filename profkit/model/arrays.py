"""Types of arrays, and NumPy functions without masked arrays, whose import takes a tenth of a small comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.int32]
#: Whole numbers of any width, mostly of rows.
Rows = npt.NDArray[np.integer]

_Value = TypeVar("_Value")
_Number = TypeVar("_Number", int, float)

#: Up to this many numbers, sorting is faster than partitioning.
_FEW = 64


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the different values in ascending order, as ``numpy.unique`` does."""
    ordered = np.sort(values, axis=None, kind="stable")  # fastest if parts are already in order
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def median(values: npt.ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Return what ``numpy.median`` returns for numbers; NaN where one is NaN."""
    array = np.asarray(values, np.float64)
    if axis is None:
        array, axis = array.reshape(-1), 0
    half, odd = divmod(array.shape[axis], 2)
    # The greatest is asked for too: NaN sorts behind all numbers.
    wanted = [half, -1] if odd else [half - 1, half, -1]
    few = array.shape[axis] <= _FEW
    part = np.sort(array, axis) if few else np.partition(array, wanted, axis)
    middle = part.take(range(half - (not odd), half + 1), axis).mean(axis, keepdims=keepdims)
    last = part.take([-1], axis).max(axis, keepdims=keepdims)
    return np.where(np.isnan(last), last, middle)[()]


def known(values: Iterable[_Value | None]) -> list[_Value]:
    """Return the values that are not ``None``."""
    return [value for value in values if value is not None]


def known_sum(values: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of the known values, ``None`` if there are none."""
    found = known(values)
    return sum(found) if found else None


def ratio(before: float | None, after: float | None) -> float | None:
    """Return `after` over `before`; ``None`` where one is unknown or `before` is not above 0."""
    return float(after / before) if before is not None and after is not None and before > 0 else None


def quantile(values: Floats, part: float) -> float:
    """Return what ``numpy.quantile`` returns for one or more numbers without NaN."""
    ordered = np.sort(values)
    at = (len(ordered) - 1) * part
    before = int(at)
    a, b = ordered[before], ordered[min(before + 1, len(ordered) - 1)]
    # Interpolate from the nearer of the two, as NumPy does.
    return float(a + (b - a) * (at - before) if at - before < 0.5 else b - (b - a) * (1 - (at - before)))


def spread(seconds: float, over: Floats) -> Floats:
    """Divide seconds among functions in proportion to their times, if any of these is known."""
    whole = float(over.sum())
    # In this order: seconds over the least of floats are infinite.
    return over / whole * seconds if whole > 0 else np.zeros(len(over))
