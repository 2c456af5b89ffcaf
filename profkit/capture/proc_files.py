"""Reads the few fields of ``/proc`` that the sampler needs, as proc(5) describes them.

Any file may be missing or unreadable; the caller must handle the ``OSError``.
"""

from __future__ import annotations

import os

from profkit.capture.agent import process_facts

#: Units of the kernel's CPU times in ``stat``, per second.
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def read_file(path: str, size: int = 4096) -> bytes:
    """Return a small file's bytes in one read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def read_stat(path: str) -> tuple[str, list[bytes]]:
    """Return name and fields from the third on (state is index 0) of a ``stat`` file, proc(5)."""
    data = read_file(path, 2048)
    close = data.rindex(b")")
    name = data[data.index(b"(") + 1 : close].decode("utf-8", "surrogateescape")
    return name, data[close + 2 :].split()


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


def switches(status: bytes) -> tuple[int | None, int | None]:
    """Return voluntary and involuntary context switches from a thread's ``status``."""
    found: list[int | None] = []
    for key in (b"\nvoluntary_ctxt_switches:", b"\nnonvoluntary_ctxt_switches:"):
        at = status.find(key)
        number = status[at + len(key) :].split(None, 1)[:1] if at >= 0 else []
        found.append(int(number[0]) if number else None)
    return found[0], found[1]


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
