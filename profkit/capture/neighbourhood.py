"""The machine's other processes, weighted by how much the target queued while they ran.

A reading of ``/proc`` costs 10 µs a process, so there are few; children that ended count as their parent's
use.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from profkit.capture.agent.machine import CGROUPS, cgroup_directories
from profkit.capture.agent.process_facts import read_file
from profkit.capture.proc_files import TICKS, process_numbers

_PROC = "/proc"
#: Part of one core that reading may take, and the least seconds between two readings.
SHARE, LEAST_INTERVAL = 0.001, 0.5
#: Least seconds of a difference: the kernel counts ticks of 10 ms.
LEAST_SPAN = 0.1
#: Share of the wall queued, or cores used by others, above which processes are read; seconds to measure.
QUEUES, BUSY, WINDOW = 0.02, 0.25, 0.5
#: Weight of a second without queueing; one in which one thread queues weighs 1.
FAINT = 0.001
#: Most readings that skip an idle process; the number doubles each time.
MOST_LEFT_OUT = 7
#: Most rows that are written, least cores of a row, and similar processes from which they share one.
LISTED, LEAST_CORES, MANY = 8, 0.01, 5
#: Most ended processes that are remembered.
MOST_GONE = 1_000
MOST_GROUPS = 1_000
#: Flag of kernel threads in ``stat`` (``PF_KTHREAD``).
_OF_KERNEL = 0x200000
#: Inode of the first PID namespace (``PROC_PID_INIT_INO``).
_FIRST_NAMESPACE = 0xEFFFFFFC

#: Containers, in the names of cgroups of Docker, Podman, CRI-O, containerd, Kubernetes and LXC.
_CONTAINER = (
    r"(?m)/(?:(?P<engine>docker|libpod|crio|cri-containerd)-)?(?P<id>[0-9a-f]{32,64})(?:\.scope)?(?=/|$)"
)
_LXC = r"/lxc(?:\.payload)?[./](?P<name>[\w.-]+)"
#: A job of Slurm, and a unit of systemd.
_JOB = r"(?m)/(job_\d+)(?=/|$)"
_UNIT = r"(?m)/([^/\n]+\.(?:service|scope|slice))(?=/|$)"


class _Moment(NamedTuple):
    """Counters at a moment; ``others_s`` is the CPU time of all other programs."""

    at: float
    queued_s: float
    others_s: float | None

    @property
    def weight(self) -> float:
        return self.queued_s + FAINT * self.at

    def crowded(self, before: _Moment) -> bool:
        """Return whether, since then, the target queued or others kept a CPU busy."""
        span = self.at - before.at
        if span > 0 and self.queued_s - before.queued_s >= QUEUES * span:
            return True
        if self.others_s is None or before.others_s is None or span < WINDOW:
            return False
        return self.others_s - before.others_s >= BUSY * span


@dataclass(slots=True, eq=False)
class _Seen:
    """One process so far; CPU times in clock ticks."""

    parent: int
    born: int
    name: str = ""
    ticks: int = 0
    child_ticks: int = 0
    # Time of the last reading, and the weight of all time until then.
    at: float = 0.0
    weight: float = 0.0
    # Number of the reading at which it is due, and how many are skipped before.
    due: int = 0
    left_out: int = 0
    # Ticks of ended children that were counted as their own.
    reaped: int = 0
    # Cores × weight: all, and of children that ended.
    weighed: float = 0.0
    of_children: float = 0.0
    uid: int = -1
    group: str = ""

    def rest(self, moment: _Moment, ticks: int, child_ticks: int) -> None:
        """Start the next difference here."""
        self.at, self.weight = moment.at, moment.weight
        self.ticks, self.child_ticks, self.reaped = ticks, child_ticks, 0


class _Groups:
    """Cgroups, whose CPU time may be readable where ``/proc`` hides their processes."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._used: dict[str, float] = {}
        #: Cores × weight, by name of the cgroup.
        self.weighed: dict[str, float] = {}

    def read(self, last: _Moment | None, now: _Moment) -> None:
        """Read all cgroups without children, except the target's and this process's."""
        used = {}
        own = {d for pid in ("self", self._target) for d in cgroup_directories("cpuacct", pid)}
        for directory in _leaves():
            if directory not in own:
                with contextlib.suppress(OSError, ValueError, IndexError):
                    used[directory] = _used_s(directory)
        if last is not None:
            per_second = (now.weight - last.weight) / max(now.at - last.at, 1e-3)
            for directory, seconds in used.items():
                rise = seconds - self._used.get(directory, seconds)
                if rise > 0:
                    name = group_of(directory) or os.path.basename(directory)
                    self.weighed[name] = self.weighed.get(name, 0.0) + rise * per_second
        self._used = used


def _leaves() -> list[str]:
    """Return cgroups without children; in version 1, of the hierarchy that counts CPU time."""
    found: list[str] = []
    root = CGROUPS
    for place in ("cpu,cpuacct", "cpuacct"):
        if os.path.isdir(f"{root}/{place}"):
            root = f"{root}/{place}"
            break
    pending = [root]
    while pending and len(found) + len(pending) < MOST_GROUPS:
        directory = pending.pop()
        try:
            with os.scandir(directory) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        pending += below
        if not below and directory != root:
            found.append(directory)
    return found


def _used_s(directory: str) -> float:
    try:
        return int(read_file(f"{directory}/cpuacct.usage", 32)) / 1e9
    except FileNotFoundError:
        name, used = read_file(f"{directory}/cpu.stat", 512).split()[:2]
        if name != b"usage_usec":
            raise ValueError(directory) from None
        return int(used) / 1e6


class Neighbours:
    """Follows the machine's other processes while the target queues or they keep a CPU busy."""

    def __init__(self, target: int) -> None:
        self._own = os.getpid()
        self._sees_all = _sees_all()
        self._groups = _Groups(target)
        self._seen: dict[int, _Seen] = {}
        self._gone: list[tuple[int, _Seen]] = []
        self._kernel: set[int] = set()
        self._readings = 0
        # ``None`` while nobody is followed; the next reading then only starts a difference.
        self._last: _Moment | None = None
        self._window: _Moment | None = None
        self._next = 0.0
        # Sums while followed: the target's queueing, weight, and cores of all others × weight.
        self._queued = self._weight = self._others = 0.0
        self._others_known = True
        self.cpu_s = 0.0

    def look(
        self,
        members: Container[int],
        queued_s: float,
        ran_s: float,
        busy_s: float | None,
        *,
        final: bool = False,
    ) -> None:
        """Read the machine's processes if it is worth it and due, or `final`; `busy_s` is without our own."""
        others = None if busy_s is None else busy_s - ran_s
        now = _Moment(time.monotonic(), queued_s, others)
        if self._last is None:
            window = self._window = self._window or now
            if final or now.at < self._next or not now.crowded(window):
                if now.at - window.at >= WINDOW:
                    self._window = now
                return
        elif not (final and now.at - self._last.at >= LEAST_SPAN) and now.at < self._next:
            return
        begun = time.thread_time()
        last, self._last = self._last, now
        self._read(members, last, now, everything=last is None or final)
        if not self._sees_all:
            self._groups.read(last, now)
        if last is not None:
            self._weigh_all(last, now)
            if not now.crowded(last):
                self._last, self._window = None, now
        took = time.thread_time() - begun
        self.cpu_s += took
        self._next = now.at + max(LEAST_INTERVAL, took / SHARE)

    def _read(self, members: Container[int], last: _Moment | None, now: _Moment, *, everything: bool) -> None:
        # Clock ticks since boot, as in ``stat``.
        since = (time.clock_gettime(time.CLOCK_BOOTTIME) - (now.at - last.at if last else 0.0)) * TICKS
        self._readings += 1
        try:
            present = process_numbers()
        except OSError:
            return
        self._kernel &= present
        # Children, which are younger, hand what they used to their parents before those end.
        ended = self._seen.keys() - present
        for pid in sorted(ended, key=lambda pid: self._seen[pid].born, reverse=True):
            self._end(pid)
        for pid in present - self._kernel:
            if pid in members or pid == self._own:
                self._seen.pop(pid, None)
                continue
            seen = self._seen.get(pid)
            if seen is not None and seen.due > self._readings and not everything:
                continue
            try:
                data = read_file(f"{_PROC}/{pid}/stat", 1024)
                close = data.rindex(b")")
                fields = data[close + 2 :].split(None, 20)
                if int(fields[6]) & _OF_KERNEL:
                    self._kernel.add(pid)
                    continue
                ticks = int(fields[11]) + int(fields[12])
                child_ticks = int(fields[13]) + int(fields[14])
                born = int(fields[19])
            except (OSError, ValueError, IndexError):
                continue  # it ended, or is hidden
            if seen is not None and seen.born != born:
                self._end(pid)
                seen = None
            known = seen is not None
            if seen is None:
                seen = self._seen[pid] = _Seen(int(fields[1]), born)
            # Programs may rename themselves.
            seen.name = data[data.index(b"(") + 1 : close].decode("utf-8", "replace")
            if last is None or not (known or born >= since):
                seen.rest(now, ticks, child_ticks)
                continue
            if not known:  # it began since the last reading
                seen.rest(last, 0, 0)
            self._weigh(pid, seen, ticks, child_ticks, now)

    def _weigh(self, pid: int, seen: _Seen, ticks: int, child_ticks: int, now: _Moment) -> None:
        """Count what a process used since its last reading."""
        own = max(0, ticks - seen.ticks)
        of_children = max(0, child_ticks - seen.child_ticks - seen.reaped)
        if own or of_children:
            seen.left_out = 0
            per_tick = (now.weight - seen.weight) / max(now.at - seen.at, 1e-3) / TICKS
            seen.weighed += (own + of_children) * per_tick
            seen.of_children += of_children * per_tick
            if seen.uid < 0 and own + of_children >= LEAST_CORES * (now.at - seen.at) * TICKS:
                seen.uid, seen.group = _whose(pid)
        else:
            seen.left_out = min(2 * seen.left_out + 1, MOST_LEFT_OUT)
        seen.due = self._readings + 1 + seen.left_out
        seen.rest(now, ticks, child_ticks)

    def _end(self, pid: int) -> None:
        """Handle the end of a process, whose CPU time is also in its parent's sum if that waits for it."""
        seen = self._seen.pop(pid)
        parent = self._seen.get(seen.parent)
        if parent is not None:
            parent.reaped += seen.ticks + seen.child_ticks + seen.reaped
            parent.due = 0
        if seen.weighed > 0:
            self._gone.append((pid, seen))
            if len(self._gone) > MOST_GONE:
                self._gone.sort(key=lambda item: -item[1].weighed)
                del self._gone[MOST_GONE // 2 :]

    def _weigh_all(self, last: _Moment, now: _Moment) -> None:
        """Count what all other programs used together."""
        weight = now.weight - last.weight
        self._queued += now.queued_s - last.queued_s
        self._weight += weight
        if now.others_s is None or last.others_s is None:
            self._others_known = False
        else:
            self._others += max(0.0, now.others_s - last.others_s) / max(now.at - last.at, 1e-3) * weight

    def as_record(self) -> dict[str, Any] | None:
        """Return the results as values that `marshal` writes; ``None`` if nobody was followed."""
        if self._weight <= 0:
            return None
        rows = _rows([*self._gone, *self._seen.items()], self._groups.weighed, self._weight)
        return {
            "queued_s": self._queued,
            "cores": self._others / self._weight if self._others_known else None,
            "all_visible": self._sees_all,
            "cpu_s": self.cpu_s,
            "listed": rows,
        }


def _rows(
    found: Iterable[tuple[int, _Seen]], groups: Mapping[str, float], weight: float
) -> list[dict[str, Any]]:
    """Return the greatest users first; similar processes share a row, hidden ones are listed by cgroup."""
    alike: dict[tuple[str, int, str], dict[int, list[float]]] = {}
    for pid, seen in found:
        one = alike.setdefault((seen.name, seen.uid, seen.group), {}).setdefault(pid, [0.0, 0.0])
        one[0] += seen.weighed / weight
        one[1] += seen.of_children / weight
    names = _user_names()
    rows: list[dict[str, Any]] = []
    seen_of: dict[str, float] = {}
    for (name, uid, group), processes in alike.items():
        together = [list(processes.items())] if len(processes) >= MANY else [[p] for p in processes.items()]
        for part in together:
            cores = sum(own for _, (own, _) in part)
            seen_of[group] = seen_of.get(group, 0.0) + cores
            rows.append(
                {
                    "name": name,
                    "pid": part[0][0] if len(part) == 1 else None,
                    "processes": len(part),
                    "user": "" if uid < 0 else names.get(uid, str(uid)),
                    "group": group,
                    "cores": cores,
                    "children": sum(ended for _, (_, ended) in part) > 0.5 * cores,
                }
            )
    for name, weighed in groups.items():
        hidden = weighed / weight - seen_of.get(name, 0.0)
        rows.append({"name": "", "pid": None, "user": "", "group": name, "cores": hidden, "children": False})
    rows.sort(key=lambda row: -row["cores"])
    return [row for row in rows[:LISTED] if row["cores"] >= LEAST_CORES]


def _whose(pid: int) -> tuple[int, str]:
    """Return the user of a process (−1 if hidden or gone) and its container, job or unit."""
    try:
        uid = os.stat(f"{_PROC}/{pid}").st_uid
        return uid, group_of(read_file(f"{_PROC}/{pid}/cgroup").decode("utf-8", "replace"))
    except OSError:
        return -1, ""


def group_of(cgroups: str) -> str:
    """Return the container, job or unit of a ``/proc/PID/cgroup``: ``docker 3fa9c1d2e4b5``, ``job_4242``."""
    text = "\n".join(line.split(":", 2)[-1] for line in cgroups.splitlines())
    container = re.search(_CONTAINER, text)
    if container is not None:
        engine = container["engine"] or ("docker" if "/docker/" in text else "container")
        return f"{engine} {container['id'][:12]}"
    lxc = re.search(_LXC, text)
    if lxc is not None:
        return f"lxc {lxc['name']}"
    job = re.search(_JOB, text)
    if job is not None:
        return job[1]
    units = re.findall(_UNIT, text)
    return units[-1] if units else ""


def _user_names() -> dict[int, str]:
    """Return user names by number from the local file; a directory service may never answer."""
    try:
        lines = read_file("/etc/passwd", 1 << 20).decode("utf-8", "replace").splitlines()
        return {int(words[2]): words[0] for line in reversed(lines) if len(words := line.split(":")) > 2}
    except (OSError, ValueError):
        return {}


def _sees_all() -> bool:
    """Return whether ``/proc`` shows the processes of all users and containers."""
    try:
        read_file(f"{_PROC}/1/stat", 64)
        return os.stat(f"{_PROC}/self/ns/pid").st_ino == _FIRST_NAMESPACE
    except OSError:
        return False
