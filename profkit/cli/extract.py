"""``profkit extract``: one process of a run as a file that every viewer of cProfile opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from profkit.cli.options import ProcessOption

__all__ = ["extract"]


def extract(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run file.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.prof", help="File to write.")],
    process: ProcessOption = None,
) -> None:
    """Write one process as a plain pstats file."""
    from profkit.cli.output import emit_bytes, keep_inputs
    from profkit.formats import load_run, write_pstats
    from profkit.measure.select import select_profile

    # The default is what viewers see of the run file itself; all processes have to be asked for.
    loaded = load_run(run)
    keep_inputs((loaded.path,), output)
    profile, _ = select_profile(loaded, process or "main")
    emit_bytes(write_pstats(profile), output)
