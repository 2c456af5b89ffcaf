"""Run the agent of one target process, from its first instruction to its last.

Facts are in a record, replaced by renaming: at the start, at the end, and ever less often in between.
Functions are in a mapped file, complete however the process ends. `atexit` and wrappers of `os._exit` (which
multiprocessing's children call) and of the exec functions see the end.
"""

from __future__ import annotations

import _lsprof
import _signal  # type: ignore[import-not-found]
import _thread
import atexit
import gc
import os
import sys
from time import perf_counter, process_time, thread_time
from time import time as wall_time

from . import event_costs, later, native, own_function, process_facts, record_file, settings, windows
from .import_hook import after_import
from .reserve import RESERVE_SUFFIX, Reserve, leave_end
from .tier_changes import Tiers, at_next_instruction
from .tracer import FREE_THREADED, PER_THREAD, Collector, Tracer

# Bound now, like the clocks above: the target may replace what `os` holds, and count the calls.
_os_open, _os_write, _os_close, _os_replace = os.open, os.write, os.close, os.replace

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

#: Longest wait for a record that is being written, in seconds.
_LONGEST_WAIT = 2.0

#: A forked child that ends before its first call is left out below this CPU time, in seconds.
_LEFT_OUT = 0.005

#: Budget of a process that is sampled from the start.
_ALMOST_NOTHING = 1e-6

#: Spans recorded of a target that profiles itself; later ones are only counted.
_OWN_PROFILES_KEPT = 4


def create(spool: str) -> Optional[Session]:
    """Return a session that writes to the directory `spool`, or ``None`` if it does not exist."""
    return Session(spool) if os.path.isdir(spool) else None


def _hooks() -> Any:
    library = os.environ.get(settings.TORCH_NVTX_VARIABLE)
    if not library:
        return None
    from .torch_nvtx import Hooks

    return Hooks(library)


class Session:
    """The agent of one process; a forked child begins again with the same object."""

    def __init__(self, spool: str) -> None:
        self._spool = spool
        self._hooks = _hooks()
        ranks = os.environ.get(settings.RANKS_VARIABLE, "")
        self._asked = not ranks or settings.is_rank_asked(ranks, os.environ)
        tracers = os.environ.get(settings.TRACERS_VARIABLE, "")
        self._native: Any = native.load(tracers) if self._asked else None
        self._profiled = self._native is not None
        self._usage = process_facts.usage_of(self._native)
        self._mapped = self._beside_tables = False
        self._tracer = Tracer()
        asked = os.environ.get(settings.WINDOW_VARIABLE, "")
        self._windows = windows.Windows(spool, asked, self._native, self._follow)
        self._windowed = bool(asked) and self._profiled
        self._begun = False
        self._phase = windows.OFF if self._windowed else windows.ON
        self._following = _thread.allocate_lock()
        self._main_ident = _thread.get_ident()
        self._starting: List[str] = []  # import path entries that Python is about to add
        self._worker = ""  # multiprocessing's name of this process, if it forked it
        self._pools: Any = None  # until a library is loaded that may have one
        self._reserve, self._memory = Reserve(), Reserve()
        self._identity: Dict[str, Any] = {}
        self._notes: Dict[str, Any] = {}
        self._own_profilers: List[Tuple[Any, int]] = []
        self._over = False
        self._share, self._samples_only = 0.0, False
        self._costly_starts = ""
        self._tiers: Optional[Tiers] = None  # None unless tables are mapped
        self._awaits_call = False  # in a forked child before its first call: all data is the parent's
        # Without a sampler on this machine, this process reads the counters. Later imports are impossible.
        self._machine: Any = None
        if not os.path.exists(os.path.join(spool, settings.sampled_mark(process_facts.boot_id()))):
            from . import machine

            self._machine = machine
        local = os.path.join(spool, process_facts.boot_id() + settings.LOCAL_SUFFIX)
        if os.path.isdir(local):  # absent e.g. in a container
            self._spool = os.readlink(local)

    def start(self) -> None:
        """Begin to trace and to write records; called once, before the interpreter runs the target."""
        try:
            self._begin(False, wall_time(), perf_counter(), None)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._after_fork_in_child)
            atexit.register(self._end, "exited")
            if self._hooks is not None:
                self._hooks.install()
            self._wrap_exits()
            if self._native is not None:
                self._make_way_for_own_profilers()
                if PER_THREAD and self._profiled:
                    after_import({"threading": lambda module: self._tracer.threading_is_there(module)})
                own_function.make_way(
                    (Collector, self._native.Collector),
                    self._follows,
                    self._own_function_on,
                    self._own_profiler_off,
                )
                if PER_THREAD:
                    own_function.hide_collector(self._native.Collector)
                sys._profkit = windows.Control(self._windows)  # type: ignore[attr-defined]
            if self._windowed and self._windows.possible:
                self._windows.begin()
            self._starting = process_facts.script_directory()
            self._write_first()
            self._starting = []
            self._trace()
        except Exception as error:  # the target must run regardless
            self._notes["agent_failed"] = repr(error)

    def _begin(self, forked: bool, now: float, perf: float, inherited: Optional[Tracer]) -> None:
        self._writing = _thread.allocate_lock()
        self._over = self._begun = False
        self._notes = self._lacking()
        self._identity = process_facts.identity()
        self._identity["forked"] = forked
        self._identity["begin_time"], self._identity["begin_perf"] = now, perf
        if not forked:  # libraries read it when loaded; in a fork they are loaded already
            self._environment_at_start = self._identity["environment_at_start"]
        self._identity["environment_at_start"] = self._environment_at_start
        if self._machine is not None:
            self._first_reading, self._quota = self._machine.reading(), self._machine.quota_cpus()
        self._path = os.path.join(
            self._spool,
            "%s-%d-%d" % (self._identity["host"], self._identity["pid"], int(wall_time() * 1e6)),
        )
        if not forked:
            event_costs.take_out_costs(self._native, self._spool)
        self._reserve.open(self._path)
        path, descriptor = self._path + RESERVE_SUFFIX, self._reserve.descriptor
        self._mapped = native.map_tables(self._native, path, descriptor)
        if self._native is not None and not self._mapped:
            self._memory.open_memory()
            descriptor = self._memory.descriptor
            self._mapped = native.map_tables(self._native, "/proc/self/fd/%d" % descriptor, descriptor)
            if not self._mapped:
                self._notes["tables_full"] = True
        self._tracer = native.tracer(self._native if self._mapped else None, True, inherited)
        self._profiled = self._profiled and not (self._windowed and not self._can_follow())
        if self._mapped:
            first = settings.FIRST_LOOK_FORKED if forked else settings.FIRST_LOOK
            self._native.serve(self._look, first)
            self._share, self._samples_only = _overhead_asked()
            mark = settings.COSTLY_FORKS_SUFFIX if forked else settings.COSTLY_STARTS_SUFFIX
            self._costly_starts = process_facts.file_of_interpreter(self._spool, mark)
            self._native.limit(self._share)
            if not forked and not self._windowed:
                self._native.watch_collections(gc.callbacks)
            self._tiers = Tiers(
                self._native,
                self._tracer,
                self._main_ident,
                self._may_change_tier,
                self._costly_starts,
            )

    def _can_follow(self) -> bool:
        possible = self._mapped and self._windows.possible and not FREE_THREADED
        if not possible:
            self._notes["windows_missed"] = True
        return possible

    def _lacking(self) -> Dict[str, Any]:
        """Return the notes that say why no functions are recorded, if so."""
        if sys.implementation.name != "cpython":
            return {"not_cpython": sys.implementation.name}
        if not self._asked:
            return {"not_traced": True}
        lacking = {"no_tracer": True} if self._native is None else {}
        return {"free_threaded": True, **lacking} if FREE_THREADED else lacking

    def _trace(self) -> None:
        if self._native is None:
            pass
        elif not self._profiled:
            self._notes["not_traced"] = True
        elif self._own_profilers:
            self._notes["own_profiler"] = [[perf_counter(), None]]
        else:
            self._phase = self._windows.phase() if self._windowed else windows.ON
            if self._phase != windows.OFF:
                self._tracer.start()
            self._begun = True
            if self._windowed:
                self._watch_windows()
            elif self._samples_only or not self._identity["forked"]:
                self._watch_tiers()

    # Tiers

    def _watch_tiers(self) -> None:
        """Start the tracer's budget control; a forked child gets it when it is older than most."""
        tiers = self._tiers
        if tiers is None or tiers.watching or not self._begun or self._windowed:
            return
        # The same thread sees what threads wait for.
        sampled = self._samples_only or (self._share > 0.0 and os.path.lexists(self._costly_starts))
        if not tiers.watch(sampled) and self._share:
            self._notes["no_samples"] = True

    def _may_change_tier(self) -> bool:
        return self._begun and not (self._over or self._own_profilers)

    # Windows

    def _watch_windows(self) -> None:
        """Have the tracer's thread follow the windows; forks end it."""
        if self._tiers is None or self._over or not (self._begun and self._windowed):
            return
        if not self._tiers.follow(self._heard, self._after_fork_in_parent):
            self._notes["windows_missed"] = True

    def _heard(self) -> float:
        """Follow the windows; return the seconds until the clock changes them."""
        return _without_collections(self._follow_windows)

    def _follow_windows(self) -> float:
        self._windows.heard()
        self._follow()
        return self._windows.until()

    def _follow(self) -> None:
        """Begin or end tracing as the windows say, in one thread at a time."""
        while self._windowed and self._begun and not self._over and self._following.acquire(False):
            try:
                before, self._phase = self._phase, self._windows.phase()
                if self._phase == before:
                    return
                if self._phase == windows.OFF:
                    self._note_displacement()
                    self._tracer.close()
                    self._look()
                elif not self._own_profilers:
                    threads = native.threads_to_trace(self._main_ident)
                    if _thread.get_native_id() not in self._native.watching_threads():
                        threads[_thread.get_ident()] = _thread.get_native_id()
                    self._tracer.open(threads, self._phase == windows.WARM, before == windows.WARM)
            except Exception as error:
                self._notes["agent_failed"] = repr(error)
            finally:
                self._following.release()

    # Records

    def _write_first(self, forked: bool = False) -> None:
        """Write the first record before anything is traced, since calls made here are not the target's.

        A forked child's goes beside its tables: most children end before a separate file pays off.
        """
        if self._mapped or not self._profiled:
            self._beside_tables = self._mapped and forked
            try:
                self._write("snapshot")
            except Exception as error:
                self._notes["agent_failed"] = repr(error)
            self._beside_tables = False

    def _look(self) -> float:
        """Write what may have changed; return the seconds until the next time.

        Runs in a thread of the target. The interval is three times the process's age, so an hour has ten, and
        a killed process's record is at most three quarters of its age old.
        """
        if self._over or self._writing.locked():
            return settings.USUAL_INTERVAL
        took = 0.0
        try:
            # In case the target removed the import hook from `sys.meta_path`.
            self._tracer.threading_is_there(sys.modules.get("threading"))
            self._note_displacement()
            took = self._write("snapshot")
            self._watch_tiers()
        except Exception as error:
            self._notes["agent_failed"] = repr(error)
        pause: float = 3 * (perf_counter() - self._identity["begin_perf"])
        if self._memory.descriptor >= 0:  # nothing else keeps the tables
            pause = min(pause, settings.USUAL_INTERVAL)
        return max(pause, took / settings.SNAPSHOT_SHARE)

    def _write(self, state: str) -> float:
        """Replace the process's record; return the CPU seconds used."""
        # With a limit: a snapshot may hang in a file system that does not answer.
        mine = self._writing.acquire(True, _LONGEST_WAIT)
        try:
            return _without_collections(self._write_alone, state)
        finally:
            if mine:
                self._writing.release()

    def _write_alone(self, state: str) -> float:
        begun = thread_time()
        own = set() if self._tiers is None else self._tiers.threads()
        record = process_facts.record(self._identity, state, self._usage, own, self._tracer)
        record["path"] = self._starting + record["path"]
        record["worker"] = record["worker"] or self._worker
        if self._machine is not None:
            record["machine"] = [self._first_reading, self._machine.reading()]
            record["quota_cpus"] = self._quota
        if self._mapped and state != "snapshot":
            self._native.sync_tables()
        record["mapped"] = self._mapped
        record["thread_names"] = [list(item) for item in native.thread_names().items()]
        record["pools"] = self._read_pools(state != "snapshot")
        record["notes"] = self._notes if self._hooks is None else {**self._hooks.notes, **self._notes}
        parts = record_file.encode(record_file.MAGIC, settings.RECORD_FORMAT, record)
        if not (self._beside_tables and self._native.keep(b"".join(parts))):
            self._replace(parts, state, record["perf"])
        return thread_time() - begun

    def _read_pools(self, final: bool) -> Any:
        if self._pools is None:
            if not final and "_ctypes" not in sys.modules:
                return None  # a snapshot could not ask them
            if not process_facts.may_have_pools():
                return []
            try:
                self._pools = later("thread_pools").Pools()
            except Exception:
                return None  # e.g. no file can be opened now
        return self._pools.read(final)

    def _replace(self, parts: Tuple[bytes, bytes], state: str, perf: float) -> None:
        try:
            if self._memory.descriptor >= 0:
                self._put(self._memory.content(), state, RESERVE_SUFFIX)
            self._put(parts, state, settings.RECORD_SUFFIX)
        except OSError as error:
            if state == "snapshot" and self._over:
                return
            # Disk full or directory gone: keep the earlier record, and note it in a later one.
            in_file = self._mapped and self._memory.descriptor < 0
            if not (self._native.keep(b"".join(parts)) if in_file else self._reserve.write(parts, error)):
                self._notes["write_failed"] = "%s" % error
                if state != "snapshot":
                    leave_end(self._path, state, error, perf, process_time())

    def _put(self, parts: Iterable[bytes], state: str, suffix: str) -> None:
        temporary = self._path + ".writing"
        fd = _os_open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[_os_write(fd, view) :]
        finally:
            _os_close(fd)
        if state != "snapshot" or not self._over:  # else this snapshot was overtaken by the last record
            _os_replace(temporary, self._path + suffix)

    def _end(self, state: str) -> None:
        """Write the last record; nothing of the target follows, unless an exec fails."""
        if self._over:
            return
        if self._awaits_call:
            if state == "exited" and process_time() < _LEFT_OUT:
                self._native.await_call(None)  # calls made by the ending interpreter are not the target's
                return
            self._begin_in_child()
        # A second Ctrl-C while the first KeyboardInterrupt ends the process would raise another one here.
        ignoring = state == "exited" and _ignore_interrupts()
        try:
            # Whatever the target has broken, the last record is written.
            look = self._note_displacement
            steps = [self._stop_watching, self._windows.leave, look, self._tracer.finish, look]
            for step in steps:
                try:
                    step()
                except Exception as error:
                    self._notes["agent_failed"] = repr(error)
            self._over = True
            self._write(state)
        except Exception as error:
            self._notes["agent_failed"] = repr(error)
        finally:
            if ignoring:  # a process that dies of the first one sends it to itself
                _signal.signal(_signal.SIGINT, _signal.default_int_handler)

    def _stop_watching(self) -> None:
        if self._tiers is not None:
            self._tiers.stop()
            if self._tiers.failed:
                self._notes["agent_failed"] = self._tiers.failed

    def _sampled(self) -> bool:
        return self._tiers is not None and self._tiers.sampled

    def _note_displacement(self) -> None:
        if not self._sampled() and self._tracer.displaced():  # when sampled, no profiler is to be there
            self._notes["displaced"] = True

    # Forks

    def _after_fork_in_parent(self) -> None:
        """Follow windows again once `os.fork`, which warns of threads, has returned."""
        self._native.watch_again()
        if not self._over:
            at_next_instruction(sys._getframe().f_back, self._watch_windows)

    def _after_fork_in_child(self) -> None:
        """Await the first call: many children exec or exit at once, and so cost next to nothing."""
        self._forked_at = wall_time(), perf_counter()
        try:
            self._awaits_call = bool(
                self._mapped
                and self._begun
                and not (self._over or self._windowed or self._own_profilers)
                and self._tracer.sees()
            )
            if self._awaits_call:
                self._native.await_call(self._begin_in_child)
        except Exception as error:
            self._notes["agent_failed"] = repr(error)
        if not self._awaits_call:
            self._begin_in_child()

    def _begin_in_child(self) -> None:
        try:
            inherited, sees = self._tracer, self._awaits_call
            if sees:
                self._awaits_call = False
                self._native.await_call(None)
            else:
                inherited.finish()
            self._inherited = inherited  # freeing the parent's entries here would only take time
            if self._pools is not None:
                self._pools.forget()
            self._reserve.close()
            self._memory.close()
            self._windows.forked()
            self._following = _thread.allocate_lock()
            self._tiers = None
            self._main_ident = _thread.get_ident()
            self._begin(True, *self._forked_at, inherited if sees else None)
            self._worker = process_facts.name_of_worker(sys._getframe()) or self._worker
            self._write_first(forked=True)
            self._trace()
        except Exception as error:
            self._notes["agent_failed"] = repr(error)

    # Ends that atexit does not see

    def _wrap_exits(self) -> None:
        def wrap(name: str, state: str) -> None:
            original = getattr(os, name, None)
            if original is None:
                return

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                self._end(state)
                try:
                    return original(*args, **kwargs)
                finally:  # an exec that failed
                    if self._awaits_call:
                        self._begin_in_child()
                    self._over = False
                    self._watch_windows()
                    self._watch_tiers()
                    self._write_first()  # the record says that the process has ended
                    self._trace_again()

            wrapper.__name__ = wrapper.__qualname__ = name
            wrapper.__module__ = "os"
            wrapper.__doc__ = original.__doc__
            wrapper.__text_signature__ = getattr(original, "__text_signature__", None)  # type: ignore[attr-defined]
            setattr(os, name, wrapper)

        wrap("_exit", "exited")
        wrap("execv", "replaced")
        wrap("execve", "replaced")

    # A target that profiles itself

    def _make_way_for_own_profilers(self) -> None:
        """Pause while the target's own cProfile is on, so that it works as without us.

        Otherwise its ``enable`` would silently displace our collector up to Python 3.11, and raise
        ``ValueError`` from 3.12 on.
        """
        session = self

        class Profiler(Collector):  # type: ignore[misc]
            """The built-in profiler."""

            def enable(self, *args: Any, **kwargs: Any) -> None:
                session._own_profiler_on(self)
                try:
                    Collector.enable(self, *args, **kwargs)
                except BaseException:
                    session._own_profiler_off(self)
                    raise

            def disable(self) -> None:
                # No calls before the profiler is off, and then only through map(): the target's profile must
                # hold one call of disable(), for which this function stands.
                for own in session._own_profilers:
                    if own[0] is self:
                        break
                else:
                    return  # it is off already: the original would switch off ours
                for _ in map(Collector.disable, (self,)):
                    pass
                session._own_profiler_off(self)

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
        _lsprof.Profiler = Profiler  # type: ignore[misc]

    def _follows(self, function: Any) -> bool:
        """Whether a profile function is the tracer's hook for new threads."""
        return getattr(function, "__self__", None) is self._tracer

    def _own_function_on(self, function: Any, key: Any) -> None:
        if PER_THREAD and not self._follows(function):  # from Python 3.12 on both can be set
            self._own_profiler_on(key)

    def _own_profiler_on(self, profiler: Any) -> None:
        if self._awaits_call:
            self._begin_in_child()
        if not self._own_profilers:
            spans = self._notes.setdefault("own_profiler", [])
            if len(spans) < _OWN_PROFILES_KEPT:
                spans.append([perf_counter(), None])
            else:
                # A target that profiles each of a million requests must not grow the list.
                self._notes["own_profiler_more"] = self._notes.get("own_profiler_more", 0) + 1
                spans[-1][1] = None
        self._own_profilers.append((profiler, _thread.get_ident()))
        self._tracer.pause()

    def _own_profiler_off(self, profiler: Any) -> None:
        """Trace this thread again unless another of the target's profilers is on in it."""
        if not any(own is profiler for own, _ in self._own_profilers):
            return
        self._own_profilers = [(own, ident) for own, ident in self._own_profilers if own is not profiler]
        if not self._own_profilers and self._notes.get("own_profiler"):
            self._notes["own_profiler"][-1][1] = perf_counter()
        self._trace_again()

    def _trace_again(self) -> None:
        thread = _thread.get_ident()
        if self._phase == windows.OFF or self._sampled():
            return
        if not self._over and not any(not PER_THREAD or ident == thread for _, ident in self._own_profilers):
            self._tracer.resume()


def _overhead_asked() -> Tuple[float, bool]:
    """Return the share of time for the tracer (0: no limit), and whether to sample at once."""
    asked = os.environ.get(settings.OVERHEAD_VARIABLE, "0")
    if asked == settings.SAMPLES_ONLY or FREE_THREADED:
        return _ALMOST_NOTHING, True
    try:
        share = float(asked)
    except ValueError:
        return 0.0, False  # the target has changed it
    return (share if 0.0 < share < 1.0 else 0.0), False


def _without_collections(call: Callable[..., float], *arguments: str) -> float:
    """Call our function, with no collection that would run finalisers of the target in it."""
    if not hasattr(gc, "set_threshold"):
        return call(*arguments)
    before = gc.get_threshold()
    gc.set_threshold(*settings.NEVER_COLLECT)
    try:
        return call(*arguments)
    finally:
        if gc.get_threshold() == settings.NEVER_COLLECT:
            gc.set_threshold(*before)


def _ignore_interrupts() -> bool:
    """Ignore SIGINT if it would raise KeyboardInterrupt in this thread; return whether it would."""
    if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        return False
    try:
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    except ValueError:  # not the main thread or not the main interpreter
        return False
    return True
