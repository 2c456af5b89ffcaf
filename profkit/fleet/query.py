"""Query a store in SQL: its tables are DuckDB views, which can read nothing else and change nothing."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profkit.errors import UsageError
from profkit.fleet.rows import SMALL, TABLES, arrow, needed
from profkit.fleet.store import Store
from profkit.model import FunctionKey

if TYPE_CHECKING:
    import duckdb

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
