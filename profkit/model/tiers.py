"""How a process was captured over its time, and what that added to its wall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profkit.model.bounds import Seconds, SignedSeconds


@dataclass(frozen=True, slots=True)
class Tier:
    """A way of capture, and from when on it was in use.

    Attributes
    ----------
    kind
        ``exact``: every call was traced; ``sampled``: stacks were sampled, and calls counted in short bursts.
    begin_s
        Seconds after the process's begin.
    """

    kind: Literal["exact", "sampled"]
    begin_s: Seconds


@dataclass(frozen=True, slots=True)
class Effect:
    """What capture added to the wall of a process: an estimate with its 95 % interval, seconds."""

    seconds: SignedSeconds
    low_s: SignedSeconds
    high_s: SignedSeconds
