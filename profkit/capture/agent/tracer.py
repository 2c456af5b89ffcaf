"""cProfile's collector, one per thread, read while it runs.

Used where no native tracer was built for the interpreter (see ``native``). Up to Python 3.11 every thread has a
collector of its own. From 3.12 on the interpreter feeds the events of all threads to one collector, whose stack
they then share; the packer says so in the run. Where threads wait is sampled beside it (see ``waiting``).

What is read are the collector's own entries, by code object, so that functions which share file, line and name
stay apart. Calls that have not returned are not in those entries: `_OpenCalls` accounts for them.
"""

from __future__ import annotations

import _lsprof
import _thread
import sys
from time import perf_counter

from . import record_file
from .ended import EndedThreads, accumulate

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set, Tuple

    from .waiting import Followed, Sampling

#: What the names of the agent's files begin with (see `loader`): its own functions are not the target's.
HERE = sys._getframe().f_code.co_filename.rpartition("tracer")[0]

#: Whether every thread needs, and gets, its own collector.
PER_THREAD = sys.version_info < (3, 12)

#: Where cProfile's collector receives its events from 3.12 on.
_MONITORING: Any = getattr(sys, "monitoring", None)
_PLACE = 2

#: Of the thread, also after gevent or eventlet has put that of a greenlet in its place.
_get_ident = _thread.get_ident

#: The collector's type, before the target can see ours.
Collector: Any = _lsprof.Profiler


_waiting: List[Any] = []


def load_sampling() -> Any:
    """Return the module that samples where threads wait; the agent needs it where it has no native tracer.

    Called for the first time while the agent is imported: later nothing can be.
    """
    if not _waiting:
        from . import waiting

        _waiting.append(waiting)
    return _waiting[0]


class Tracer:
    """All collectors of one process."""

    #: What a record says of how it was made.
    kind = "cprofile"

    def __init__(self) -> None:
        self.codes = Codes()
        self._main: Optional[Traced] = None
        self._living: Dict[int, Traced] = {}
        self._ended = EndedThreads()
        self._paused = False
        self._left = False
        self._between = False  # windows: no thread is to be traced
        self._hook: Any = None
        self._hooked = False  # `threading` has it, or had it until the target set another
        #: Samples where threads wait; native tracers measure it, and some systems do not report it.
        self.sampling: Optional[Sampling] = None
        self._others: Dict[int, Followed] = {}  # threads that share the main thread's collector
        self._finished = False

    def start(self, base_depth: int) -> None:
        """Begin with the calling thread; its `base_depth` outermost frames were entered before."""
        if PER_THREAD:
            self._hook = self._thread_started
            self.threading_is_there(sys.modules.get("threading"), again=True)
        if self.kind == "cprofile":
            self.sampling = load_sampling().Sampling.possible()
        self._main = self._trace_this_thread("MainThread", base_depth)
        if self.sampling is not None and self._main.waits is not None:
            self._main.waits.begin(self.sampling.wait_of(self._main.native))

    def _new(self, ident: int, name: str, base_depth: int) -> Traced:
        return Traced(ident, name, base_depth)

    def _trace_this_thread(self, name: str, base_depth: int) -> Traced:
        ident = _get_ident()
        traced = self._new(ident, name, base_depth)
        if self.sampling is not None:
            traced.waits = load_sampling().Followed(ident, traced.native, base_depth)
        self._end(ident)
        self._living[ident] = traced
        traced.resume()
        return traced

    def threading_is_there(self, threading: Any, again: bool = False) -> None:
        """Have the threads that `threading` starts begin with our hook, up to Python 3.11.

        Called when the target has imported it, before it can start a thread: to import it for every process would
        cost those of milliseconds half of what a capture adds, and the main thread is the one that imports it.

        Parameters
        ----------
        threading
            The module, ``None`` where it was not imported.
        again
            Whether a hook that is there is replaced: a forked child has its parent's.
        """
        if self._hook is None or self._between or self._left or (self._hooked and not again):
            return
        if hasattr(threading, "setprofile") and (again or threading._profile_hook is None):
            self._hooked = True
            threading.setprofile(self._hook)

    def _thread_started(self, frame: Any, event: str, arg: Any) -> None:
        """First profile event of a new thread: put a collector in this function's place."""
        if self._paused or self._left or self._between:
            sys.setprofile(None)
            return
        self._trace_this_thread(thread_name(_get_ident()), _depth(frame))

    def pause(self) -> None:
        """The target starts a profiler of its own in this thread: make room."""
        self._paused = not PER_THREAD
        traced = self._of_this_thread()
        if traced is not None:
            self._settle(traced)
            traced.suspend()

    def resume(self) -> None:
        """The target's own profiler is off."""
        self._paused = self._finished = False
        traced = self._of_this_thread()
        if traced is not None:
            self._settle(traced)  # it is not running: what went by is not charged
            traced.resume()

    def _settle(self, traced: Traced) -> None:
        if self.sampling is not None and traced.waits is not None:
            self.sampling.look([(traced.waits, traced.running)], last=True)

    def finish(self) -> None:
        """Close the open calls of the calling thread, with exact times, and stop following it."""
        if self.sampling is not None and not self._finished:
            self._finished = True
            self.sampling.look(self._followed(), last=True)
        traced = self._of_this_thread()
        if traced is not None:
            traced.suspend()

    def open(self, threads: Dict[int, int], warm: bool, fresh: bool, behind: int = 0) -> None:
        """Begin to trace threads in the middle of what they do; native tracers can.

        Parameters
        ----------
        threads
            The kernel's number of each by its ident.
        warm
            Whether what is traced is to be forgotten later: the next time with `fresh`.
        fresh
            Whether what was traced since then is forgotten now.
        behind
            Frames of the calling thread behind the agent's own that are not the target's.
        """

    def close(self) -> None:
        """Stop tracing all threads, from any of them, until `open`; open calls are closed."""

    def leave(self) -> None:
        """Stop following threads that continue after what was to be traced, from any thread; `finish` comes first."""
        self._left = True

    def sees(self) -> bool:
        """Whether a call of this thread would be noticed at once."""
        return False

    def displaced(self) -> bool:
        """Whether something else now receives events, or nothing; here, up to 3.11, of the calling thread alone."""
        traced = self._of_this_thread()
        return traced is not None and traced.displaced()

    def _of_this_thread(self) -> Optional[Traced]:
        return self._living.get(_get_ident()) if PER_THREAD else self._main

    def sample(self) -> Optional[float]:
        """See where threads wait; return the seconds until that is due again, ``None`` if it never is."""
        if self.sampling is None or self._finished:
            return None
        return self.sampling.look(self._followed(), last=False)

    def _followed(self) -> List[Tuple[Followed, bool]]:
        found = [(t.waits, t.running) for t in list(self._living.values()) if t.waits is not None]
        if not PER_THREAD and self._main is not None:
            self._follow_others(self._main)
            found += [(other, self._main.running) for other in self._others.values()]
        return found

    def _follow_others(self, main: Traced) -> None:
        """From Python 3.12 on: find the threads whose calls the main thread's collector receives."""
        living = {}
        for ident, thread in list(getattr(sys.modules.get("threading"), "_active", {}).items()):
            tid = getattr(thread, "native_id", None)
            if tid is not None and tid != main.native:
                other = living[tid] = self._others.get(tid) or load_sampling().Followed(ident, tid, 0)
                other.name = str(getattr(thread, "name", ""))
        for tid, other in self._others.items():
            if tid not in living and other.measured:
                self._ended.keep(self._waiting_only(other))
        self._others = living

    def _waiting_only(self, followed: Followed) -> Dict[str, Any]:
        rows = followed.rows(self.codes)
        return {
            "native": followed.tid,
            "name": followed.name,
            "waiting": record_file.flat(rows),
            "measured": followed.measured,
            "total": sum(row[1] + row[3] for row in rows),
        }

    def read(self) -> List[Dict[str, Any]]:
        """Return one packed table per thread; see docs/format.md on records."""
        now = perf_counter()
        frames = sys._current_frames()
        alone = len(frames) <= 2  # the thread that reads is one of them
        tables = []
        for ident, traced in list(self._living.items()):
            frame = frames.get(ident)
            if frame is None and traced is not self._main:
                self._end(ident)
                continue
            traced.name = thread_name(ident) or traced.name
            stack = self.codes.stack(frame, traced) if frame is not None and (PER_THREAD or alone) else None
            tables.append(record_file.pack(traced.table(self.codes, now, stack)))
        del frames  # frames keep the target's objects alive
        others = [other for other in list(self._others.values()) if other.measured]
        tables += [record_file.pack(self._waiting_only(other)) for other in others]
        return tables[:1] + self._ended.tables() + tables[1:]

    def _end(self, ident: int) -> None:
        traced = self._living.pop(ident, None)
        if traced is not None:
            self._ended.keep(traced.table(self.codes, perf_counter(), None))


class Traced:
    """One thread's collector with what is needed to account for its open calls."""

    def __init__(self, ident: int, name: str, base_depth: int) -> None:
        self.collector = self.make_collector()
        self.ident = ident
        self.native = _thread.get_native_id()
        self.name = name
        self.base_depth = base_depth
        self.running = self.lost = False
        self.waits: Optional[Followed] = None
        self._since = 0.0
        self._traced_s = 0.0
        self._open = _OpenCalls()

    def make_collector(self) -> Any:
        """Return a new collector."""
        return Collector(subcalls=True, builtins=True)

    def resume(self) -> None:
        """Trace, if that is not done already."""
        if not self.running:
            self.running = True
            self._since = perf_counter()
            try:
                self.collector.enable()
            except ValueError:
                # From 3.12 on there is one place for a profiler, and another one holds it.
                self.running = False

    def suspend(self) -> None:
        """Stop tracing; open calls are closed with exact times."""
        if self.running:
            self.stop_collector()
            self.running = False
            self._traced_s += perf_counter() - self._since
            self._open = _OpenCalls()

    def stop_collector(self) -> None:
        """Close the open calls, unless another profile function has the collector's place.

        What is open then is the call that has set it, which would be charged with all that was done since.
        """
        if not PER_THREAD and _MONITORING.get_tool(_PLACE) is None:
            _MONITORING.use_tool_id(_PLACE, "cProfile")  # the target has freed it: what became of our events?
        self.lost = self.displaced()
        if not self.lost:
            self.collector.disable()
        elif not PER_THREAD and _MONITORING.get_tool(_PLACE) == "cProfile":
            _MONITORING.free_tool_id(_PLACE)

    def displaced(self) -> bool:
        """Whether another profile function has the collector's place in this thread, the calling one, or freed it."""
        if not self.running:
            return self.lost
        if PER_THREAD:
            return sys.getprofile() is not self.collector
        holder = _MONITORING.get_tool(_PLACE)
        # Up to Python 3.13 events come as before from a place that was freed.
        return holder is not None and (holder != "cProfile" or not _MONITORING.get_events(_PLACE))

    def table(self, codes: Codes, now: float, stack: Optional[List[int]]) -> Dict[str, Any]:
        """Return what this thread did so far, rows as flat lists; `stack` is what it is in, if that is known."""
        functions, edges, counts, recorded = entries(self.collector.getstats(), codes)
        open_calls: List[Tuple[int, float, float]] = []
        if stack and self.running:
            elapsed = self._traced_s + now - self._since
            open_calls = self._open.update(stack, counts, elapsed - recorded, now)
        return {
            "native": self.native,
            "name": self.name,
            "functions": functions,
            "edges": edges,
            "waiting": [] if self.waits is None else record_file.flat(self.waits.rows(codes)),
            "measured": self.waits is not None and self.waits.measured,
            "open": record_file.flat(open_calls),
            "total": recorded,
        }


class Codes:
    """Numbers code objects: by identity, since equal code in two files is two functions."""

    def __init__(self) -> None:
        self._files: Dict[str, int] = {}
        self._places: List[int] = []  # of each, the file's number and the line
        self._names: List[str] = []  # of each, the name and the qualified name
        #: By the address of a code object, or by the name of a built-in function.
        self.numbers: Dict[Any, int] = {}
        self._kept: List[Any] = []  # so that an address is not used twice
        self.hidden: Set[int] = set()

    def number(self, code: Any) -> int:
        """Return the number of a code object, or of the label of a built-in function."""
        key = code if isinstance(code, str) else id(code)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self._kept)
            self._kept.append(code)
            if isinstance(code, str):
                self._add("~", 0, code, "")
                if " of 'profkit_tracer." in code:
                    self.hidden.add(number)
            else:
                # Plain strings: compile() keeps a subclass of `str`, and marshal takes none.
                file, name = str.__str__(code.co_filename), str.__str__(code.co_name)
                self._add(file, code.co_firstlineno, name, str.__str__(getattr(code, "co_qualname", "")))
                if file.startswith(HERE):
                    self.hidden.add(number)
        return number

    def _add(self, file: str, line: int, name: str, qualname: str) -> None:
        number = self._files.get(file)
        if number is None:
            number = self._files[file] = len(self._files)
        self._places += (number, line)
        self._names += (name, qualname)

    def packed(self) -> Dict[str, Any]:
        """Return all of them as they are in a record."""
        return record_file.pack_codes(list(self._files), self._places, self._names)

    def stack(self, frame: Any, traced: Traced) -> List[int]:
        """Return the open functions of one thread, outermost first, without what was open before tracing."""
        numbers = []
        while frame is not None:
            numbers.append(self.number(frame.f_code))
            frame = frame.f_back
        traced.base_depth = min(traced.base_depth, len(numbers))
        numbers.reverse()
        return [n for n in numbers[traced.base_depth :] if n not in self.hidden]


class _OpenCalls:
    """Times of calls that have not returned, from successive looks at a thread's stack.

    A collector books a call when it returns. What it has not booked of the thread's time is therefore the self
    time of the open calls, exactly; how it divides among them is estimated: between two looks it goes to the
    innermost call that was open at both. That a call is the same one as before is known from its function's
    call count, which rises whenever one returns.
    """

    def __init__(self) -> None:
        self._calls: List[List[Any]] = []  # [function, its count, first seen, self time so far]

    def update(
        self, stack: List[int], counts: Dict[int, int], unbooked: float, now: float
    ) -> List[Tuple[int, float, float]]:
        """Return ``(function, seconds since first seen, self seconds)`` for each open call, outermost first."""
        same = 0
        for call, function in zip(self._calls, stack):
            if call[0] != function or call[1] != counts.get(function, 0):
                break
            same += 1
        calls = self._calls[:same] + [[f, counts.get(f, 0), now, 0.0] for f in stack[same:]]
        unbooked = max(0.0, unbooked)
        assigned = sum(call[3] for call in calls)
        if unbooked >= assigned:
            calls[(same or len(calls)) - 1][3] += unbooked - assigned
        else:
            for call in calls:
                call[3] *= unbooked / assigned
        self._calls = calls
        rows = []
        within = 0.0
        for function, _count, seen, own in reversed(calls):
            within = max(now - seen, within + own)
            rows.append((function, within, own))
        rows.reverse()
        return rows


def entries(stats: List[Any], codes: Codes) -> Tuple[List[Any], List[Any], Dict[int, int], float]:
    """Turn ``getstats()`` into rows, with the agent's own calls taken out.

    Returns function rows ``function, calls, recursive calls, cumtime, tottime`` and edge rows with caller and callee
    in front, each as one flat list; calls per function; and the sum of self times (agent included), seconds.
    """
    functions: List[Any] = []
    edges: List[Any] = []
    counts: Dict[int, int] = {}
    taken_out: Dict[int, List[Any]] = {}
    recorded = 0.0
    hidden = codes.hidden
    number = codes.number
    known = codes.numbers.get  # a call into Python for each edge would take half of the time
    for entry in stats:
        code, calls, recursive, cumtime, tottime, callees = entry
        recorded += tottime
        function = number(code)
        if function in hidden:
            for callee in callees or ():
                accumulate(taken_out, number(callee[0]), tuple(callee)[1:])
            continue
        counts[function] = calls
        functions += (function, calls, recursive, cumtime, tottime)
        if callees:
            for code, calls, recursive, cumtime, tottime in callees:
                callee = known(id(code))
                if callee is None:
                    callee = number(code)
                if callee not in hidden:
                    edges += (function, callee, calls, recursive, cumtime, tottime)
    return without(functions, taken_out), edges, counts, recorded


def without(functions: List[Any], taken_out: Dict[int, List[Any]]) -> List[Any]:
    """Return flat function rows less the parts that the agent itself called, without those that are nothing then."""
    if not taken_out:
        return functions
    left: List[Any] = []
    for at in range(0, len(functions), 5):
        row = functions[at : at + 5]
        part = taken_out.get(row[0])
        if part is not None:
            row[1:] = [max(0, row[1] - part[0]), max(0, row[2] - part[1])] + [
                max(0.0, have - taken) for have, taken in zip(row[3:], part[2:])
            ]
        if row[1] > 0:
            left += row
    return left


def thread_name(ident: int) -> str:
    """Name that `threading` has for a thread, without creating anything; empty where it has none."""
    module = sys.modules.get("threading")
    thread: Any = getattr(module, "_active", {}).get(ident)
    try:
        # Not by `getattr`: it would be what calls the property, and only what the agent itself calls is left out.
        return str(thread.name)
    except AttributeError:
        return ""


def _depth(frame: Any) -> int:
    depth = 0
    while frame is not None:
        depth += 1
        frame = frame.f_back
    return depth
