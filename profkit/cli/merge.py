"""``profkit merge``: join what one job left in several files, or what a killed capture left in its spool."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from profkit.model import Run

__all__ = ["merge"]

#: What makes a directory the spool of a capture.
_SPOOL_MARK = "launch.json"


def merge(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Rank files of one job, or spool directories of killed captures."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Run file to write.")],
) -> None:
    """Join the rank files of one job, or rescue a killed capture."""
    from profkit.errors import UsageError
    from profkit.formats import join_ranks
    from profkit.formats.runfile import write_run

    runs = [_read(path) for path in files]
    try:
        write_run(output, runs[0] if len(runs) == 1 else join_ranks(runs))
    except OSError as error:
        raise UsageError(f"-o {output}: cannot be written there, {error.strerror}") from error
    joined = f" from {len(runs)} files" if len(runs) > 1 else ""
    typer.echo(
        f"profkit: wrote {output}{joined}; see it with: profkit show {shlex.quote(str(output))}", err=True
    )


def _read(path: Path) -> Run:
    from profkit.errors import FormatError
    from profkit.formats import load_run

    if not path.is_dir():
        return load_run(path)
    if not (path / _SPOOL_MARK).is_file():
        raise FormatError(path, "is a directory, and not the spool of a capture", "name the run files in it")
    from profkit.capture.packer import pack_spool

    return pack_spool(path)
