"""What this machine is, and what its kernel has counted so far: read before and after the target.

Each reading is ``None`` if its file is missing (macOS, containers without ``/sys/fs/cgroup``).
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.capture.agent import process_facts

if TYPE_CHECKING:
    from profkit.model import Host, Machine

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Reading:
    """Machine-wide counters at one moment; times are seconds since boot."""

    time_s: float
    busy_s: float | None = None
    steal_s: float | None = None
    psi_some_s: float | None = None
    throttled_s: float | None = None
    throttled_periods: int | None = None
    periods: int | None = None
    load: float | None = None
    runnable: int | None = None


def read_host() -> Host:
    """Return what this machine offers to the calling process."""
    from profkit.model import Host  # and numpy with it: not before the target has started

    allowed = process_facts.affinity()
    return Host(
        name=platform.node(),
        system=f"{platform.system()} {platform.release()}",
        cpu_model=_cpu_model(),
        cpus=os.cpu_count(),
        affinity=len(allowed) or None,
        quota_cpus=quota_cpus(),
        affinity_cpus=tuple(allowed),
    )


def cpus_to_use() -> float:
    """Return the CPUs that affinity and quota leave to the calling process, from what is quick to read."""
    affinity = len(process_facts.affinity()) or os.cpu_count() or 1
    return min(float(affinity), quota_cpus() or float("inf"))


def _cpu_model() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Processor", "cpu model"):
            return value.strip()
    return platform.processor()


def physical_cores() -> int | None:
    """Return the number of physical cores of this machine, ``None`` if the kernel does not say."""
    cores: set[tuple[str, str]] = set()
    package = ""
    for line in _lines(Path("/proc/cpuinfo")):
        key, _, value = line.partition(":")
        if key.strip() == "physical id":
            package = value
        elif key.strip() == "core id":
            cores.add((package, value))
    return len(cores) or None


def take_reading() -> Reading:
    """Return the machine's counters now."""
    busy, steal = _cpu_seconds()
    throttling = _throttling()
    load, runnable = take_load()
    return Reading(time.monotonic(), busy, steal, _psi_some(), *throttling, load, runnable)


def between(start: Reading, end: Reading, host: Host) -> Machine:
    """Return the rise of the counters from `start` to `end`."""
    from profkit.model import Machine

    def rise(name: str) -> float | None:
        first, last = getattr(start, name), getattr(end, name)
        return None if first is None or last is None else max(0.0, last - first)

    def count(name: str) -> int | None:
        value = rise(name)
        return None if value is None else int(value)

    seen = [r for r in (start.runnable, end.runnable) if r is not None]
    return Machine(
        cpus=host.cpus,
        quota_cpus=host.quota_cpus,
        wall_s=rise("time_s"),
        busy_s=rise("busy_s"),
        steal_s=rise("steal_s"),
        psi_some_s=rise("psi_some_s"),
        throttled_s=rise("throttled_s"),
        throttled_periods=count("throttled_periods"),
        periods=count("periods"),
        load=end.load,
        peak_runnable=max(seen) if seen else None,
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _cpu_seconds() -> tuple[float | None, float | None]:
    """Return busy and stolen seconds of all CPUs (proc(5), ``/proc/stat``; user time includes guest time)."""
    for line in _lines(Path("/proc/stat")):
        if line.startswith("cpu "):
            return cpu_seconds(line)
    return None, None


def cpu_seconds(line: str) -> tuple[float, float]:
    """Return busy and stolen seconds from the first line of ``/proc/stat``, without this process's own."""
    ticks = [int(word) for word in line.split()[1:]] + [0] * 10
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
    per_second = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / per_second - time.process_time(), steal / per_second


def _psi_some() -> float | None:
    for line in _lines(Path("/proc/pressure/cpu")):
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def take_load() -> tuple[float | None, int | None]:
    """Return the load average, and the number of threads that are ready to run, without the calling one."""
    for line in _lines(Path("/proc/loadavg")):
        words = line.split()
        return float(words[0]), max(0, int(words[3].partition("/")[0]) - 1)
    return None, None


def take_busy() -> float | None:
    """Return the CPU seconds that all processes but this one have used; ``None`` if unknown."""
    return _cpu_seconds()[0]


def has_free_cpu(cpus: float) -> bool:
    """Return whether fewer other threads than `cpus` are ready to run; false if unknown."""
    _, runnable = take_load()
    return runnable is not None and runnable < cpus


def cgroup_directories(controller: str, pid: int | str = "self") -> list[Path]:
    """Return a process's cgroup directories for a controller, innermost first (v2, or v1 if that is used)."""
    found: list[Path] = []
    for line in _lines(Path(f"/proc/{pid}/cgroup")):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        roots: list[Path] = []
        if number == "0" and not controllers:
            roots = [CGROUPS, CGROUPS / "unified"]
        elif controller in controllers.split(","):
            roots = [CGROUPS / controllers, CGROUPS / controller]
        for root in roots:
            inner = root / path.lstrip("/")
            while inner != root.parent:
                if inner.is_dir():
                    found.append(inner)
                inner = inner.parent
    return found


def quota_cpus(directories: list[Path] | None = None) -> float | None:
    """Return the least CPU quota of a cgroup and its parents, in cores; ``None`` if there is none.
    `directories` are from `cgroup_directories`, by default this process's."""
    quotas: list[float] = []
    for directory in cgroup_directories("cpu") if directories is None else directories:
        for line in _lines(directory / "cpu.max"):
            quota, _, period = line.partition(" ")
            if quota != "max":
                quotas.append(int(quota) / int(period))
        for line in _lines(directory / "cpu.cfs_quota_us"):
            if int(line) > 0:
                for period in _lines(directory / "cpu.cfs_period_us"):
                    quotas.append(int(line) / int(period))
    return min(quotas) if quotas else None


def limiting(directories: list[Path]) -> Path | None:
    """Return the innermost of these cgroups that has a quota, or had one: it counts enforcement periods."""
    for directory in directories:
        fields = dict(line.partition(" ")[::2] for line in _lines(directory / "cpu.stat"))
        if int(fields.get("nr_periods", "0")) > 0 or quota_cpus([directory]) is not None:
            return directory
    return None


def throttling_of(lines: list[str]) -> tuple[float, int, int]:
    """Return seconds throttled, periods throttled, and periods of a cgroup's ``cpu.stat``, v1 or v2."""
    fields = dict(line.partition(" ")[::2] for line in lines)
    seconds = (
        int(fields["throttled_usec"]) / 1e6
        if "throttled_usec" in fields
        else int(fields.get("throttled_time", "0")) / 1e9
    )
    return seconds, int(fields.get("nr_throttled", "0")), int(fields["nr_periods"])


def _throttling() -> tuple[float | None, int | None, int | None]:
    """Return seconds throttled, periods throttled, and periods of the innermost cgroup with a quota."""
    directory = limiting(cgroup_directories("cpu"))
    try:
        return (None, None, None) if directory is None else throttling_of(_lines(directory / "cpu.stat"))
    except (KeyError, ValueError):
        return None, None, None
