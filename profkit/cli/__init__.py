"""The ``profkit`` command: imports and runs a subcommand, and reports errors by a line and an exit code.

``PYTHONPATH`` and a script's directory precede the standard library on ``sys.path``. They belong to the
target: its ``secrets.py``, or another Python's numpy, must not replace what profkit imports. This module
imports only what every interpreter loads at its start, until `own_path` has run.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from _frozen_importlib_external import PathFinder

from profkit.errors import ProfkitError, UsageError

TYPE_CHECKING = False  # until `own_path` runs, a project's typing.py would be imported instead
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

    from click import ClickException

#: Errors of a full disk; a failed write names no file.
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: What the user calls parameters of the API, where it is no option of their name.
_OPTIONS = {"output": "-o", "pid": "process"}
#: Garbage collector threshold: imports reach its default, 700, a hundred times.
_NEW_OBJECTS = 100_000


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; ``None`` takes the arguments of ``sys.argv``, and calls `own_path`.

    Always raises `SystemExit`: 0 done, 1 ``--fail-on`` matched, 2 bad usage or unreadable input, 3 a demo that failed
    to show its point on this machine, 130 interrupted; ``profkit capture`` exits with the target's status.
    """
    if arguments is None:
        own_path()
        gc.set_threshold(_NEW_OBJECTS)
    _open_streams()
    import click

    from profkit.cli.app import app

    try:
        status = app.main(
            args=None if arguments is None else list(arguments), prog_name="profkit", standalone_mode=False
        )
    except click.ClickException as error:
        sys.exit(_refused(error))
    except click.Abort:  # Ctrl-C, as shells report it
        say("aborted")
        sys.exit(130)
    except ProfkitError as error:
        say(f"error: {one_line(error)}")
        sys.exit(error.exit_code)
    except OSError as error:
        # An unexpected error of file access, such as a name that is too long.
        if error.filename is None and error.errno not in _FULL:
            raise
        where = "cannot write: " if error.filename is None else f"{os.fsdecode(error.filename)}: "
        hint = "; free some space" if error.errno in _FULL else ""
        say(f"error: {where}{error.strerror}{hint}")
        if error.filename is None:
            discard(sys.stdout)
        sys.exit(2)
    # `app.main` returns the exit code of a command that ended early; a command's own result is not a code.
    sys.exit(status if isinstance(status, int) else 0)


def _open_streams() -> None:
    """Open the null device for streams that the parent closed: ``print`` would use the other one."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def discard(stream: TextIO) -> None:
    """Discard what a stream still holds and cannot write; the interpreter would fail at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _refused(error: ClickException) -> int:
    """Print click's error in one line, with a reference to the help; return the exit code."""
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
    """Return an error's message in one line, whatever foreign text it contains."""
    return " ".join(told(error).split())


def told(error: ProfkitError) -> str:
    """Return an error's message, with the option in place of the API's parameter."""
    if not isinstance(error, UsageError):
        return str(error)
    return error.told(_OPTIONS.get(error.parameter, f"--{error.parameter.replace('_', '-')}"))


def say(line: str) -> None:
    """Print a line for the user on standard error; a closed reader must not change the exit code."""
    try:
        print(f"profkit: {printable(line)}", file=sys.stderr)
    except OSError:
        discard(sys.stderr)


def printable(message: str) -> str:
    """Escape what a terminal would interpret or stderr cannot encode: file names are foreign text."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in message)
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


#: Number of threads that NumPy's OpenBLAS starts on import.
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"

#: Requirements of every command, ``click`` first.
_REQUIRED = ("click", "numpy", "rich")


def own_path() -> None:
    """Remove from ``sys.path`` what precedes the standard library; the environment stays as it is.

    profkit's own directory is kept after the standard library, for a checkout in ``PYTHONPATH``. The other
    entries are kept last if profkit's requirements are found nowhere else.
    """
    library = os.path.dirname(os.__file__)
    places = [index for index, entry in enumerate(sys.path) if _is_standard(entry, library)]
    if not places:
        return  # an unusual interpreter, such as one in a single file
    front, installed = sys.path[: places[-1] + 1], sys.path[places[-1] + 1 :]
    standard = [entry for entry in front if _is_standard(entry, library)]
    home = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    # Installed packages are on the path once, in front if PYTHONPATH names them.
    own = [entry for entry in front if (entry or _here()) == home or _is_site(entry)]
    sys.path[:] = [*standard, *own, *installed]
    if any(PathFinder.find_spec(name, sys.path) is None for name in _REQUIRED):
        sys.path += [entry for entry in front if entry not in standard and entry not in own]


def _is_standard(entry: str, library: str) -> bool:
    """Return whether an entry is the standard library: its directory, compiled modules, or archive."""
    folder, name = os.path.dirname(entry), os.path.basename(entry)
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return (
        entry == library
        or (name == "lib-dynload" and folder == library)
        or (name == "DLLs" and folder == os.path.dirname(library))
        or (name == archive and not os.path.isdir(entry))
    )


def _is_site(entry: str) -> bool:
    """Return whether packages for this interpreter are installed there."""
    site = sys.modules.get("site")
    if site is None:
        return False
    return entry in [
        *site.getsitepackages(),
        *([site.getusersitepackages()] if site.ENABLE_USER_SITE else []),
    ]


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it was removed


def import_numpy() -> None:
    """Import NumPy without OpenBLAS threads, whose start takes as long as the import."""
    if "numpy" in sys.modules or _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_BLAS_THREADS]  # child processes keep their own setting
