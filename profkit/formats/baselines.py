"""Named runs to compare others with, in ``.profkit/baselines`` of a project.

A run file is stored once, under its hash; a baseline is a small file that lists runs.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.errors import FormatError, UsageError
from profkit.formats.atomic import lock, replacing
from profkit.model.run import BASELINE

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEMA = "profkit.baseline/1"
#: Greatest size of a list, bytes: 10 000 runs.
_MOST_BYTES = 2_000_000
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Baseline:
    """Runs under a name.

    `saved` is UTC, ISO 8601; `sources` are the base names of the files from which `files` were copied.
    """

    name: str
    saved: str
    files: tuple[str, ...]
    sources: tuple[str, ...]
    used: bool


def store_of(directory: str | os.PathLike[str] | None = None) -> Store:
    """Return the store of baselines in `directory`.

    Default: ``PROFKIT_BASELINES``, else ``.profkit/baselines`` of the nearest parent that has it, else of the
    nearest Git repository, else of the working directory.
    """
    chosen = directory or os.environ.get("PROFKIT_BASELINES")
    if chosen:
        return Store(Path(chosen))
    here = Path.cwd()
    for mark in (".profkit/baselines", ".git"):
        for place in (here, *here.parents):
            if (place / mark).exists():
                return Store(place / ".profkit" / "baselines")
    return Store(here / ".profkit" / "baselines")


class Store:
    """A directory of baselines."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(self, name: str, files: Sequence[str | os.PathLike[str]]) -> Baseline:
        """Copy run files into the store under a name, replacing its runs; raise `UsageError` on failure."""
        path = self._list(name)
        with self._writing(), self._locked():
            kept = [self._copied(Path(file)) for file in files]
            document = {
                "schema": _SCHEMA,
                "saved": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "runs": [
                    {"sha256": digest, "source": os.path.basename(os.fspath(file))}
                    for digest, file in zip(kept, files, strict=True)
                ],
            }
            _write(path, json.dumps(document, indent=1) + "\n")
            self._forget()
            return self.read(name)  # before another process saves one of this name

    def use(self, name: str) -> Baseline:
        """Make a baseline the one that ``baseline:`` without a name means; raise `UsageError` on failure."""
        self._list(name)  # refuses an empty name, which `read` takes for the one in use
        found = self.read(name)
        with self._writing():
            _write(self._used_file, name + "\n")
        return found

    def remove(self, name: str) -> None:
        """Remove a baseline, and the runs that no other lists; raise `UsageError` on failure."""
        path = self._list(name)
        if not path.exists():
            self.read(name)  # raises, and says which there are
        with self._writing(), self._locked():
            path.unlink(missing_ok=True)
            if self.used() == name:
                self._used_file.unlink(missing_ok=True)
            self._forget()

    def used(self) -> str:
        """Return the name of the baseline in use, empty if none."""
        try:
            with open(self._used_file, "rb") as file:
                name = file.read(200).decode("utf-8", "replace").strip()
        except OSError:
            return ""
        return name if _NAME.fullmatch(name) else ""

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.directory.glob("*.json") if _NAME.fullmatch(path.stem))

    def read(self, name: str) -> Baseline:
        """Return a baseline; for an empty name, the one in use.

        Raise `UsageError` if there is none, `FormatError` if its list is damaged or a run is missing.
        """
        used = self.used()
        name = name or used
        if not name:
            raise UsageError(
                f"{BASELINE}: no baseline is in use; name one, or choose one with profkit baseline use NAME"
            )
        saved, runs = self._listed(name)
        files = [self._run(digest) for digest, _ in runs]
        for kept in files:
            if not kept.is_file():
                raise FormatError(kept, f"is missing, a run of the baseline {name}", "save it again")
        return Baseline(
            name, saved, tuple(map(str, files)), tuple(source for _, source in runs), name == used
        )

    def _listed(self, name: str) -> tuple[str, list[tuple[str, str]]]:
        """Return when a baseline was saved, and its runs (hash, source), which may be missing."""
        path = self._list(name)
        try:
            with open(path, "rb") as file:
                document = json.loads(file.read(_MOST_BYTES))
            runs = [(str(run["sha256"]), str(run["source"])) for run in document["runs"]]
            if document["schema"] != _SCHEMA or not all(_HASH.fullmatch(digest) for digest, _ in runs):
                raise ValueError
            return str(document["saved"]), runs
        except FileNotFoundError:
            known = ", ".join(self.names()) or "none"
            raise UsageError(
                f"{BASELINE}{name}: there is no such baseline in {self.directory} (there: {known})"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise FormatError(path, "is not the list of a baseline", "save it again") from None

    @property
    def _runs(self) -> Path:
        return self.directory / "runs"

    @property
    def _used_file(self) -> Path:
        return self.directory / "used"

    def _run(self, digest: str) -> Path:
        return self._runs / f"{digest}.prof"

    def _list(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot be a name: use letters, digits, '.', '_' and '-'")
        return self.directory / f"{name}.json"

    def _copied(self, file: Path) -> str:
        """Copy a file under the hash of its bytes, unless present, and return the hash."""
        with open(file, "rb") as source:
            digest = hashlib.sha256()
            while block := source.read(1 << 20):
                digest.update(block)
            target = self._run(digest.hexdigest())
            if not target.exists():
                source.seek(0)
                with replacing(target) as copy:
                    shutil.copyfileobj(source, copy)
        return digest.hexdigest()

    def _forget(self) -> None:
        """Remove runs that no baseline lists; keep all if a list cannot be read."""
        listed: set[str] = set()
        for name in self.names():
            try:
                listed.update(self._run(digest).name for digest, _ in self._listed(name)[1])
            except FormatError:
                return
        for file in self._runs.glob("*.prof"):
            if file.name not in listed:
                file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time change the store, where the file system has locks."""
        self._runs.mkdir(parents=True, exist_ok=True)
        with open(self.directory / ".lock", "ab") as file:
            lock(file)
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise `UsageError` where a file cannot be written."""
        try:
            yield
        except OSError as error:
            where, problem = error.filename or self.directory, error.strerror or error
            hint = "name another directory with PROFKIT_BASELINES"
            raise UsageError(f"{where}: {problem}; {hint}") from error


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
