"""GPU utilisation through NVML, if a driver and ``nvidia-ml-py`` (extra ``gpu``) are installed."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Container, Sequence
from typing import Any

#: Nanoseconds between two queries: one costs a millisecond, and NVML averages over up to a second.
_INTERVAL_NS = 500_000_000

#: The same for what processes use, which costs several.
_PROCESSES_NS = 2_000_000_000

#: The namespace whose process numbers NVML reports.
_FIRST_NAMESPACE = "pid:[4026531836]"

#: Exists with an NVIDIA driver; without it the package is not imported.
_DEVICE = "/dev/nvidiactl"


class Gpus:
    """The GPUs that the target may use."""

    def __init__(self) -> None:
        #: Notices of what could not be read, in JSON form, since their class needs numpy.
        self.notes: list[dict[str, str]] = []
        self._nvml: Any = None
        self._handles: list[Any] = []
        self._next_ns = self._processes_ns = 0
        #: Time of the newest sample of each GPU's processes, us.
        self._seen_us: dict[int, int] = {}
        if not os.path.exists(_DEVICE):
            return
        try:
            import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            self.notes.append({"code": "gpu-package-missing"})
            return
        try:
            pynvml.nvmlInit()
            self._nvml = pynvml
            self._handles = _visible(pynvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
        except pynvml.NVMLError as error:
            self.notes.append({"code": "gpu-not-sampled", "subject": str(error)})

    def read(self, now_ns: int, own: Container[int]) -> dict[str, float]:
        """Return means over the GPUs, 0 to 1, and bytes of memory in use; empty if called too soon.

        `own` are the target's processes: what others use is told apart, unless they have other numbers here.
        """
        if not self._handles or now_ns < self._next_ns:
            return {}
        self._next_ns = now_ns + _INTERVAL_NS
        try:
            rates = [self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in self._handles]
            used = [self._nvml.nvmlDeviceGetMemoryInfo(handle).used for handle in self._handles]
        except self._nvml.NVMLError as error:
            self.notes.append({"code": "gpu-sampling-stopped", "subject": str(error)})
            self._handles = []
            return {}
        found = {"gpu_utilisation": _mean(rates) / 100, "gpu_memory_bytes": float(sum(used))}
        if self._sees_processes:
            with contextlib.suppress(self._nvml.NVMLError):
                found["gpu_processes"] = float(sum(pid in own for pid in self._processes()))
        if now_ns >= self._processes_ns and self._sees_processes:
            self._processes_ns = now_ns + _PROCESSES_NS
            found["gpu_others"] = _mean([self._of_others(at, own) for at in range(len(self._handles))])
        return found

    @functools.cached_property
    def _sees_processes(self) -> bool:
        try:
            there = os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
        except OSError:
            return False
        return there and hasattr(self._nvml, "nvmlDeviceGetProcessUtilization")  # old packages have it not

    def _processes(self) -> set[int]:
        """Return the numbers of the processes that have a context on a GPU."""
        compute = self._nvml.nvmlDeviceGetComputeRunningProcesses
        return {process.pid for handle in self._handles for process in compute(handle)}

    def _of_others(self, at: int, own: Container[int]) -> float:
        """Return the utilisation of a GPU by other processes since the last call."""
        seen = self._seen_us.get(at, 0)
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handles[at], seen)
        except self._nvml.NVMLError:
            return 0.0  # none used it
        self._seen_us[at] = max([seen, *(sample.timeStamp for sample in samples)])
        rates: dict[int, list[int]] = {}
        for sample in samples:
            if sample.pid not in own:
                rates.setdefault(sample.pid, []).append(sample.smUtil)
        return min(1.0, sum(map(_mean, rates.values())) / 100)

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):  # the driver is gone
                self._nvml.nvmlShutdown()
            self._nvml, self._handles = None, []


def _mean(values: Sequence[float]) -> float:
    # The module `statistics` takes 10 ms to import.
    return sum(values) / len(values)


def _visible(nvml: Any, visible: str | None) -> list[Any]:
    """Return the handles for the numbers or UUIDs in ``CUDA_VISIBLE_DEVICES``; all handles without it."""
    if visible is None:
        return [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    handles = []
    for word in visible.split(","):
        name = word.strip()
        if name.isdecimal():
            handles.append(nvml.nvmlDeviceGetHandleByIndex(int(name)))
        elif name.startswith(("GPU-", "MIG-")):
            handles.append(nvml.nvmlDeviceGetHandleByUUID(name))
        else:
            break  # as CUDA does: what follows an invalid entry is not visible
    return handles
