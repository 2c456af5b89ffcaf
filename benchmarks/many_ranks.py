"""``profkit ranks`` of a thousand large profiles against the time in which `pstats.Stats` adds them.

Not among the suites of ``python -m benchmarks``: adding the profiles takes pstats minutes.
``python -m benchmarks.many_ranks`` prints the ratio, and the greatest memory of all processes together.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from subprocess import DEVNULL, Popen

from benchmarks import big_profiles
from benchmarks.measuring import environment, seconds

#: Different profiles; the others are copies, which cost either side as much as different ones.
_DIFFERENT = 50


def write(directory: Path, files: int, functions: int) -> None:
    """Write so many profiles of so many functions."""
    for i in range(files):
        path = directory / f"rank-{i:05d}.prof"
        if i < _DIFFERENT:
            big_profiles.write(path, functions, i + 1)
        else:
            shutil.copyfile(directory / f"rank-{i % _DIFFERENT:05d}.prof", path)


def total_memory(command: list[str], cwd: Path) -> tuple[float, int]:
    """Return the wall seconds of a command, and the greatest sum of the resident memory of its processes, bytes."""
    most = 0
    begin = time.perf_counter()
    process = Popen(command, cwd=cwd, env=environment(), stdout=DEVNULL, start_new_session=True)

    def watch() -> None:
        nonlocal most
        while process.poll() is None:
            most = max(most, _resident(process.pid))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.wait()
    wall = time.perf_counter() - begin
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{command} failed with {process.returncode}")
    return wall, most


def _resident(session: int) -> int:
    total = 0
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(stat[3]) == session:
                    total += int(stat[21]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, IndexError):
                continue
    return total


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_ranks", description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write(directory, options.files, options.functions)
        files = sorted(path.name for path in directory.glob("*.prof"))
        add = "import glob, pstats; pstats.Stats(*sorted(glob.glob('*.prof')))"
        ours = [sys.executable, "-m", "profkit", "ranks", "."]
        # Ours before and after: the machine may have become faster or slower meanwhile.
        before, memory = total_memory(ours, directory)
        peer = seconds([sys.executable, "-c", add], directory)
        after, again = total_memory(ours, directory)
        one, _ = total_memory([*ours, "--jobs", "1"], directory)
        print(f"{len(files)} profiles of {options.functions} functions, {len(os.sched_getaffinity(0))} CPUs")
        print(f"pstats.Stats(*files): {peer:.1f} s")
        for title, wall, bar in (
            ("profkit ranks, before", before, "≤ 0.15"),
            ("profkit ranks, after", after, "≤ 0.15"),
            ("profkit ranks --jobs 1", one, ""),
        ):
            print(f"{title}: {wall:.1f} s, {wall / peer:.3f} of it {bar}")
        print(f"greatest memory, all processes: {max(memory, again) / 2**20:.0f} MiB  ≤ 1024")


if __name__ == "__main__":
    main()
