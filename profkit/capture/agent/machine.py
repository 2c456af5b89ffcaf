"""Read what the kernel has counted of this machine, and the CPU limits of a process's cgroup.

An agent imports this only if no sampler runs on its machine. Values that a kernel or container does not
report are absent.
"""

from __future__ import annotations

import os
from time import monotonic

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

CGROUPS = "/sys/fs/cgroup"


def reading() -> Dict[str, Any]:
    """Return the fields of `profkit.capture.host.Reading`."""
    found: Dict[str, Any] = {"time_s": monotonic()}
    for path, fields in FILES:
        found.update(read_fields(fields, path))
    limited = limiting(cgroup_directories("cpu"))
    if limited is not None:
        found.update(read_fields(throttling, limited + "/cpu.stat"))
    return found


def read_fields(fields: Callable[[str], Dict[str, Any]], path: str) -> Dict[str, Any]:
    """Return the fields of a file; none if it is absent or has another format."""
    try:
        return fields(text(path))
    except (OSError, ValueError, IndexError, KeyError):
        return {}


def text(path: str) -> str:
    """Return up to 64 KiB of a kernel file; machines with many CPUs have the longest."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read(1 << 16)


def cpu_seconds(stat: str) -> Dict[str, Any]:
    """Return busy and stolen seconds of all CPUs (proc(5), ``/proc/stat``; user time includes guest time)."""
    ticks = [int(word) for word in stat.partition("\n")[0].split()[1:]] + [0] * 10
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
    per_second = os.sysconf("SC_CLK_TCK")
    return {"busy_s": (user + nice + system + irq + softirq) / per_second, "steal_s": steal / per_second}


def pressure_s(pressure: str) -> float:
    """Return the total stall seconds of the ``some`` line of a pressure file."""
    line = pressure.partition("\n")[0]
    if not line.startswith("some "):
        raise ValueError(line)
    return int(line.rpartition("total=")[2]) / 1e6


def load(loadavg: str) -> Dict[str, Any]:
    """Return the load average and the number of runnable threads, not counting the caller."""
    words = loadavg.split()
    return {"load": float(words[0]), "runnable": max(0, int(words[3].partition("/")[0]) - 1)}


def throttling(stat: str) -> Dict[str, Any]:
    """Return throttled seconds, throttled periods and all periods from a cgroup's ``cpu.stat`` (v1 or v2)."""
    fields = dict(line.partition(" ")[::2] for line in stat.splitlines())
    seconds = (
        int(fields["throttled_usec"]) / 1e6
        if "throttled_usec" in fields
        else int(fields.get("throttled_time", "0")) / 1e9
    )
    return {
        "throttled_s": seconds,
        "throttled_periods": int(fields.get("nr_throttled", "0")),
        "periods": int(fields["nr_periods"]),
    }


def refaulted(stat: str) -> Dict[str, Any]:
    """Return bytes needed again after they were dropped for lack of memory (``memory.stat``, v1 or v2).

    The kernel's counts are of pages; those of v1 without ``total_`` leave out cgroups inside.
    """
    fields = dict(line.partition(" ")[::2] for line in stat.splitlines())
    before = "total_" if "total_workingset_refault_file" in fields else ""
    pages = [int(fields[before + "workingset_refault_" + what]) for what in ("file", "anon")]
    return {"refaulted_bytes": sum(pages) * os.sysconf("SC_PAGE_SIZE")}


def memory_limit(directories: List[str]) -> Optional[int]:
    """Return the least memory limit of cgroups in bytes; ``None`` where none is below the machine's memory."""
    limits = []
    for directory in directories:
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            try:
                limits.append(int(text(directory + "/" + name)))
            except (OSError, ValueError):  # not of this version, or "max"
                continue
    # Version 1 writes a limit beyond any memory where there is none.
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min((limit for limit in limits if limit < most), default=None)


FILES: Tuple[Tuple[str, Callable[[str], Dict[str, Any]]], ...] = (
    ("/proc/stat", cpu_seconds),
    ("/proc/pressure/cpu", lambda pressure: {"psi_some_s": pressure_s(pressure)}),
    ("/proc/loadavg", load),
)


def cgroup_directories(controller: str, pid: Any = "self") -> List[str]:
    """Return a process's cgroup directories for a controller (v2, or v1 if in use), innermost first."""
    try:
        lines = text("/proc/%s/cgroup" % pid).splitlines()
    except OSError:
        return []
    return [found for line in lines for found in _directories(line, controller)]


def _directories(line: str, controller: str) -> Iterator[str]:
    number, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    roots: List[str] = []
    if number == "0" and not controllers:
        roots = [CGROUPS, CGROUPS + "/unified"]
    elif controller in controllers.split(","):
        roots = [CGROUPS + "/" + controllers, CGROUPS + "/" + controller]
    for root in roots:
        inner = path.rstrip("/")
        while True:
            if os.path.isdir(root + inner):
                yield root + inner
            if not inner:
                break
            inner = inner.rpartition("/")[0]


def quota_cpus(directories: Optional[List[str]] = None) -> Optional[float]:
    """Return the smallest CPU quota of a cgroup and its parents, in cores; ``None`` without a quota.

    `directories` are those of `cgroup_directories`; the default is this process's.
    """
    quotas = []
    for directory in cgroup_directories("cpu") if directories is None else directories:
        try:
            try:
                quota, period = text(directory + "/cpu.max").split()
            except (OSError, ValueError):
                quota, period = (text(directory + "/cpu.cfs_%s_us" % name) for name in ("quota", "period"))
            if int(quota) > 0:
                quotas.append(int(quota) / int(period))
        except (OSError, ValueError, ZeroDivisionError):
            pass  # no quota there, or "max"
    return min(quotas, default=None)


def limiting(directories: List[str]) -> Optional[str]:
    """Return the innermost cgroup that has, or had, a quota: one that counts enforcement periods."""
    for directory in directories:
        periods = read_fields(throttling, directory + "/cpu.stat").get("periods", 0)
        if periods > 0 or quota_cpus([directory]) is not None:
            return directory
    return None
