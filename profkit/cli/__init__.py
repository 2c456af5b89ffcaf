"""The ``profkit`` command: finds the subcommand, runs it, and turns an error into one line and an exit code.

A subcommand is a module that is imported when it is called, so that ``profkit --help`` imports little but
click. A command parses arguments and calls `profkit.api`; nothing is computed here.
"""

from __future__ import annotations

import gc
import os
import sys

from profkit.errors import ProfkitError, UsageError

TYPE_CHECKING = (
    False  # before `own_path` is called, a project's typing.py would be found in the place of Python's
)
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from click import ClickException

__all__ = ["main"]

#: Parameters of the API whose option is called otherwise.
_OPTIONS = {"output": "-o", "path": "-o"}
#: New objects before the collector looks for garbage: what is imported makes 700, its default, a hundred times.
_NEW_OBJECTS = 100_000


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; ``None`` takes the arguments of ``sys.argv``, and sets up `own_path`.

    Always raises `SystemExit`: 0 done, 1 ``--fail-on`` matched, 2 bad usage or unreadable input, 3 a demo
    that did not show its story on this machine, and the target's own status after ``profkit capture``.
    """
    if arguments is None:
        from profkit.cli.own_path import own_path

        own_path()
        gc.set_threshold(_NEW_OBJECTS)
    import click

    from profkit.cli.app import app

    try:
        status = app.main(
            args=None if arguments is None else list(arguments), prog_name="profkit", standalone_mode=False
        )
    except click.ClickException as error:
        sys.exit(_refused(error))
    except click.Abort:
        say("aborted")
        sys.exit(1)
    except ProfkitError as error:
        say(f"error: {one_line(error)}")
        sys.exit(error.exit_code)
    except OSError as error:
        # Of the many places where a file is looked at, one did not expect this of it: a name that is too long, say.
        if error.filename is None:
            raise
        say(f"error: {os.fsdecode(error.filename)}: {error.strerror}")
        sys.exit(2)
    # Of a command that ended early, `app.main` returns the exit code; what a command returns is not one.
    sys.exit(status if isinstance(status, int) else 0)


def _refused(error: ClickException) -> int:
    """Print click's error in one line, with where the help is; return the exit code."""
    from click.exceptions import NoArgsIsHelpError

    if isinstance(error, NoArgsIsHelpError):
        error.show()  # the help itself
        return error.exit_code
    context = getattr(error, "ctx", None)
    helps = f"; see {context.command_path} --help" if context is not None else ""
    said = " ".join(error.format_message().split()).rstrip(".")
    say(f"error: {said[:1].lower()}{said[1:]}{helps}")
    return error.exit_code


def one_line(error: ProfkitError) -> str:
    """Return an error's message in one line, whatever a foreign text in it holds."""
    return " ".join(told(error).split())


def told(error: ProfkitError) -> str:
    """Return an error's message with the user's option, where it names a parameter of the API."""
    if not isinstance(error, UsageError):
        return str(error)
    return error.told(_OPTIONS.get(error.parameter, f"--{error.parameter.replace('_', '-')}"))


def say(line: str) -> None:
    """Print a line for the user on standard error."""
    print(f"profkit: {printable(line)}", file=sys.stderr)


def printable(message: str) -> str:
    """Escape what a terminal would obey or stderr's encoding lacks: file names are foreign text."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in message)
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    return shown.encode(encoding, "backslashreplace").decode(encoding)
