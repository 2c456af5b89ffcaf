"""Captures that last, fork without end, or meet a full or silent disk: ``python -m benchmarks.soak [CASE…]``.

Each case runs a program plain and under the real ``profkit capture``, watches the launcher's memory and the spool
directory from outside, and holds what it saw to stated bounds; the exit code is 1 where one is missed. What a case
needs of the machine it says: root for a memory cgroup and for small file systems, Debian's ``libfaketime`` for
clocks, ``bindfs`` for a file system that stalls (its process is stopped). ``--quick`` runs a tenth or less.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import PROFKIT, environment, machine, progress
from profkit.formats import load_run
from profkit.model import Run

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
CGROUPS = Path("/sys/fs/cgroup/memory")

#: What every program begins with, and how it ends.
SAYING = """
import json, os, sys, threading, time

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def memory(name="VmHWM"):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":")) / 1024

COUNT, BEFORE = int(sys.argv[1]), descriptors()

def say(**facts):
    facts = dict(facts, memory=memory(), descriptors=descriptors() - BEFORE)
    with open(sys.argv[2], "w") as file:
        json.dump(facts, file)
    print("done")
    raise SystemExit(3)
"""
#: Families of nine processes in three generations, eight families at once.
FORKS = """
def work(n):
    return n and work(n - 1)

def child(below):
    pid = os.fork()
    if pid:
        return pid
    work(20)
    for _ in range(below[0] if below else 0):
        os.waitpid(child(below[1:]), 0)
    os._exit(0)

running = []
for _ in range(COUNT // 9):
    if len(running) == 8:
        os.waitpid(running.pop(0), 0)
    running.append(child([4, 1]))
for pid in running:
    os.waitpid(pid, 0)
say()
"""
THREADS = """
def work():
    return sum(range(10))

running = []
for _ in range(COUNT):
    if len(running) == 16:
        running.pop(0).join()
    thread = threading.Thread(target=work)
    thread.start()
    running.append(thread)
for thread in running:
    thread.join()
say()
"""
#: A half forked, a half new interpreters.
WIDE = """
import subprocess
def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.05)

if sys.argv[2] == "child":
    work(20)
    sys.exit()
others = [subprocess.Popen([sys.executable, sys.argv[0], "0", "child"]) for _ in range(COUNT // 2)]
forked = []
for _ in range(COUNT - COUNT // 2):
    pid = os.fork()
    if not pid:
        work(20)
        os._exit(0)
    forked.append(pid)
for pid in forked:
    os.waitpid(pid, 0)
for other in others:
    other.wait()
say()
"""
#: Sleeps nearly always; a process, a thread and a new function now and then. COUNT is in seconds.
STEADY = """
def work(n):
    return sum(range(n))

began, half, number = time.monotonic(), None, 0
while time.monotonic() < began + COUNT:
    number += 1
    thread = threading.Thread(target=work, args=(1000,))
    thread.start()
    thread.join()
    if number % 10 == 0:
        pid = os.fork()
        if not pid:
            work(1000)
            os._exit(0)
        os.waitpid(pid, 0)
    eval("work(%d)" % number)
    if half is None and time.monotonic() > began + COUNT / 2:
        half = memory("VmRSS")
    time.sleep(PAUSE)
say(half=half, later=memory("VmRSS"), seconds=time.monotonic() - began, children=number // 10)
"""
#: The wall clock goes back, and on; COUNT times.
CLOCK = """
import select
def work(n):
    return sum(range(n))

def one():
    pid = os.fork()
    if not pid:
        work(1000)
        os._exit(0)
    os.waitpid(pid, 0)

began, moved = time.monotonic(), []
for number in range(COUNT):
    with open(os.environ["FAKETIME_TIMESTAMP_FILE"], "w") as file:
        file.write("%+d" % (86400 * (number % 2 * 2 - 1)))
    select.select([], [], [], 0.2)  # libfaketime makes another mistake of time.sleep
    moved.append(time.time())
    one()
say(seconds=time.monotonic() - began, moved=max(moved) - min(moved))
"""
#: The file system with the spool is filled in the middle, by the program itself.
FULL = """
def work(n):
    return n and work(n - 1)

def some():
    for number in range(COUNT):
        pid = os.fork()
        if not pid:
            work(20)
            os._exit(0)
        os.waitpid(pid, 0)
        exec("def f%d(): pass\\nf%d()" % (number, number))

some()
filler = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT)
block = b"x" * 4096
try:
    while True:
        os.write(filler, block)
except OSError as error:
    full = error.errno
some()
say(full=full)
"""
#: Calls without end, and the longest time between two.
LOOP = """
def work(n):
    return n and work(n - 1)

began = last = time.monotonic()
longest = 0.0
number = 0
while last < began + COUNT:
    number += 1
    if number % 1000 == 0:
        exec("def f%d(): pass\\nf%d()" % (number, number))
    work(5)
    now = time.monotonic()
    longest, last = max(longest, now - last), now
say(gap=longest)
"""


@dataclass
class Seen:
    """What was seen of one run, from outside; sizes in MiB."""

    status: int
    wall_s: float
    said: dict[str, Any]
    output: str
    launcher_mib: float = 0.0
    launcher_half_mib: float = 0.0
    packer_mib: float = 0.0
    packing_s: float = 0.0
    spool_mib: float = 0.0
    spool_half_mib: float = 0.0
    spool_files: int = 0
    run_mib: float = 0.0
    left: list[str] = field(default_factory=list)
    errors: str = ""


def field_of(pid: int, name: str) -> float:
    """A size of `/proc/PID/status`, MiB; 0 for a process that is gone."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    return 0.0


def size_of(directory: Path) -> tuple[float, int]:
    """What the files of the spool directories in a directory take on the disk, MiB, and how many they are."""
    total = files = 0
    for spool in directory.glob(".run.prof.spool-*"):
        with contextlib.suppress(OSError):
            for entry in os.scandir(spool):
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    files += 1
    return total / 2**20, files


def shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm"))


def of_session(session: int) -> list[str]:
    """Processes that are left of a session."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(f"process {entry}")
    return found


def run(
    work: Path,
    program: str,
    count: int,
    *,
    captured: bool,
    place: Path | None = None,
    options: tuple[str, ...] = (),
    variables: dict[str, str] | None = None,
    cgroup: Path | None = None,
    beside: Callable[[], None] | None = None,
) -> Seen:
    """Run a program, plain or captured, and watch it; `place` is where the run file is to be."""
    place = place or work
    (work / "program.py").write_text(SAYING + program)
    said, temporary, cache = work / "said.json", work / "tmp", work / "cache"
    said.unlink(missing_ok=True)
    temporary.mkdir(exist_ok=True)
    cache.mkdir(exist_ok=True)
    target = [sys.executable, str(work / "program.py"), str(count), str(said), str(place / "filler")]
    command = [*PROFKIT, "capture", "-q", *options, "-o", str(place / "run.prof"), "--", *target]
    before, began = {*os.listdir(place), "run.prof", "filler"}, time.monotonic()
    shared = shared_memory()
    process = subprocess.Popen(
        command if captured else target,
        cwd=work,
        env={**environment(), "TMPDIR": str(temporary), "XDG_CACHE_HOME": str(cache), **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=(lambda: enter(cgroup)) if cgroup else None,
    )
    watcher = threading.Thread(target=beside, daemon=True) if beside else None
    if watcher:
        watcher.start()
    texts: list[tuple[str, str]] = []
    reader = threading.Thread(target=lambda: texts.append(process.communicate()))
    reader.start()
    seen = Seen(0, 0.0, {}, "")
    samples: list[tuple[float, float]] = []
    ended = due = 0.0
    while reader.is_alive():
        now = time.monotonic()
        if not ended and said.exists():
            ended, due = now, 0.0
        memory = field_of(process.pid, "VmHWM")
        if ended:
            seen.packer_mib = max(seen.packer_mib, memory)
        else:
            seen.launcher_mib = max(seen.launcher_mib, field_of(process.pid, "VmRSS"))
        if captured and now >= due:
            size, files = size_of(place)
            samples.append((size, field_of(process.pid, "VmRSS") if not ended else 0.0))
            seen.spool_mib, seen.spool_files = max(seen.spool_mib, size), max(seen.spool_files, files)
            due = time.monotonic() + max(0.1, 20 * (time.monotonic() - now))
        reader.join(0.05)
    seen.status, seen.wall_s = process.returncode, time.monotonic() - began
    seen.output, seen.errors = texts[0]
    if watcher:
        watcher.join()
    half = samples[: len(samples) // 2] or [(0.0, 0.0)]
    seen.spool_half_mib = max(size for size, _ in half)
    seen.launcher_half_mib = max(memory for _, memory in half)
    seen.packing_s = time.monotonic() - ended if ended else 0.0
    if said.exists():
        seen.said = json.loads(said.read_text())
    with contextlib.suppress(OSError):
        seen.run_mib = (place / "run.prof").stat().st_size / 2**20
    seen.left = [
        *(name for name in os.listdir(place) if name not in before and name != "said.json"),
        *(f"TMPDIR/{name}" for name in os.listdir(temporary)),
        *(f"/dev/shm/{name}" for name in shared_memory() - shared if "profkit" in name),
        *of_session(process.pid),
    ]
    return seen


def enter(cgroup: Path) -> None:
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))


class Bounds:
    """The figures of a case, each with what it may be at most."""

    def __init__(self, case: str) -> None:
        self.case = case
        self.missed = 0

    def figure(self, name: str, value: float, unit: str, most: float | None = None) -> None:
        bar = "" if most is None else f"≤ {most:g} {'met' if value <= most else 'MISSED'}"
        self.missed += most is not None and value > most
        print(f"{self.case:<8} {name:<58} {value:9.2f} {unit:<4} {bar}".rstrip(), flush=True)

    def holds(self, name: str, held: bool, otherwise: str) -> None:
        self.missed += not held
        print(f"{self.case:<8} {name:<58} {'yes' if held else f'NO: {otherwise}'}", flush=True)

    def as_plain(self, plain: Seen, seen: Seen) -> None:
        """What holds for every case."""
        same = (plain.status, plain.output) == (seen.status, seen.output) == (3, "done\n")
        found = f"{plain.status} {plain.errors} | {seen.status} {seen.output!r} {seen.errors}"
        self.holds("the program ended as it does plain", same, found)
        self.holds("nothing left behind", not seen.left, ", ".join(seen.left[:5]))
        more = seen.said.get("descriptors", 0) - plain.said.get("descriptors", 0)
        self.figure("descriptors that the program has more at its end", more, "", 2)

    def sizes(
        self, plain: Seen, seen: Seen, *, packing_s: float, packer_mib: float, launcher_mib: float
    ) -> None:
        self.figure("wall, plain", plain.wall_s, "s")
        self.figure("wall, captured, without packing", seen.wall_s - seen.packing_s, "s")
        self.figure("packing", seen.packing_s, "s", packing_s)
        self.figure("launcher's memory while the program runs", seen.launcher_mib, "MiB", launcher_mib)
        self.figure("launcher's memory while it packs", seen.packer_mib, "MiB", packer_mib)
        self.figure("memory of the program, beyond plain", more_memory(plain, seen), "MiB", 8)
        self.figure("run file", seen.run_mib, "MiB")

    def lists(self, found: Run, processes: int) -> None:
        listed = sum(process.profiled for process in found.processes)
        self.holds("every process is in the run", listed == processes, f"{listed} are ({notices(found)})")


def more_memory(plain: Seen, seen: Seen) -> float:
    return float(seen.said.get("memory", 0.0) - plain.said.get("memory", 0.0))


def calls_of(found: Run, name: str) -> float:
    """Calls of a function in all processes and threads of a run."""
    profiles = [thread.profile for process in found.processes for thread in process.threads]
    return sum(
        float(calls)
        for profile in profiles
        for function, calls in zip(profile.name, profile.ncalls, strict=True)
        if profile.strings[function] == name
    )


def notices(found: Run) -> list[str]:
    return sorted({notice.code for notice in found.warnings})


def forks(bounds: Bounds, work: Path, quick: bool) -> None:
    count = 2_000 if quick else 20_000
    plain = run(work, FORKS, count, captured=False)
    seen = run(work, FORKS, count, captured=True)
    children = count // 9 * 9
    bounds.as_plain(plain, seen)
    bounds.figure("processes", children, "")
    bounds.figure("spool at its largest", seen.spool_mib, "MiB", 100 + children * 9 / 1024)
    bounds.figure("spool for each ended process", seen.spool_mib * 1024 / children, "kB")
    bounds.figure("files in the spool at most", seen.spool_files, "", 4_000)
    bounds.sizes(plain, seen, packing_s=5 + children * 0.01, packer_mib=150 + children / 25, launcher_mib=100)
    bounds.lists(load_run(work / "run.prof"), children + 1)


def threads(bounds: Bounds, work: Path, quick: bool) -> None:
    count = 5_000 if quick else 100_000
    plain = run(work, THREADS, count, captured=False)
    seen = run(work, THREADS, count, captured=True, options=("--exact",))
    bounds.as_plain(plain, seen)
    bounds.figure("threads", count, "")
    bounds.figure("spool at its largest", seen.spool_mib, "MiB", 8)
    bounds.sizes(plain, seen, packing_s=5, packer_mib=150, launcher_mib=100)
    called = calls_of(load_run(work / "run.prof"), "work")
    bounds.holds("calls of every thread are in the run", called == count, f"{called:.0f} are")


def wide(bounds: Bounds, work: Path, quick: bool) -> None:
    count = 40 if quick else 200
    plain = run(work, WIDE, count, captured=False)
    seen = run(work, WIDE, count, captured=True)
    bounds.as_plain(plain, seen)
    bounds.figure("processes at once", count, "")
    bounds.figure("spool for each living process", seen.spool_mib * 1024 / count, "kB", 512)
    bounds.sizes(plain, seen, packing_s=5 + count * 0.02, packer_mib=200, launcher_mib=100)
    bounds.lists(load_run(work / "run.prof"), count + 1)


def steady(bounds: Bounds, work: Path, quick: bool) -> None:
    """Mostly asleep, for 21 minutes."""
    _lasting(bounds, work, 60 if quick else 1_260, 0.5, {})


def day(bounds: Bounds, work: Path, quick: bool) -> None:
    """A day of the launcher's and of the program's clocks in minutes."""
    faster = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "+0 x360"}
    _lasting(bounds, work, 7_200 if quick else 86_400, 60.0, faster)


def _lasting(bounds: Bounds, work: Path, seconds: int, pause: float, variables: dict[str, str]) -> None:
    program = STEADY.replace("PAUSE", str(pause))
    plain = run(
        work, program, min(seconds, 40 if not variables else 7_200), captured=False, variables=variables
    )
    seen = run(work, program, seconds, captured=True, variables=variables)
    bounds.as_plain(plain, seen)
    bounds.figure("the program's clock, in which it ran", seen.said["seconds"], "s")
    children = seen.said["children"]
    bounds.figure("processes that ended", children, "")
    bounds.figure("spool at its largest", seen.spool_mib, "MiB", 25 + children * 9 / 1024)
    bounds.figure("spool, from half-time on", seen.spool_mib - seen.spool_half_mib, "MiB", 16)
    grown = seen.launcher_mib - seen.launcher_half_mib
    bounds.figure("launcher's memory, from half-time on", grown, "MiB", 8)
    bounds.figure("the program's memory, from half-time on", seen.said["later"] - seen.said["half"], "MiB", 2)
    bounds.sizes(plain, seen, packing_s=15, packer_mib=200, launcher_mib=100)
    found = load_run(work / "run.prof")
    bounds.lists(found, children + 1)
    wall = found.manifest.wall_s if found.manifest else 0.0
    # Starting and ending take hours where a day takes minutes.
    beyond = 100 * (wall / seen.said["seconds"] - 1)
    bounds.figure("wall of the run, beyond the program's clock", beyond, "%", 2)


def clock(bounds: Bounds, work: Path, quick: bool) -> None:
    """The wall clock is set two days back and on, again and again."""
    moves = work / "clock"
    moves.write_text("+0")
    variables = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(moves),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    count = 20 if quick else 200
    plain = run(work, CLOCK, count, captured=False, variables=variables)
    moves.write_text("+0")
    seen = run(work, CLOCK, count, captured=True, variables=variables)
    bounds.as_plain(plain, seen)
    bounds.figure("how far the clock was set", seen.said["moved"] / 3600, "h")
    found = load_run(work / "run.prof")
    bounds.lists(found, count + 1)
    wall = found.manifest.wall_s if found.manifest else 0.0
    bounds.figure("wall of the run, off from the program's", abs(wall - seen.said["seconds"]), "s", 2)
    longest = max(process.wall_s or 0.0 for process in found.processes)
    bounds.figure("the longest process, beyond the run", longest - wall, "s", 0.5)


def memory(bounds: Bounds, work: Path, quick: bool) -> None:
    """A cgroup with 256 MB holds launcher and program."""
    count = 500 if quick else 1_000
    with memory_group(256 << 20) as group:
        plain = run(work, FORKS, count, captured=False, cgroup=group)
        alone = group_peak(group)
        (group / "memory.max_usage_in_bytes").write_text("0")
        seen = run(work, FORKS, count, captured=True, cgroup=group)
        failures = int((group / "memory.failcnt").read_text())
        peak = group_peak(group)
        killed = "oom_kill 0" not in (group / "memory.oom_control").read_text()
    bounds.as_plain(plain, seen)
    bounds.holds("nothing was killed for want of memory", not killed, "the kernel killed a process")
    bounds.figure("memory of the group, plain", alone, "MiB")
    bounds.figure("memory of the group, captured, file cache included", peak, "MiB", 256)
    bounds.figure("times the limit was met (the cache gave way)", failures, "")
    bounds.sizes(plain, seen, packing_s=5 + count * 0.01, packer_mib=200, launcher_mib=100)


def group_peak(group: Path) -> float:
    return int((group / "memory.max_usage_in_bytes").read_text()) / 2**20


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    group = CGROUPS / f"profkit-soak-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        yield group
    finally:
        group.rmdir()


@contextlib.contextmanager
def small_disk(work: Path, mib: int) -> Iterator[Path]:
    place = work / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "profkit", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()


def full(bounds: Bounds, work: Path, quick: bool) -> None:
    """The disk of spool and run file is full from the middle on."""
    count = 100 if quick else 1_000
    with small_disk(work, 64) as place:
        plain = run(work, FULL, count, captured=False, place=place)
        (place / "filler").unlink()
        seen = run(work, FULL, count, captured=True, place=place)
        said = seen.errors.strip().splitlines()
        kept = [name for name in seen.left if name.startswith(".run.prof.spool-")]
        bounds.holds("the program ended as it does plain", plain.output == seen.output, seen.errors)
        bounds.figure("its exit code", seen.status, "", 3)
        bounds.holds(
            "one line says that the disk is full", len(said) == 1 and "space" in said[0], seen.errors
        )
        bounds.holds("the records are kept, and nothing else", seen.left == kept != [], str(seen.left))
        (place / "filler").unlink()
        merge = [*PROFKIT, "merge", str(place / kept[0]), "-o", str(place / "run.prof")]
        done = subprocess.run(merge, env=environment(), capture_output=True, text=True, check=False)
        bounds.holds("merge makes the run file", done.returncode == 0, done.stderr)
        found = load_run(place / "run.prof")
        listed = sum(process.profiled for process in found.processes)
        codes = notices(found)
        lacking = listed < 2 * count + 1
        bounds.figure("processes in the run", listed, "")
        bounds.figure("of", 2 * count + 1, "")
        named = {"process-unrecorded", "last-record-failed", "processes-not-listed", "no-record"} & set(codes)
        bounds.holds("the run says what it lacks", not lacking or bool(named), str(codes))


def stall(bounds: Bounds, work: Path, quick: bool) -> None:
    """A FUSE file system with the spool says nothing for 10 s: its process (bindfs) is stopped."""
    real, place = work / "real", work / "mounted"
    real.mkdir()
    place.mkdir()
    server = subprocess.Popen(["bindfs", "-f", str(real), str(place)])
    count = 25 if quick else 60

    def stop() -> None:
        for _ in range(1 if quick else 3):
            time.sleep(8)
            server.send_signal(signal.SIGSTOP)
            time.sleep(10)
            server.send_signal(signal.SIGCONT)

    try:
        while not os.path.ismount(place):
            time.sleep(0.05)
        plain = run(work, LOOP, count, captured=False)
        local = run(work, LOOP, count, captured=True)
        seen = run(work, LOOP, count, captured=True, place=place, beside=stop)
        found = load_run(place / "run.prof")
    finally:
        subprocess.run(["umount", str(place)], check=True)
        server.wait()
    bounds.as_plain(plain, seen)
    bounds.figure("longest gap between two calls, plain", plain.said["gap"] * 1e3, "ms")
    bounds.figure("the same, captured to a local disk", local.said["gap"] * 1e3, "ms")
    bounds.figure("the same, while the spool's disk stalls", seen.said["gap"] * 1e3, "ms", 1_000)
    bounds.holds("the run has functions", calls_of(found, "work") > 0, str(notices(found)))


CASES: dict[str, tuple[Callable[[Bounds, Path, bool], None], str]] = {
    "forks": (forks, ""),
    "threads": (threads, ""),
    "wide": (wide, ""),
    "steady": (steady, ""),
    "day": (day, str(FAKETIME)),
    "clock": (clock, str(FAKETIME)),
    "memory": (memory, str(CGROUPS / "memory.limit_in_bytes")),
    "full": (full, ""),
    "stall": (stall, "/usr/bin/bindfs"),
}


def main() -> None:
    """Run the cases that were asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller programs: a few minutes in all")
    options = parser.parse_args()
    missed = 0
    for name in options.cases or CASES:
        measure, needs = CASES[name]
        if needs and not os.path.exists(needs):
            print(f"{name:<8} left out: no {needs} on this machine")
            continue
        progress(f"{name} …")
        bounds = Bounds(name)
        with tempfile.TemporaryDirectory() as directory:
            measure(bounds, Path(directory), options.quick)
        missed += bounds.missed
    print(machine(sys.executable))
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
