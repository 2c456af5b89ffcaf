"""Wait states of ranks in Scalasca's terms, and why the rank that the others wait for was late.

Without messages, a wait state is inferred from the waiting call. Source: Geimer, Wolf, Wylie, Ábrahám, Becker
and Mohr, "The Scalasca performance toolset architecture", Concurrency and Computation 22, 2010.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from profkit.model.arrays import Floats
from profkit.model.pauses import STOPPED, WAITS

#: Wait states by number; the first one is for calls whose name does not say what they wait for.
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
#: State for a rank that works longer than the others when no waiting call was recorded.
IMBALANCE = "Computational imbalance"
#: Calls of MPI and torch.distributed, in lower case without underscores.
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
#: Part (1) of a straggler's excess from which one kind is the reason.
MOST_OF_IT = 0.5
#: Part (1) of the usual CPU time from which a function's ratio indicates the speed of the CPU.
TELLING = 0.05


def wait_state(name: str) -> int:
    """Return the index of the wait state of a call that waits for other ranks."""
    found = _METHOD.search(name)
    word = "" if found is None else (found[1] or found[2]).replace("_", "").lower()
    if word in ("wait", "synchronize") and "torch" in name:  # may wait for any operation
        return 0
    return next((i for i, calls in enumerate(_CALLS, 1) if calls.fullmatch(word)), 0)


def waited_for(waits: Floats, member: int) -> tuple[int, float]:
    """Return the wait state in which the others wait longest beyond a member, and the mean excess in seconds.

    `waits`: members × wait states. The mean, not the median: only a message's receiver waits.
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
    """Return whether all functions of a member take more CPU time alike; ``None`` if one has all of it.

    A slower CPU slows every function; extra work leaves some functions unchanged.
    """
    large = usual >= TELLING * usual.sum()
    if large.sum() < 2:
        return None
    ratios = work[large] / usual[large]
    whole = float(work[large].sum() / usual[large].sum())
    return whole > 1.0 and float(ratios.min()) - 1.0 >= MOST_OF_IT * (whole - 1.0)


def unknown_of(kind: str, looked: bool, alone: bool) -> str:
    """Return what hides a straggler's reason, or empty; `alone`: one function has nearly all CPU time."""
    if kind == "longer":
        return "calls"
    if kind == "blocked" and not looked:
        return "looks"
    return "speed" if kind == "slower" and alone else ""


def totals(waits: Sequence[Sequence[float]]) -> list[tuple[int, Floats]]:
    """Return the wait states that occur, the longest first, with the seconds of each member."""
    seconds = np.array(waits)
    return [
        (i, seconds[:, i])
        for i in np.argsort(-seconds.sum(axis=0), kind="stable").tolist()
        if seconds[:, i].sum() > 0
    ]
