"""What a program says of its own parts to the ``profkit capture`` that it runs under; see docs/windows.md.

Each of these does nothing where the program is not captured, and imports nothing that a program has not imported by
itself: they may stay in a program for good. They find the capture in `sys`, where it may be of another version of
profkit, in another environment.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # the module `typing` takes longer to import than all that is here
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


def _control() -> Any:
    return getattr(sys, "_profkit", None)


def start(name: str = "") -> None:
    """Open a window: with ``profkit capture --start-paused``, what comes now is captured, in all processes.

    Without that option it does nothing, and so does a second call while a window is open.

    Parameters
    ----------
    name
        Of the window in reports.
    """
    control = _control()
    if control is not None:
        control.start(name)


def stop() -> None:
    """Close the window that this process has opened with `start`."""
    control = _control()
    if control is not None:
        control.stop()


def step() -> None:
    """Say that one step is done, as `torch.profiler.profile.step`; ``profkit capture --active N`` counts them.

    Steps of one process of each machine are counted: the first that calls it.
    """
    control = _control()
    if control is not None:
        control.step()


class window:  # noqa: N801  (it reads as a function, as `profkit.capture`)
    """Give a part of the program a name, under which the run shows it: ``with profkit.window("epoch 3"): …``.

    With ``profkit capture --start-paused`` it is a window as well: it opens one where none is open, and closes it.

    Parameters
    ----------
    name
        Up to 100 bytes of UTF-8 are kept.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entered: Any = None

    def __enter__(self) -> window:
        control = _control()
        if control is not None:
            self._entered = control.enter(self._name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        control = _control()
        if control is not None and self._entered is not None:
            control.exit(self._entered)
            self._entered = None
