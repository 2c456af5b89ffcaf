"""``profkit merge``: join the rank files of a job, or rescue the spool of a killed capture."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.capture.spool import FACTS_NAME, absent_directories, left_behind
from profkit.cli import say
from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE, output_option
from profkit.cli.progress import Progress, say_directly
from profkit.errors import FormatError, ProfkitError, UsageError

if TYPE_CHECKING:
    from profkit.model import Run

#: Most spools that one line names.
_MOST_NAMED = 5


@click.command(context_settings=CONTEXT)
@click.argument("files", metavar="[FILE…]", nargs=-1, type=FILE)
@output_option("Run file to write.  [default, without FILE: the one that the capture was to write]", "OUT")
def merge(files: tuple[Path, ...], output: Path | None) -> None:
    """Join the rank files of one job, or rescue a killed capture.

    FILE is a rank file of the job, or the spool directory of a killed capture. Without FILE,
    whatever killed captures left in this directory is rescued. Nothing in OUT is masked: it holds what the
    files hold. To post a run, use --ticket or export.
    """
    if files:
        if output is None:
            raise click.UsageError("-o OUT is missing: the run file to write")
        _merge(files, output)
        return
    found = left_behind(Path())
    if not found:
        raise UsageError("no killed capture left records in this directory: name the files to join")
    if output is not None and len(found) > 1:
        spools = ", ".join(left.spool.name for left in found)
        raise UsageError(f"{spools} belong to {len(found)} captures: name one, or leave out -o")
    failed: ProfkitError | None = None
    for left in found:
        try:
            if output is None and left.output.is_symlink():
                raise UsageError("is a link: name the file to write with -o", "output", left.output)
            _merge((left.spool,), output or left.output)
        except ProfkitError as error:  # rescue the others first
            if failed is not None:
                say(f"error: {failed}")
            failed = error
    if failed is not None:
        raise failed


def _merge(files: tuple[Path, ...], output: Path) -> None:
    from profkit.api.files import keep_inputs
    from profkit.formats.load import join_files, load_run
    from profkit.formats.runfile import write_run
    from profkit.model import ProfileError, Run

    keep_inputs(map(str, files), output)
    processes = None
    try:
        with Progress("merging") as progress:
            known = [_read(path, progress) if os.path.isdir(path) else path for path in files]
            if len(known) == 1:  # a single rank stays a rank
                run = known[0] if isinstance(known[0], Run) else load_run(known[0])
            else:
                run, processes = join_files(known, progress)
            write_run(output, run, portions=processes)
    except OSError as error:
        raise UsageError(f"cannot be written there, {error.strerror}", "output", output) from error
    except ProfileError as error:
        raise FormatError(run.path, str(error), "its numbers are damaged; profile again") from None
    joined = f" from {len(files)} files" if len(files) > 1 else ""
    say(f"wrote {output}{joined}; see it with: profkit show {shlex.quote(str(output))}")
    for spool in filter(os.path.isdir, files):
        if absent_directories(spool):
            continue  # there are more records on another machine
        # Kept: the capture may still be running, and a damaged record may be useful.
        say(f"the records are kept; once the file is as expected, run: rm -r {shlex.quote(str(spool))}")


def say_left_behind(directory: Path) -> None:
    """Print what killed captures left in a directory, and the command that rescues it."""
    found = left_behind(directory)
    if not found:
        return
    named = ", ".join(left.spool.name for left in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    what = "a capture was" if len(found) == 1 else f"{len(found)} captures were"
    inside = "" if directory == Path() else f"cd {shlex.quote(str(directory))} && "
    say_directly(f"{what} killed here and left {named}{more}; rescue it with: {inside}profkit merge")


def _read(path: Path, progress: Callable[[str], None]) -> Run:
    """Return the run in the spool of a capture."""
    from profkit.capture.packer import pack_spool
    from profkit.capture.source_cache import Sources, cache_file

    sources = Sources(cache_file(os.environ))
    try:
        if FACTS_NAME not in os.listdir(path):
            raise FormatError(
                path, "is a directory, but not the spool of a capture", "name the run files in it"
            )
        run = pack_spool(path, sources=sources, progress=progress)
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise FormatError(path, problem, "check its owner and permissions") from None
    sources.save()
    return run
