"""The errors that a user can cause, each one line; ``profkit.cli`` catches them once.

Any other exception is a defect of profkit and keeps its traceback. Messages name API parameters, which the
command line replaces by options.
"""

from __future__ import annotations

__all__ = ["CaptureError", "FormatError", "ProfkitError", "UsageError"]


class ProfkitError(Exception):
    """Base of every error that is reported as one line; `exit_code` 2 is bad usage or unreadable input."""

    exit_code = 2


class UsageError(ProfkitError):
    """The request cannot be carried out: `problem` says what is wrong, and what would be right.

    `parameter` is the wrong parameter's name in the Python API, or empty; `value` is as the user gave it.
    """

    def __init__(self, problem: str, parameter: str = "", value: object = "") -> None:
        self.problem = problem
        self.parameter = parameter
        self.value = str(value)
        super().__init__(problem, parameter, self.value)  # as `pickle` calls it again

    def __str__(self) -> str:
        return self.told(self.parameter)

    def told(self, name: str) -> str:
        """Return the message with the parameter called `name`."""
        return f"{name} {self.value}: {self.problem}" if self.parameter else self.problem


class CaptureError(ProfkitError):
    """A block of the running process cannot be captured, since another profiler is active."""


class FormatError(ProfkitError):
    """A file, named as by the user, cannot be read; `hint` says what to do, empty if unknown."""

    def __init__(self, path: object, problem: str, hint: str = "") -> None:
        self.path = str(path)
        self.problem = problem
        self.hint = hint
        super().__init__(self.path, problem, hint)  # as `pickle` calls it again

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" + (f" ({self.hint})" if self.hint else "")
