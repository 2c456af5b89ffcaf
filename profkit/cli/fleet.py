"""``profkit fleet``: query thousands of run files in a store of Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profkit.cli import say
from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE, number_option, option, options
from profkit.cli.output import ReportOptions, console, emit
from profkit.cli.progress import Progress
from profkit.cli.report_options import dask_option, full_paths_option, many_runs_options, report_options
from profkit.errors import UsageError
from profkit.report.units import counted

if TYPE_CHECKING:
    from profkit.api.fleet import Fleet

_store = option("--store", "DIR", "Where the store is.  [default: PROFKIT_FLEET, else ./fleet]", type=FILE)
_study_options = options(
    option("--job", "NAME", "Only this job.  [default: all]", default=""),
    _store,
    many_runs_options,
)


def _opened(store: Path | None) -> Fleet:
    from profkit.api.fleet import Fleet

    return Fleet(store)


@click.group(context_settings=CONTEXT)
def fleet() -> None:
    """Query thousands of run files at once: what got slower, where, on which hosts.

    A store has the tables runs, processes, functions, ranges and counters as Parquet files. The run files stay the
    source: a store can be deleted and rebuilt.
    """


@fleet.command(context_settings=CONTEXT)
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path())
@_store
@option("--job", "NAME", "The job's name.  [default: the script of each command]", default="")
@number_option("--workers", "Processes that read the files.  [default: one for each CPU]")
@dask_option
def add(runs: tuple[str, ...], store: Path | None, job: str, **reading: Any) -> None:
    """Add run files to the store; files added before are skipped.

    RUN is a run file, any pstats file, or a directory or quoted pattern of them. With --dask also addresses that
    fsspec knows, such as s3://bucket/job.
    """
    into = _opened(store)
    with Progress("adding the runs") as told:
        done = into.add(runs, job=job, told=told, **reading)
    for problem in done.problems:
        say(problem)
    there = f", {done.known:,} were there already" if done.known else ""
    jobs = f" of {done.jobs[0]}" if len(done.jobs) == 1 else f" of {len(done.jobs)} jobs" if done.jobs else ""
    say(f"{counted(done.runs, 'run')}{jobs} added to {into.name}{there}")
    if done.problems:
        say(f"{counted(len(done.problems), 'file')} could not be read")
        raise click.exceptions.Exit(2)


@fleet.command(context_settings=CONTEXT)
@_store
def compact(store: Path | None) -> None:
    """Merge the small files of each job and day into one."""
    of = _opened(store)
    with Progress("merging files"):
        before, after = of.compact()
    say(f"{of.name}: {counted(before, 'part')}, now {after:,}")


@fleet.command(context_settings=CONTEXT)
@click.argument("sql", metavar="SQL")
@_store
@option("--format", "csv|json", "Output for programs, masked.  [default: a table]")
@number_option("--limit", "Maximum rows; 0 for all.  [default: 20 of a table, else all]", least=0)
@options(full_paths_option, report=ReportOptions)
def query(sql: str, store: Path | None, report: ReportOptions) -> None:
    """Answer one query in SQL, which reads: "SELECT job, avg(wall_s) FROM runs GROUP BY job".

    The tables are runs, processes, functions, ranges and counters; "DESCRIBE functions" lists the columns of one.
    """
    from profkit.api.reported import Layout

    if report.format not in (None, "csv", "json"):
        problem = "use csv or json, or leave it out for a table"
        raise UsageError(problem, "format", report.format)
    with Progress("asking the store"):
        result = _opened(store).query(sql)
    if report.mask_names:
        result.mask(names_hidden=True)
    if report.format is None:
        emit(result.report(console(), limit=report.limit, full_paths=not report.mask_names), None)
    else:
        laid = result.laid_out(Layout(report.full_paths)).first(report.limit or 0)
        emit(laid.csv() if report.format == "csv" else laid.json(0), None)


@fleet.command(context_settings=CONTEXT)
@_study_options
def slowest(job: str, store: Path | None, report: ReportOptions) -> None:
    """Show jobs, functions and runs that got slower, and since when."""
    report.write("looking for what got slower", lambda: _opened(store).slowest(job))


@fleet.command(context_settings=CONTEXT)
@click.argument("function", metavar="FUNCTION")
@_study_options
def trend(function: str, job: str, store: Path | None, report: ReportOptions) -> None:
    """Follow a function's self time and share over days, with their lasting changes.

    FUNCTION is a name, the end of a qualified one, or FILE:NAME.
    """
    report.write("following it", lambda: _opened(store).trend(function, job))


@fleet.command(context_settings=CONTEXT)
@_study_options
def hosts(job: str, store: Path | None, report: ReportOptions) -> None:
    """Show which hosts are slower at the same work, and which lack CPU time."""
    report.write("comparing the hosts", lambda: _opened(store).hosts(job))


@fleet.command(context_settings=CONTEXT)
@click.argument("baseline", metavar="JOB[@WHEN]")
@click.argument("candidate", metavar="JOB[@WHEN]")
@_store
@report_options
def compare(baseline: str, candidate: str, store: Path | None, report: ReportOptions, **asked: Any) -> None:
    """Explain why the runs of one selection are slower than those of another, as profkit diff does.

    WHEN is a day (2026-03-01), DAY..DAY, last-week or last-month (the 7 or 30 days before the job's newest one);
    without it, the newest day. At most 12 runs per side are compared, evenly spread.
    """
    drawn = report.destination().drawn
    report.write("comparing", lambda: _opened(store).compare(baseline, candidate, calls=drawn, **asked))
