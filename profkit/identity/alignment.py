"""Which function of one profile is which of another, as `identity.align` returns it. Holds data, computes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.int32]

#: How two functions were found to be the same, surest first; `Alignment.rung` indexes this.
RUNGS = ("exact", "rooted", "same-source", "nearest-line", "folded-comprehension")


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Which function of one profile is which of another: one-to-one, with what is left over.

    Attributes
    ----------
    baseline, candidate : int32 array, shape (k,)
        Matched rows; no row occurs twice on its side.
    rung : int8 array, shape (k,)
        Index into `RUNGS`.
    baseline_only, candidate_only : int32 array
        The residue: rows without a partner.
    """

    baseline: Index
    candidate: Index
    rung: npt.NDArray[np.int8]
    baseline_only: Index
    candidate_only: Index
