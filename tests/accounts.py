"""What every account of two sides holds, for the tests that make one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from profkit.verdict.account import BUCKETS, CAPTURE, PAUSES, Account

#: The identity holds to rounding.
ROUNDING = 1e-9
#: Buckets that only newer tracers fill.
WHERE_KNOWN = (*PAUSES, CAPTURE)


def assert_adds_up(found: Account, walls: Sequence[float] | None = None) -> None:
    """Its buckets are all there, and their sum is what the candidate took more."""
    assert tuple(b.name for b in found.buckets if b.name not in WHERE_KNOWN) == BUCKETS
    whole = max(abs(found.baseline_s), abs(found.candidate_s))
    assert math.fsum(b.seconds for b in found.buckets) == pytest.approx(found.added_s, abs=ROUNDING * whole)
    if walls is not None:
        assert (found.baseline_s, found.candidate_s) == pytest.approx(tuple(walls), rel=ROUNDING)
