"""``profkit tune``: search for the best setting with Optuna, and confirm it against the default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import ReportOptions, directory_option, number_option
from profkit.cli.studies import RunOptions, Varied, study_options


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "--objective",
    metavar="WHAT",
    default="wall",
    help="wall, range:NAME (median of an NVTX range), output:REGEX, or json:FILE:PATH.  [default: wall]",
)
@click.option("--maximise", is_flag=True, help="Higher is better, as for examples/s.")
@number_option("--trials", "Settings to try, over all processes of the study.  [default: 20]", 20)
@number_option(
    "--repeat",
    "Runs of the best settings and of the default, in turn, to confirm; 0 skips it.  [default: 5]",
    5,
    least=0,
)
@click.option(
    "--baseline",
    metavar="NAME=VALUE,…",
    help="The default setting.  [default: variables as they are now; one per CPU for {workers} and the like]",
)
@click.option(
    "--sampler", metavar="NAME", default="", help="One of Optuna's: tpe, random, gp, qmc …  [default: tpe]"
)
@click.option(
    "--pruner", metavar="NAME", default="", help="One of Optuna's, for output:REGEX.  [default: none]"
)
@click.option("--seed", metavar="N", type=int, help="Seed of the sampler.")
@click.option(
    "--storage",
    metavar="URL",
    help="Any Optuna storage, or journal:FILE for several machines on one study.  [default: SQLite in DIR]",
)
@click.option(
    "--study", "name", metavar="NAME", default="profkit", help="Name in the storage.  [default: profkit]"
)
@directory_option("Where runs are kept; a stopped study continues there.  [default: tune]", "tune")
@study_options
def tune(varied: Varied, directory: Path, run: RunOptions, report: ReportOptions, **search: Any) -> None:
    """Search for the best settings of a command, and confirm them against the default."""
    from profkit.api.study import tune as search_on

    goal = report.destination()
    goal.write(run.of(search_on, varied.space(), directory, title="tune", kept=directory, **search))
