"""``profkit sweep``: run a command with all combinations of some settings, and say which is the fastest."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE
from profkit.cli.studies import runs_shown, space_of, stopped, study_options
from profkit.errors import UsageError


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "--repeat",
    metavar="N",
    type=click.IntRange(min=1),
    default=3,
    help="Runs of each setting, in rounds over all settings.  [default: 3]",
)
@click.option(
    "--warmup",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Runs of the first setting before anything counts.  [default: 0]",
)
@click.option(
    "--baseline",
    metavar="NAME=VALUE,…",
    help="The setting that speed-ups refer to.  [default: the first value of each parameter]",
)
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=FILE,
    default=Path("sweep"),
    help="Where the study is kept; one that was stopped goes on.  [default: sweep]",
)
@study_options
def sweep(
    param: tuple[str, ...],
    env: tuple[str, ...],
    repeat: int,
    warmup: int,
    timeout: float | None,
    no_profile: bool,
    baseline: str | None,
    directory: Path,
    output: Path | None,
    full_paths: bool,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Run a command with all combinations of settings and show which is fastest."""
    from profkit.cli.destination import destination

    goal = destination(None, output, limit=None, ticket=False, open_report=False)
    if command or param or env:
        from profkit.study.journal import Journal
        from profkit.study.space import parse_setting
        from profkit.study.sweep import sweep as run
        from profkit.study.trials import Interrupted

        space = space_of(param, env, command)
        space.settings()
        if baseline is not None:
            parse_setting(baseline, space.parameters)
        with (
            Journal(directory, space, profiled=not no_profile) as journal,
            runs_shown("sweep", quiet=quiet) as progress,
        ):
            try:
                run(
                    journal,
                    space,
                    repeat=repeat,
                    warmup=warmup,
                    timeout_s=timeout,
                    progress=progress,
                )
            except (Interrupted, KeyboardInterrupt):
                raise stopped(directory) from None
    elif not directory.is_dir():
        raise UsageError(
            "nothing to run and no study there: give parameters and a command",
            parameter="dir",
            value=directory,
        )
    from profkit.api.study import read_sweep

    goal.write(
        read_sweep(directory, baseline=baseline),
        limit=None,
        full_paths=full_paths,
        explain=False,
    )
