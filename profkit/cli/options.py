"""Options that several commands share, so that they are spelled, explained and completed once."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from profkit.errors import UsageError
from profkit.report.renderers import RENDERERS

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[_Command], _Command]

#: A file or directory, which may not exist; shells complete its name.
FILE = click.Path(path_type=Path)

#: Where ``--mask-names`` is kept until something is written.
_MASK_NAMES = "profkit.mask-names"

#: Where ``--rank`` is kept until ``--process`` is read.
_RANK = "profkit.rank"

_FORMATS = tuple(renderer.name for renderer in RENDERERS)


def _one_of(*words: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Complete one of these words; whether it is valid is decided where the value is used."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]

    return complete


def _one_run(ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]) -> Path:
    """Return the one run that is named; several come from an unquoted pattern, or a wrong guess."""
    if len(value) > 1:
        name = ctx.info_name
        raise UsageError(
            f"{name} takes one run, and {len(value)} were given: name one of them; profkit compare takes several"
        )
    return value[0]


run_argument = click.argument("run", metavar="RUN", type=FILE, nargs=-1, required=True, callback=_one_run)


def _process(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the selector of the processes, which ``--rank`` may have given."""
    rank = ctx.meta.get(_RANK)
    if rank is None:
        return value
    if value is not None:
        raise UsageError("--rank names one too: leave one of them out", parameter="process", value=value)
    return f"rank:{rank}"


def _keep_rank(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    ctx.meta[_RANK] = value


def _keep_mask_names(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_MASK_NAMES] = value


def _choice(default: str) -> Callable[[_Command], _Command]:
    return click.option(
        "--process",
        metavar="P",
        callback=_process,
        help=f"Only this process: main, rank:N or pid:N; or all.  [default: {default}]",
        shell_complete=_one_of("all", "main", "rank:", "pid:"),
    )


_process_option = _choice("all")
_rank_option = click.option(
    "--rank",
    metavar="N",
    type=click.IntRange(min=0),
    is_eager=True,
    expose_value=False,
    callback=_keep_rank,
    help="The same as --process rank:N.",
)


def process_option(command: _Command) -> _Command:
    """Give a command that takes all processes the options that choose one."""
    return _process_option(_rank_option(command))


def one_process_option(command: _Command) -> _Command:
    """Give a command that takes one process the options that choose it."""
    return _choice("main")(_rank_option(command))


_full_paths = click.option(
    "--full-paths",
    is_flag=True,
    help="Leave paths, users, host names and command lines as they are in files and tickets too.",
)
_mask_names = click.option(
    "--mask-names",
    is_flag=True,
    expose_value=False,
    callback=_keep_mask_names,
    help="Put pseudonyms for names of functions, ranges and files but those of Python and installed packages.",
)


def full_paths_option(command: _Command) -> _Command:
    """Give a command the options that say how much of what it writes is masked."""
    return _full_paths(_mask_names(command))


def names_hidden(full_paths: bool) -> bool:
    """Return whether the user asked for pseudonyms; raises `UsageError` if also for everything unmasked."""
    asked = bool(click.get_current_context().meta.get(_MASK_NAMES))
    if asked and full_paths:
        raise UsageError("--mask-names and --full-paths exclude each other: choose one")
    return asked


format_option = click.option(
    "--format",
    metavar="|".join(_FORMATS),
    help="Format.  [default: by the suffix of -o]",
    shell_complete=_one_of(*_FORMATS),
)

#: Of every command that writes a report, in the order in which help lists them.
_REPORT_OPTIONS = (
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=FILE,
        help="Write to a .html, .svg, .json, .md or .txt file instead of stdout.",
    ),
    format_option,
    click.option(
        "--by",
        metavar="tottime|cumtime",
        default="tottime",
        help="Rank by self time, or by time including callees.  [default: tottime]",
        shell_complete=_one_of("tottime", "cumtime"),
    ),
    _process_option,
    click.option(
        "--limit",
        metavar="N",
        type=int,
        help="Most rows of a list, 0 for all.  [default: 20 on the terminal, else 50]",
    ),
    click.option(
        "--iteration",
        metavar="NAME",
        multiple=True,
        help="NVTX range that is one iteration; * matches anything. Repeatable.  [default: by name]",
    ),
    click.option(
        "--load",
        metavar="NAME",
        multiple=True,
        help="NVTX range that loads data. Repeatable.  [default: by name]",
    ),
    click.option(
        "--compute",
        metavar="NAME",
        multiple=True,
        help="NVTX range that computes. Repeatable.  [default: by name]",
    ),
    click.option(
        "--batch-size",
        metavar="N",
        type=click.IntRange(min=1),
        help="Samples in one iteration.  [default: payload of its range]",
    ),
    click.option("--full", is_flag=True, help="The whole report on the terminal, and not the answer alone."),
    click.option(
        "--explain",
        is_flag=True,
        help="Why this verdict: the rules that hold, and what the others lack; with --full, in a file and in JSON "
        "every condition of every rule.",
    ),
    full_paths_option,
    click.option(
        "--ticket",
        is_flag=True,
        help="Markdown to paste (to -o or stdout), and beside it a .zip of the runs to attach.",
    ),
    click.option(
        "--open",
        "open_report",
        is_flag=True,
        help="Write the page (to -o, else a temporary file) and open it in the browser.",
    ),
    _rank_option,
)


def report_options(command: _Command) -> _Command:
    """Give a command the options of a report."""
    for option in reversed(_REPORT_OPTIONS):
        command = option(command)
    return command


#: Of commands that read the files of many processes.
_STUDY_OPTIONS = (
    click.option(
        "--wait",
        "waits",
        metavar="NAME",
        multiple=True,
        help="Function in which processes wait for each other; * matches anything. Repeatable.  [default: by name]",
    ),
    click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(min=1),
        help="Processes that read the files.  [default: one for each CPU]",
    ),
    click.option("--dask", metavar="ADDRESS", help="Dask scheduler whose workers read the files instead."),
    *_REPORT_OPTIONS[:2],
    _REPORT_OPTIONS[4],
    _REPORT_OPTIONS[11],
)


def study_options(command: _Command) -> _Command:
    """Give a command the options of a report on many processes."""
    for option in reversed(_STUDY_OPTIONS):
        command = option(command)
    return command


#: Of commands that read many runs.
_MANY_RUNS_OPTIONS = (*_REPORT_OPTIONS[:2], _REPORT_OPTIONS[4], full_paths_option)


def many_runs_options(command: _Command) -> _Command:
    """Give a command the options of a report on many runs."""
    for option in reversed(_MANY_RUNS_OPTIONS):
        command = option(command)
    return command


def percent(text: str, parameter: str) -> float:
    """Return a part of 1 from ``5%`` or ``5``; raises `UsageError` if it is not a positive number."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        from profkit.errors import UsageError

        raise UsageError("give percent, such as 5%", parameter=parameter, value=text)
    return value
