"""``profkit extract``: one process of a run as a file that every viewer of cProfile opens."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE, process_option, run_argument

__all__ = ["extract"]


@click.command(context_settings=CONTEXT)
@run_argument
@click.option("-o", "--output", metavar="OUT.prof", required=True, type=FILE, help="File to write.")
@process_option
def extract(run: Path, output: Path, process: str | None) -> None:
    """Write one process as a plain pstats file.

    Nothing in it is masked: paths and names are as they were recorded. To post a run, use --ticket or export.
    """
    from profkit.api.files import keep_inputs, write_file
    from profkit.errors import UsageError
    from profkit.formats import load_run, write_pstats
    from profkit.measure.select import select_profile

    # The default is what viewers see of the run file itself; all processes have to be asked for.
    loaded = load_run(run)
    keep_inputs((loaded.path,), output)
    profile, _ = select_profile(loaded, process or "main")
    if not len(profile):
        raise UsageError(f"{run}: this process has no function to write; profkit show lists the others")
    write_file((write_pstats(profile),), output)
