"""``profkit capture``: run the target under the launcher, and end as the target ended."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli import printable
from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE

if TYPE_CHECKING:
    from types import TracebackType

    from profkit.model import Run

__all__ = ["Progress", "capture"]

#: Seconds of packing from which a terminal shows what is done, and after which it is shown again.
_SHOWN_FROM, _SHOWN_EVERY = 1.0, 0.2


# From the first word of the target's command on, everything is the target's.
@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE,
    help="Run file to write.  [default: run.prof, run-2.prof, …]",
)
@click.option(
    "--repeat",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Run it N times, one file each: replicates.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not print where the run was written.")
@click.option(
    "--nvtx-shim",
    is_flag=True,
    help="Let torch.cuda.nvtx work, and record it, in a PyTorch that was built without CUDA.",
)
@click.argument("command", metavar="-- COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED)
def capture(command: tuple[str, ...], output: Path | None, repeat: int, quiet: bool, nvtx_shim: bool) -> None:
    """Run a command and record it in one run file."""
    from profkit.capture.launcher import NotWrittenError
    from profkit.capture.launcher import capture as launch
    from profkit.capture.signal_forwarding import end_like

    # Ends as the target ended: with its exit code, or by the signal that ended it.
    written = None if quiet else _say_written
    progress = Progress()
    try:
        status = launch(
            command,
            output,
            repeat=repeat,
            written=written,
            say=progress.say,
            packing=None if quiet else progress,
            nvtx_shim=nvtx_shim,
        )
    except NotWrittenError as error:
        _say(f"error: {error}")
        status = error.status or error.exit_code
    end_like(status)


class Progress(contextlib.AbstractContextManager["Callable[[str], None]"]):
    """A line on a terminal that says what is packed; nothing where standard error is none.

    Parameters
    ----------
    after_s
        Seconds for which nothing is shown: most packing has ended by then.
    """

    def __init__(self, after_s: float = _SHOWN_FROM) -> None:
        self._after_s = after_s
        self._doing = ""
        self._width = 0  # of what is shown

    def __enter__(self) -> Callable[[str], None]:
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if sys.stderr is not None and sys.stderr.isatty():
            thread = threading.Thread(target=self._show, name="profkit-progress", daemon=True)
            with contextlib.suppress(RuntimeError):  # the user's limit on threads
                thread.start()
                self._thread = thread
        return self._next

    def _next(self, doing: str) -> None:
        self._doing = printable(doing)

    def _show(self) -> None:
        wait_s = self._after_s
        while not self._ended.wait(wait_s):
            line = f"profkit: packing: {self._doing}"[: _columns() - 1]
            self._width = max(self._width, len(line))
            _write("\r" + line.ljust(self._width))
            wait_s = _SHOWN_EVERY
        self._clear()

    def _clear(self) -> None:
        width, self._width = self._width, 0
        if width:
            _write("\r" + " " * width + "\r")

    def say(self, line: str) -> None:
        """Write a line for the user, in the place of what is shown."""
        self._clear()
        _say(line)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()


def _columns() -> int:
    with contextlib.suppress(OSError):
        return os.get_terminal_size(2).columns or 80
    return 80


def _say(line: str) -> None:
    """Write a line for the user to standard error.

    By its descriptor, and without complaint if there is no reader: the target's exit status must come through.
    """
    if sys.stderr is None:
        return  # closed by the parent; descriptor 2 may be another file by now
    _write(f"profkit: {printable(line)}\n")


def _write(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode(sys.stderr.encoding or "ascii", "replace"))


def _say_written(path: Path, run: Run) -> None:
    """Print where the run is, and what a reader of it must know."""
    count = len(run.processes)
    processes = "1 process" if count == 1 else f"{count} processes"
    wall = f", {run.manifest.wall_s:.1f} s" if run.manifest is not None else ""
    _say(f"wrote {path} ({processes}{wall}); see it with: profkit show {shlex.quote(str(path))}")
    if run.warnings:
        from profkit.report.notices import notice_text

        for notice in run.warnings:
            _say(notice_text(notice))
