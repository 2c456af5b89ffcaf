"""Add run files to a store: each content once, several at a time.

After a killed call, the next one keeps the committed parts and reads the rest again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from profkit.errors import FormatError
from profkit.fleet.rows import TABLES, arrow, digest_of, read_rows, stamp_of
from profkit.fleet.store import Part, Store, part_of
from profkit.study.workers import crew

_Item = TypeVar("_Item")
#: Most run files of one part, which limits what is read again after a killed call.
_PART_RUNS = 32


@dataclass(frozen=True, slots=True)
class Added:
    """Counts of added runs and of files already there, the jobs, and the unreadable files."""

    runs: int
    known: int
    jobs: tuple[str, ...]
    problems: tuple[str, ...]


def add(
    store: Store,
    paths: Sequence[str],
    *,
    job: str = "",
    workers: int | None = 1,
    dask: str | None = None,
    told: Callable[[str], None] = lambda doing: None,
) -> Added:
    """Add files to a store, created if needed; `job` replaces the names derived from commands.

    `workers` and `dask` as for `crew`; only this process writes. Raises `UsageError` if the store cannot be
    written.
    """
    arrow()
    if dask is not None:
        paths = [path if "://" in path else os.path.abspath(path) for path in paths]
    told("waiting for another call to end")
    with store.changing():
        digests, as_before = _known(store)
        fresh = [path for path in dict.fromkeys(paths) if _stamp(path) not in as_before]
        # Numbers in names sort as numbers, so that neighbouring days and ranks share a part.
        fresh.sort(key=lambda path: [(len(d), d) for d in re.split(r"(?<=\D)(?=\d)|(?<=\d)(?=\D)", path)])
        problems: list[str] = []
        new: dict[str, str] = {}
        runs = 0
        jobs: set[str] = set()
        with crew(fresh, jobs=workers, dask=dask, chunk=1) as each:
            for found, failed in each(_identified, _portions(fresh)):
                problems += failed
                for path, digest in found:
                    if digest not in digests:
                        new.setdefault(digest, path)
            portions = _portions(list(new.items()))
            told(f"file 0 of {len(new)}")
            for portion, (parts, failed) in zip(
                portions, each(partial(_read, job=job), portions), strict=True
            ):
                for part in parts:
                    store.commit(part)
                    jobs.add(part.job)
                runs += len(portion) - len(failed)
                problems += failed
                told(f"file {runs + len(problems)} of {len(new)}")
    return Added(runs, len(paths) - runs - len(problems), tuple(sorted(jobs)), tuple(problems))


def _known(store: Store) -> tuple[set[str], set[tuple[str, int, int | None]]]:
    """Return the digests of a store's runs, and the path, size and modification time of their files."""
    columns = ["run", "path", "bytes", "modified_ns"]
    digests: set[str] = set()
    stamps: set[tuple[str, int, int | None]] = set()
    for path in store.files("runs", store.parts()):
        found = arrow().parquet.read_table(path, columns=columns, partitioning=None).to_pydict()
        digests.update(found["run"])
        stamps.update(zip(found["path"], found["bytes"], found["modified_ns"], strict=True))
    return digests, stamps


def _stamp(path: str) -> tuple[str, int, int | None] | None:
    """Return what identifies an unchanged file; ``None`` if unknown, or if only the workers can see it."""
    try:
        stamp = stamp_of(path)
    except FormatError:
        return None
    return None if stamp[2] is None else stamp


def _portions(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    return [items[at : at + _PART_RUNS] for at in range(0, len(items), _PART_RUNS)]


def _identified(paths: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return files with the digests of their content, and why others cannot be read."""
    found, problems = [], []
    for path in paths:
        try:
            found.append((path, digest_of(path)))
        except FormatError as error:
            problems.append(str(error))
    return found, problems


def _read(files: Sequence[tuple[str, str]], job: str) -> tuple[list[Part], list[str]]:
    """Read the files of a portion (digest, path) into one part per job and day; return what failed too."""
    pa = arrow()
    groups: dict[tuple[str, str], list[dict[str, object]]] = {}
    problems = []
    for digest, path in files:
        try:
            of_job, day, tables = read_rows(path, digest, job)
        except FormatError as error:
            problems.append(str(error))
        else:
            groups.setdefault((of_job, day), []).append(tables)
    parts = [
        part_of(*key, {name: pa.concat_tables([tables[name] for tables in several]) for name in TABLES})
        for key, several in groups.items()
    ]
    return parts, problems
