"""Options that several commands share."""

from __future__ import annotations

import functools
import gc
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from profkit.cli.progress import Progress
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.api.reported import Reported
    from profkit.cli.output import Destination

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

#: A file or directory, which may not exist; shells complete its name.
FILE = click.Path(path_type=Path)

#: What other tools take for stdout, in place of a file's name.
_DASH = Path("-")

#: Seconds, more than none.
POSITIVE = click.FloatRange(min=0, min_open=True)

#: Names of `profkit.report.renderers.RENDERERS`, which a capture must not import; a test compares them.
FORMATS = ("terminal", "json", "md", "html", "svg")


def _one_of(*words: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Complete one of these words; the value is validated where it is used."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]

    return complete


def _one_run(ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]) -> Path:
    """Return the one named run; several come from an unquoted pattern, or a misunderstanding."""
    if len(value) > 1:
        name = ctx.info_name
        raise UsageError(
            f"{name} takes one run, and {len(value)} were given: name one of them; profkit compare takes several"
        )
    return value[0]


run_argument = click.argument("run", metavar="RUN", type=FILE, nargs=-1, required=True, callback=_one_run)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The user's options for a report; no command has all of them."""

    output: Path | None = None
    format: str | None = None
    limit: int | None = None
    full: bool = False
    explain: bool = False
    full_paths: bool = False
    mask_names: bool = False
    ticket: bool = False
    open_report: bool = False

    def __post_init__(self) -> None:
        if self.mask_names and self.full_paths:
            raise UsageError("--mask-names and --full-paths exclude each other: choose one")

    def destination(self) -> Destination:
        """Check where the report goes, before anything is read; raises `UsageError`."""
        from profkit.cli.output import Destination

        return Destination(self)

    def write(self, doing: str, read: Callable[[], Reported]) -> None:
        """Read something with progress `doing`, and write a report."""
        gc.disable()  # as in ``profkit diff``
        goal = self.destination()
        with Progress(doing):
            result = read()
        goal.keep(result.inputs())
        goal.write(result)


def options(*added: _Decorator, **objects: type) -> _Decorator:
    """Add options to a command, in this order; fields of a dataclass in `objects` arrive as one object."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(**given: Any) -> Any:
            for name, kind in objects.items():
                own = {f.name: given.pop(f.name) for f in fields(kind) if f.name in given}
                given[name] = kind(**own)
            return command(**given)

        made: Callable[..., Any] = called
        for option in reversed(added):
            made = option(made)
        return made

    return decorate


def option(names: str, metavar: str, help: str, **how: Any) -> _Decorator:
    """Add an option with a value; `names` are words, of which one without dashes names the parameter."""
    return click.option(*names.split(), metavar=metavar, help=help, **how)


def flag(names: str, help: str) -> _Decorator:
    return click.option(*names.split(), is_flag=True, help=help)


def output_option(
    help: str, metavar: str = "FILE", *, required: bool = False, stdout: bool = False
) -> _Decorator:
    """Add ``-o``; with `stdout`, ``-`` is the same as no file, and otherwise refused."""

    def without_dash(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
        if value == _DASH and not stdout:
            raise UsageError("a run file is not written to stdout, name a file", "output", "-")
        return None if value == _DASH else value

    return option("-o --output", metavar, help, type=FILE, required=required, callback=without_dash)


def directory_option(help: str, default: str | None = None) -> _Decorator:
    return option("--dir directory", "DIR", help, type=FILE, default=default)


def number_option(name: str, help: str, default: int | None = None, *, least: int = 1) -> _Decorator:
    """Add an option that is a whole number of at least `least`."""
    return click.option(name, metavar="N", type=click.IntRange(min=least), default=default, help=help)


def _chosen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Translate ``--rank N`` to ``--process rank:N``."""

    @functools.wraps(command)
    def called(*, process: str | None, rank: int | None, **given: Any) -> Any:
        if rank is not None and process is not None:
            raise UsageError("--rank also names a process: give only one", "process", process)
        return command(process=process if rank is None else f"rank:{rank}", **given)

    return called


def _process(default: str) -> _Decorator:
    return option(
        "--process",
        "P",
        f"Only this process: main, rank:N or pid:N; or all.  [default: {default}]",
        shell_complete=_one_of("all", "main", "rank:", "pid:"),
    )


_rank = number_option("--rank", "The same as --process rank:N.", least=0)

#: For commands that take all processes, and for those that take one.
process_option = options(_process("all"), _rank, _chosen)
one_process_option = options(_process("main"), _rank, _chosen)


_output = output_option("Write to a .html, .svg, .json, .md or .txt file instead of stdout.", stdout=True)
#: For reports without SVG.
text_output = output_option(
    "Write the report to a .html, .json, .md or .txt file instead of stdout.", stdout=True
)
#: The second is for reports without a picture of their own: without ``svg``, the last.
format_option, text_format_option = (
    option(
        "--format", "|".join(names), "Format.  [default: by the suffix of -o]", shell_complete=_one_of(*names)
    )
    for names in (FORMATS, FORMATS[:-1])
)
_limit = option(
    "--limit", "N", "Maximum rows of a list; 0 for all.  [default: 20 on the terminal, else 50]", type=int
)
full_paths_option = options(
    flag("--full-paths", "Do not mask paths, users, host names and command lines in files and tickets."),
    flag(
        "--mask-names",
        "Replace names of functions, ranges and files by pseudonyms, except in Python and packages.",
    ),
)

#: For commands that read one run or two sides; the other options are parameters of `profkit.read`.
report_options = options(
    _output,
    format_option,
    option(
        "--by",
        "tottime|cumtime",
        "Rank by self time, or by time including callees.  [default: tottime]",
        default="tottime",
        shell_complete=_one_of("tottime", "cumtime"),
    ),
    _process("all"),
    _limit,
    option(
        "--iteration",
        "NAME",
        "NVTX range that is one iteration; * matches anything. Repeatable.  [default: by name]",
        multiple=True,
    ),
    option("--load", "NAME", "NVTX range that loads data. Repeatable.  [default: by name]", multiple=True),
    option("--compute", "NAME", "NVTX range that computes. Repeatable.  [default: by name]", multiple=True),
    number_option("--batch-size", "Samples in one iteration.  [default: payload of its range]"),
    flag("--full", "Print the whole report on the terminal, not only the answer; --limit implies it."),
    flag(
        "--explain",
        "Explain the verdict: rules that hold, and what other rules lack; with --full, in files and in "
        "JSON, every condition of every rule.",
    ),
    full_paths_option,
    flag(
        "--ticket", "Write Markdown to paste (to -o or stdout), and next to it a .zip of the runs to attach."
    ),
    flag("--open open_report", "Write the page (to -o, else a temporary file) and open it in the browser."),
    _rank,
    _chosen,
    report=ReportOptions,
)

#: For commands that read many runs.
many_runs_options = options(_output, format_option, _limit, full_paths_option, report=ReportOptions)

dask_option = option("--dask", "ADDRESS", "Dask scheduler whose workers read the files instead.")
#: For commands that read the files of many processes.
study_options = options(
    option(
        "--wait waits",
        "NAME",
        "Function in which processes wait for each other; * matches anything. Repeatable.  [default: by name]",
        multiple=True,
    ),
    number_option("--jobs", "Processes that read the files.  [default: one for each CPU]"),
    dask_option,
    many_runs_options,
)


def percent(text: str, parameter: str) -> float:
    """Return a part of 1 from ``5%`` or ``5``; raises `UsageError` if it is not a positive number."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError("give a percentage, such as 5%", parameter, text)
    return value
