"""What watching from outside costs: ``python -m benchmarks.sampler [--threads 50 …]``.

A program of many threads, all of which run and sleep in turn, so that every look finds all of them changed, runs
with and without a sampler beside it. The first figure is the sampler's own CPU time over the run's wall time, as
it measures itself and `profkit show` tells; the second the program's wall time with it over that without.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import environment
from profkit.capture.agent import settings
from profkit.capture.records import read_samples
from profkit.capture.sampler import SAMPLES_NAME, Sampler

#: Most of one core that the sampler may take, and most by which the program may become slower.
BAR_SHARE, BAR_WALL = 0.01, 1.02

#: ``PROGRAM THREADS SECONDS``: the work is fixed beforehand, so that it takes longer where it is disturbed.
PROGRAM = """
import hashlib, sys, threading, time

number, seconds = int(sys.argv[1]), float(sys.argv[2])
block = bytes(200_000)

def work():
    for _ in range(int(seconds * 30)):
        hashlib.sha256(block).digest()
        time.sleep(0.03)

threads = [threading.Thread(target=work) for _ in range(number)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def run(program: Path, threads: int, seconds: float, spool: Path | None) -> float:
    """Run the program once, watched if there is a spool; return its wall time."""
    command = [sys.executable, str(program), str(threads), str(seconds)]
    extra = {} if spool is None else {settings.SPOOL_VARIABLE: str(spool / "none")}
    begin = time.perf_counter()
    process = subprocess.Popen(command, env={**environment(), **extra})
    sampler = None if spool is None else Sampler(process.pid, spool)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    wall = time.perf_counter() - begin
    if sampler is not None:
        sampler.finish()
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    return wall


def measure(threads: int, seconds: float, repeats: int, work: Path) -> str:
    """Return one row of the table."""
    program = work / "program.py"
    program.write_text(PROGRAM)
    shares, ratios, periods = [], [], []
    for _ in range(repeats):
        plain = run(program, threads, seconds, None)
        watched = run(program, threads, seconds, work)
        found = read_samples(work / SAMPLES_NAME)
        shares.append(found.cpu_s / watched)
        periods.append(found.period_s or 0.0)
        ratios.append(watched / plain)
    share, ratio = statistics.median(shares), statistics.median(ratios)
    met = "met" if share <= BAR_SHARE and ratio <= BAR_WALL else "MISSED"
    return (
        f"{threads:>7} {seconds:>9.1f} {statistics.median(periods) * 1e3:>9.0f} {100 * share:>12.2f} "
        f"({100 * min(shares):.2f}–{100 * max(shares):.2f}) {ratio:>10.3f} ({min(ratios):.3f}–{max(ratios):.3f})  "
        f"≤ {100 * BAR_SHARE:g} % and {BAR_WALL} {met}"
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampler", description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 50, 200], help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a run (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of runs (default: %(default)s)")
    options = parser.parse_args()
    print(f"{'threads':>7} {'run/s':>9} {'period/ms':>9} {'% of a core':>12} {'wall with/without':>26}")
    with tempfile.TemporaryDirectory() as directory:
        for threads in options.threads:
            print(measure(threads, options.seconds, options.repeats, Path(directory)), flush=True)


if __name__ == "__main__":
    main()
