"""A target that sets a profile function of its own (``sys.setprofile``) runs as it would alone.

A function that is set while a profiler sees the call of ``sys.setprofile`` begin gets that call's end as its first
event: the pure-Python ``profile`` takes it for a damaged stack and raises. Up to Python 3.11 the function also takes
the place of our collector. So ``sys.setprofile`` gets a wrapper: what the target sets comes into force when the
wrapper has returned, and up to Python 3.11 our collector pauses in that thread until it is unset.

What is in force sees one call of that name, as it always does. Whatever else has to be called while it may look is
called from C (``map``, ``starmap``), which makes no events.
"""

from __future__ import annotations

import sys
from _functools import partial  # type: ignore[import-not-found]
from _thread import get_ident
from itertools import starmap

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Tuple

#: Of one call.
_NO_ARGUMENTS = ((),)


def make_way(
    collectors: Tuple[Any, ...],
    follows: Callable[[Any], bool],
    begin: Callable[[Any, Any], None],
    end: Callable[[Any], None],
) -> None:
    """Wrap ``sys.setprofile``.
    `collectors` are types of the agent's own profile functions, and `follows` says whether a function is the agent's
    that puts one into the place of a new thread. `begin` is called with a function that is to be set where none of
    the target's is, and a key of the thread; `end` with that key when none of the target's is in force any more.
    """
    original, current = sys.setprofile, sys.getprofile
    keys: Dict[int, Any] = {}

    def is_set(function: Any) -> None:
        is_unset()  # where the one before has raised, Python has unset it
        begin(function, keys.setdefault(get_ident(), object()))

    def is_unset() -> None:
        key = keys.pop(get_ident(), None)
        if key is not None:
            end(key)

    def start(function: Any, frame: Any, event: str, argument: Any) -> None:
        if frame.f_code is code and event == "return":
            original(function)

    def setprofile(function: Any) -> None:
        for before in starmap(current, _NO_ARGUMENTS):
            if before is None or type(before) in collectors:
                if function is None:
                    is_unset()
                    return
                if before is not None and follows(function):
                    return  # in a greenlet that stands for a thread: the collector sees what it does
                is_set(function)
            if function is not None:
                function = partial(start, function)
            for _ in map(original, (function,)):
                pass
            if function is None:
                is_unset()

    code = _put(setprofile)


def hide_collector(collector: Any) -> None:
    """Wrap ``sys.getprofile``: a profile function of this type is none of the target's."""
    current = sys.getprofile

    def getprofile() -> Any:
        for function in starmap(current, _NO_ARGUMENTS):
            if type(function) is not collector:
                return function
        return None

    _put(getprofile)


def _put(function: Any) -> Any:
    """Put a function into the place of that of `sys`, named as `profile` shows that; return its code."""
    name: str = function.__name__
    original = getattr(sys, name)
    function.__code__ = function.__code__.replace(co_filename="", co_firstlineno=0, co_name=name)
    function.__qualname__, function.__module__ = name, "sys"
    function.__doc__, function.__wrapped__ = original.__doc__, original
    setattr(sys, name, function)
    return function.__code__
