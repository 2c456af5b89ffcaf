"""Wait states of ranks in Scalasca's terms, and why the rank that the others wait for was late.

A profile has no messages: a wait state is known by the call in which the others wait, and the late rank by its own
time. Terms: Scalasca's performance properties (Geimer, Wolf, Wylie, Ábrahám, Becker and Mohr, "The Scalasca
performance toolset architecture", Concurrency and Computation 22, 2010).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from profkit.model.pauses import STOPPED, WAITS

Floats = npt.NDArray[np.float64]

#: Wait states in the order of their numbers; the first is of calls whose name does not say what they wait for.
OTHER = "Wait"
WAIT_STATES = (
    OTHER,
    "Wait at N x N",
    "Wait at Barrier",
    "Late Broadcast",
    "Early Reduce",
    "Late Sender",
    "Late Receiver",
)
#: Of a rank that works longer than the others, where no call was seen in which they wait.
IMBALANCE = "Computational imbalance"
#: Names of calls without case and underscores, MPI's and those of torch.distributed.
_CALLS = tuple(
    re.compile(pattern)
    for pattern in (
        r"all(reduce|gather|toall)\w*|reducescatter\w*|multinodemean\w*",
        r"\w*barrier",
        r"i?bcast\w*|i?broadcast\w*|i?scatterv?\w*",
        r"i?reduce|i?gatherv?\w*",
        r"i?recv\w*|sendrecv\w*|m?probe|wait(all|any|some)?",
        r"[isbr]?send\w*",
    )
)
_METHOD = re.compile(r"'(\w+)' of|(\w+)>?$")
#: Kinds of time off the CPU in which data is fetched.
_LOADING = [WAITS.index(kind) for kind in ("pipe", "socket", "file", "disk")]
_STOPPED = WAITS.index(STOPPED)
#: Part (1) of a straggler's excess that must be of one kind for it to be the reason.
MOST_OF_IT = 0.5
#: Part (1) of the usual CPU time from which a function says something about the speed of the CPU.
TELLING = 0.05


def wait_state(name: str) -> int:
    """Return the number of the wait state of a call that waits for other ranks."""
    found = _METHOD.search(name)
    word = "" if found is None else (found[1] or found[2]).replace("_", "").lower()
    if word in ("wait", "synchronize") and "torch" in name:  # of any operation
        return 0
    return next((i for i, calls in enumerate(_CALLS, 1) if calls.fullmatch(word)), 0)


def waited_for(waits: Floats, member: int) -> tuple[int, float]:
    """Return in which wait state the others wait longer than a member does, and how long, a mean in seconds.

    `waits` (members × wait states) are seconds. Means, not medians: of a message only its receiver waits.
    """
    excess = np.delete(waits, member, axis=0).mean(axis=0) - waits[member]
    most = int(excess.argmax())
    return most, float(excess[most])


def why_off(excess: Floats, blocked_s: float) -> str:
    """Return the kind of a straggler that is off the CPU `blocked_s` longer, `excess` by `WAITS`."""
    if float(excess[_STOPPED]) >= MOST_OF_IT * blocked_s:
        return "stopped"
    return "loading" if float(excess[_LOADING].sum()) >= MOST_OF_IT * blocked_s else "blocked"


def slower_everywhere(work: Floats, usual: Floats) -> bool | None:
    """Whether all functions of a member take more CPU time than usual, and alike; ``None`` if one has all of it.

    Where the work differs, some functions take as long as in the others; where the CPU is slower, none does.
    """
    large = usual >= TELLING * usual.sum()
    if large.sum() < 2:
        return None
    ratios = work[large] / usual[large]
    whole = float(work[large].sum() / usual[large].sum())
    return whole > 1.0 and float(ratios.min()) - 1.0 >= MOST_OF_IT * (whole - 1.0)


def unknown_of(kind: str, looked: bool, alone: bool) -> str:
    """Return what keeps the reason of a straggler of a kind from being known; empty where it is.

    `looked`: what all members were off the CPU for was seen; `alone`: one function has nearly all CPU time.
    """
    if kind == "longer":
        return "calls"
    if kind == "blocked" and not looked:
        return "looks"
    return "speed" if kind == "slower" and alone else ""


def totals(waits: Sequence[Sequence[float]]) -> list[tuple[int, Floats]]:
    """Return the wait states that the members are in, the longest first, with the seconds of each member."""
    seconds = np.array(waits)
    return [
        (i, seconds[:, i])
        for i in np.argsort(-seconds.sum(axis=0), kind="stable").tolist()
        if seconds[:, i].sum() > 0
    ]
