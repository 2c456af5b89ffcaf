"""Progress lines of a command on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable

from profkit.cli import printable

#: Seconds before progress shows, and between updates.
_SHOWN_FROM, _SHOWN_EVERY = 1.0, 0.2


class Progress(contextlib.AbstractContextManager["Callable[[str | Callable[[], str]], None]"]):
    """A progress line on a terminal, after `after_s` seconds; nothing if standard error is not a terminal.

    It can be entered repeatedly, and yields a function that sets the current activity: a text, or a function
    that returns it. Without one, elapsed seconds are shown.
    """

    def __init__(self, title: str, after_s: float = _SHOWN_FROM) -> None:
        self._title = title
        self._after_s = after_s
        self._doing: str | Callable[[], str] = ""
        self._width = 0  # of the line shown
        self._writing = threading.RLock()  # a signal handler may write too

    def __enter__(self) -> Callable[[str | Callable[[], str]], None]:
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if sys.stderr is not None and sys.stderr.isatty():
            thread = threading.Thread(target=self._show, name="profkit-progress", daemon=True)
            with contextlib.suppress(RuntimeError):  # the user's limit on threads
                thread.start()
                self._thread = thread
        return self._next

    def _next(self, doing: str | Callable[[], str]) -> None:
        self._doing = doing

    def _show(self) -> None:
        wait_s, begin = self._after_s, time.monotonic()
        while not self._ended.wait(wait_s):
            doing = self._doing if isinstance(self._doing, str) else self._doing()
            doing = printable(doing) or f"{time.monotonic() - begin:.0f} s"
            line = f"profkit: {self._title}: {doing}"[: _columns() - 1]
            with self._writing:
                self._width = max(self._width, len(line))
                _write("\r" + line.ljust(self._width))
            wait_s = _SHOWN_EVERY
        self._clear()

    def _clear(self) -> None:
        with self._writing:
            width, self._width = self._width, 0
            if width:
                _write("\r" + " " * width + "\r")

    def say(self, line: str) -> None:
        """Print a line for the user in place of the progress line."""
        with self._writing:
            self._clear()
            say_directly(line)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()


def say_directly(line: str) -> None:
    """Write a line to the descriptor of standard error; errors must not change the exit status."""
    if sys.stderr is None:
        return  # closed by the parent; descriptor 2 may be another file by now
    _write(f"profkit: {printable(line)}\n")


def _write(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode(sys.stderr.encoding or "ascii", "replace"))


def _columns() -> int:
    with contextlib.suppress(OSError):
        return os.get_terminal_size(2).columns or 80
    return 80
