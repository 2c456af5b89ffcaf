"""What NumPy does, too, but for importing its masked arrays first: a tenth of the time of a small comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

#: Numbers of which the middle is found by sorting them.
_FEW = 64


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the different values in ascending order, as ``numpy.unique`` does."""
    ordered = np.sort(values, axis=None, kind="stable")  # the fastest where parts are in order already
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    found: npt.NDArray[Any] = ordered[first]
    return found


def median(values: npt.ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Return what ``numpy.median`` does of numbers: NaN where one is NaN."""
    array = np.asarray(values, np.float64)
    if axis is None:
        array, axis = array.reshape(-1), 0
    half, odd = divmod(array.shape[axis], 2)
    # The greatest goes last, and NaN is greater than all numbers. A few runs are sorted faster than divided.
    wanted = [half, -1] if odd else [half - 1, half, -1]
    few = array.shape[axis] <= _FEW
    part = np.sort(array, axis) if few else np.partition(array, wanted, axis)
    middle = part.take(range(half - (not odd), half + 1), axis).mean(axis, keepdims=keepdims)
    last = part.take([-1], axis).max(axis, keepdims=keepdims)
    return np.where(np.isnan(last), last, middle)[()]


def known_sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of what is known, ``None`` where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def quantile(values: npt.NDArray[np.float64], part: float) -> float:
    """Return what ``numpy.quantile`` does of one or more numbers without NaN."""
    ordered = np.sort(values)
    at = (len(ordered) - 1) * part
    before = int(at)
    a, b = ordered[before], ordered[min(before + 1, len(ordered) - 1)]
    # From the nearer of the two, as NumPy does.
    return float(a + (b - a) * (at - before) if at - before < 0.5 else b - (b - a) * (1 - (at - before)))
