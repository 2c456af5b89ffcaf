"""``profkit capture``: start the target with the agent, wait for it, and write the run file."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from profkit.capture import signal_forwarding
from profkit.capture.agent import settings
from profkit.capture.agent.undisturbed import without_collections
from profkit.capture.reservation import check_output, free_name, make_spool, reserved
from profkit.capture.selection import EVERYTHING, Selection
from profkit.capture.spool import remove_spool
from profkit.capture.target import Target
from profkit.errors import ProfkitError

if TYPE_CHECKING:  # numpy, which starting a target does not need
    from profkit.model import Run

Packing: TypeAlias = contextlib.AbstractContextManager[Callable[[str], None]]

#: Said when a signal asks for an end while a run file is written.
_PATIENCE = "{} is being written; a second signal stops that, and the records are kept"


class NotWrittenError(ProfkitError):
    """The target has run without a run file; `status` is its exit code, or ``-N`` if signal N ended it."""

    def __init__(self, problem: str, status: int, exit_code: int = 2) -> None:
        self.status = status
        self.exit_code = exit_code if status == 0 else status if status > 0 else 128 - status
        super().__init__(problem)


#: The `overhead` of `capture` that samples from the start.
SAMPLED = 0.0


def capture(
    command: Sequence[str],
    output: Path | None = None,
    *,
    repeat: int = 1,
    written: Callable[[Path, Run], None] | None = None,
    say: Callable[[str], None] = lambda line: None,
    packing: Packing | None = None,
    nvtx_shim: bool = False,
    selection: Selection = EVERYTHING,
    overhead: float | None = settings.DEFAULT_OVERHEAD,
) -> int:
    """Run `command` `repeat` times, write one run file each time, and return the last target's status.

    The status is an exit code, or ``-N`` for signal N, which may also have prevented the start; no repetition
    follows a signal. The rank and the number of the repetition are put before the suffix of `output`;
    ``None`` picks the first free of ``run.prof``, ``run-2.prof`` and so on. `packing` is entered when a
    target has ended; it gives a function to call with each next step. `nvtx_shim` records ``torch.cuda.nvtx``
    where PyTorch was built without CUDA. `overhead` is the share of each process's time that tracing may add
    before stacks are sampled; ``None`` traces every call, `SAMPLED` samples from the start. Raise
    `UsageError` for a bad `output` or `selection`, `CommandNotFoundError`, or `NotWrittenError`.
    """
    selection.check()
    status = 0
    written = written or (lambda path, run: None)
    packing = packing or contextlib.nullcontext(lambda doing: None)
    with signal_forwarding.held_back() as signals, contextlib.ExitStack() as names_kept:
        target_in = partial(
            Target,
            list(command),
            dict(os.environ),  # a copy: packing changes the launcher's own
            signals=signals,
            nvtx_shim=nvtx_shim,
            selection=selection,
            overhead=overhead,
        )
        named = output or Path("run.prof")
        names = [_named(named, number if repeat > 1 else None) for number in range(1, repeat + 1)]
        if output is not None:
            for name in names:
                check_output(name)
            if repeat > 1:
                names_kept.enter_context(reserved(_named(output, None)))
        for number, name in enumerate(names, 1):
            with free_name(name) if output is None else reserved(name) as path:
                status = _capture_once(target_in, path, signals, packing, written, say)
            if number < repeat and (status < 0 or signals.end_asked_by is not None):
                say(f"stopped at run {number} of {repeat}")
                break
    return status


def _named(path: Path, number: int | None) -> Path:
    """Put the rank and the number of the repetition, if any, before the suffix."""
    rank, size = settings.rank_of(os.environ)
    marks = []
    if rank is not None and (size or 1) > 1:
        marks.append(f"rank{rank}")
    if number is not None:
        marks.append(str(number))
    return path.with_name("-".join([path.stem, *marks]) + (path.suffix or ".prof")) if marks else path


def _capture_once(
    target_in: Callable[[Path], Target],
    path: Path,
    signals: signal_forwarding.Signals,
    packing: Packing,
    written: Callable[[Path, Run], None],
    say: Callable[[str], None],
) -> int:
    """Run the target and write its run file; only this function removes a spool directory."""
    spool = make_spool(path)
    removed = True  # until something has been run
    try:
        target = target_in(spool)
        early = signals.arrived()
        if early is not None:
            return -early
        target.start()
        removed = False  # now only the spool has the records
        status = target.wait()
        before = _identity(path)
        try:
            with signals.answered(lambda: say(_PATIENCE.format(path))):
                with packing as progress:
                    # The millions of objects of a run are not garbage.
                    run = without_collections(_pack, target, spool, path, progress)
                removed = True
                written(path, run)
        except BaseException as error:
            stopped = isinstance(error, signal_forwarding.Interrupted)
            removed = removed or (stopped and _identity(path) not in (None, before))
            if not removed:
                raise _not_written(error, spool, path, status) from error
            if not stopped:  # otherwise only messages about the run were cut short
                raise
        return status
    finally:
        if removed:
            remove_spool(spool)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from its replacement; ``None`` if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _pack(target: Target, spool: Path, path: Path, progress: Callable[[str], None]) -> Run:
    sources = target.prepared()
    from profkit.capture.packer import pack_spool
    from profkit.formats.runfile import write_run

    run = pack_spool(spool, wait_for_stragglers=True, sources=sources, progress=progress)
    progress(f"writing {path}")
    write_run(path, run)
    sources.save()
    return run


def _not_written(error: BaseException, spool: Path, path: Path, status: int) -> NotWrittenError:
    """Return the error that says where the records are and how to make a run file of them."""
    if not spool.is_dir():
        return NotWrittenError(
            f"{path}: nothing to write: the command ended with status {status}, and {spool}, where profkit kept its "
            "records, was removed; choose another place with -o",
            status,
        )
    exit_code, first = 2, ""
    if isinstance(error, OSError):
        problem = f"cannot be written ({error.strerror or error})"
        first = "free some space, then " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    elif isinstance(error, signal_forwarding.Interrupted):
        problem, exit_code = f"not written ({error})", 128 + error.number
    elif isinstance(error, ProfkitError):
        problem = f"not written ({error})"
    else:
        problem = f"not written ({type(error).__name__}{f': {error}' if str(error) else ''})"
    return NotWrittenError(
        f"{path}: {problem}; the records are kept: {first}run profkit merge {shlex.quote(str(spool))} "
        f"-o {shlex.quote(str(path))}",
        status,
        exit_code,
    )
