"""Reads the few fields of ``/proc`` that the sampler needs, as proc(5) describes them.

Any file may be missing or unreadable; the caller must handle the ``OSError``.
"""

from __future__ import annotations

import os

from profkit.capture.agent import process_facts
from profkit.capture.agent.process_facts import read_file, read_stat

#: Units of the kernel's CPU times in ``stat``, per second.
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def is_alive(kernel: str, pid: int, born: int | None) -> bool | None:
    """Return whether a process runs and is not another one with its number; ``None`` if unknown.
    It is unknown for another `kernel` (`Record.kernel`) than this one; `born` is in clock ticks since boot.
    """
    if not hasattr(os, "uname") or kernel not in (process_facts.boot_id(), os.uname().nodename):
        return None
    if not os.path.exists("/proc/self/stat"):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
        return None  # some process has its number
    try:
        _, fields = read_stat(f"/proc/{pid}/stat")
        return int(fields[19]) == born and fields[0] not in (b"Z", b"X")
    except (OSError, ValueError, IndexError):
        return False


def last_pid() -> bytes:
    """Return the last number that the kernel assigned, empty if not reported (proc(5), loadavg)."""
    try:
        last = read_file("/proc/loadavg", 128).split()[4]
    except (OSError, IndexError):
        return b""
    return b"" if last == b"0" else last


def file_budget(most: int) -> int:
    """Return how many of `most` files may be open at once; the launcher itself needs some."""
    try:
        import resource
    except ImportError:  # Windows, which has no /proc either
        return 0
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else min(most, soft // 2)
