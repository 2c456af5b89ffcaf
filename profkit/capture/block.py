"""`capture`: a block of the running program as a run file, without child processes, ranges or samples."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from profkit.capture import host
from profkit.capture.agent import block_record as agent
from profkit.capture.agent import process_facts, settings
from profkit.capture.native import users_tracers
from profkit.capture.provenance import git_state, job, run_facts
from profkit.capture.reservation import check_output
from profkit.capture.spool import write_facts
from profkit.capture.yardsticks import Yardsticks
from profkit.errors import CaptureError, ProfkitError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def capture(output: str | os.PathLike[str]) -> Block:
    """Capture a block of the running program, or each call of a function, in a run file.

    ::

        with profkit.capture("step.prof"):
            train_one_step()

        @profkit.capture("step.prof")
        def train_one_step(): ...

    The file is complete when the block is left, also by an exception. It holds the calls of this thread, of
    threads that the block starts and, from Python 3.12 on, of all others, with the time that they queued for
    a CPU; and the kernel's counters of the process and the machine. The function around the block appears as
    a call that has not returned. Child processes and NVTX ranges are missing: use ``profkit capture`` for
    these. Without the compiled tracer, no functions are recorded.

    Parameters
    ----------
    output
        Run file to write; an existing file is replaced, also by each call of a decorated function.

    Returns
    -------
    Block
        A context manager and decorator. It can be used again, but not twice at once.

    Raises
    ------
    CaptureError
        On entering, if a profiler, another block or ``profkit capture`` traces this process already, or if
        this Python is free-threaded.
    UsageError
        On entering, if the file cannot be written.
    """
    return Block(output)


class Block(agent.Leaving):
    """A context manager and decorator; if `charged`, its own work is charged to the function around it."""

    def __init__(self, output: str | os.PathLike[str], *, charged: bool = True) -> None:
        self._path = Path(output)
        self._charged = charged

    @property
    def path(self) -> str:
        """Return the path of the run file."""
        return str(self._path)

    def __call__(self, function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        """Return `function` with each call captured; raise `TypeError` for coroutines and generators."""
        later = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        if any(is_one(function) for is_one in later):
            raise TypeError("calling this function does not run its body: use a with block inside it")

        @functools.wraps(function)
        def captured(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            with Block(self._path, charged=False):
                return function(*args, **kwargs)

        return captured

    def __enter__(self) -> Block:
        if "t" in getattr(sys, "abiflags", ""):
            raise CaptureError(
                f"{self._path}: a block needs tracing, which a free-threaded Python lacks; use the usual "
                "build, or `profkit capture`, which samples the whole program"
            )
        tracers = users_tracers(os.environ)
        other = agent.taken_by(tracers)
        if other:
            raise CaptureError(
                f"{self._path}: this process is traced already, by {other}; only one can trace: leave one out"
            )
        check_output(self._path)
        self._path = Path(os.path.abspath(self._path))  # the block may change the working directory
        self._spool = Path(tempfile.mkdtemp(prefix="profkit-block-"))
        try:
            environment = settings.recorded_environment(os.environ)
            self._facts = {
                **run_facts(process_facts.command(), process_facts.cwd(), environment),
                "job": job(),
            }
            self._yardsticks = Yardsticks()
            self._yardsticks.read_all("before")
            self._before = host.take_reading()
            behind = 1
            while sys._getframe(behind).f_globals.get("__name__") == "contextlib":
                behind += 1  # an ExitStack
            self._recording = agent.Recording(str(self._spool / "block"), tracers)
            self._recording.start(behind, int(self._charged))
        except BaseException:
            shutil.rmtree(self._spool, ignore_errors=True)
            raise
        return self

    def _left(self, record: dict[str, Any], failed: bool) -> None:
        try:
            self._write(record, failed)
        except OSError as problem:
            raise ProfkitError(
                f"{self._path}: cannot be written ({problem.strerror}); free some space, and run it again"
            ) from problem
        shutil.rmtree(self._spool, ignore_errors=True)

    def _write(self, record: dict[str, Any], failed: bool) -> None:
        from profkit.capture.packer import pack_spool
        from profkit.capture.source_cache import Sources, cache_file
        from profkit.formats.runfile import write_run

        readings = [asdict(self._before), asdict(host.take_reading())]
        self._yardsticks.read_all("after")
        facts = {
            **self._facts,
            "wall_s": record["perf"] - record["begin_perf"],
            "readings": readings,
            "yardsticks": self._yardsticks.as_facts(),
            "exit_status": int(failed),
            "git": git_state(),
            # Only now: it imports numpy, whose thread pool would be taken for the program's.
            "host": asdict(host.read_host()),
        }
        write_facts(self._spool, facts)
        sources = Sources(cache_file(os.environ))
        run = pack_spool(self._spool, sources=sources)
        try:
            write_run(self._path, run)
        except OSError as problem:
            kept = self._spool / self._path.name
            write_run(kept, run)
            raise ProfkitError(
                f"{self._path}: cannot be written ({problem.strerror}); the run is kept: free some space, then run "
                f"mv {shlex.quote(str(kept))} {shlex.quote(str(self._path))}"
            ) from problem
        sources.save()
