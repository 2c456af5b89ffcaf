"""The one tree of errors that a user can cause; on the command line they are caught once, in ``profkit.cli``.

An error here is one line for a person: which file, what is wrong, what to do. Anything that is not a
`ProfkitError` is a defect of profkit and keeps its traceback. No message names an option of the command line: an
error carries the name of the parameter, and the command line spells it as its option.
"""

from __future__ import annotations

__all__ = ["CaptureError", "FormatError", "ProfkitError", "UsageError"]


class ProfkitError(Exception):
    """Base of every error that is reported as one line.

    Attributes
    ----------
    exit_code : int
        What the command exits with; 2 is bad usage or unreadable input.
    """

    exit_code = 2


class UsageError(ProfkitError):
    """What is asked for cannot be done.

    Parameters
    ----------
    problem
        What is wrong, and what would be right.
    parameter
        Name of the parameter that is wrong, as the Python API has it (``by``, ``batch_size``); empty where none is.
    value
        Its value, as the user gave it.
    """

    def __init__(self, problem: str, *, parameter: str = "", value: object = "") -> None:
        self.problem = problem
        self.parameter = parameter
        self.value = str(value)
        super().__init__(self.told(parameter))

    def told(self, name: str) -> str:
        """Return the message with the parameter called `name`."""
        return f"{name} {self.value}: {self.problem}" if self.parameter else self.problem


class CaptureError(ProfkitError):
    """A block of the running process cannot be captured, since a profiler is at work in it already."""


class FormatError(ProfkitError):
    """A file cannot be read as what it should be.

    Parameters
    ----------
    path
        The file, as the user named it.
    problem
        What is wrong with it.
    hint
        What the user can do about it; empty where nothing is known to help.
    """

    def __init__(self, path: object, problem: str, hint: str = "") -> None:
        self.path = str(path)
        self.problem = problem
        self.hint = hint
        super().__init__(f"{self.path}: {problem}" + (f" ({hint})" if hint else ""))
