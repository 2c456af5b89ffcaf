"""Let a target profile itself, with cProfile or ``sys.setprofile``, as if it ran alone.

Our tracing pauses while its own cProfile is on: otherwise the ``enable`` of that would silently displace our
collector up to Python 3.11, and raise ``ValueError`` from 3.12 on. A function set while a profiler is active
gets the end of ``sys.setprofile`` as its first event, at which the pure-Python ``profile`` raises; up to 3.11 it
also replaces our collector. So a wrapper sets it only on return. Other calls that it could see are made from C
(``map``, ``starmap``), which makes no events.
"""

from __future__ import annotations

import sys
from _functools import partial  # type: ignore[import-not-found]
from _thread import get_ident
from itertools import starmap
from time import perf_counter

from .native import PER_THREAD, Collector

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List, Protocol, Tuple

    class Session(Protocol):
        """What is told when they begin and end."""

        def begin_if_awaited(self) -> None: ...
        def pause(self) -> None: ...
        def trace_again(self) -> None: ...
        def follows(self, function: Any) -> bool: ...


#: Arguments for `starmap` that make one call without arguments.
_NO_ARGUMENTS = ((),)
#: Spans recorded of a target that profiles itself; later ones are only counted.
_KEPT = 4


class OwnProfilers:
    """The target's own profilers that are on, each with the ident of its thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.on: List[Tuple[Any, int]] = []
        #: When they were on, for the process's record.
        self.notes: Dict[str, Any] = {}

    def make_way(self, lsprof: Any, collector: Any) -> None:
        """Replace the profiler of `lsprof` and the functions of `sys`; `collector` is the type of the tracer's."""
        lsprof.Profiler = self._profiler()
        self._wrap_setprofile((Collector, collector))
        if PER_THREAD:
            _hide_collector(collector)

    def _begun(self, profiler: Any) -> None:
        self._session.begin_if_awaited()
        if not self.on:
            spans = self.notes.setdefault("own_profiler", [])
            if len(spans) < _KEPT:
                spans.append([perf_counter(), None])
            else:
                # A target that profiles each of a million requests must not grow the list.
                self.notes["own_profiler_more"] = self.notes.get("own_profiler_more", 0) + 1
                spans[-1][1] = None
        self.on.append((profiler, get_ident()))
        self._session.pause()

    def _ended(self, profiler: Any) -> None:
        """Trace this thread again unless another of the target's profilers is on in it."""
        if not any(own is profiler for own, _ in self.on):
            return
        self.on = [(own, ident) for own, ident in self.on if own is not profiler]
        if not self.on and self.notes.get("own_profiler"):
            self.notes["own_profiler"][-1][1] = perf_counter()
        self._session.trace_again()

    def _profiler(self) -> Any:
        """Return the built-in profiler, which tells us when it is on."""
        profilers = self

        class Profiler(Collector):  # type: ignore[misc]
            """The built-in profiler."""

            def enable(self, *args: Any, **kwargs: Any) -> None:
                profilers._begun(self)
                try:
                    Collector.enable(self, *args, **kwargs)
                except BaseException:
                    profilers._ended(self)
                    raise

            def disable(self) -> None:
                # No calls before the profiler is off, and then only through map(): the target's profile must
                # hold one call of disable(), for which this function stands.
                for own in profilers.on:
                    if own[0] is self:
                        break
                else:
                    return  # it is off already: the original would switch off ours
                for _ in map(Collector.disable, (self,)):
                    pass
                profilers._ended(self)

            def getstats(self) -> List[Any]:
                # Calls of these functions appear as calls of the built-in ones. Nothing is called: the
                # profiler may be on.
                stats: List[Any] = []
                for found in map(Collector.getstats, (self,)):
                    for entry in found:
                        for code, label in own_functions:
                            if entry[0] is code:
                                entry = type(entry)((label, *entry[1:]))
                            calls: List[Any] = []
                            for call in entry[5] or ():
                                calls += (type(call)((label, *call[1:])) if call[0] is code else call,)
                            if calls:
                                entry = type(entry)((*entry[:5], calls))
                        stats += (entry,)
                return stats

        # Code of our functions, and cProfile's label of the originals, which it compares by identity.
        own_functions = [
            (function.__code__, "<method '%s' of '_lsprof.Profiler' objects>" % function.__name__)
            for function in (Profiler.disable, Profiler.getstats)
        ]
        Profiler.__module__ = "_lsprof"
        Profiler.__qualname__ = "Profiler"
        return Profiler

    def _wrap_setprofile(self, collectors: Tuple[Any, ...]) -> None:
        original, current = sys.setprofile, sys.getprofile
        begun, ended, follows = self._begun, self._ended, self._session.follows
        keys: Dict[int, Any] = {}

        def is_set(function: Any) -> None:
            is_unset()  # if the earlier function raised, Python has unset it
            key = keys.setdefault(get_ident(), object())
            if PER_THREAD and not follows(function):  # from Python 3.12 on both can be set
                begun(key)

        def is_unset() -> None:
            key = keys.pop(get_ident(), None)
            if key is not None:
                ended(key)

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


def _hide_collector(collector: Any) -> None:
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
