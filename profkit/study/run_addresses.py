"""Runs from local paths, and from addresses that fsspec reads (``s3://…``)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from profkit.errors import FormatError, UsageError
from profkit.formats.load import load_run
from profkit.model import Run


def load(path: str, *, edges: bool = False, processes: bool = True) -> Run:
    """Return the run of a path or address; raises `FormatError`."""
    with local(path) as file:
        try:
            return replace(load_run(file, edges=edges, processes=processes), path=path)
        except FormatError as error:
            raise FormatError(path, error.problem, error.hint) from None


@contextlib.contextmanager
def local(path: str) -> Iterator[str]:
    """Yield a local path for a file or address; a fetched copy is deleted afterwards."""
    if "://" not in path:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="profkit-") as directory:
        copy = os.path.join(directory, "run.prof")
        with addressed(path, "fetched") as (system, inside):
            system.get_file(inside, copy)
        yield copy


@contextlib.contextmanager
def addressed(address: str, what: str) -> Iterator[tuple[Any, str]]:
    """Yield the fsspec file system of an address, and the path there; errors say "cannot be `what`"."""
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError(f"{address}: addresses need fsspec; install profkit[dask]") from None
    try:
        yield url_to_fs(address)
    except Exception as error:  # file systems raise their own exception types
        problem = " ".join(str(error).split())[:120] or type(error).__name__
        raise FormatError(address, f"cannot be {what}: {problem}", "check the address") from None
