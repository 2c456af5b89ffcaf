"""What is put around a program while it runs: busy neighbours, a quota, stop signals, a store, a held lock.

Each is a context manager that takes away again what it made. Nothing is simulated; nothing is measured here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

#: A busy process ends by itself when the harness dies. What it wants of a CPU is counted in CPU time, so that being
#: kept waiting does not make it want less.
HOG = """
import os, time
while os.getppid() == {parent}:
    end = time.process_time() + 0.1 * {duty}
    while time.process_time() < end:
        sum(range(2000))
    if {duty} < 1:
        time.sleep(0.1 * (1 - {duty}))
"""
#: Holds the write lock of a database for 40 of every 80 milliseconds.
LOCKER = """
import os, sqlite3, time
while not os.path.exists({path!r}) and os.getppid() == {parent}:
    time.sleep(0.01)
book = sqlite3.connect({path!r}, timeout=60, isolation_level=None)
while os.getppid() == {parent}:
    try:
        book.execute("begin immediate")
        time.sleep(0.04)
        book.execute("rollback")
    except sqlite3.OperationalError:
        pass
    time.sleep(0.04)
"""
PERIOD_US = 100_000
#: Length of one cycle of stopping and going on.
STOP_CYCLE_S = 0.2


@contextlib.contextmanager
def _processes(commands: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Start background processes, each in a session of its own as other users' jobs are, and end them."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            started.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
                )
            )
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


@contextlib.contextmanager
def neighbours(count: int, duty: float, cpu: int | None) -> Iterator[list[int]]:
    """Keep so many processes busy for a part of the time; tied to a CPU, or each to its own where they are bursty."""
    cpus = sorted(os.sched_getaffinity(0))
    commands = []
    for i in range(count):
        pinned = cpu if cpu is not None else cpus[i % len(cpus)] if duty < 1 else None
        tied = ["taskset", "-c", str(pinned)] if pinned is not None else []
        commands.append([*tied, sys.executable, "-S", "-c", HOG.format(parent=os.getpid(), duty=duty)])
    with _processes(commands) as pids:
        if pids:
            time.sleep(0.15)  # until they are at it
        yield pids


@contextlib.contextmanager
def store(python: str, script: Path, folder: Path, latency_s: float) -> Iterator[tuple[int, int]]:
    """Serve objects over TCP after a wait; gives the port and the process."""
    named = folder / "port"
    named.unlink(missing_ok=True)
    with _processes([[python, str(script), str(named), str(latency_s)]]) as (pid,):
        until = time.monotonic() + 20
        while not (named.exists() and named.read_text().endswith("\n")):
            if time.monotonic() > until:
                raise RuntimeError("the store did not start")
            time.sleep(0.02)
        yield int(named.read_text()), pid


@contextlib.contextmanager
def held_lock(path: Path) -> Iterator[None]:
    """Hold a database's write lock most of the time, as another user's long transactions do."""
    path.unlink(missing_ok=True)
    with _processes([[sys.executable, "-S", "-c", LOCKER.format(path=str(path), parent=os.getpid())]]):
        yield


@contextlib.contextmanager
def stopping(part: float, pids: Callable[[], Sequence[int]]) -> Iterator[None]:
    """Stop processes for a part of every cycle, and let them go on at the end."""
    if not part:
        yield
        return
    over = threading.Event()

    def send(number: signal.Signals) -> None:
        for pid in pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def cycle() -> None:
        while not over.wait(STOP_CYCLE_S * (1 - part)):
            send(signal.SIGSTOP)
            over.wait(STOP_CYCLE_S * part)
            send(signal.SIGCONT)

    thread = threading.Thread(target=cycle, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        send(signal.SIGCONT)


@contextlib.contextmanager
def quota_group(cores: float) -> Iterator[Path | None]:
    """Make a cgroup with a CPU quota (v2, or v1 where that rules); the process that is to be in it joins by itself.

    Raises
    ------
    OSError
        Not permitted: quotas need root, or a delegated cgroup.
    """
    if not cores:
        yield None
        return
    root = Path("/sys/fs/cgroup")
    v1 = root / "cpu" / "cpu.cfs_quota_us"
    second = not v1.parent.is_dir()
    group = (root if second else v1.parent) / f"profkit-verdict-{os.getpid()}"
    group.mkdir()
    try:
        if second:
            (group / "cpu.max").write_text(f"{int(cores * PERIOD_US)} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD_US)))
        yield group
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:  # the last process has ended but is not gone yet
                time.sleep(0.02)
