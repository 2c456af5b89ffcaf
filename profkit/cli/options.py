"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # numpy, which ``profkit --help`` does not need
    from profkit.measure.iterations import IterationNames

__all__ = [
    "BatchSizeOption",
    "ByOption",
    "ComputeOption",
    "FormatOption",
    "FullPathsOption",
    "IterationOption",
    "LimitOption",
    "LoadOption",
    "OpenOption",
    "OutputOption",
    "ProcessOption",
    "TicketOption",
    "iteration_names",
]


FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="terminal|json|md|html|svg", help="Format; else the suffix of -o says it."
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write to a .html, .svg, .json, .md or .txt file instead of stdout.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        help="Most rows of a list, 0 for all.  [default: 20 on the terminal, else 50]",
    ),
]
ByOption = Annotated[
    str,
    typer.Option("--by", metavar="tottime|cumtime", help="Rank by self time, or by time including callees."),
]
ProcessOption = Annotated[
    str | None,
    typer.Option("--process", metavar="P", help="Only this process: main, rank:N or pid:N.  [default: all]"),
]
FullPathsOption = Annotated[
    bool,
    typer.Option(
        "--full-paths",
        help="Leave paths, users, host names and command lines as they are; by default no report has them.",
    ),
]
IterationOption = Annotated[
    list[str] | None,
    typer.Option(
        "--iteration",
        metavar="NAME",
        help="NVTX range that is one iteration; * matches anything. Repeatable.  [default: by name]",
    ),
]
LoadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--load", metavar="NAME", help="NVTX range that loads data. Repeatable.  [default: by name]"
    ),
]
ComputeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--compute", metavar="NAME", help="NVTX range that computes. Repeatable.  [default: by name]"
    ),
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        "--batch-size", metavar="N", min=1, help="Samples in one iteration.  [default: payload of its range]"
    ),
]


def iteration_names(
    iteration: list[str] | None, load: list[str] | None, compute: list[str] | None, batch_size: int | None
) -> IterationNames | None:
    """Return what the user said of the ranges; ``None`` where nothing was said."""
    if not (iteration or load or compute or batch_size):
        return None
    from profkit.measure.iterations import IterationNames

    return IterationNames(tuple(iteration or ()), tuple(load or ()), tuple(compute or ()), batch_size)


TicketOption = Annotated[
    bool,
    typer.Option(
        "--ticket",
        help="Markdown to paste (to -o or stdout), and beside it a .zip of the runs to attach.",
    ),
]
OpenOption = Annotated[
    bool,
    typer.Option("--open", help="Write the page (to -o, else a temporary file) and open it in the browser."),
]
