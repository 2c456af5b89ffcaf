"""The launcher's signals: the target gets its own as without profkit, and none loses the run.

A signal to the process group has already reached the target; one to the launcher alone is passed on. A
witness tells which it was: an idle child in the group, to which nobody sends a signal individually. A signal
after the target's end is nearly always the second half of what ended it: only two more stop the writing of
the run file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from profkit.capture.agent.process_facts import read_file, status_words
from profkit.errors import ProfkitError

#: Signals to the launcher that are meant for the target.
_FORWARDED = frozenset(
    number
    for number in signal.Signals
    if number.name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
)

#: Those that ask for the end of a program.
_ENDING = frozenset(
    number for number in _FORWARDED if number.name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
)

#: What the launcher waits for while the target runs: those, and the target's end.
_AWAITED = _FORWARDED | {number for number in signal.Signals if number.name == "SIGCHLD"}

#: Seconds before the witness is asked; a sender signals a process and its group within microseconds.
_SETTLE = 0.02

#: Seconds within which a further signal is the same request: an impatient Ctrl-C, a key that is held down.
_SAME_WISH = 0.5

_CAN_WAIT = hasattr(signal, "sigtimedwait")

#: `si_code` of what the kernel itself sends, such as the terminal's Ctrl-C. The sender's number says less: that of a
#: sender outside our PID namespace is 0 as well (`docker stop`).
_SI_KERNEL = 0x80


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

    def forget(self) -> int:
        """Return the signals that the witness got, one bit each, and forget them."""
        try:
            os.write(self._ask, b"?")
            return int.from_bytes(os.read(self._answers, 8), "little")
        except OSError:
            return 0

    def dismiss(self) -> None:
        os.close(self._ask)
        os.close(self._answers)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


class Interrupted(KeyboardInterrupt):
    """The signal `number` stops the writing of a run file."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"interrupted by {signal.Signals(number).name}")


class Signals:
    """The handling of the launcher's signals for a series of captures, made by `held_back`."""

    def __init__(self) -> None:
        #: CPU seconds of the target and all descendants that were waited for; ``None`` if unknown.
        self.tree_cpu_s: float | None = None
        #: The first signal since the target's start that asked for an end.
        self.end_asked_by: int | None = None
        self._last_wish = -_SAME_WISH
        self._target: subprocess.Popen[bytes] | None = None
        self._impatient: Callable[[], None] | None = None
        self._wishes = 0
        self._early: int | None = None
        self._handlers: dict[int, object] = {}
        self._witness: _Witness | None = None
        self._mask: set[int] | set[signal.Signals] = set()

    def arrived(self) -> int | None:
        """Return a signal that came before the target's start and ends the launcher, if there is one."""
        if self._witness is not None:
            self._witness.forget()  # those of an earlier target
        while _CAN_WAIT and (received := signal.sigtimedwait(_FORWARDED, 0)) is not None:
            if not _is_ignored(received.si_signo):
                return received.si_signo
        return self._early

    def release(self) -> None:
        """Restore signals in a forked process that is about to become the target."""
        for number, handler in self._handlers.items():
            # An exec resets handlers, and what is ignored stays ignored.
            signal.signal(number, signal.SIG_IGN if handler is signal.SIG_IGN else signal.SIG_DFL)
        if _CAN_WAIT:
            for number in _pending(os.getppid()) & _ENDING:
                os.kill(os.getpid(), number)  # sent before this process existed, and meant for the target too
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def wait(self, target: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
        """Wait for the target, and call `ended`, if possible before the target is reaped."""
        self._target = target
        try:
            if self._witness is None:
                target.wait()
                ended()
                return
            self._pass_on(target, self._witness)
            ended()
            _, status, usage = os.wait4(target.pid, 0)
            target.returncode = os.waitstatus_to_exitcode(status)
            self.tree_cpu_s = usage.ru_utime + usage.ru_stime
        finally:
            self._target = None

    def _pass_on(self, target: subprocess.Popen[bytes], witness: _Witness) -> None:
        while os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            received = signal.sigwaitinfo(_AWAITED)
            if received.si_signo == signal.SIGCHLD:
                continue
            self._note(received.si_signo)
            if received.si_code == _SI_KERNEL and received.si_signo != signal.SIGHUP:
                continue  # the terminal signals the whole foreground group, except that a hangup is its leader's
            time.sleep(_SETTLE)
            if not witness.forget() >> received.si_signo & 1:
                _send(target, received.si_signo)
        # Signals that came with its end were meant for the target.
        while (late := signal.sigtimedwait(_FORWARDED, 0)) is not None:
            self._note(late.si_signo)

    def _note(self, number: int) -> bool:
        """Note a signal; return whether it is a new request, and no repetition."""
        if number not in _ENDING or _is_ignored(number):
            return False
        if self.end_asked_by is None:
            self.end_asked_by = number
        now = time.monotonic()
        if now - self._last_wish < _SAME_WISH:
            return False
        self._last_wish = now
        return True

    @contextlib.contextmanager
    def answered(self, impatient: Callable[[], None]) -> Iterator[None]:
        """Answer signals in this context: the first calls `impatient`, the second raises `Interrupted`."""
        self._impatient, self._wishes = impatient, 0
        try:
            if _CAN_WAIT:
                signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            yield
        finally:
            self._impatient = None  # now the handler raises nothing
            if _CAN_WAIT:
                signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)

    def _handle(self, number: int, _frame: object) -> None:
        """Answer a signal; where signals can be waited for, only in `answered`."""
        if self._target is not None:
            self._note(number)
            if number != signal.SIGINT or not os.isatty(0):  # Ctrl-C has reached the target itself
                _send(self._target, number)
        elif self._impatient is None:
            self._early = number
        elif self._note(number):
            self._wishes += 1
            if self._wishes == 1:
                self._impatient()
            else:
                self._impatient = None  # do not interrupt the cleaning up
                raise Interrupted(number)

    def _begin(self) -> None:
        # If SIGCHLD is ignored, as by a parent's `trap '' CHLD`, the kernel keeps no exit status.
        for number in _AWAITED:
            handler = signal.getsignal(number)
            if number in _FORWARDED and handler is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._handle)
            elif number not in _FORWARDED and handler is signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, signal.SIG_DFL)
        if _CAN_WAIT:
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
            # Before any target: from its first moment, signals to the group must reach the witness.
            self._witness = _Witness()

    def _end(self) -> None:
        if self._witness is not None:
            self._witness.dismiss()
        if _CAN_WAIT:
            while signal.sigtimedwait(_FORWARDED, 0) is not None:
                pass  # too late to have an effect
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        for number, handler in self._handlers.items():
            if handler is not None:  # it was not installed by Python
                signal.signal(number, handler)  # type: ignore[arg-type]


@contextlib.contextmanager
def held_back() -> Iterator[Signals]:
    """Hold back signals while targets are started and run; raise `ProfkitError` if no process can start."""
    signals = Signals()
    try:
        try:
            signals._begin()
        except OSError as error:
            raise ProfkitError(f"no process can be started: {error.strerror}; nothing was run") from None
        yield signals
    finally:
        signals._end()


def _is_ignored(number: int) -> bool:
    """Return whether the launcher was started to ignore a signal (nohup); the kernel keeps it while it is blocked."""
    return signal.getsignal(number) is signal.SIG_IGN


def _pending(pid: int) -> set[int]:
    with contextlib.suppress(OSError):
        for mask in status_words(read_file(f"/proc/{pid}/status", 1 << 16), b"ShdPnd"):
            return {int(number) for number in _FORWARDED if int(mask, 16) >> number - 1 & 1}
    return set()


def _send(target: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(target.pid, number)


def end_like(status: int) -> None:
    """End this process as the target ended: raise `SystemExit`, or die by signal N if `status` is ``-N``."""
    if status >= 0:
        sys.exit(status)
    sys.stdout.flush()
    sys.stderr.flush()

    number = -status
    with contextlib.suppress(ImportError):  # Windows, where nothing ends by a signal
        import resource

        # The target dumped core if it wanted to; a second dump would mislead.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to reset
        signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    time.sleep(1)  # until it is delivered
    sys.exit(128 + number)
