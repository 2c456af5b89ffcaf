"""The errors that a user can cause; ``profkit.cli`` catches them once.

An error is one line for a person: which file, what is wrong, what to do. Any other exception is a defect of
profkit and keeps its traceback. Messages name API parameters; the command line shows the matching option.
"""

from __future__ import annotations

__all__ = ["CaptureError", "FormatError", "ProfkitError", "UsageError"]


class ProfkitError(Exception):
    """Base of every error that is reported as one line.

    `exit_code` is the command's exit status; 2 means bad usage or unreadable input.
    """

    exit_code = 2


class UsageError(ProfkitError):
    """The request cannot be carried out.

    Parameters
    ----------
    problem
        What is wrong, and what would be right.
    parameter
        Name of the wrong parameter in the Python API (``by``, ``batch_size``); empty if there is none.
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
    """A block of the running process cannot be captured, since another profiler is active."""


class FormatError(ProfkitError):
    """A file cannot be read as the expected kind.

    Parameters
    ----------
    path
        The file, as the user named it.
    problem
        What is wrong with it.
    hint
        What the user can do; empty if unknown.
    """

    def __init__(self, path: object, problem: str, hint: str = "") -> None:
        self.path = str(path)
        self.problem = problem
        self.hint = hint
        super().__init__(f"{self.path}: {problem}" + (f" ({hint})" if hint else ""))
