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
    from profkit.analysis.diagnose_run import diagnose_run
    from profkit.analysis.select import select_processes
    from profkit.cli.output import (
        DRAWN,
        check_by,
        choose_format,
        default_limit,
        emit_report,
        keep_inputs,
        masker,
        page_to_open,
        show_page,
    )
    from profkit.formats import load_run
    from profkit.report.document import Document

    if open_report:
        output = page_to_open(format, output)
    chosen = choose_format(format, output)
    archive = None
    if ticket:
        from profkit.cli.ticket import archive_of, check_ticket, pack

        chosen, archive = check_ticket(format, chosen, output), archive_of(output)
    check_by(by)
    rows = default_limit(limit, chosen)
    drawn = chosen in DRAWN or ticket
    loaded = load_run(run, edges=drawn)
    for written in (output, archive):
        keep_inputs(written, (loaded.path,))
    names = iteration_names(iteration, load, compute, batch_size)
    selected = replace(loaded, processes=select_processes(loaded, process))
    if not full_paths:  # as in ``profkit diff``
        masked = masker([loaded])
        selected = masked.run(selected)
        loaded = masked.run(loaded) if ticket else loaded

    verdict = diagnose_run(selected, selected.processes)

    def json_text() -> str:
        from profkit.report.jsondoc import show_json

        return show_json(selected, limit=rows, by=by, names=names, verdict=verdict)

    def document() -> Document:
        from profkit.report.showdoc import show_document

        laid = show_document(selected, limit=rows, by=by, names=names, verdict=verdict)
        if not drawn:
            return laid
        from profkit.report.pictures import run_figures

        return replace(laid, figures=run_figures(selected, by))

    emit_report(chosen, output, json_text, document)
    if open_report:
        show_page(output)
    if archive is not None:
        from profkit.report import html

        pack(
            archive,
            {"run.prof": loaded},
            {"report.json": json_text(), "report.html": html.render(document())},
        )
