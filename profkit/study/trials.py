"""Run a command once for a study, under ``profkit capture`` or without.

Its own session allows ending everything that it starts. ``profkit capture`` is a separate process, so that no
run can crash the study.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.errors import ProfkitError, UsageError

#: Seconds after SIGTERM in which a target may write its run file.
GRACE_S = 10.0
#: Seconds between two checks of a run's output.
_LOOK_S = 1.0


class Interrupted(KeyboardInterrupt):
    """The user stopped the study; the current run has ended and does not count."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How one run ended; `exit_status` is ``None`` if it was ended here.

    `wall_s` includes profkit's own time if captured; `cpu_s` is of all processes. `started`: ISO 8601, UTC.
    """

    exit_status: int | None
    wall_s: float
    cpu_s: float
    started: str
    last_line: str


def run_once(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    log: Path,
    run_file: Path | None,
    timeout_s: float | None,
    hopeless: Callable[[], bool] | None = None,
    cwd: Path | None = None,
) -> Ended:
    """Run a command to its end, and capture it to `run_file` unless that is ``None``.

    `hopeless` is called every second, and ends the run if true. Raises `Interrupted` on SIGINT, SIGTERM or
    SIGHUP, after ending the command; `ProfkitError` if it cannot be started.
    """
    words = list(command)
    if run_file is not None:
        words = [sys.executable, "-m", "profkit", "capture", "-q", "-o", str(run_file), "--", *words]
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    with open(log, "wb") as output, stoppable() as stops:
        begin = time.monotonic()
        target = None
        try:
            with stops.later():  # a target that `Popen` has not returned yet could not be ended
                target = subprocess.Popen(
                    words,
                    env=dict(environment),
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            status, cpu_s = _wait(target, None if timeout_s is None else begin + timeout_s, hopeless)
        except BaseException as error:
            if target is not None:
                _end(target)
            elif isinstance(error, OSError):
                raise ProfkitError(f"{words[0]}: {error.strerror or error}") from None
            raise
        wall_s = time.monotonic() - begin
    lines = tail(log, 4096).strip().splitlines()
    return Ended(status, wall_s, cpu_s, started, lines[-1].strip()[:200] if lines else "")


@contextlib.contextmanager
def on_cpus(cpus: Sequence[int]) -> Iterator[None]:
    """Confine child processes to these CPUs (none: no change); raises `UsageError` if unavailable."""
    if not cpus or not hasattr(os, "sched_getaffinity") or os.sched_getaffinity(0) == set(cpus):
        yield
        return
    mine = os.sched_getaffinity(0)
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cpus)
        if os.sched_getaffinity(0) != set(cpus):
            raise UsageError(
                f"the run used CPUs that this machine does not have ({len(cpus)}): run this on its machine"
            )
        yield
    finally:
        os.sched_setaffinity(0, mine)


class _Stops:
    """Turns the first signal into `Interrupted`; inside `later`, once that is left.

    Further signals change nothing: they must not interrupt the ending of the target.
    """

    def __init__(self) -> None:
        self._held = False
        self._name = ""

    def stop(self, number: int, _frame: object) -> None:
        if self._name:
            return
        self._name = signal.Signals(number).name
        if not self._held:
            raise Interrupted(self._name)

    def check(self) -> None:
        """Raise `Interrupted` if a signal came, also where the one raised for it was lost, as in a destructor."""
        if self._name:
            raise Interrupted(self._name)

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self.check()


@contextlib.contextmanager
def stoppable() -> Iterator[_Stops]:
    """Let SIGINT, SIGTERM and SIGHUP raise `Interrupted`; only for the main thread."""
    stops = _Stops()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) not in (signal.SIG_IGN, None):  # nohup ignores it
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, stops.stop) for number in numbers}
    try:
        yield stops
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    stops.check()


def _wait(
    target: subprocess.Popen[bytes], deadline: float | None, hopeless: Callable[[], bool] | None
) -> tuple[int | None, float]:
    """Return the exit status (``None`` if ended here) and the CPU seconds of all waited-for processes."""
    before = os.times()
    status: int | None = None
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        slice_s = left if hopeless is None else min(_LOOK_S, _LOOK_S if left is None else left)
        try:
            status = target.wait(slice_s)
            status = status if status >= 0 else 128 - status
            break
        except subprocess.TimeoutExpired:
            if (left is not None and slice_s == left) or (hopeless is not None and hopeless()):
                _end(target)
                break
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return status, spent


def _end(target: subprocess.Popen[bytes]) -> None:
    """End the target and its session: first by SIGTERM, so that its run file is written."""
    for number, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(target.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            target.wait(patience)
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(target.pid, signal.SIGKILL)  # processes that outlived the session leader


def tail(log: Path, most: int) -> str:
    """Return the last `most` bytes of a log; empty if it cannot be read."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
