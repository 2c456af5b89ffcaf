"""``profkit baseline``: keep runs under a name, to compare others with."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli import printable, say
from profkit.cli.app import CONTEXT
from profkit.cli.options import directory_option
from profkit.errors import FormatError
from profkit.formats.baselines import store_of
from profkit.report.units import counted

_directory = directory_option(
    "Where baselines are kept.  [default: PROFKIT_BASELINES, else .profkit/baselines of the project]"
)


@click.group(context_settings=CONTEXT)
def baseline() -> None:
    """Keep runs under a name, as baselines to compare with.

    Wherever a command takes a run, baseline:NAME stands for the runs that were saved under a name, and baseline: for
    those of the name in use.
    """


@baseline.command(context_settings=CONTEXT)
@click.argument("name", metavar="NAME")
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path())
@_directory
def save(name: str, runs: tuple[str, ...], directory: Path | None) -> None:
    """Save copies of runs under NAME, replacing what had that name.

    RUN is a run file, or a directory or quoted pattern of them.
    """
    from profkit.formats.load import files_of, load_run

    files = list(dict.fromkeys(file for run in runs for file in files_of(run)[0]))
    for file in files:
        load_run(file, edges=False)  # raises if it cannot be read
    store = store_of(directory)
    found = store.save(name, files)
    say(f"baseline {name}: {counted(len(found.files), 'run')} in {store.directory}")


@baseline.command(context_settings=CONTEXT)
@click.argument("name", metavar="NAME")
@_directory
def use(name: str, directory: Path | None) -> None:
    """Make NAME the baseline that "baseline:" alone stands for."""
    found = store_of(directory).use(name)
    say(f"baseline: is now {name} ({counted(len(found.files), 'run')})")


@baseline.command("list", context_settings=CONTEXT)
@_directory
def listed(directory: Path | None) -> None:
    """List the baselines, one line each; a star marks the one in use."""
    store = store_of(directory)
    for name in store.names():
        try:
            found = store.read(name)
        except FormatError as error:
            click.echo(f"  {name}  {printable(str(error))}")
            continue
        sources = ", ".join(found.sources[:3]) + (", …" if len(found.sources) > 3 else "")
        sign = "*" if found.used else " "
        click.echo(printable(f"{sign} {name}  {found.saved}  {counted(len(found.files), 'run')}  {sources}"))


@baseline.command(context_settings=CONTEXT)
@click.argument("name", metavar="NAME")
@_directory
def remove(name: str, directory: Path | None) -> None:
    """Remove a baseline, and the copies that no other baseline has."""
    store_of(directory).remove(name)
    say(f"baseline {name} is removed")
