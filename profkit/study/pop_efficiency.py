"""Efficiencies of one run of many processes, by the metrics of POP."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.study.rank_read import Member


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Efficiencies of one run as POP defines them, as fractions of 1; NaN if unknown.

    `parallel` = mean useful time / runtime = `balance` (mean / greatest useful time) × `communication`
    (greatest useful time / runtime). Useful time is CPU time outside of waiting and imports.
    """

    processes: int
    runtime_s: float
    useful_s: float
    parallel: float
    balance: float
    communication: float


def efficiency(members: Sequence[Member]) -> Efficiency:
    """Return the efficiencies of one run, by the metrics of POP (EU centre for performance optimisation).

    Source: Wagner, Mohr, Giménez and Labarta, "A structured approach to performance analysis", Tools for High
    Performance Computing 2017, Springer 2019.
    """
    useful = np.array([m.run_s for m in members])
    runtime = max(m.life_s for m in members)
    most = float(useful.max())
    mean = float(useful.mean())
    return Efficiency(
        len(members),
        runtime,
        mean,
        mean / runtime if runtime > 0 else math.nan,
        mean / most if most > 0 else math.nan,
        most / runtime if runtime > 0 else math.nan,
    )
