"""Read many files: from paths or addresses (``s3://…``), here, in several processes, or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from profkit.capture.host import cpus_to_use
from profkit.errors import FormatError, UsageError
from profkit.formats.load import load_run
from profkit.model import Run

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Files per task: enough to make transfers cheap, few enough to keep all workers busy until the end.
_CHUNK = 8
#: Time in which a scheduler must answer.
PATIENCE = "10s"
#: Bytes of files from which starting other processes pays.
_WORTH_BYTES = 16 << 20


class Crew(Protocol):
    """Yields the function of each item (a path, or several), in order."""

    def __call__(self, function: Callable[[Item], Result], items: Sequence[Item], /) -> Iterator[Result]: ...


@contextmanager
def crew(
    paths: Sequence[str], *, jobs: int | None = 1, dask: str | None = None, chunk: int = _CHUNK
) -> Iterator[Crew]:
    """Yield workers: `jobs` processes (``None``: one per CPU), or a Dask scheduler's at its address.

    Few small files are read in this process. Raises `UsageError` if Dask is missing, or no scheduler answers.
    """
    if dask is not None:
        with _cluster(dask, chunk) as cluster:
            yield cluster
        return
    jobs = int(cpus_to_use()) if jobs is None else jobs
    if jobs < 2 or len(paths) <= _CHUNK or _bytes(paths) < _WORTH_BYTES:
        yield map
        return
    # A fork of a process with threads may hang; a fork server has no threads.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["profkit.study.rank_read"])
    workers = min(jobs, -(-len(paths) // _CHUNK))
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent) as pool:

        def each(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
            try:
                yield from pool.map(function, items, chunksize=chunk)
            except BrokenProcessPool:
                raise UsageError(
                    "a reading process was killed, perhaps for lack of memory; use fewer jobs"
                ) from None

        yield each


def _end_with_parent() -> None:
    """End this process when its parent is gone; otherwise it would wait for files forever."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="profkit-parent", daemon=True).start()


def _bytes(paths: Sequence[str]) -> int:
    total = 0
    for path in paths:
        try:
            total += os.path.getsize(path)
        except OSError:
            total += _WORTH_BYTES if "://" in path else 0
        if total >= _WORTH_BYTES:
            break
    return total


def _chunk(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [function(item) for item in items]


@contextmanager
def _cluster(address: str, chunk: int) -> Iterator[Crew]:
    refused = partial(UsageError, parameter="dask", value=address)
    try:
        from distributed import CancelledError, Client, KilledWorker
        from distributed.utils import silence_logging_cmgr
    except ImportError:
        raise refused("Dask is not installed; install profkit[dask]") from None
    try:
        client: Any = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        problem = " ".join(str(error).split())[:120] or type(error).__name__
        raise refused(f"no scheduler answers there: {problem}") from None
    # Errors are reported in one line below, and the client reconnects by itself.
    with silence_logging_cmgr("CRITICAL"), client:
        if not client.scheduler_info()["workers"]:
            raise refused("the scheduler has no workers; start some")

        def each(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
            chunks = [list(items[i : i + chunk]) for i in range(0, len(items), chunk)]
            # Not pure: files may have changed since a result with the same arguments.
            futures = client.map(partial(_chunk, function), chunks, pure=False)
            try:
                while futures:
                    yield from futures.pop(0).result()  # popping lets the cluster drop it
            except ModuleNotFoundError as error:
                raise UsageError(f"the workers cannot import {error.name}; install profkit there") from None
            except KilledWorker:
                raise refused("its workers were killed, perhaps for lack of memory") from None
            except CancelledError:
                raise refused("the scheduler is gone") from None
            finally:
                client.cancel(futures)

        yield each


def load(path: str, *, edges: bool = False, processes: bool = True) -> Run:
    """Return the run of a path or address; raises `FormatError`."""
    with local(path) as file:
        try:
            return replace(load_run(file, edges=edges, processes=processes), path=path)
        except FormatError as error:
            raise FormatError(path, error.problem, error.hint) from None


@contextmanager
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


@contextmanager
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
