"""Query a store in SQL, or select runs of it.

The tables are DuckDB views, which can read nothing else and change nothing.
"""

from __future__ import annotations

import datetime
import functools
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from profkit.errors import FormatError, UsageError
from profkit.fleet.rows import SMALL, TABLES, arrow, digest_of, needed
from profkit.fleet.store import Store
from profkit.model import FunctionKey

if TYPE_CHECKING:
    import duckdb

_Asked = ParamSpec("_Asked")
_Found = TypeVar("_Found")
#: DuckDB's memory limit; it spills the rest to files.
_MEMORY = "640MB"


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows of a query, with DuckDB's values; `hosts` are all hosts of the store."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    hosts: tuple[str, ...]


def opened(store: Store, tables: Iterable[str] = TABLES) -> duckdb.DuckDBPyConnection:
    """Return a connection with tables of a store as views; raises `UsageError` if it holds no runs."""
    arrow()  # raises if it is missing
    library = needed("duckdb")
    store.check()
    parts = store.parts()
    if not parts:
        raise UsageError("holds no runs: profkit fleet add RUN…", "store", store.directory)
    found: duckdb.DuckDBPyConnection = library.connect()
    found.execute(
        f"SET memory_limit = '{_MEMORY}'; SET TimeZone = 'UTC'; SET preserve_insertion_order = false"
    )
    # A directory of its own, since queries may read it; DuckDB creates it on demand and removes it.
    temporary = os.path.join(tempfile.gettempdir(), f"profkit-fleet-{secrets.token_hex(8)}")
    found.execute(f"SET temp_directory = {_literal(temporary)}")
    for table in tables:
        files = ", ".join(map(_literal, store.files(table, parts)))
        found.execute(
            f"CREATE VIEW {table} AS SELECT * FROM read_parquet([{files}], hive_partitioning = true, "
            "hive_types = {'job': VARCHAR, 'day': DATE})"
        )
    found.execute(f"SET allowed_directories = [{_literal(str(store.directory))}]")
    found.execute("SET enable_external_access = false; SET lock_configuration = true")
    return found


def asking(
    question: Callable[Concatenate[Store, _Asked], _Found],
) -> Callable[Concatenate[Store, _Asked], _Found]:
    """Let a question raise `FormatError` where DuckDB cannot read the store."""

    @functools.wraps(question)
    def answered(store: Store, /, *args: _Asked.args, **kwargs: _Asked.kwargs) -> _Found:
        library = needed("duckdb")
        try:
            return question(store, *args, **kwargs)
        except library.Error as error:
            problem = "cannot be queried: " + str(error).partition("\n")[0]
            hint = "if a file of it is damaged, delete the store and add the run files again"
            raise FormatError(store.directory, problem, hint) from None

    return answered


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def named(
    connection: duckdb.DuckDBPyConnection, found: Sequence[tuple[int, str]]
) -> Mapping[int, FunctionKey]:
    """Return the functions of numbers, each with a day on which it is heavy; only those days are read."""
    rows = connection.execute(
        """
        SELECT function, any_value(root), any_value(file), any_value(name) FROM functions
        WHERE share >= $1 AND list_contains($2::DATE[], day) AND list_contains($3::BIGINT[], function)
        GROUP BY function
        """,
        [SMALL, sorted({day for _, day in found}), sorted({number for number, _ in found})],
    ).fetchall()
    return {number: FunctionKey(*key) for number, *key in rows}


def no_such_job(connection: duckdb.DuckDBPyConnection, job: str) -> UsageError:
    jobs = [
        row[0] for row in connection.execute("SELECT DISTINCT job FROM runs ORDER BY job LIMIT 12").fetchall()
    ]
    return UsageError(f"no run of it in the store, which has {', '.join(jobs)}", "job", job)


@asking
def query(store: Store, sql: str) -> Answer:
    """Return the rows of a user's query; raises `UsageError` if it fails or would change something."""
    connection = opened(store)
    library = needed("duckdb")
    try:
        statements = connection.extract_statements(sql)
        kinds = library.StatementType
        if len(statements) != 1 or statements[0].type not in (kinds.SELECT, kinds.EXPLAIN):
            raise UsageError("give one query, which reads: SELECT … FROM " + " | ".join(TABLES))
        hosts = connection.execute(
            "SELECT DISTINCT host FROM processes WHERE host IS NOT NULL ORDER BY host"
        ).fetchall()
        done = connection.execute(sql)
        columns = tuple(column[0] for column in done.description or ())
        return Answer(columns, tuple(done.fetchall()), tuple(host for (host,) in hosts))
    except library.Error as error:
        raise UsageError(" ".join(str(error).split())) from None


#: Words of a selection, as days before the newest one of a job.
_DAYS = {"last-week": 7, "last-month": 30}
#: Most runs of one side, evenly spread over time.
MOST_RUNS = 12


@asking
def selected(store: Store, selection: str) -> list[str]:
    """Return the run files of JOB or JOB@WHEN: at most `MOST_RUNS`, evenly spread, with all their ranks.

    WHEN is a day, ``DAY..DAY``, ``last-week`` or ``last-month`` (7 or 30 days before the job's newest one),
    or ``newest``; runs that failed do not count. Raises `UsageError` for an invalid or empty selection,
    `FormatError` for a file that changed or is gone.
    """
    job, _, when = selection.partition("@")
    connection = opened(store, ("runs",))
    ((count, newest),) = connection.execute(
        "SELECT count(*), max(day) FILTER (WHERE coalesce(exit_status, 0) = 0) FROM runs WHERE job = $1",
        [job],
    ).fetchall()
    if not count:
        raise no_such_job(connection, job)
    if newest is None:
        raise UsageError(f"{selection}: none of its runs succeeded")
    first, last = _span(when or "newest", newest)
    # Ranks of one run are recognised as by `formats.load.rank_groups`, within a day.
    found = connection.execute(
        """
        SELECT path, run, dense_rank() OVER (ORDER BY day, CASE WHEN rank IS NULL THEN run ELSE whole END, nth)
        FROM (SELECT *, row_number() OVER (PARTITION BY day, whole, rank ORDER BY started, path) AS nth
              FROM (SELECT *, concat_ws(' ', coalesce(nullif(launcher_job, ''), command), world_size) AS whole
                    FROM runs WHERE job = $1 AND day BETWEEN $2 AND $3))
        WHERE coalesce(exit_status, 0) = 0 ORDER BY day, path
        """,
        [job, first, last],
    ).fetchall()
    if not found:
        problem = f"no run of it from {first} to {last} succeeded; the newest that did is of {newest}"
        raise UsageError(f"{selection}: {problem}")
    kept = set(
        np.unique(np.linspace(1, max(row[2] for row in found), MOST_RUNS).round().astype(int)).tolist()
    )
    paths = []
    for path, run, number in found:
        if number in kept:
            if "://" in path:
                hint = "fetch the runs for profkit diff"
                raise FormatError(path, "is an address, and comparisons read files", hint)
            if not os.path.exists(path) or digest_of(path) != run:
                hint = "bring it back, or make the store again"
                raise FormatError(path, "is not there as it was added", hint)
            paths.append(path)
    return paths


def _span(when: str, newest: datetime.date) -> tuple[datetime.date, datetime.date]:
    if when == "newest":
        return newest, newest
    day = datetime.timedelta(days=1)
    if when in _DAYS:
        return newest - _DAYS[when] * day, newest - day
    first, _, last = when.partition("..")
    try:
        return datetime.date.fromisoformat(first), datetime.date.fromisoformat(last or first)
    except ValueError:
        known = f"a day (2026-03-01), DAY..DAY, newest, {', '.join(_DAYS)}"
        raise UsageError(f"@{when}: not understood, use {known}") from None
