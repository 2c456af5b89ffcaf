"""A captured command: manifest, processes and machine. What a file does not hold is ``None``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from profkit.model.bounds import Count, ExitStatus, Moment, Rank, Seconds
from profkit.model.hardware import Host, Machine, Yardstick
from profkit.model.notices import Notice
from profkit.model.process import CallSums, Process
from profkit.model.profile import Profile
from profkit.model.series import Series
from profkit.model.thread import Thread


class Git(TypedDict, total=False):
    """The revision that was run, and whether files were changed since."""

    revision: str
    dirty: bool


class Job(TypedDict, total=False):
    """The launcher's job: id, and rank, size and position of this process; for joined files, all ranks.

    `local_rank` and `node` are those of `Process`.
    """

    id: str | None
    rank: Rank | None
    world_size: Rank | None
    local_rank: Rank | None
    node: Rank | None
    ranks: tuple[Rank, ...]


class Sampler(TypedDict, total=False):
    """What the sampler cost, and what it did not see."""

    period_s: Seconds | None
    samples: Count | None
    cpu_s: Seconds | None
    notes: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class GpuIdle:
    """What the thread that launches GPU work did while no GPU worked, for `seconds`.

    Attributes
    ----------
    function
        Innermost function, call or NVTX range; empty where nothing was recorded.
    within
        Innermost Python function around it; empty if none.
    """

    function: str
    within: str
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class GpuUse:
    """GPU activity in a trace.

    Attributes
    ----------
    span_s
        Seconds from the first GPU activity to the last.
    busy_s
        Seconds of the span in which at least one GPU ran a kernel, a copy or a memset.
    idle
        What the CPU did in the rest, longest first.
    """

    span_s: Seconds
    busy_s: Seconds
    idle: tuple[GpuIdle, ...] = ()


#: Prefix of a baseline's name: ``baseline:main``; alone, it is the baseline in use.
BASELINE = "baseline:"


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run that was captured alone, or that the program named.

    Attributes
    ----------
    name
        Empty if none.
    begin_s, end_s
        Seconds after the command started.
    captured
        Whether functions were captured because of it; otherwise it is only a name.
    """

    name: str
    begin_s: Seconds
    end_s: Seconds
    captured: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was run, where, with what.

    Attributes
    ----------
    schema
        ``profkit.run/2``; files of version 1 are read too.
    exit_status
        As a shell reports it: ``128 + N`` for signal N.
    environment
        Thread-related variables only (an allow-list).
    packages
        Distribution name to version, of the target's environment.
    git
        Of the working directory, ``None`` outside a repository.
    started
        UTC, ISO 8601.
    job
        ``None`` unless profkit itself was started once per rank.
    clocks
        ``time``, ``monotonic`` and ``perf_counter`` at one moment, seconds.
    wall_s
        Seconds of the run; of its windows, if it was captured in windows.
    whole_s
        Seconds of the whole command if windows were captured, else ``None``.
    windows
        Windows and named parts, by time of beginning.
    """

    schema: str
    profkit: str
    command: tuple[str, ...]
    cwd: str
    exit_status: ExitStatus | None
    started: str
    wall_s: Seconds
    host: Host
    environment: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    git: Git | None = None
    job: Job | None = None
    clocks: Mapping[str, Moment] = field(default_factory=dict)
    sampler: Sampler | None = None
    whole_s: Seconds | None = None
    windows: tuple[Window, ...] = ()
    yardsticks: tuple[Yardstick, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """One captured or foreign profile file.

    Attributes
    ----------
    path
        Where it was read from, as the user named it.
    processes
        First the one that viewers see: the main process, or rank 0.
    warnings
        Notices for every report (mixed threads, lost data, …).
    series
        Machine-wide counters over time, ``None`` without the sampler.
    machines
        By host name if processes ran on several hosts; includes `machine`.
    gpu
        GPU activity if a trace has it, else ``None``.
    """

    path: str
    processes: tuple[Process, ...]
    manifest: Manifest | None = None
    machine: Machine | None = None
    warnings: tuple[Notice, ...] = ()
    series: Series | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict)
    gpu: GpuUse | None = None

    @property
    def host(self) -> Host | None:
        """The host of the manifest."""
        return None if self.manifest is None else self.manifest.host

    @property
    def wall_s(self) -> float | None:
        """The wall of the manifest."""
        return None if self.manifest is None else self.manifest.wall_s

    @property
    def command(self) -> tuple[str, ...]:
        """The command of the manifest, or empty."""
        return () if self.manifest is None else self.manifest.command

    @property
    def exit_status(self) -> int | None:
        """The exit status of the manifest; −1 if the launcher was killed or still ran: the wall is then not known."""
        status = None if self.manifest is None else self.manifest.exit_status
        unknown = any(notice.code in ("capture-unfinished", "capture-running") for notice in self.warnings)
        return -1 if unknown and not status else status

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of the manifest."""
        return () if self.manifest is None else self.manifest.windows

    @property
    def job(self) -> Job:
        """The launcher's job, or empty."""
        return (None if self.manifest is None else self.manifest.job) or Job()

    @property
    def threads(self) -> list[tuple[Process, Thread]]:
        """All threads, each with its process."""
        return [(process, thread) for process in self.processes for thread in process.threads]

    @property
    def profiles(self) -> list[Profile]:
        """The profiles of all threads."""
        return [thread.profile for _, thread in self.threads]

    def validate(self) -> Run:
        """Check what spans all processes; return the run.

        Raises
        ------
        ProfileError
            A sum of calls exceeds `EXACT`; several such runs would overflow 64 bits.
        """
        CallSums().add(self.processes)
        return self


@dataclass(frozen=True, slots=True)
class RunSet:
    """One side of a diff: replicates of one configuration, often a single run.

    Attributes
    ----------
    label
        What the user typed for this side.
    skipped
        A notice for each file that could not be read.
    """

    label: str
    runs: tuple[Run, ...]
    skipped: tuple[Notice, ...] = ()

    @property
    def file(self) -> str:
        """What commands take for it: the name of a baseline, else the first run's file."""
        return self.label if self.label.startswith(BASELINE) else self.runs[0].path
