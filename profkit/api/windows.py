"""What a program tells the ``profkit capture`` under which it runs (docs/windows.md).

Without a capture, these functions do nothing and import nothing, so that they can stay in a program. They
find the capture in `sys`, since it may belong to another version of profkit in another environment.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` takes longer than this whole module
if TYPE_CHECKING:
    from typing import Any


def _control() -> Any:
    return getattr(sys, "_profkit", None)


def start(name: str = "") -> None:
    """Open a window: ``profkit capture --start-paused`` captures what follows, in all processes.

    Without that option, or while a window is open, it does nothing.

    Parameters
    ----------
    name
        The window's name in reports.
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
    """Mark the end of a step, as `torch.profiler.profile.step`; ``profkit capture --active N`` counts steps.

    On each machine, only steps of the first process that calls it count.
    """
    control = _control()
    if control is not None:
        control.step()


class window:  # noqa: N801  (it reads as a function, as `profkit.capture`)
    """Name a part of the program in the run: ``with profkit.window("epoch 3"): …``.

    With ``profkit capture --start-paused``, it also opens a window if none is open, and closes it.

    Parameters
    ----------
    name
        Truncated to 100 bytes of UTF-8.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entered: Any = None

    def __enter__(self) -> window:
        control = _control()
        if control is not None:
            self._entered = control.enter(self._name)
        return self

    def __exit__(self, *_: object) -> None:
        control = _control()
        if control is not None and self._entered is not None:
            control.exit(self._entered)
            self._entered = None
