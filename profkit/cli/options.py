"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["ByOption", "FormatOption", "FullPathsOption", "LimitOption", "OutputOption", "ProcessOption"]


FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="terminal|json|md", help="Format; else the suffix of -o says it."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="Write to a .json, .md or .txt file instead of stdout."
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
