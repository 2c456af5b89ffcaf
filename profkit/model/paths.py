"""Calling contexts of one thread as a tree.

A row excludes its callees, which have their own rows. A recursive call is added to the outermost open call,
so that no function is inside itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model.arrays import Bools, Floats, Index, Ints
from profkit.model.bounds import Counts, Times, Waits
from profkit.model.columns import ProfileError, check_columns, check_indices


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Sums by path, which is a function and the chain of its callers.

    Attributes
    ----------
    parent : int32 array, shape (n,)
        Path of the caller, always an earlier row; −1 for none.
    function : int32 array, shape (n,)
        Row in the thread's profile; −1 for calls from this parent that are not kept apart.
    ncalls : int64 array, shape (n,)
    tottime, wait, blocked : float64 array, shape (n,)
        Self time, and its parts spent queueing for a CPU and otherwise off-CPU; seconds, NaN where not
        measured.
    """

    parent: Index
    function: Index
    ncalls: Counts
    tottime: Times
    wait: Waits
    blocked: Waits

    def __len__(self) -> int:
        return len(self.parent)

    def validate(self, functions: int) -> Paths:
        """Check the columns against each other and a profile of `functions` rows; return the paths.

        Raises
        ------
        ProfileError
            A column has a wrong length or dtype, an index out of its table, or an impossible number.
        """
        check_columns(self, len(self), "calling contexts")
        check_indices(self, "calling contexts", ("function",), functions, least=-1)
        if (self.parent < -1).any() or (self.parent >= np.arange(len(self))).any():
            raise ProfileError("calling contexts: one is called by a later one")
        return self


def depths(parent: npt.NDArray[np.integer[Any]]) -> Ints:
    """Return the number of ancestors of each row, given its parent row (−1 for none)."""
    around = parent.astype(np.int64)
    depth = (around >= 0).astype(np.int64)
    while True:
        # Pointer doubling: add the depth of the row reached, then move on to that row's own target.
        inside = np.flatnonzero(around >= 0)
        if not len(inside):
            return depth
        reached = around[inside]
        depth[inside] += depth[reached]
        around[inside] = around[reached]


def preorder(parent: Sequence[int], siblings: Iterable[int]) -> list[int]:
    """Return all rows, each followed by its descendants; `siblings` are the rows in the order of siblings."""
    children: dict[int, list[int]] = {}
    for row in siblings:
        children.setdefault(parent[row], []).append(row)
    order: list[int] = []
    left = children.get(-1, [])[::-1]
    while left:
        order.append(left.pop())
        left += children.get(order[-1], [])[::-1]
    return order


def below(parent: npt.NDArray[np.integer[Any]], marked: Bools) -> Bools:
    """Return whether a marked row is among the ancestors of each row."""
    found = np.zeros(len(parent), np.bool_)
    while True:
        further: Bools = (parent >= 0) & (marked | found)[parent]
        if np.array_equal(further, found):
            return found
        found = further


def with_callees(parent: npt.NDArray[np.integer[Any]], own: Floats) -> Floats:
    """Return the sum over each row and all its descendants."""
    depth = depths(parent)
    deepest = int(depth.max(initial=0))
    # Narrow integers sort much faster.
    order = np.argsort((deepest - depth).astype(np.min_scalar_type(deepest)), kind="stable")
    total = own.astype(np.float64)
    for rows in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        if len(rows) and depth[rows[0]] > 0:
            np.add.at(total, parent[rows], total[rows])
    return total
