"""What another Python has installed, found out without importing any of it.

A short process of that interpreter prints where it looks for modules. The names of distributions and their
native libraries are then read from directories.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.packages import installed_packages
from profkit.capture.tracers import lacks_tracer
from profkit.errors import UsageError

PATIENCE_S = 10.0
#: The first entry of the path would be the working directory, where a ``json.py`` may lie.
_ASK = """
import sys
sys.path[:1] = []
import json
print(json.dumps([sys.version.split()[0], sys.prefix, sys.path]))
"""
#: Directories inside the entries of a path that hold native libraries of distributions.
_NATIVE = ("torch/lib",)


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One Python.
    `version` is the language's, ``3.11.7``; `packages` maps distributions to versions; `natives` are base
    names of native libraries in its environment; `tracer_missing`: a capture has none of its functions, and a
    tracer could be built."""

    path: str
    version: str
    packages: Mapping[str, str]
    natives: frozenset[str]
    tracer_missing: bool = False


def find_python(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the interpreter that is meant if none is named.
    It is the command's if that is a Python, else the active virtual environment's, else the first ``python3``
    or ``python`` on the path."""
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
    try:
        ended = subprocess.run(
            [path, "-c", _ASK], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
        )
        version, prefix, entries = json.loads(ended.stdout.splitlines()[-1])
    except OSError as error:
        raise UsageError(f"cannot be run ({error.strerror})", parameter="python", value=path) from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"did not answer within {PATIENCE_S:.0f} s; name another one", parameter="python", value=path
        ) from None
    except (ValueError, IndexError, TypeError):
        raise UsageError(
            "is no Python that works; name another one", parameter="python", value=path
        ) from None
    return Interpreter(
        path=os.fspath(path),
        version=version,
        packages=installed_packages(entries),
        natives=frozenset(_natives(entries, prefix)),
        tracer_missing=lacks_tracer(os.fspath(path), os.environ),
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
