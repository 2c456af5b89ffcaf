"""How a process was captured over its time, and what that added to its wall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profkit.model.bounds import Seconds, SignedSeconds


@dataclass(frozen=True, slots=True)
class Tier:
    """A way of capture and when it began.

    Attributes
    ----------
    kind
        ``exact``: every call was traced; ``sampled``: stacks were sampled, and calls counted in short bursts.
    begin_s
        Seconds after the process began.
    """

    kind: Literal["exact", "sampled"]
    begin_s: Seconds


@dataclass(frozen=True, slots=True)
class Effect:
    """Estimate of what capture added to the wall of a process, with its 95 % interval; seconds."""

    seconds: SignedSeconds
    low_s: SignedSeconds
    high_s: SignedSeconds
