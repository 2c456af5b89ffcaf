"""What this machine is, and what its kernel has counted; ``None`` where a file is missing (as on macOS)."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profkit.capture.agent import machine, process_facts

if TYPE_CHECKING:
    from profkit.model import Host


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
    from profkit.model import Host  # imports numpy: not before the target has started

    allowed = process_facts.affinity()
    return Host(
        name=platform.node(),
        system=f"{platform.system()} {platform.release()}",
        cpu_model=_cpu_model(),
        cpus=os.cpu_count(),
        affinity=len(allowed) or None,
        quota_cpus=machine.quota_cpus(),
        affinity_cpus=tuple(allowed),
    )


def cpus_to_use() -> float:
    """Return the CPUs that affinity and quota leave to the calling process."""
    affinity = len(process_facts.affinity()) or os.cpu_count() or 1
    return min(float(affinity), machine.quota_cpus() or float("inf"))


def _cpu_model() -> str:
    for key, value in _cpuinfo():
        if key in ("model name", "Processor", "cpu model"):
            return value
    return platform.processor()


def physical_cores() -> int | None:
    """Return the number of physical cores of this machine, ``None`` if the kernel does not say."""
    cores: set[tuple[str, str]] = set()
    package = ""
    for key, value in _cpuinfo():
        if key == "physical id":
            package = value
        elif key == "core id":
            cores.add((package, value))
    return len(cores) or None


def take_reading() -> Reading:
    """Return the machine's counters now, without this process's own CPU time."""
    found = machine.reading()
    if "busy_s" in found:
        found["busy_s"] -= time.process_time()
    return Reading(**found)


def _cpuinfo() -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            yield key.strip(), value.strip()


def has_free_cpu(cpus: float) -> bool:
    """Return whether fewer other threads than `cpus` are ready to run; false if unknown."""
    runnable: int | None = machine.read_fields(machine.load, "/proc/loadavg").get("runnable")
    return runnable is not None and runnable < cpus
