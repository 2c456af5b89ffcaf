"""Let a target set its own profile function (``sys.setprofile``) as if it ran alone.

A function set while a profiler is active gets the end of ``sys.setprofile`` as its first event, at which the
pure-Python ``profile`` raises; up to Python 3.11 it also replaces our collector. So a wrapper sets it only on
return. Other calls that it could see are made from C (``map``, ``starmap``), which makes no events.
"""

from __future__ import annotations

import sys
from _functools import partial  # type: ignore[import-not-found]
from _thread import get_ident
from itertools import starmap

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Tuple

#: Arguments for `starmap` that make one call without arguments.
_NO_ARGUMENTS = ((),)


def make_way(
    collectors: Tuple[Any, ...],
    follows: Callable[[Any], bool],
    begin: Callable[[Any, Any], None],
    end: Callable[[Any], None],
) -> None:
    """Wrap ``sys.setprofile``.

    `collectors` are the types of the agent's profile functions; `follows` recognises the agent's hook for new
    threads. `begin(function, key)` is called before a thread gets its first function of the target,
    `end(key)` after its last.
    """
    original, current = sys.setprofile, sys.getprofile
    keys: Dict[int, Any] = {}

    def is_set(function: Any) -> None:
        is_unset()  # if the earlier function raised, Python has unset it
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
                    return  # in a greenlet that stands for a thread: the collector sees it
                is_set(function)
            if function is not None:
                function = partial(start, function)
            for _ in map(original, (function,)):
                pass
            if function is None:
                is_unset()

    code = _put(setprofile)


def hide_collector(collector: Any) -> None:
    """Wrap ``sys.getprofile`` so that it does not return a profile function of this type."""
    current = sys.getprofile

    def getprofile() -> Any:
        for function in starmap(current, _NO_ARGUMENTS):
            if type(function) is not collector:
                return function
        return None

    _put(getprofile)


def _put(function: Any) -> Any:
    """Replace the function of this name in `sys`, under the name that `profile` shows; return its code."""
    name: str = function.__name__
    original = getattr(sys, name)
    function.__code__ = function.__code__.replace(co_filename="", co_firstlineno=0, co_name=name)
    function.__qualname__, function.__module__ = name, "sys"
    function.__doc__, function.__wrapped__ = original.__doc__, original
    setattr(sys, name, function)
    return function.__code__
