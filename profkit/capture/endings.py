"""How each process ended, and what of its time no record holds; times are of ``CLOCK_MONOTONIC``."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.agent.reserve import END_SUFFIX, RESERVE_SUFFIX
from profkit.capture.record_types import Launch, ProcessKey, Record, SeenProcess
from profkit.capture.spool import files

#: Seconds by which readings of one clock may be out of order; beyond, a time namespace has another clock.
_SLACK_S = 1.0


@dataclass(frozen=True, slots=True)
class LeftEnd:
    """What an agent left instead of an image's last record; `error` is the system's number, 0 if none."""

    host: str
    pid: int
    state: str
    error: int
    at_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Ending:
    """How an image ended. State ``ended``: it is unknown how; ``unknown``: it may still run.

    `lost_s` and `lost_cpu_s` are wall and CPU seconds after the newest record; if `kept`, functions are not
    lost.
    """

    state: str
    complete: bool
    lost_s: float | None = None
    lost_cpu_s: float | None = None
    status: int | None = None
    error: str = ""
    kept: bool = False

    @property
    def signal(self) -> str:
        """Return the name of the signal that ended it, empty without one."""
        if self.status is None or self.status >= 0:
            return ""
        try:
            return signal.Signals(-self.status).name
        except ValueError:
            return f"signal {-self.status}"


def ending(
    record: Record,
    now_s: float,
    *,
    alive: bool | None = None,
    status: int | None = None,
    ended_s: float | None = None,
    cpu_s: float | None = None,
    left: LeftEnd | None = None,
    replaced_s: float | None = None,
) -> Ending:
    """Return how an image with this newest record ended; if it runs, it has written no other up to `now_s`.

    The others are what else is known: `ended_s` is the latest possible time, `cpu_s` what was seen last, `status` an
    exit code or ``-N`` for signal N.
    """
    if record.state != "snapshot":
        left = None
    if (
        record.state == "replaced"
        or (left is not None and left.state == "replaced")
        or replaced_s is not None
    ):
        status = None  # it is that of a later image
    state: str
    end_s: float | None
    if status is not None:
        state, end_s = "killed" if status < 0 else "exited", ended_s
    elif record.state != "snapshot":
        state, end_s = "running" if record.state == "detached" else record.state, None
    elif left is not None:
        state, end_s, cpu_s = left.state, left.at_s, left.cpu_s
    elif replaced_s is not None:
        state, end_s, cpu_s = "replaced", replaced_s, None
    elif alive:
        state, end_s = "running", now_s
    elif alive is None:
        state, end_s = "unknown", None
    else:
        state, end_s = "ended", ended_s
    if record.state != "snapshot" and state != "killed":
        return Ending(state, complete=True, status=status)
    lost_s = None
    if end_s is not None and end_s > record.perf - _SLACK_S:
        lost_s = max(0.0, end_s - record.perf)
    lost_cpu_s = None
    if lost_s is not None and cpu_s is not None and record.cpu_s is not None:
        lost_cpu_s = max(0.0, cpu_s - record.cpu_s)
    error = "" if left is None else error_text(left.error)
    return Ending(state, False, lost_s, lost_cpu_s, status, error, record.mapped)


def of_records(
    records: Sequence[Record],
    alive: Sequence[bool | None],
    launch: Launch,
    seen: Mapping[ProcessKey, SeenProcess],
    left: Iterable[LeftEnd],
    now_s: float,
) -> list[Ending]:
    """Return how the image of each record ended; the images of one process must be in order."""
    left_by = _left_by(records, left)
    replaced_s: dict[ProcessKey, float] = {}  # the begin of a process's next image
    found = []
    for index, record in reversed(list(enumerate(records))):
        process = seen.get(record.process)
        gone_ns = 0 if process is None else process.gone_ns
        is_alive = alive[index]
        if is_alive is None and gone_ns:
            is_alive = False
        ended_s, status = gone_ns / 1e9 if gone_ns else None, None
        if launch.target is not None and _is_target(record, process, launch):
            ended_s, status = launch.target.ended_ns / 1e9, launch.status
        end = ending(
            record,
            now_s,
            alive=is_alive,
            status=status,
            ended_s=ended_s,
            cpu_s=None if process is None else process.all_cpu_s,
            left=left_by.get(index),
            replaced_s=replaced_s.get(record.process),
        )
        replaced_s[record.process] = record.begin_perf
        found.append(end)
    return found[::-1]


def _left_by(records: Sequence[Record], left: Iterable[LeftEnd]) -> dict[int, LeftEnd]:
    """Assign each end to the last image of its process that had written a record by then."""
    found = {}
    for end in left:
        of_process = [
            (record.begin_perf, index)
            for index, record in enumerate(records)
            if (record.host, record.pid) == (end.host, end.pid) and record.perf <= end.at_s
        ]
        if of_process:
            found[max(of_process)[1]] = end
    return found


def _is_target(record: Record, process: SeenProcess | None, launch: Launch) -> bool:
    if launch.target is None or launch.launcher is None or launch.launcher.kernel != record.kernel:
        return False
    pid = record.pid if process is None else process.pid
    return pid == launch.target.pid and record.begin_perf <= launch.target.ended_ns / 1e9


def left_ends(spool: Path) -> list[LeftEnd]:
    """Return the ends that agents left; skip anything else."""
    found = []
    for path in files(spool, END_SUFFIX):
        try:
            host, pid, _ = path.stem.rsplit("-", 2)
            state, error, at_s, cpu_s = os.readlink(path).split(" ")
            end = LeftEnd(host, int(pid), state, int(error), float(at_s), float(cpu_s))
        except (OSError, ValueError):
            continue
        known = state in ("exited", "replaced") and end.error >= 0
        if known and all(math.isfinite(value) and value >= 0 for value in (end.at_s, end.cpu_s)):
            found.append(end)
    return found


def unrecorded(spool: Path, known: set[str]) -> list[tuple[int, str]]:
    """Return processes whose agent started but left no record, with the error if there was one.

    `known` are record files without suffix.
    """
    found = []
    for path in files(spool, RESERVE_SUFFIX):
        if path.stem in known:
            continue
        try:
            pid = int(path.stem.rsplit("-", 2)[1])
        except (ValueError, IndexError):
            continue
        error = 0
        with contextlib.suppress(OSError, ValueError, IndexError):
            error = int(os.readlink(path.with_suffix(END_SUFFIX)).split(" ")[1])
        found.append((pid, error_text(error)))
    return found


def error_text(number: int) -> str:
    """Return the system's words for an error number, empty for 0."""
    return os.strerror(number) if number else ""
