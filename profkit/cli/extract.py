"""``profkit extract``: one process of a run as a file for every viewer of cProfile."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.chosen import chosen_profile
from profkit.cli.options import one_process_option, output_option, run_argument
from profkit.cli.progress import Progress


@click.command(context_settings=CONTEXT)
@run_argument
@output_option("File to write.", "OUT.prof", required=True)
@one_process_option
def extract(run: Path, output: Path, process: str | None) -> None:
    """Write one process as a plain pstats file.

    Nothing in it is masked: paths and names are as they were recorded. To post a run, use --ticket or export.
    """
    from profkit.api.files import keep_inputs, write_file
    from profkit.formats import load_run, write_pstats

    with Progress("extracting"):
        loaded = load_run(run)
    keep_inputs((loaded.path,), output)
    write_file((write_pstats(chosen_profile(loaded, process)),), output)
