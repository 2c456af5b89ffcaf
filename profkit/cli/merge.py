"""``profkit merge``: join what one job left in several files, or what a killed capture left in its spool."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli import say
from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE
from profkit.cli.progress import Progress

if TYPE_CHECKING:
    from profkit.model import Run

__all__ = ["merge"]

#: What makes a directory the spool of a capture.
_SPOOL_MARK = "launch.json"


@click.command(context_settings=CONTEXT)
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=FILE)
@click.option("-o", "--output", metavar="OUT", required=True, type=FILE, help="Run file to write.")
def merge(files: tuple[Path, ...], output: Path) -> None:
    """Join the rank files of one job, or rescue a killed capture.

    FILE is a rank file of the job, or the spool directory of a killed capture. Nothing in OUT is masked: it holds
    what the files hold. To post a run, use --ticket or export.
    """
    from profkit.errors import FormatError, UsageError
    from profkit.formats.load import join_files, load_run
    from profkit.formats.runfile import write_run
    from profkit.model import ProfileError, Run

    processes = None
    try:
        with Progress("merging") as progress:
            known = [_read(path, progress) if path.is_dir() else path for path in files]
            if len(known) == 1:  # a rank stays one
                run = known[0] if isinstance(known[0], Run) else load_run(known[0])
            else:
                run, processes = join_files(known, progress)
            write_run(output, run, portions=processes)
    except OSError as error:
        raise UsageError(
            f"cannot be written there, {error.strerror}", parameter="output", value=output
        ) from error
    except ProfileError as error:
        raise FormatError(run.path, str(error), "its numbers are damaged; profile again") from None
    joined = f" from {len(files)} files" if len(files) > 1 else ""
    say(f"wrote {output}{joined}; see it with: profkit show {shlex.quote(str(output))}")
    for spool in (path for path in files if path.is_dir()):
        # Not removed here: the capture may run yet, and a damaged record may still be of use.
        say(f"the records are still there; when the file is as expected: rm -r {shlex.quote(str(spool))}")


def _read(path: Path, progress: Callable[[str], None]) -> Run:
    """Return what the spool of a capture holds."""
    from profkit.capture.packer import pack_spool
    from profkit.capture.source_cache import Sources, cache_file
    from profkit.errors import FormatError

    if not (path / _SPOOL_MARK).is_file():
        raise FormatError(path, "is a directory, and not the spool of a capture", "name the run files in it")
    sources = Sources(cache_file(os.environ))
    run = pack_spool(path, sources=sources, progress=progress)
    sources.save()
    return run
