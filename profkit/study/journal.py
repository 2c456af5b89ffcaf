"""The directory of a study: ``study.json`` (the plan), ``journal.jsonl`` (a `Trial` per line), ``runs/``.

A line is written when its run ends, so that an interrupted study can continue. The journal is locked for one
process at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from profkit.errors import FormatError, UsageError
from profkit.formats.atomic import lock, replacing
from profkit.formats.codec import Codec, MemberError
from profkit.formats.regular_file import NotRegularError, read_regular
from profkit.study.space import Parameter, Setting, Space

_SCHEMA = "profkit.study/1"
_PLAN, _JOURNAL, _RUNS = "study.json", "journal.jsonl", "runs"
#: What a study's directory keeps beside its runs; the last is that of `profkit.study.tune`.
KEPT = (_PLAN, _JOURNAL, "study.db")
#: Most bytes read of either file; a line has less than 1 kB.
_MOST_BYTES = 1 << 28
#: The statuses of runs that count.
COUNTED = ("done", "disturbed")


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one setting, `round` counting from 0.

    `status`: ``done``, ``failed`` (non-zero exit status), ``timeout``, or ``disturbed`` (other processes took
    its CPUs). `started`: ISO 8601, UTC. `exit_status`: 128 + N for signal N, ``None`` if it was ended.
    `cpu_s`: of all processes that were waited for. `queue_s` and `blocked_s`: of the account, ``None``
    without a profile or counters. `run`, `log`: file names in ``runs/``. `objective`: the figure compared
    instead of the wall time.
    """

    setting: Mapping[str, str]
    round: int
    status: str
    started: str
    exit_status: int | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    queue_s: float | None = None
    blocked_s: float | None = None
    cause: str = ""
    kind: str = ""
    run: str = ""
    log: str = ""
    objective: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a directory studies; fixed while there are trials."""

    schema: str
    command: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    profiled: bool
    listed: tuple[Setting, ...] = ()

    @property
    def space(self) -> Space:
        return Space(self.command, self.parameters, self.listed)


_PLANS, TRIALS = Codec(Plan), Codec(Trial)


class Journal:
    """The directory of one study, created if needed; a context manager that holds its lock and adds trials.

    Raises `UsageError` if it is not writable, holds another study, or is locked by another process;
    `FormatError` if its files are damaged.
    """

    def __init__(self, directory: Path, space: Space, *, profiled: bool) -> None:
        refused = partial(UsageError, parameter="dir", value=directory)
        wanted = Plan(_SCHEMA, space.command, space.parameters, profiled, space.listed)
        #: Directory of the run files and logs.
        self.runs = make_runs(directory)
        try:
            self._file = open(directory / _JOURNAL, "ab")  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise _unwritable(directory, error) from None
        try:
            if not lock(self._file, wait=False):
                raise refused("another process works on this study; wait for it, or choose another place")
            found = read_plan(directory)
            if found is None:
                with replacing(directory / _PLAN) as file:
                    file.write(json.dumps(_PLANS.write(wanted), indent=1).encode() + b"\n")
            elif found != wanted:
                other = _difference(found, wanted)
                raise refused(f"holds a study of {other}; choose another place, or remove it")
            self.trials, whole = _read_trials(directory)
            # A line torn by a crash of the machine would spoil the next one.
            self._file.truncate(whole)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, trial: Trial) -> None:
        """Write down a trial; it is on the disk when this returns."""
        line = json.dumps(TRIALS.write(trial), separators=(",", ":")).encode() + b"\n"
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.trials.append(trial)


def make_runs(directory: Path) -> Path:
    """Return the directory of run files and logs, made if needed; raises `UsageError` if that fails."""
    try:
        (directory / _RUNS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(directory, error) from None
    return directory / _RUNS


def _unwritable(directory: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write there ({error.strerror}); choose another place", "dir", directory)


def read_plan(directory: Path) -> Plan | None:
    """Return the plan in a directory, ``None`` without one; raises `FormatError` if it is damaged."""
    path = directory / _PLAN
    data = _bytes_of(path)
    if data is None:
        return None
    try:
        plan = _PLANS.read("study", json.loads(data))
        if plan.schema != _SCHEMA:
            raise MemberError(f"its schema is {plan.schema[:40]}, this profkit reads {_SCHEMA}")
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"is damaged: {error}", "remove the directory and begin again") from None
    return plan


def read_trials(directory: Path) -> list[Trial]:
    """Return the trials in the order of their ends; raises `FormatError` for damage before the last line."""
    return _read_trials(directory)[0]


def _read_trials(directory: Path) -> tuple[list[Trial], int]:
    """Return the trials, and the number of bytes in complete lines."""
    path = directory / _JOURNAL
    data = _bytes_of(path) or b""
    whole = data.rfind(b"\n") + 1
    trials = []
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            trials.append(TRIALS.read("trial", json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise FormatError(path, f"line {number} is damaged: {error}", "remove that line") from None
    return trials, whole


def _bytes_of(path: Path) -> bytes | None:
    """Return what is in a file, ``None`` if there is none; raises `FormatError` if it cannot be read."""
    try:
        return read_regular(path, _MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(path, f"cannot be read: {error.strerror}", "check path and permissions") from None
    except NotRegularError as error:
        raise FormatError(path, str(error), "check that it is the right directory") from None


def _difference(found: Plan, wanted: Plan) -> str:
    if found.parameters != wanted.parameters:
        listed = ", ".join(f"{p.name}={','.join(p.values)}" for p in found.parameters)
        return f"other parameters ({listed})"
    if found.command != wanted.command:
        return "another command"
    if found.listed != wanted.listed:
        return "other settings"
    return "captured runs" if found.profiled else "runs without a profile"
