"""What callers hand down to callees, step by step until nothing changes: also through recursion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Bools, Floats

#: Steps after which what is handed down counts as spread; deeper stacks leave only a small part.
STEPS = 64
#: Most functions that call each other for which the steps are solved as equations: these take its cube in time.
MOST_RECURSIVE = 1000
#: Part of what it is handed that a recursion keeps, so that one that nothing enters has a solution.
_KEPT = 1e-9
#: Rounding, by which steps differ at last.
_ROUNDING = 1e-9
#: By how much of its range a solution may exceed it, due to rounding.
_BEYOND = 0.01

Rows = npt.NDArray[np.intp]


def handed_down(
    step: Callable[[Floats], Floats],
    start: Floats,
    edges: tuple[Rows, Rows, Floats],
    limits: tuple[Floats, Floats],
) -> Floats:
    """Return the fixed point of `step`, from `start`, shape (n,), within `limits` (low, high), each of shape (n,).

    `edges` are callers, callees, and the part of a caller's value that `step` hands on to the callee, shape (k,).
    Recursion takes a step for each call: functions that call each other are solved as linear equations.
    """
    current = start
    for solve in (True, False):
        for _ in range(STEPS):
            following = step(current)
            # Deep recursion goes on by very small steps.
            if np.allclose(following, current, rtol=_ROUNDING, atol=_ROUNDING):
                return following
            current = following
        if solve:
            current = _through_recursion(step, current, edges, limits)
    return current


def _through_recursion(
    step: Callable[[Floats], Floats],
    current: Floats,
    edges: tuple[Rows, Rows, Floats],
    limits: tuple[Floats, Floats],
) -> Floats:
    """Return `current` with functions that call each other as the equations say, where that is within the limits."""
    caller, callee, weight = edges
    rows = np.flatnonzero(_recursive(caller, callee, weight, len(current)))
    if not 0 < len(rows) <= MOST_RECURSIVE:
        return current
    place = np.full(len(current), -1)
    place[rows] = np.arange(len(rows))
    inside = (place[caller] >= 0) & (place[callee] >= 0)
    matrix = np.zeros((len(rows), len(rows)))
    np.add.at(matrix, (place[callee[inside]], place[caller[inside]]), weight[inside])
    # What comes from outside stays as it is.
    entering = step(current)[rows] - matrix @ current[rows]
    try:
        solved = np.linalg.solve((1.0 + _KEPT) * np.eye(len(rows)) - matrix, entering)
    except np.linalg.LinAlgError:
        return current
    low, high = limits[0][rows], limits[1][rows]
    room = _BEYOND * (high - low)
    good = (solved >= low - room) & (solved <= high + room)
    result: Floats = current.copy()
    result[rows[good]] = np.clip(solved, low, high)[good]
    return result


def _recursive(caller: Rows, callee: Rows, weight: Floats, n: int) -> Bools:
    """Return functions that call each other, and those between them, shape (n,)."""
    left = weight != 0
    while True:
        calls, called = (np.bincount(side[left], minlength=n) > 0 for side in (caller, callee))
        inside = left & (calls & called)[caller] & (calls & called)[callee]
        if inside.sum() == left.sum():
            return np.logical_and(calls, called)
        left = inside
