"""Reads the few fields of ``/proc`` that the sampler needs (proc(5)); callers handle ``OSError``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from profkit.capture.agent import process_facts
from profkit.capture.agent.process_facts import read_file, read_stat

#: Clock ticks per second, the unit of CPU times in ``stat``.
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def pid_namespace() -> int | None:
    """Return what identifies the PID namespace of this process; ``None`` without ``/proc``."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


def is_alive(kernel: str, pid: int, born: int | None, namespace: int | None = None) -> bool | None:
    """Return whether a process runs, ``None`` on another `kernel`, or if its PID `namespace` is known and another.

    `born` is in clock ticks since boot.
    """
    if not hasattr(os, "uname") or kernel not in (process_facts.boot_id(), os.uname().nodename):
        return None
    if namespace is not None and namespace != pid_namespace():
        return None
    if not os.path.exists("/proc/self/stat"):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
        return None  # some process has its number
    return born is not None and lives(pid, born)


def lives(pid: int, born: int | None = None) -> bool:
    """Return whether a process runs, and was born at `born` (clock ticks since boot) if given."""
    try:
        _, fields = read_stat(f"/proc/{pid}/stat")
        return born in (None, int(fields[19])) and fields[0] not in (b"Z", b"X")
    except (OSError, ValueError, IndexError):
        return False


def process_numbers(proc: str = "/proc") -> set[int]:
    """Return the numbers of all processes that ``/proc`` shows."""
    return {int(name) for name in os.listdir(proc) if name[0] in "123456789"}


def descendants(root: int) -> list[int]:
    """Return a process and all its descendants, parents first, without the calling one; none without ``/proc``."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[1-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(read_stat(str(stat))[1][1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found += sorted(child for child in children.get(pid, ()) if child != os.getpid())
    return found


def words(pid: int, name: str) -> list[str]:
    """Return the words of a process's ``cmdline`` or ``environ``; none if it is gone or another user's."""
    try:
        data = Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(word) for word in data.split(b"\0") if word]


def last_pid() -> bytes:
    """Return the last assigned process number, empty if unknown (proc(5), loadavg)."""
    try:
        last = read_file("/proc/loadavg", 128).split()[4]
    except (OSError, IndexError):
        return b""
    return b"" if last == b"0" else last


def file_budget(most: int) -> int:
    """Return how many of `most` files may be open; the launcher itself needs some."""
    try:
        import resource
    except ImportError:  # Windows, which has no /proc either
        return 0
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else min(most, soft // 2)
