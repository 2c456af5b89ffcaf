"""Select runs of a store for a comparison, which reads the run files themselves."""

from __future__ import annotations

import datetime
import os

import numpy as np

from profkit.errors import FormatError, UsageError
from profkit.fleet.query import no_such_job, opened
from profkit.fleet.rows import digest_of
from profkit.fleet.store import Store

#: Words of a selection, as days before the newest one of a job.
_DAYS = {"last-week": 7, "last-month": 30}
#: Most runs of one side, evenly spread over time.
MOST_RUNS = 12


def selected(store: Store, selection: str) -> list[str]:
    """Return the run files of JOB or JOB@WHEN: at most `MOST_RUNS`, evenly spread, with all their ranks.

    WHEN is a day, ``DAY..DAY``, ``last-week`` or ``last-month`` (7 or 30 days before the job's newest one),
    or ``newest``. Raises `UsageError` for an invalid or empty selection, `FormatError` for a file that
    changed or is gone.
    """
    job, _, when = selection.partition("@")
    connection = opened(store, ("runs",))
    ((newest,),) = connection.execute("SELECT max(day) FROM runs WHERE job = $1", [job]).fetchall()
    if newest is None:
        raise no_such_job(connection, job)
    first, last = _span(when or "newest", newest)
    found = connection.execute(
        """
        SELECT path, run, dense_rank() OVER (ORDER BY day, coalesce(launcher_job, run)) FROM runs
        WHERE job = $1 AND day BETWEEN $2 AND $3 AND coalesce(exit_status, 0) = 0 ORDER BY day, path
        """,
        [job, first, last],
    ).fetchall()
    if not found:
        problem = f"no run of it from {first} to {last}; its newest is of {newest}"
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
