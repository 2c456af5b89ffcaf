"""``--show-completion`` and ``--install-completion``, with click's scripts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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
    from click.shell_completion import get_completion_class

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


def _show(ctx: click.Context, shell: str) -> None:
    click.echo(_script(ctx, shell))


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


show_completion = _option(
    "--show-completion", f"Print the completion script of {', '.join(SHELLS)}.  [default: your shell]", _show
)
install_completion = _option(
    "--install-completion", "Install that script for the shell.  [default: your shell]", _install
)
