"""The click application: a group that knows its commands by name and imports one only when it is run.

It also has ``--show-completion`` and ``--install-completion``, with click's scripts.

`COMMANDS` repeats the first line of each command's docstring (a test compares them), so that help and
completion import no command. Importing click takes 44 ms of CPU time (an empty start 11); typer 0.29 takes 69
ms, or 143 with a value to convert (medians of 15 interleaved starts, Python 3.11, a 2-core virtual machine).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from profkit import __version__
from profkit.errors import UsageError

#: One-line help by name, in listed order. Each command is the function of its name.
COMMANDS = {
    "capture": "Run a command and record it in one run file.",
    "attach": "Record a program that is running already.",
    "show": "Show one run: processes, waiting, top functions.",
    "diff": "Explain why one run is slower than another.",
    "verify": "Test the advice: run the command with and without it, and compare.",
    "compare": "Compare several runs or configurations: one row each.",
    "history": "Show the trend of a repeated job, and its lasting changes.",
    "baseline": "Keep runs under a name, as baselines to compare with.",
    "fleet": "Query thousands of run files at once: what got slower, where, on which hosts.",
    "ranks": "Compare the processes of one job: stragglers, imbalance.",
    "scaling": "Compare runs with different numbers of processes and nodes.",
    "sweep": "Run a command with all combinations of settings and show which is fastest.",
    "tune": "Search for the best settings of a command, and confirm them against the default.",
    "doctor": "Say what would oversubscribe this machine.",
    "mcp": "Serve diff, show, explain and doctor to an assistant over MCP.",
    "merge": "Join the rank files of one job, or rescue a killed capture.",
    "extract": "Write one process as a plain pstats file.",
    "view": "Open one process of a run in snakeviz.",
    "export": "Write a run for other viewers: Perfetto, Firefox, pprof and more.",
    "demo": "Show the whole workflow on this machine in about a minute.",
}
#: Modules of commands, where they are not named after the command.
_MODULES = {
    "show": "diff",
    "attach": "capture",
    "extract": "view",
    **dict.fromkeys(("compare", "history", "ranks", "scaling"), "many_runs"),
    **dict.fromkeys(("verify", "sweep", "tune"), "studies"),
}

CONTEXT = {"help_option_names": ["-h", "--help"]}

#: Variable set by a shell's script; click derives the same name from the program's.
VARIABLE = "_PROFKIT_COMPLETE"

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Shells that click writes scripts for.
SHELLS = ("bash", "zsh", "fish")


def _shell(name: str) -> str:
    """Return the named shell, else the user's own."""
    wanted = name or os.path.basename(os.environ.get("SHELL", ""))
    if wanted not in SHELLS:
        known = f"{', '.join(SHELLS[:-1])} or {SHELLS[-1]}"
        raise click.UsageError(f"No completion for the shell {wanted!r}; use {known}.")
    return wanted


def _script(ctx: click.Context, shell: str) -> str:
    made = get_completion_class(shell)
    assert made is not None
    root = ctx.find_root()
    return made(root.command, {}, root.info_name or "profkit", VARIABLE).source()


def _place(shell: str) -> Path:
    """Return where bash-completion, fish or zsh (through its ``fpath``) looks for the completion."""
    if shell == "zsh":
        return Path.home() / ".zfunc" / "_profkit"
    if shell == "fish":
        config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(config) / "fish" / "completions" / "profkit.fish"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "bash-completion" / "completions" / "profkit"


def _install(ctx: click.Context, shell: str) -> None:
    path = _place(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_script(ctx, shell) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be written there, {error.strerror}.") from None
    click.echo(f"profkit: wrote {path}; new shells will use it", err=True)
    if shell == "zsh":
        click.echo("profkit: zsh reads it with: fpath+=~/.zfunc; autoload -Uz compinit; compinit", err=True)
    elif shell == "bash":
        click.echo("profkit: bash reads it where the package bash-completion is installed", err=True)


def _option(
    name: str, help: str, act: Callable[[click.Context, str], None]
) -> Callable[[_Command], _Command]:
    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None and not ctx.resilient_parsing:
            act(ctx, _shell(value))
            ctx.exit()

    return click.option(
        name,
        metavar="[SHELL]",
        is_flag=False,
        flag_value="",
        default=None,
        is_eager=True,
        expose_value=False,
        callback=callback,
        help=help,
    )


class LazyGroup(click.Group):
    """A group whose commands are the entries of `COMMANDS`, of which it imports the one that is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from profkit.cli.examples import epilog

        command: click.Command = getattr(
            import_module(f"profkit.cli.{_MODULES.get(cmd_name, cmd_name)}"), cmd_name
        )
        command.epilog = epilog(cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown name, suggest a similar one."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 2)
            meant = f"did you mean {' or '.join(near)}?" if near else "profkit --help lists them"
            raise UsageError(f"{args[0]}: no such command; {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=said) for name, said in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an interrupt is exit code 130, as in a shell."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None


_FIRST = """\b
Examples:
  profkit capture -o fast.prof -- python train.py
  profkit capture -o slow.prof -- python train.py --workers 8
  profkit diff fast.prof slow.prof                why the second is slower"""


@click.group(cls=LazyGroup, context_settings=CONTEXT, no_args_is_help=True, epilog=_FIRST)
@click.version_option(__version__, message="profkit %(version)s", help="Print the version.")
@_option(
    "--show-completion",
    f"Print the completion script of {', '.join(SHELLS)}.  [default: your shell]",
    lambda ctx, shell: click.echo(_script(ctx, shell)),
)
@_option("--install-completion", "Install that script for the shell.  [default: your shell]", _install)
def app() -> None:
    """Find out why a training run is slow: its code, or a lack of CPU time."""
