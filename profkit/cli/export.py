"""``profkit export``: a run in the format of another viewer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from profkit.cli.options import ProcessOption

__all__ = ["export"]

#: What ``--to`` takes; Perfetto reads what chrome://tracing does.
_TARGETS = ("perfetto", "chrome", "speedscope")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run file, or any pstats file.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="perfetto|chrome|speedscope",
            help="perfetto and chrome: ranges and samples on one time axis. speedscope: nested ranges, and "
            "self times of functions.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File to write, .gz compresses.  [default: stdout]"
        ),
    ] = None,
    process: ProcessOption = None,
) -> None:
    """Write a run for Perfetto, chrome://tracing or speedscope."""
    from dataclasses import replace

    from profkit.cli.output import emit_chunks, keep_inputs
    from profkit.errors import UsageError
    from profkit.formats import chrome_trace, load_run, speedscope_file
    from profkit.measure.select import select_processes

    if to not in _TARGETS:
        raise UsageError(f"--to {to}: not a format, use {', '.join(_TARGETS[:-1])} or {_TARGETS[-1]}")
    loaded = load_run(run, edges=False)
    keep_inputs((loaded.path,), output)
    selected = replace(loaded, processes=select_processes(loaded, process))
    made = speedscope_file(selected) if to == "speedscope" else chrome_trace(selected)
    emit_chunks(made.chunks, output)
    for sentence in made.left_out:
        typer.echo(f"profkit: not in it: {sentence}", err=True)
