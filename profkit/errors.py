"""The one tree of errors that a user can cause; caught once, in ``profkit.cli``.

An error here is one line for a person: which file, what is wrong, what to do. Anything that is not a
`ProfkitError` is a defect of profkit and keeps its traceback.
"""

from __future__ import annotations

__all__ = ["FormatError", "ProfkitError", "UsageError"]


class ProfkitError(Exception):
    """Base of every error that is reported as one line.

    Attributes
    ----------
    exit_code : int
        What the command exits with; 2 is bad usage or unreadable input.
    """

    exit_code = 2


class UsageError(ProfkitError):
    """The command line asks for something that cannot be done."""


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
