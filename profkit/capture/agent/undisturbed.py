"""Run the agent's code in a thread of the target without what the target would do in it meanwhile."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar

    _Result = TypeVar("_Result")

#: Thresholds of the garbage collector at which it does not run.
_NEVER_COLLECT = (2**31 - 1, 2**31 - 1, 2**31 - 1)

#: Calls inside calls that our functions make, and some more.
_DEEPEST = 20


def without_collections(call: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call our function without a collection, which would run finalisers of the target, or traverse what it makes."""
    if not hasattr(gc, "set_threshold"):
        return call(*arguments)
    before = gc.get_threshold()
    gc.set_threshold(*_NEVER_COLLECT)
    try:
        return call(*arguments)
    finally:
        if gc.get_threshold() == _NEVER_COLLECT:
            gc.set_threshold(*before)


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
