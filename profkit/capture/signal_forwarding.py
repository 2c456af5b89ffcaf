"""Waiting for the target without coming between it and its signals.

A signal that is sent to the launcher alone (``kill PID``) is meant for the target and is passed on. One
that reached the whole process group (Ctrl-C, ``timeout``, Slurm, mpirun) has reached the target already, and
passing it on would deliver it twice. The kernel does not distinguish the two; a witness does: an idle child of
the launcher in the same group, to which no signal is sent individually.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

__all__ = ["Waiting", "end_like", "held_back"]

#: Signals that may be sent to the launcher and that are meant for the target.
_FORWARDED = frozenset(
    number
    for number in signal.Signals
    if number.name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
)

#: Seconds between a signal's arrival and asking the witness: who signals a process and its group does both
#: within microseconds.
_SETTLE = 0.02

_CAN_WAIT = hasattr(signal, "sigtimedwait")


class _Witness:
    """A child in the launcher's process group that notes which signals it was sent."""

    def __init__(self) -> None:
        ask_read, self._ask = os.pipe()
        self._answers, answer_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._ask)
                os.close(self._answers)
                while os.read(ask_read, 1):
                    seen = 0
                    while (received := signal.sigtimedwait(_FORWARDED, 0)) is not None:
                        seen |= 1 << received.si_signo
                    os.write(answer_write, seen.to_bytes(8, "little"))
            finally:
                os._exit(0)
        os.close(ask_read)
        os.close(answer_write)

    def was_sent(self, number: int) -> bool:
        """Whether the witness got this signal too; forgets all that it got."""
        try:
            os.write(self._ask, b"?")
            return bool(int.from_bytes(os.read(self._answers, 8), "little") >> number & 1)
        except OSError:
            return False

    def dismiss(self) -> None:
        """End the witness."""
        os.close(self._ask)
        os.close(self._answers)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


class Waiting:
    """Starts nothing itself: what `held_back` gives to who starts a target and waits for it."""

    def __init__(self, witness: _Witness | None, release: Callable[[], None] | None) -> None:
        self._witness = witness
        #: What the target must call before it is executed, if anything.
        self.release = release
        #: CPU seconds of the target and of all its descendants that were waited for; ``None`` where not known.
        self.tree_cpu_s: float | None = None

    def wait(self, target: subprocess.Popen[bytes], ended: Callable[[], None] = lambda: None) -> int:
        """Wait for the target; return its exit code, or ``-N`` if signal N ended it.

        Parameters
        ----------
        target
            The child to wait for.
        ended
            Called when it has ended and the kernel still keeps its counters, where that can be known.
        """
        if self._witness is None:
            status = _wait_with_handlers(target)
            ended()
            return status
        while True:
            if self._has_ended(target):
                ended()
                return self._reap(target)
            received = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
            if received.si_signo == signal.SIGCHLD or received.si_pid == 0:
                continue  # no sender: the terminal driver, which signals the whole foreground group
            time.sleep(_SETTLE)
            if not self._witness.was_sent(received.si_signo):
                _send(target, received.si_signo)

    @staticmethod
    def _has_ended(target: subprocess.Popen[bytes]) -> bool:
        try:
            return os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # who started us ignores SIGCHLD, and so the kernel has reaped it
            return True

    def _reap(self, target: subprocess.Popen[bytes]) -> int:
        try:
            _, status, usage = os.wait4(target.pid, 0)
        except ChildProcessError:
            return target.wait()
        target.returncode = os.waitstatus_to_exitcode(status)
        self.tree_cpu_s = usage.ru_utime + usage.ru_stime
        return target.returncode


@contextlib.contextmanager
def held_back() -> Iterator[Waiting]:
    """Hold back the forwarded signals while a target is started in this context and waited for."""
    if not _CAN_WAIT:  # macOS, Windows: signals are handled, see `_wait_with_handlers`
        yield Waiting(None, None)
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    try:
        # Before the target: from its first moment on, a signal to the group must find the witness in it.
        witness = _Witness()
        try:
            yield Waiting(witness, lambda: _set_mask(previous))
        finally:
            witness.dismiss()
    finally:
        _set_mask(previous)


def _set_mask(mask: set[int] | set[signal.Signals]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _wait_with_handlers(target: subprocess.Popen[bytes]) -> int:
    def forward(number: int, _frame: object) -> None:
        if number != signal.SIGINT or not os.isatty(0):  # Ctrl-C has reached the target itself
            _send(target, number)

    previous = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        return target.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _send(target: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(target.pid, number)


def end_like(status: int) -> None:
    """End this process as the target ended: exit with its code, or by the same signal.

    Parameters
    ----------
    status
        Exit code, or ``-N`` for signal N.

    Raises
    ------
    SystemExit
        With the code, where the target exited.
    """
    if status >= 0:
        sys.exit(status)
    sys.stdout.flush()
    sys.stderr.flush()

    number = -status
    with contextlib.suppress(ImportError):  # Windows, where nothing ends by a signal
        import resource

        # The target has dumped core if it wanted to; a second dump of this process would mislead.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to reset
        signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    time.sleep(1)  # until it is delivered
    sys.exit(128 + number)
