"""``profkit export``: a run in the format of another viewer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from profkit.cli import say
from profkit.cli.app import CONTEXT
from profkit.cli.options import (
    ReportOptions,
    full_paths_option,
    options,
    output_option,
    process_option,
    run_argument,
)
from profkit.cli.progress import Progress

#: What ``--to`` takes; Perfetto reads what chrome://tracing does.
_TARGETS = ("perfetto", "chrome", "speedscope", "pstats")
#: How the name of a file ends that no option names.
_ENDS = {"speedscope": ".speedscope.json", "pstats": ".pstats.prof"}
_TRACE = ".trace.json"


@click.command(context_settings=CONTEXT)
@run_argument
@click.option(
    "--to",
    metavar="|".join(_TARGETS),
    required=True,
    help="perfetto and chrome: ranges and samples on one time axis. speedscope: nested ranges, and "
    "self times of functions. pstats: functions, summed over the processes, for viewers of cProfile.",
)
@options(
    output_option("File to write, .gz compresses.  [default: a free name after RUN; stdout if redirected]"),
    process_option,
    full_paths_option,
    report=ReportOptions,
)
def export(run: Path, to: str, process: str | None, report: ReportOptions) -> None:
    """Write a run for Perfetto, chrome://tracing or speedscope.

    What is written is masked as a report is: it holds no home, user, host name or secret.
    """
    import contextlib
    import sys
    from dataclasses import replace

    from profkit.api.files import keep_inputs
    from profkit.api.reported import masker
    from profkit.capture.reservation import free_name
    from profkit.cli.output import emit_chunks
    from profkit.errors import UsageError
    from profkit.formats import chrome_trace, load_run, speedscope_file, write_pstats
    from profkit.measure.selected_processes import select, select_processes

    output = report.output
    if to not in _TARGETS:
        names = f"{', '.join(_TARGETS[:-1])} or {_TARGETS[-1]}"
        raise UsageError(f"not a format, use {names}", parameter="to", value=to)
    with Progress("exporting"):
        loaded = load_run(run, edges=to == "pstats")
        keep_inputs((loaded.path,), output)
        selected = replace(loaded, processes=select_processes(loaded, process))
        if not report.full_paths:
            selected = masker([loaded], posted=True, names_hidden=report.mask_names).run(selected)
        left_out: tuple[str, ...] = ()
        if to == "pstats":
            chunks: Iterable[bytes] = (write_pstats(select(selected).profile),)
        else:
            made = speedscope_file(selected) if to == "speedscope" else chrome_trace(selected)
            chunks, left_out = made.chunks, tuple(made.left_out)
    with contextlib.ExitStack() as kept:
        if output is None and sys.stdout.isatty():
            # What is there is never written over; nobody asked for that name.
            output = kept.enter_context(free_name(Path(run.stem + _ENDS.get(to, _TRACE))))
            emit_chunks(chunks, output)
            say(f"wrote {output}")
        else:
            emit_chunks(chunks, output)
    for sentence in left_out:
        say(f"not in it: {sentence}")
