"""``profkit show``: read one run and write what it was."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from profkit.cli.options import (
    BatchSizeOption,
    ByOption,
    ComputeOption,
    FormatOption,
    FullPathsOption,
    IterationOption,
    LimitOption,
    LoadOption,
    OpenOption,
    OutputOption,
    ProcessOption,
    TicketOption,
    iteration_names,
)

__all__ = ["show"]


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run file, or any pstats file.")],
    output: OutputOption = None,
    format: FormatOption = None,
    by: ByOption = "tottime",
    process: ProcessOption = None,
    limit: LimitOption = None,
    full_paths: FullPathsOption = False,
    ticket: TicketOption = False,
    open_report: OpenOption = False,
    iteration: IterationOption = None,
    load: LoadOption = None,
    compute: ComputeOption = None,
    batch_size: BatchSizeOption = None,
) -> None:
    """Show one run: processes, waiting, top functions."""
    gc.disable()  # as in ``profkit diff``
    from profkit.cli.destination import destination
    from profkit.cli.output import masker
    from profkit.formats import load_run
    from profkit.measure.select import select_processes
    from profkit.report.document import Document
    from profkit.verdict.alone import judge_run

    goal = destination(format, output, limit=limit, by=by, ticket=ticket, open_report=open_report)
    loaded = load_run(run, edges=goal.drawn)
    goal.keep((loaded.path,))
    names = iteration_names(iteration, load, compute, batch_size)
    selected = replace(loaded, processes=select_processes(loaded, process))
    if not full_paths:  # as in ``profkit diff``
        masked = masker([loaded])
        selected = masked.run(selected)
        loaded = masked.run(loaded) if ticket else loaded

    judged = judge_run(selected, selected.processes)

    def json_text() -> str:
        from profkit.report.jsondoc import show_json

        return show_json(selected, limit=goal.rows, by=by, names=names, judged=judged)

    def document() -> Document:
        from profkit.report.showdoc import show_document

        laid = show_document(selected, limit=goal.rows, by=by, names=names, judged=judged)
        if not goal.drawn:
            return laid
        from profkit.report.pictures import run_figures

        return replace(laid, figures=run_figures(selected, by))

    goal.write(json_text, document, {"run.prof": loaded})
