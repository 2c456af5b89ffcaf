"""A store on the disk: tables of Parquet files by job and day, changed in atomic steps.

A *part* is one file in each table, ``TABLE/job=…/day=…/NAME.parquet``. Its file in `runs` is written last and
makes it valid.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from profkit.errors import FormatError, UsageError
from profkit.fleet.rows import SCHEMA, SMALL, TABLES, arrow, digest_of, read_rows, schema_of, stamp_of
from profkit.formats.atomic import lock, replacing
from profkit.study.workers import crew

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

#: Environment variable that names the store, and the default.
VARIABLE, DEFAULT = "PROFKIT_FLEET", "fleet"
_ABOUT = "fleet.json"
#: Lock file of the call that changes a store.
_CHANGING = ".changing"
#: Suffix of the file that lists the parts that a merged one replaces, until they are removed.
_REPLACES = ".replaces"
#: Most rows of a row group, the unit that a reader decodes, or skips by its minimum and maximum.
_GROUP_ROWS = 32_768
_PART = re.compile(r"job=(?P<job>[^/]+)/day=(?P<day>\d{4}-\d\d-\d\d)/(?P<name>[^/]+)\.parquet")


@dataclass(frozen=True, slots=True)
class Part:
    """The contents of a part's files, by table, with its job and day."""

    job: str
    day: str
    name: str
    files: Mapping[str, bytes]


def part_of(job: str, day: str, tables: Mapping[str, pa.Table]) -> Part:
    """Return the part with these tables; its name derives from the runs in it."""
    pa = arrow()
    name = hashlib.sha256("".join(sorted(tables["runs"]["run"].to_pylist())).encode()).hexdigest()[:16]
    files = {}
    for table in TABLES:
        rows = tables[table].unify_dictionaries()
        groups = [rows]
        if table == "functions":
            rows = rows.sort_by([("share", "descending")])
            heavy = int((rows["share"].to_numpy() >= SMALL).sum())
            groups = [rows.slice(0, heavy), rows.slice(heavy)]
        written = pa.BufferOutputStream()
        with pa.parquet.ParquetWriter(written, rows.schema, compression="zstd") as writer:
            for group in groups:
                writer.write_table(group, row_group_size=_GROUP_ROWS)
        files[table] = written.getvalue().to_pybytes()
    return Part(job, day, name, files)


class Store:
    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.directory = Path(directory or os.environ.get(VARIABLE) or DEFAULT)

    def check(self) -> None:
        """Raise `UsageError` if the directory is no store, `FormatError` if it is one of another version."""
        try:
            found = json.loads((self.directory / _ABOUT).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(
                "is no store of runs; profkit fleet add RUN… makes one", "store", self.directory
            ) from None
        except (OSError, ValueError) as error:
            raise FormatError(self.directory, f"cannot be read as a store: {error}") from None
        version = found.get("schema") if isinstance(found, dict) else None
        if version != SCHEMA:
            hint = "delete it and add the run files again"
            raise FormatError(self.directory, f"is a store of version {version}, not {SCHEMA}", hint)

    def parts(self) -> list[str]:
        """Return the parts, in order, without those that a merged one replaces."""
        root = self.directory / "runs"
        found = {path.relative_to(root).as_posix() for path in root.glob("*/*/*.parquet")}
        for path in root.glob(f"*/*/*{_REPLACES}"):
            if path.relative_to(root).as_posix().removesuffix(_REPLACES) + ".parquet" in found:
                found -= set(json.loads(path.read_text(encoding="utf-8")))
        return sorted(path for path in found if _PART.fullmatch(path))

    def files(self, table: str, parts: Iterable[str]) -> list[str]:
        return [str(self.directory / table / part) for part in parts]

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Create the store if needed, lock it against other calls, and remove remains of a killed one."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            # Another call may be making it, or may have been killed while it did.
            others = [
                name for name in os.listdir(self.directory) if not name.startswith((_CHANGING, f".{_ABOUT}."))
            ]
            if others and _ABOUT not in others:
                problem = "is a directory of other files: name an empty or a new one"
                raise UsageError(problem, "store", self.directory)
            with open(self.directory / _CHANGING, "wb") as changing:
                lock(changing, required=True)
                if not (self.directory / _ABOUT).exists():
                    with replacing(self.directory / _ABOUT) as file:
                        file.write(json.dumps({"schema": SCHEMA}).encode())
                self.check()
                self._recover()
                yield
        except OSError as error:
            problem = f"cannot be written: {error.strerror}"
            raise UsageError(problem, "store", self.directory) from error

    def commit(self, part: Part, replaced: Sequence[str] = ()) -> None:
        """Write a part, its `runs` file last; first record the parts that it replaces."""
        path = f"job={quote(part.job, safe='')}/day={part.day}/{part.name}.parquet"
        if replaced:
            with replacing((self.directory / "runs" / path).with_suffix(_REPLACES)) as file:
                file.write(json.dumps(list(replaced)).encode())
        for table in reversed(list(TABLES)):
            target = self.directory / table / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as file:
                file.write(part.files[table])

    def compact(self) -> tuple[int, int]:
        """Merge the parts of each job and day into one; return the numbers of parts before and after."""
        pa = arrow()
        with self.changing():
            parts = self.parts()
            of_day: dict[tuple[str, str], list[str]] = {}
            for part in parts:
                found = _PART.fullmatch(part)
                assert found is not None
                of_day.setdefault((found["job"], found["day"]), []).append(part)
            for (job, day), several in of_day.items():
                if len(several) > 1:
                    tables = {
                        table: pa.concat_tables(
                            _rows(path, schema=schema_of(table)) for path in self.files(table, several)
                        )
                        for table in TABLES
                    }
                    self.commit(part_of(unquote(job), day, tables), several)
                    self._remove(several)
            return len(parts), len(of_day)

    def _recover(self) -> None:
        """Remove replaced parts, parts without `runs`, and temporary files."""
        kept = set(self.parts())
        for table in TABLES:
            root = self.directory / table
            for path in root.glob("*/*/*"):
                if path.suffix == ".tmp" or (
                    path.suffix == ".parquet" and path.relative_to(root).as_posix() not in kept
                ):
                    path.unlink()
        self._remove(())

    def _remove(self, parts: Sequence[str]) -> None:
        """Remove parts, the `runs` files first, then the lists of replaced parts."""
        for table in TABLES:
            for path in self.files(table, parts):
                os.unlink(path)
        for found in (self.directory / "runs").glob(f"*/*/*{_REPLACES}"):
            found.unlink()


def _rows(path: str, **how: Any) -> pa.Table:
    pa = arrow()
    try:
        return pa.parquet.read_table(path, partitioning=None, **how)
    except (OSError, pa.ArrowException) as error:
        problem = "cannot be read: " + str(error).partition("\n")[0]
        raise FormatError(path, problem, "delete the store and add the run files again") from None


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

    `workers` and `dask` as for `crew`; only this process writes. Raises `UsageError` if the store cannot be written.
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
        found = _rows(path, columns=columns).to_pydict()
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
