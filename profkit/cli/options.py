"""Options that several commands share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from profkit.errors import UsageError

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

#: A file or directory, which may not exist; shells complete its name.
FILE = click.Path(path_type=Path)

#: What other tools take for stdout, in place of a file's name.
_DASH = Path("-")

#: Seconds, more than none.
POSITIVE = click.FloatRange(min=0, min_open=True)


def one_of(*words: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
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


def chosen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Translate ``--rank N`` to ``--process rank:N``."""

    @functools.wraps(command)
    def called(*, process: str | None, rank: int | None, **given: Any) -> Any:
        if rank is not None and process is not None:
            raise UsageError("--rank also names a process: give only one", "process", process)
        return command(process=process if rank is None else f"rank:{rank}", **given)

    return called


def process_of(default: str) -> _Decorator:
    return option(
        "--process",
        "P",
        f"Only this process: main, rank:N or pid:N; or all.  [default: {default}]",
        shell_complete=one_of("all", "main", "rank:", "pid:"),
    )


rank_option = number_option("--rank", "The same as --process rank:N.", least=0)

#: For commands that take all processes, and for those that take one.
process_option = options(process_of("all"), rank_option, chosen)
one_process_option = options(process_of("main"), rank_option, chosen)


def percent(text: str, parameter: str) -> float:
    """Return a part of 1 from ``5%`` or ``5``; raises `UsageError` if it is not a positive number."""
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError("give a percentage, such as 5%", parameter, text)
    return value
