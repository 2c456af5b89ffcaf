"""The typer application: a group that knows its commands by name and imports one only when it is run.

`COMMANDS` is the whole registry. The one-line help stands here as well as in the command's docstring, so that
``profkit --help`` can list the commands without importing them; a test holds the two together.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.core
import typer.main

from profkit import __version__
from profkit.cli.plain import use_plain_values

__all__ = ["COMMANDS", "Entry", "LazyGroup", "build"]


class Entry(NamedTuple):
    """Where a command is and what it does, in one line."""

    module: str
    function: str
    help: str
    settings: dict[str, Any] | None = None


#: In the order in which they are listed. `settings` are typer's ``context_settings``.
COMMANDS = {
    "capture": Entry(
        "profkit.cli.capture",
        "capture",
        "Run a command and record it in one run file.",
        # From the first word of the target's command on, everything is the target's.
        {"allow_interspersed_args": False},
    ),
    "show": Entry("profkit.cli.show", "show", "Show one run: processes, waiting, top functions."),
    "diff": Entry("profkit.cli.diff", "diff", "Say why one run is slower than another."),
    "merge": Entry(
        "profkit.cli.merge", "merge", "Join the rank files of one job, or rescue a killed capture."
    ),
    "extract": Entry("profkit.cli.extract", "extract", "Write one process as a plain pstats file."),
    "view": Entry("profkit.cli.view", "view", "Open one process of a run in snakeviz."),
    "export": Entry(
        "profkit.cli.export", "export", "Write a run for Perfetto, chrome://tracing or speedscope."
    ),
    "demo": Entry("profkit.cli.demo", "demo", "Run the whole story on this machine in under a minute."),
}


class LazyGroup(typer.core.TyperGroup):
    """A group whose commands are the entries of `COMMANDS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the commands, in the order of the registry."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import one command and make it typer's; ``None`` when there is none of that name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        one = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        function = getattr(import_module(entry.module), entry.function)
        one.command(cmd_name, context_settings={**_HELP, **(entry.settings or {})})(function)
        command: Any = typer.main.get_command(one)
        with_help = command.get_params
        # Only here does typer add the option --help, whose value it would convert as well.
        command.get_params = lambda ctx: use_plain_values(with_help(ctx))
        return command

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the group's own parameters, and ``--help``."""
        return use_plain_values(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands from the registry, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an interrupt is exit code 130, as in a shell."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


_HELP = {"help_option_names": ["-h", "--help"]}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"profkit {__version__}")
        raise typer.Exit


def _profkit(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Tell resource contention from a code change in the profiles of training runs."""


def build() -> Any:
    """Make the application, ready to be called with ``main(args, prog_name)``."""
    app = typer.Typer(
        cls=LazyGroup,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings=_HELP,
    )
    app.callback()(_profkit)
    return typer.main.get_command(app)
