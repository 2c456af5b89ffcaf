"""A store on the disk: tables of Parquet files by job and day, changed in atomic steps.

A *part* is one file in each table, ``TABLE/job=…/day=…/NAME.parquet``. Its file in `runs` is written last and
makes it valid.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from profkit.errors import FormatError, UsageError
from profkit.fleet.rows import SCHEMA, SMALL, TABLES, arrow, schema_of
from profkit.formats.atomic import lock, replacing

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
        found = {os.path.relpath(path, root) for path in glob.glob(f"{glob.escape(str(root))}/*/*/*.parquet")}
        for path in glob.glob(f"{glob.escape(str(root))}/*/*/*{_REPLACES}"):
            if os.path.relpath(path, root).removesuffix(_REPLACES) + ".parquet" in found:
                found -= set(json.loads(Path(path).read_text(encoding="utf-8")))
        return sorted(path for path in found if _PART.fullmatch(path))

    def files(self, table: str, parts: Iterable[str]) -> list[str]:
        return [str(self.directory / table / part) for part in parts]

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Create the store if needed, lock it against other calls, and remove remains of a killed one."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not (self.directory / _ABOUT).exists():
                if set(os.listdir(self.directory)) - {_CHANGING}:
                    problem = "is a directory of other files: name an empty or a new one"
                    raise UsageError(problem, "store", self.directory)
                with replacing(self.directory / _ABOUT) as file:
                    file.write(json.dumps({"schema": SCHEMA}).encode())
            self.check()
            with open(self.directory / _CHANGING, "wb") as file:
                lock(file)
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
                            pa.parquet.read_table(path, schema=schema_of(table), partitioning=None)
                            for path in self.files(table, several)
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
                    path.suffix == ".parquet" and str(path.relative_to(root)) not in kept
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
