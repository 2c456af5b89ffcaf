"""Run the agent's code in a thread of the target without what the target would do in it meanwhile."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, List, TypeVar

    _Result = TypeVar("_Result")

#: Thresholds of the garbage collector at which it does not run.
_NEVER_COLLECT = (2**31 - 1, 2**31 - 1, 2**31 - 1)

#: Those of the target, while ours are in effect; and what Python returns for ours: 3.14.0 has 0 for the third.
_usual: List[int] = []
_ours: List[int] = []


def _never_collects() -> bool:
    return bool(_ours) and gc.get_threshold() == tuple(_ours)


#: Calls inside calls that our functions make, and some more.
_DEEPEST = 20


def without_collections(call: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call our function without a collection, which would run finalisers of the target, or traverse what it makes.

    Other threads are without collections meanwhile: what may hang is called by `with_collections`.
    """
    if not hasattr(gc, "set_threshold"):
        return call(*arguments)
    before = gc.get_threshold()
    if not _never_collects():
        _usual[:] = before
    gc.set_threshold(*_NEVER_COLLECT)
    _ours[:] = gc.get_threshold()
    try:
        return call(*arguments)
    finally:
        if _never_collects():
            gc.set_threshold(*before)


def with_collections(call: Callable[..., _Result], *arguments: Any) -> _Result:
    """Make a system call within `without_collections`; the target's other threads collect meanwhile."""
    if not collect_again():
        return call(*arguments)
    try:
        return call(*arguments)
    finally:
        # Unless the target has set others.
        if gc.get_threshold() == tuple(_usual):
            gc.set_threshold(*_NEVER_COLLECT)


def collect_again() -> bool:
    """End `without_collections`, as in a child that was forked meanwhile; return whether it was in effect."""
    if not hasattr(gc, "set_threshold") or not _usual or not _never_collects():
        return False
    gc.set_threshold(*_usual)
    return True


def need_room(calls: int = _DEEPEST) -> None:
    """Raise RecursionError, for the tracer to try again later, unless our functions can call each other here."""
    if calls:
        need_room(calls - 1)


def ignore_interrupts() -> bool:
    """Ignore SIGINT if it would raise KeyboardInterrupt in this thread; return whether it would."""
    if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        return False
    try:
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    except ValueError:  # not the main thread or not the main interpreter
        return False
    return True


def heed_interrupts() -> None:
    """Undo `ignore_interrupts`: a process that dies of the first one sends it to itself."""
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
