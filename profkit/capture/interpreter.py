"""What another Python has installed, found without importing any of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.provenance import installed_packages
from profkit.capture.tracers import ask

#: Directories below an entry of the import path that hold native libraries.
_NATIVE = ("torch/lib",)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One Python; `natives` are base names of native libraries. `tracer_missing`: one could be built."""

    path: str
    version: str
    packages: Mapping[str, str]
    natives: frozenset[str]
    tracer_missing: bool = False


def find_python(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the command's Python, else the active virtual environment's, else the first on the path."""
    if command and os.path.basename(command[0]).startswith("python"):
        return shutil.which(command[0], path=environ.get("PATH"))
    if environ.get("VIRTUAL_ENV"):
        own = os.path.join(environ["VIRTUAL_ENV"], "bin", "python")
        if os.path.exists(own):
            return own
    return shutil.which("python3", path=environ.get("PATH")) or shutil.which(
        "python", path=environ.get("PATH")
    )


def read_interpreter(path: str | os.PathLike[str]) -> Interpreter:
    """Ask a Python what it has installed; raise `UsageError` if it cannot be run or is no Python."""
    found = ask(os.fspath(path), os.environ, site=True)
    return Interpreter(
        path=found.path,
        version=found.release,
        packages=installed_packages(found.import_path),
        natives=frozenset(_natives(found.import_path, found.prefix)),
        tracer_missing=not found.traced and not found.refusal(),
    )


def _natives(entries: Sequence[str], prefix: str) -> list[str]:
    folders = [Path(entry, inside) for entry in entries for inside in _NATIVE]
    folders += [libs for entry in entries for libs in Path(entry or ".").glob("*.libs")]
    folders.append(Path(prefix, "lib"))
    found: list[str] = []
    for folder in folders:
        try:
            found += [name for name in os.listdir(folder) if ".so" in name]
        except OSError:
            continue
    return found
