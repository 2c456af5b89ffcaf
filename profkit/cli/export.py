"""``profkit export``: a run in the format of another viewer."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from profkit.cli import say
from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE, option, options, output_option, process_option
from profkit.cli.output import ReportOptions, emit_chunks
from profkit.cli.progress import Progress
from profkit.cli.report_options import full_paths_option
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.model import Run

#: Values of ``--to``: default suffix, and module and function of `profkit.formats.export`.
_FORMATS = {
    "perfetto": (".trace.json", "chrome", "chrome_trace"),  # Perfetto reads chrome://tracing's format
    "chrome": (".trace.json", "chrome", "chrome_trace"),
    "speedscope": (".speedscope.json", "speedscope", "speedscope_file"),
    "firefox": (".firefox.json", "firefox", "firefox_profile"),
    "pprof": (".pb.gz", "pprof_write", "pprof_profile"),
    "collapsed": (".collapsed", "collapsed_write", "collapsed_stacks"),
    "callgrind": (".callgrind", "callgrind", "callgrind_profile"),
    "pstats": (".pstats.prof", "pstats_write", "pstats_profile"),
    "csv": (".csv", "", ""),
    "parquet": (".parquet", "", ""),
}
#: Formats whose readers do not unpack.
_NEVER_PACKED = ("pstats", "parquet")
#: Formats without callers and stacks, which are the most expensive part to read.
_WITHOUT_CALLERS = ("perfetto", "chrome", "csv", "parquet")


@click.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN...", type=FILE, nargs=-1, required=True)
@option(
    "--to",
    "|".join(_FORMATS),
    "perfetto and chrome: ranges and samples on one time axis. speedscope: nested ranges, and stacks. "
    "firefox, pprof and collapsed: stacks, weighted by self time; firefox takes several runs side by side. "
    "callgrind and pstats: functions and callers, summed over the processes. csv and parquet: a table of functions.",
)
@options(
    output_option(
        "File to write, .gz compresses.  [default: a free name after RUN; stdout if redirected]", stdout=True
    ),
    process_option,
    full_paths_option,
    report=ReportOptions,
)
def export(runs: tuple[Path, ...], to: str | None, process: str | None, report: ReportOptions) -> None:
    """Write a run for other viewers: Perfetto, Firefox, pprof and more.

    What is written is masked as a report is: it holds no home, user, host name or secret.
    """
    from profkit.api.files import keep_inputs
    from profkit.api.reported import masker
    from profkit.capture.reservation import free_name
    from profkit.formats import load_run
    from profkit.measure.selected_processes import select_processes

    output = report.output
    if to not in _FORMATS:
        *names, last = _FORMATS
        these = f"{', '.join(names)} or {last}"
        if to is None:
            raise UsageError(f"no format is chosen: add --to with one of {these}")
        raise UsageError(f"not a format, use {these}", "to", to)
    if len(runs) > 1 and to != "firefox":
        raise UsageError(
            f"export takes one run, and {len(runs)} were given: name one of them; --to firefox takes several"
        )
    if to in _NEVER_PACKED and output is not None and output.suffix.lower() == ".gz":
        raise UsageError(f"readers of {to} do not unpack .gz, name another file", "output", output)
    with Progress("exporting"):
        loaded = [load_run(run, edges=to not in _WITHOUT_CALLERS) for run in runs]
        keep_inputs((run.path for run in loaded), output)
        selected = [replace(run, processes=select_processes(run, process)) for run in loaded]
        if not report.full_paths:
            masked = masker(loaded, posted=True, names_hidden=report.mask_names)
            selected = [masked.run(run) for run in selected]
        chunks, left_out = _made(to, selected)
    with contextlib.ExitStack() as kept:
        named = output is None and sys.stdout.isatty()
        if named:
            # The user did not choose this name, so existing files are never overwritten.
            output = kept.enter_context(free_name(Path(runs[0].stem + _FORMATS[to][0])))
        emit_chunks(chunks, output, packed=to == "pprof")
        if named:
            say(f"wrote {output}")
    for sentence in left_out:
        say(f"left out: {sentence}")


def _made(to: str, runs: Sequence[Run]) -> tuple[Iterable[bytes], Sequence[str]]:
    """Return a file's content, and what it leaves out; raises `FormatError` if there is nothing to write."""
    from profkit.measure.selected_processes import select

    run = runs[0]
    if to in ("csv", "parquet"):
        from profkit.api.function_table import table_as_csv, table_as_parquet

        return table_as_csv(run) if to == "csv" else table_as_parquet(run), ()
    _, module, name = _FORMATS[to]
    write = getattr(importlib.import_module(f"profkit.formats.export.{module}"), name)
    summed = to in ("callgrind", "pstats")
    made = write(run, select(run).profile) if summed else write(runs if to == "firefox" else run)
    return made.chunks, made.left_out
