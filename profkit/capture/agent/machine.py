"""Counters of the machine under a process whose launcher runs on another one, where no sampler looks.

Read at the process's begin and with every record; the packer makes one `Machine` a host of them. Where the
launcher's sampler sees the process, this module is not even imported.
"""

from __future__ import annotations

import os
from time import monotonic

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List

_CGROUPS = "/sys/fs/cgroup"


def reading() -> Dict[str, Any]:
    """Return the fields of `profkit.capture.host.Reading`, as far as this machine has them."""
    found: Dict[str, Any] = {"time_s": monotonic()}
    for read in (_cpu, _pressure, _load, _throttling):
        try:
            read(found)
        except (OSError, ValueError, IndexError, KeyError):
            pass  # this kernel or container does not report it
    return found


def quota_cpus() -> Any:
    """Return the least CPU quota of the process's cgroup and its parents, in cores; ``None`` without one."""
    quotas = []
    for directory in _cgroup_directories():
        try:
            quota, period = _text(directory + "/cpu.max").split()
        except (OSError, ValueError):
            try:
                quota = _text(directory + "/cpu.cfs_quota_us").strip()
                period = _text(directory + "/cpu.cfs_period_us")
            except OSError:
                continue
        try:
            if int(quota) > 0:
                quotas.append(int(quota) / int(period))
        except (ValueError, ZeroDivisionError):
            continue  # "max"
    return min(quotas) if quotas else None


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read(65536)


def _cpu(found: Dict[str, Any]) -> None:
    with open("/proc/stat", encoding="ascii", errors="replace") as file:
        words = file.readline().split()
    ticks = [int(word) for word in words[1:]] + [0] * 8
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
    per_second = os.sysconf("SC_CLK_TCK")
    found["busy_s"] = (user + nice + system + irq + softirq) / per_second
    found["steal_s"] = steal / per_second


def _pressure(found: Dict[str, Any]) -> None:
    line = _text("/proc/pressure/cpu").partition("\n")[0]
    if line.startswith("some "):
        found["psi_some_s"] = int(line.rpartition("total=")[2]) / 1e6


def _load(found: Dict[str, Any]) -> None:
    words = _text("/proc/loadavg").split()
    found["load"] = float(words[0])
    found["runnable"] = max(0, int(words[3].partition("/")[0]) - 1)


def _throttling(found: Dict[str, Any]) -> None:
    for directory in _cgroup_directories():
        try:
            lines = _text(directory + "/cpu.stat").splitlines()
        except OSError:
            continue
        fields = dict(line.partition(" ")[::2] for line in lines)
        if int(fields.get("nr_periods", "0")) == 0:
            continue
        found["throttled_s"] = (
            int(fields["throttled_usec"]) / 1e6
            if "throttled_usec" in fields
            else int(fields.get("throttled_time", "0")) / 1e9
        )
        found["throttled_periods"] = int(fields.get("nr_throttled", "0"))
        found["periods"] = int(fields["nr_periods"])
        return


def _cgroup_directories() -> List[str]:
    """Directories of this process's cgroup that rule its CPU, innermost first."""
    directories = []
    try:
        lines = _text("/proc/self/cgroup").splitlines()
    except OSError:
        return []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            roots = [_CGROUPS, _CGROUPS + "/unified"]
        elif "cpu" in controllers.split(","):
            roots = [_CGROUPS + "/" + controllers, _CGROUPS + "/cpu"]
        else:
            continue
        for root in roots:
            inner = path.rstrip("/")
            while True:
                if os.path.isdir(root + inner):
                    directories.append(root + inner)
                if not inner:
                    break
                inner = inner.rpartition("/")[0]
    return directories
