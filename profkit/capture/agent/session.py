"""Run the agent of one target process, from its first instruction to its last.

Facts are in a record, replaced by renaming: at the start, at the end, and ever less often in between.
Functions are in a mapped file, complete however the process ends. `atexit` and wrappers of `os._exit` (which
multiprocessing's children call) and of the exec functions see the end.
"""

from __future__ import annotations

import _lsprof
import _thread
import atexit
import gc
import os
import sys
from time import perf_counter, process_time, thread_time
from time import time as wall_time

from . import event_costs, native, process_facts, settings, windows
from .import_hook import after_import
from .native import FREE_THREADED, PER_THREAD, Tracer
from .own_profilers import OwnProfilers
from .process_record import ProcessRecord
from .tier_changes import Tiers, overhead_asked
from .undisturbed import collect_again, heed_interrupts, ignore_interrupts, need_room, without_collections

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

#: Longest wait for a record that is being written, in seconds.
_LONGEST_WAIT = 2.0

#: A forked child that ends before its first call is left out below this CPU time, in seconds.
_LEFT_OUT = 0.005


def create(spool: str) -> Optional[Session]:
    """Return a session that writes to the directory `spool`, or ``None`` if it does not exist."""
    return Session(spool) if os.path.isdir(spool) else None


class Session:
    """The agent of one process; a forked child begins again with the same object."""

    def __init__(self, spool: str) -> None:
        self._hooks: Any = None
        if os.environ.get(settings.TORCH_NVTX_VARIABLE):
            from .torch_nvtx import Hooks

            self._hooks = Hooks(os.environ[settings.TORCH_NVTX_VARIABLE])
        ranks = os.environ.get(settings.RANKS_VARIABLE, "")
        self._asked = not ranks or settings.is_rank_asked(ranks, os.environ)
        tracers = os.environ.get(settings.TRACERS_VARIABLE, "")
        self._native: Any = native.load(tracers) if self._asked else None
        self._profiled = self._native is not None
        self._record = ProcessRecord(spool, self._native)
        self._tracer = Tracer()
        asked = os.environ.get(settings.WINDOW_VARIABLE, "")
        self._windows = windows.Windows(spool, asked, self._native, self._follow)
        self._windowed = bool(asked) and self._profiled
        self._begun = False
        self._phase = windows.OFF if self._windowed else windows.ON
        self._following, self._follower = _thread.allocate_lock(), 0
        self._main_ident = _thread.get_ident()
        self._notes: Dict[str, Any] = {}
        self._own_profilers = OwnProfilers(self)
        self._over = self._ending = False
        self._share, self._samples_only = 0.0, False
        self._costly_starts = ""
        self._tiers: Optional[Tiers] = None  # None unless tables are mapped
        self._awaits_call = False  # in a forked child before its first call: all data is the parent's

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
                if PER_THREAD and self._profiled:
                    after_import({"threading": lambda module: self._tracer.threading_is_there(module)})
                self._own_profilers.make_way(_lsprof, self._native.Collector)
                sys._profkit = windows.Control(self._windows)  # type: ignore[attr-defined]
            if self._windowed and self._windows.possible:
                self._windows.begin()
            self._record.starting = process_facts.script_directory()
            self._write_first()
            self._record.starting = []
            self._trace()
        except Exception as error:  # the target must run regardless
            self._notes["agent_failed"] = repr(error)

    def _begin(self, forked: bool, now: float, perf: float, inherited: Optional[Tracer]) -> None:
        self._writing = _thread.allocate_lock()
        self._over = self._ending = self._begun = False
        self._notes = self._lacking()
        self._own_profilers.notes = {}
        self._record.begin(forked, now, perf)
        if not forked:
            event_costs.take_out_costs(self._native, self._record.spool)
        mapped = self._record.map_tables()
        if self._native is not None and not mapped:
            self._notes["tables_full"] = True
        self._tracer = native.tracer(self._native if mapped else None, True, inherited)
        if self._profiled and self._windowed:
            self._profiled = mapped and self._windows.possible and not FREE_THREADED
            if not self._profiled:
                self._notes["windows_missed"] = True
        if mapped:
            first = settings.FIRST_LOOK_FORKED if forked else settings.FIRST_LOOK
            self._native.serve(self._look, first)
            self._share, self._samples_only = overhead_asked()
            mark = settings.COSTLY_FORKS_SUFFIX if forked else settings.COSTLY_STARTS_SUFFIX
            self._costly_starts = process_facts.file_of_interpreter(self._record.spool, mark)
            self._native.limit(self._share)
            if not forked and not self._windowed:
                self._native.watch_collections(gc.callbacks)
            self._tiers = Tiers(
                self._native, self._tracer, self._main_ident, self._may_change_tier, self._costly_starts
            )

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
        elif self._own_profilers.on:
            self._own_profilers.notes["own_profiler"] = [[perf_counter(), None]]
        else:
            self._phase = self._windows.phase() if self._windowed else windows.ON
            if self._phase != windows.OFF:
                self._tracer.start()
            self._begun = True
            if self._windowed:
                self._watch_windows()
            elif self._samples_only or not self._record.forked:
                self._watch_tiers()

    # Tiers

    def _watch_tiers(self) -> None:
        """Start the tracer's budget control; a forked child gets it when it is older than most."""
        tiers = self._tiers
        if tiers is None or tiers.watching or not self._begun or self._windowed:
            return
        if self._ending:  # a thread that began now would outlive the interpreter, which may then abort
            return
        # The same thread sees what threads wait for.
        sampled = self._samples_only or (self._share > 0.0 and os.path.lexists(self._costly_starts))
        if not tiers.watch(sampled) and self._share:
            self._notes["no_samples"] = True

    def _may_change_tier(self) -> bool:
        return self._begun and not (self._over or self._own_profilers.on)

    # Windows

    def _watch_windows(self) -> None:
        """Have the tracer's thread follow the windows; forks end it."""
        if self._tiers is None or self._over or not (self._begun and self._windowed):
            return
        if not self._tiers.follow(lambda: without_collections(self._follow_windows)):
            self._notes["windows_missed"] = True

    def _follow_windows(self) -> float:
        """Follow the windows; return the seconds until the clock changes them."""
        self._windows.heard()
        self._follow()
        return self._windows.until()

    def _follow(self) -> None:
        """Begin or end tracing as the windows say, in one thread at a time."""
        own = _thread.get_ident()
        # Where this begins again in its own thread, by a range or a signal, it looks once more at its end. Other
        # threads wait: the one that follows may have looked just before the change.
        while self._windowed and self._begun and not self._over and self._follower != own:
            if not self._following.acquire(True, _LONGEST_WAIT):
                return
            self._follower = own
            try:
                before, self._phase = self._phase, self._windows.phase()
                if self._phase != before:
                    self._change_phase(before)
            except Exception as error:
                self._notes["agent_failed"] = repr(error)
            finally:
                self._follower = 0
                self._following.release()
            if self._windows.phase() == self._phase:
                return

    def _change_phase(self, before: int) -> None:
        if self._phase == windows.OFF:
            self._note_displacement()
            self._tracer.close()
            self._look()
        elif not self._own_profilers.on:
            threads = native.threads_to_trace(self._main_ident)
            if _thread.get_native_id() not in self._native.watching_threads():
                threads[_thread.get_ident()] = _thread.get_native_id()
            self._tracer.open(threads, self._phase == windows.WARM, before == windows.WARM)

    # Records

    def _write_first(self, forked: bool = False) -> None:
        """Write the first record before anything is traced, since calls made here are not the target's."""
        if self._record.mapped or not self._profiled:
            self._record.beside_tables(forked)
            try:
                self._write("snapshot")
            except Exception as error:
                self._notes["agent_failed"] = repr(error)
            self._record.beside_tables(False)

    def _look(self) -> float:
        """Write what may have changed; return the seconds until the next time.

        Runs in a thread of the target. The interval is three times the process's age, so an hour has ten, and
        a killed process's record is at most three quarters of its age old.
        """
        need_room()
        if self._over or self._ending or self._writing.locked():
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
        pause: float = 3 * self._record.age()
        if self._record.in_memory:
            pause = min(pause, settings.USUAL_INTERVAL)
        return max(pause, took / settings.SNAPSHOT_SHARE)

    def _write(self, state: str) -> float:
        """Replace the process's record; return the CPU seconds used."""
        # With a limit: a snapshot may hang in a file system that does not answer.
        mine = self._writing.acquire(True, _LONGEST_WAIT)
        try:
            return without_collections(self._write_alone, state)
        finally:
            if mine:
                self._writing.release()

    def _write_alone(self, state: str) -> float:
        begun = thread_time()
        own = set() if self._tiers is None else self._tiers.threads()
        hooks = {} if self._hooks is None else self._hooks.notes
        notes = {**hooks, **self._notes, **self._own_profilers.notes}
        failed = self._record.write(
            state, own, self._tracer, notes, lambda: state == "snapshot" and self._over
        )
        if failed:
            self._notes["write_failed"] = failed
        return thread_time() - begun

    def _end(self, state: str) -> None:
        """Write the last record; nothing of the target follows, unless an exec fails."""
        if self._over:
            return
        if self._awaits_call:
            if state == "exited" and process_time() < _LEFT_OUT:
                self._native.await_call(None)  # calls made by the ending interpreter are not the target's
                return
            self._begin_in_child()
        self._ending = True
        # A second Ctrl-C while the first KeyboardInterrupt ends the process would raise another one here.
        ignoring = state == "exited" and ignore_interrupts()
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
            if ignoring:
                heed_interrupts()

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

    def _after_fork_in_child(self) -> None:
        """Await the first call: many children exec or exit at once, and so cost next to nothing."""
        collect_again()
        self._forked_at = wall_time(), perf_counter()
        try:
            self._awaits_call = bool(
                self._record.mapped
                and self._begun
                and not (self._over or self._windowed or self._own_profilers.on)
                and self._tracer.sees()
            )
            if self._awaits_call:
                self._native.await_call(self._begin_at_call)
        except Exception as error:
            self._notes["agent_failed"] = repr(error)
        if not self._awaits_call:
            self._begin_in_child()

    def begin_if_awaited(self) -> None:
        """Begin before a profiler of the target's own does, in a forked child."""
        if self._awaits_call:
            self._begin_in_child()

    def _begin_at_call(self) -> None:
        need_room()
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
            self._record.leave_to_parent()
            self._windows.forked()
            self._following, self._follower = _thread.allocate_lock(), 0
            self._tiers = None
            self._main_ident = _thread.get_ident()
            self._begin(True, *self._forked_at, inherited if sees else None)
            self._record.worker = process_facts.name_of_worker(sys._getframe()) or self._record.worker
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
                    self.begin_if_awaited()
                    self._over = self._ending = False
                    self._watch_windows()
                    self._watch_tiers()
                    self._write_first()  # the record says that the process has ended
                    self.trace_again()

            wrapper.__name__ = wrapper.__qualname__ = name
            wrapper.__module__ = "os"
            wrapper.__doc__ = original.__doc__
            wrapper.__text_signature__ = getattr(original, "__text_signature__", None)  # type: ignore[attr-defined]
            setattr(os, name, wrapper)
            if original in os.supports_fd:
                os.supports_fd.add(wrapper)

        wrap("_exit", "exited")
        wrap("execv", "replaced")
        wrap("execve", "replaced")

    # A target that profiles itself

    def follows(self, function: Any) -> bool:
        """Whether a profile function is the tracer's hook for new threads."""
        return getattr(function, "__self__", None) is self._tracer

    def pause(self) -> None:
        """Make room for the target's profiler in this thread."""
        self._tracer.pause()

    def trace_again(self) -> None:
        """Trace this thread again after the target's profiler, unless another of its profilers is on."""
        thread = _thread.get_ident()
        if self._phase == windows.OFF or self._sampled():
            return
        others = any(not PER_THREAD or ident == thread for _, ident in self._own_profilers.on)
        if not self._over and not others:
            self._tracer.resume()
