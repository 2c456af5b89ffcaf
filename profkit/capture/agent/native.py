"""Load and drive the native tracer; without one, no functions are recorded."""

from __future__ import annotations

import _imp
import _lsprof
import _thread
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

from . import __path__, settings

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

#: Prefix of the agent's file names (see `loader`): its functions are not the target's.
HERE = sys._getframe().f_code.co_filename.rpartition("native")[0]

#: Whether each thread has its own collector.
PER_THREAD = sys.version_info < (3, 12)

#: Whether this Python has no GIL: stacks are sampled and no calls traced.
FREE_THREADED = "t" in getattr(sys, "abiflags", "")

#: cProfile's collector type, before ours replaces it for the target.
Collector: Any = _lsprof.Profiler

#: The file of profkit's API that the target calls (`profkit.start` and the like).
_CALLS = os.path.join("profkit", "api", "windows.py")

#: The thread's own ident, also after gevent or eventlet has patched the module.
_get_ident = _thread.get_ident

#: The original, which shows our collectors; the target gets a wrapper, see `own_profilers`.
_getprofile = sys.getprofile

#: Up to this many threads, ended ones are not looked for.
_FEW_THREADS = 32


def load(elsewhere: str = "") -> Any:
    """Return the native tracer's module for this interpreter, or ``None``.

    `elsewhere` is a second directory to search. Call `event_costs.take_out_costs` before anything is recorded.
    """
    if os.environ.get(settings.DISABLE_NATIVE_VARIABLE) or sys.implementation.name != "cpython":
        return None
    directories = [os.path.join(os.path.dirname(__path__[0]), "native", "lib")]
    if elsewhere:
        directories.append(elsewhere)
    name = "_tracer" if PER_THREAD else "_tracer_abi3"
    if PER_THREAD or FREE_THREADED:
        files = ["_tracer" + suffix for suffix in _imp.extension_suffixes() if "cpython" in suffix]
    else:
        files = [name + ".abi3.so"]
    for path in [os.path.join(directory, file) for directory in directories for file in files]:
        if not os.path.exists(path):
            continue
        try:
            spec = ModuleSpec(name, ExtensionFileLoader(name, path), origin=path)
            module = _imp.create_dynamic(spec)
            _imp.exec_dynamic(module)
            if not hasattr(module, "watch_collections"):
                continue  # of another profkit: a checkout that was updated and not rebuilt
            injected = os.environ.get(settings.INJECTION_VARIABLE, "")
            if os.path.basename(injected) == settings.NVTX_LIBRARY:
                module.follow_ranges(injected)
            return module
        except ImportError:
            continue  # built for another C library
        finally:
            sys.modules.pop(name, None)
    return None


def tracer(module: Any, foreign: bool = False, inherited: Optional[Tracer] = None) -> Tracer:
    """Return a tracer with the collector of `module`, or one that sees nothing for ``None``.

    Call `map_tables` before. `foreign`: up to Python 3.11, threads not started by `threading` are traced too.
    `inherited`: in a forked child, the parent's tracer if it still sees calls.
    """
    if module is None:
        return Tracer()
    if inherited is not None:
        if isinstance(inherited, ProcessTracer):
            inherited.renew()  # setting the interpreter's events again would cost more than all else
            return inherited
        inherited.finish()
    return ThreadTracer(module.Collector, foreign) if PER_THREAD else ProcessTracer(module.Collector)


def map_tables(module: Any, path: str, descriptor: int) -> bool:
    """Keep the tables in an empty file, with `descriptor` (or -1) kept open; return whether that works."""
    if module is None:
        return False
    try:
        return bool(module.map_tables(path, HERE, descriptor))
    except (OSError, ValueError):
        return False  # e.g. a path that cannot be encoded


class Tracer:
    """A tracer of one process that sees nothing."""

    #: The tracer's name in records.
    kind = "none"

    def start(self) -> None:
        """Begin with the calling thread."""
        self.resume()

    def threading_is_there(self, threading: Any, again: bool = False) -> None:
        """Have new threads of `threading` begin with our hook, up to Python 3.11; `again` replaces one.

        The target must have imported `threading`: importing it in every process would cost short ones half of
        what a capture adds.
        """

    def pause(self) -> None:
        """Make room for the target's own profiler in this thread."""

    def resume(self) -> None:
        """Continue after the target's own profiler."""

    def finish(self) -> None:
        """Close this thread's open calls with exact times, and stop following it."""
        self.pause()

    def open(self, threads: Dict[int, int], warm: bool, fresh: bool, behind: int = 0, most: int = -1) -> None:
        """Begin to trace threads (native id by ident) in the middle of their calls.

        What was traced since `warm` is discarded with `fresh`. `behind` counts the frames outside the agent's
        own that are not the target's. If `most` is given, this thread's other frames are left out, and calls of
        those stay open at the end.
        """

    def close(self) -> None:
        """Close open calls and stop tracing all threads until `open`, from any thread."""

    def sees(self) -> bool:
        """Whether a call of this thread would be noticed at once."""
        return False

    def displaced(self) -> bool:
        """Whether this tracer no longer receives the events."""
        return False


class ThreadTracer(Tracer):
    """The tracer up to Python 3.11: each thread has its collector."""

    kind = "native"

    def __init__(self, collector: Any, foreign: bool) -> None:
        self._collector = collector
        self._foreign = foreign
        self._main: Optional[_Traced] = None
        self._living: Dict[int, _Traced] = {}
        self._between = False  # between windows, and at the end: no thread is traced
        self._hook: Any = None
        self._hooked = False  # `threading` has the hook, or had it until the target set another
        self._look_for_ended = 2 * _FEW_THREADS
        self._of_others: Any = None

    def start(self) -> None:
        self._follow_foreign()
        self._hook = self._thread_started
        self.threading_is_there(sys.modules.get("threading"), again=True)
        self._main = self._trace_this_thread()

    def threading_is_there(self, threading: Any, again: bool = False) -> None:
        if self._hook is None or self._between or (self._hooked and not again):
            return
        if hasattr(threading, "setprofile") and (again or threading._profile_hook is None):
            self._hooked = True
            threading.setprofile(self._hook)

    def _thread_started(self, frame: Any, event: str, arg: Any) -> None:
        """Put a collector into this function's place, at the first profile event of a new thread."""
        if self._between:
            sys.setprofile(None)
            return
        self._trace_this_thread()

    def pause(self) -> None:
        traced = self._living.get(_get_ident())
        if traced is not None:
            traced.collector.disable()

    def resume(self) -> None:
        self._follow_foreign()
        traced = self._living.get(_get_ident())
        if traced is not None:
            traced.collector.enable()

    def _follow_foreign(self) -> None:
        """Trace threads not started by `threading` too."""
        if self._foreign and self._of_others is None:
            self._of_others = self._collector()
            self._of_others.follow_others(True)

    def _trace_this_thread(self) -> _Traced:
        if len(self._living) >= self._look_for_ended:
            for ident, traced in list(self._living.items()):
                if traced is not self._main and traced.collector.ended():
                    self._living.pop(ident, None)
            self._look_for_ended = 2 * max(_FEW_THREADS, len(self._living))
        traced = self._living[_get_ident()] = _Traced(self._collector)
        traced.collector.enable()
        return traced

    def sees(self) -> bool:
        return type(_getprofile()) is self._collector

    def open(self, threads: Dict[int, int], warm: bool, fresh: bool, behind: int = 0, most: int = -1) -> None:
        self._between = False
        self._follow_foreign()
        self._hook = self._hook or self._thread_started
        self.threading_is_there(sys.modules.get("threading"))
        own = _get_ident()
        for ident, native in threads.items():
            traced = self._living.get(ident)
            if traced is None or traced.native != native:
                traced = self._living[ident] = _Traced(self._collector)
                traced.native = native
            if native == os.getpid():
                self._main = traced
            if warm:
                traced.collector.remember()
            # Skip the agent's own frames, and the `behind` frames outside them, which are not the target's.
            skip = own_depth() + behind if ident == own and behind else 0
            traced.collector.adopt({ident: native}, skip, most, fresh)

    def close(self) -> None:
        self._between = True
        threading = sys.modules.get("threading")
        self._hooked = False
        if self._hook is not None and getattr(threading, "_profile_hook", None) == self._hook:
            threading.setprofile(None)  # type: ignore[union-attr]
        if self._of_others is not None:
            self._of_others.follow_others(False)
            self._of_others.suspend()
            self._of_others = None
        for traced in list(self._living.values()):
            traced.collector.suspend()

    def displaced(self) -> bool:
        return any(traced.collector.displaced() for traced in list(self._living.values()))

    def finish(self) -> None:
        if self._of_others is not None:
            self._of_others.follow_others(False)
            self._of_others = None
        try:
            self.pause()
        except RuntimeError:
            pass  # in a forked child: the collector belongs to a thread of the parent


class ProcessTracer(Tracer):
    """The tracer from Python 3.12 on: one collector for all threads."""

    kind = "native"

    def __init__(self, collector: Any) -> None:
        self._collector = collector()
        self._running = False

    def sees(self) -> bool:
        return self._running and not self._collector.displaced()

    def renew(self) -> None:
        """Continue in a forked child as its own tracer."""
        self._collector.renew()

    def resume(self) -> None:
        if not self._running:
            try:
                self._collector.enable()
                self._running = True
            except ValueError:
                pass  # another tool holds the only profiler id

    def open(self, threads: Dict[int, int], warm: bool, fresh: bool, behind: int = 0, most: int = -1) -> None:
        if warm:
            self._collector.remember()
        try:
            self._collector.adopt(threads, own_depth() + behind if behind else 0, most, fresh)
            self._running = True
        except ValueError:
            pass  # another tool holds the only profiler id

    def close(self) -> None:
        if self._running:
            self._running = False
            self._collector.suspend()

    def pause(self) -> None:
        if self._running:
            self._running = False
            self._collector.disable()

    def displaced(self) -> bool:
        return bool(self._collector.displaced())


def own_depth() -> int:
    """Return how many of this thread's innermost frames are the agent's, counting from the caller's."""
    frame: Any = sys._getframe(1)
    depth = 0
    while frame is not None and (
        frame.f_code.co_filename.startswith(HERE) or frame.f_code.co_filename.endswith(_CALLS)
    ):
        depth += 1
        frame = frame.f_back
    return depth


def threads_to_trace(main: int) -> Dict[int, int]:
    """Return the native ids, by ident, of threads that others can trace; `main` is the main thread."""
    found = {main: os.getpid()}
    module = sys.modules.get("threading")
    try:
        known = list(module._active.items()) if module is not None else []
    except Exception:
        known = []  # it changed during the copy, or this Python lacks it
    for ident, thread in known:
        native = getattr(thread, "native_id", None)
        if native and ident not in found and native not in found.values():
            found[ident] = native
    return found


class _Traced:
    """A thread's collector, which does nothing when it is asked twice, and the thread's native id."""

    def __init__(self, collector: Any) -> None:
        self.collector = collector()
        self.native = _thread.get_native_id()
