"""Which function of one profile is which of another, as `identity.align` returns it. Data only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.int32]

#: How two functions were found to be the same, surest first; `Alignment.rung` indexes this.
RUNGS = ("exact", "rooted", "same-source", "nearest-line", "folded-comprehension")


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Matched rows of two profiles, shape (k,), each row once, and the residue without a partner.

    `rung` is an index into `RUNGS`.
    """

    baseline: Index
    candidate: Index
    rung: npt.NDArray[np.int8]
    baseline_only: Index
    candidate_only: Index
