"""``profkit diff``: read two sides, compare them, write the report, and answer with an exit code."""

from __future__ import annotations

import gc
from dataclasses import replace
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

__all__ = ["diff"]


def diff(
    baseline: Annotated[
        str,
        typer.Argument(
            metavar="BASELINE", help="Run file, directory or quoted glob; several are replicates."
        ),
    ],
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="The same for what is slower.")],
    output: OutputOption = None,
    format: FormatOption = None,
    by: ByOption = "tottime",
    process: ProcessOption = None,
    limit: LimitOption = None,
    iteration: IterationOption = None,
    load: LoadOption = None,
    compute: ComputeOption = None,
    batch_size: BatchSizeOption = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="CAUSE[,CAUSE…]",
            help="Exit with 1 if the verdict is one of these; any: whatever makes it slower.",
        ),
    ] = None,
    full_paths: FullPathsOption = False,
    ticket: TicketOption = False,
    open_report: OpenOption = False,
) -> None:
    """Say why one run is slower than another."""
    # A short-lived process that builds millions of tuples and no cycles: looking for cycles costs a fifth.
    gc.disable()
    from profkit.cli.destination import destination
    from profkit.cli.output import masker
    from profkit.formats.load import files_of, load_side
    from profkit.report.document import Document
    from profkit.verdict.comparison import diff as compare

    goal = destination(format, output, limit=limit, by=by, ticket=ticket, open_report=open_report)
    causes = _causes(fail_on)
    goal.keep(path for side in (baseline, candidate) for path in files_of(side)[0])
    before, after = load_side(baseline), load_side(candidate)
    names = iteration_names(iteration, load, compute, batch_size)
    result = compare(before, after, by=by, process=process, iterations=names, calls=goal.drawn)
    pictured = before.runs[0], after.runs[0]
    runs = {}
    if goal.archive is not None:
        from profkit.cli.ticket import members_of

        runs = {**members_of("baseline", before.runs), **members_of("candidate", after.runs)}
    if not full_paths:
        # From here on nothing knows who ran it where: no renderer has to remember.
        masked = masker((*before.runs, *after.runs))
        result = masked.diff(result)
        if goal.drawn:
            pictured = masked.run(pictured[0]), masked.run(pictured[1])
        runs = {member: masked.run(run) for member, run in runs.items()}

    def json_text() -> str:
        from profkit.report.jsondoc import diff_json

        return diff_json(result, goal.rows)

    def document() -> Document:
        from profkit.report.diffdoc import diff_document

        laid = diff_document(result, goal.rows, "" if goal.archive is None else goal.archive.name)
        if not goal.drawn:
            return laid
        from profkit.report.pictures import diff_figures

        return replace(laid, figures=diff_figures(result, *pictured))

    goal.write(json_text, document, runs)
    if result.verdict.cause in causes:
        raise typer.Exit(1)


#: Causes that ``--fail-on any`` stands for: what makes a candidate slower. Not knowing is no finding, and fails
#: only where it is asked for by name.
_NO_HARM = frozenset(("no-change", "faster", "inconclusive"))


def _causes(fail_on: str | None) -> frozenset[str]:
    """Read ``--fail-on``: causes separated by commas, or ``any`` for all that make it slower."""
    if fail_on is None:
        return frozenset()
    from profkit.errors import UsageError
    from profkit.verdict.types import CAUSES

    named = [cause.strip() for cause in fail_on.split(",")]
    unknown = [cause for cause in named if cause not in (*CAUSES, "any")]
    if unknown:
        raise UsageError(
            f"--fail-on {unknown[0] or fail_on}: not a cause, the causes are {', '.join(CAUSES)}, and any for "
            "all that make it slower"
        )
    return frozenset(named) | (frozenset(CAUSES) - _NO_HARM if "any" in named else frozenset())
