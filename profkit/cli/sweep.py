"""``profkit sweep``: run a command with all combinations of some settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import ReportOptions, directory_option, number_option
from profkit.cli.studies import RunOptions, Varied, study_options
from profkit.errors import UsageError


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@number_option("--repeat", "Runs of each setting, in rounds over all settings.  [default: 3]", 3)
@number_option("--warmup", "Warm-up runs of the first setting, not counted.  [default: 0]", 0, least=0)
@click.option(
    "--baseline",
    metavar="NAME=VALUE,…",
    help="The setting that speed-ups refer to.  [default: the first value of each parameter]",
)
@directory_option("Where the study is kept; a stopped one continues there.  [default: sweep]", "sweep")
@study_options
def sweep(
    varied: Varied,
    baseline: str | None,
    directory: Path,
    run: RunOptions,
    report: ReportOptions,
    **rounds: Any,
) -> None:
    """Run a command with all combinations of settings and show which is fastest."""
    from profkit.api.study import read_sweep
    from profkit.api.study import sweep as make_runs

    goal = report.destination()
    if varied != Varied():
        space = varied.space()
        run.of(make_runs, space, directory, title="sweep", kept=directory, baseline=baseline, **rounds)
    elif not directory.is_dir():
        raise UsageError(
            "nothing to run and no study there: give parameters and a command",
            parameter="dir",
            value=directory,
        )
    goal.write(read_sweep(directory, baseline=baseline))
