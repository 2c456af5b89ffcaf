"""Whether the neighbour that takes most CPU is named first: ``python -m benchmarks hogs [--repeats 30]``.

Four neighbours that want 1.0, 0.4, 0.2 and 0.1 of a core run beside a program that wants all CPUs but one, so that it
queues: on two CPUs, 2.7 cores are wanted. The sampler watches the program as in a capture. The first figure is the
share of runs in which the greatest neighbour stands first, the second the CPU time of looking at the neighbours over
the run's wall time.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import sampler
from benchmarks.measuring import environment
from profkit.capture.records import read_samples
from profkit.capture.sampler import SAMPLES_NAME

#: Least share of runs, and most of one core.
BAR_NAMED, BAR_SHARE = 0.95, 0.002

#: What each neighbour calls itself, and the cores that it wants.
LOADS = {"nightly-backup": 1.0, "indexer": 0.4, "updater": 0.2, "monitor": 0.1}

#: ``NEIGHBOUR NAME CORES``: runs for its part of every 50 ms, and sleeps for the rest.
NEIGHBOUR = """
import sys, time

name, cores = sys.argv[1], float(sys.argv[2])
with open("/proc/self/comm", "w") as file:
    file.write(name)
while True:
    begin, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < 0.05 * cores:
        pass
    time.sleep(max(0.0, begin + 0.05 - time.monotonic()))
"""

#: ``PROGRAM THREADS SECONDS``: computes that long on an idle machine.
PROGRAM = """
import hashlib, sys, threading

block = bytes(1_000_000)

def work():
    for _ in range(int(float(sys.argv[2]) * 1000)):
        hashlib.sha256(block).digest()

threads = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@contextmanager
def neighbours(work: Path, order: list[str]) -> Iterator[None]:
    """Have all neighbours run, started in that order."""
    program = work / "neighbour.py"
    program.write_text(NEIGHBOUR)
    started = [
        subprocess.Popen([sys.executable, str(program), name, str(LOADS[name])], env=environment())
        for name in order
    ]
    try:
        time.sleep(0.3)  # they start, which is no part of their load
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def run(work: Path, seconds: float) -> tuple[list[str], float]:
    """Run the program once, watched; return the names of its neighbours in order, and what looking cost (1)."""
    program = work / "program.py"
    program.write_text(PROGRAM)
    wall = sampler.run(program, max(1, len(os.sched_getaffinity(0)) - 1), seconds, work)
    found = read_samples(work / SAMPLES_NAME).neighbours
    if found is None:
        return [], 0.0
    return [one.name for one in found.listed], (found.cpu_s or 0.0) / wall


def report(runs: int, seconds: float, seed: int = 7) -> str:
    """Return the figures of so many runs; whatever else runs on this machine is left out."""
    draw = random.Random(seed)
    right, whole, shares = 0, 0, []
    expected = list(LOADS)
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(runs):
            order = draw.sample(expected, len(expected))
            with neighbours(Path(directory), order):
                names, share = run(Path(directory), seconds)
            ranked = [name for name in names if name in LOADS]
            right += ranked[:1] == expected[:1]
            whole += ranked == expected
            shares.append(share)
    share = statistics.median(shares)
    met = "met" if right >= BAR_NAMED * runs and share <= BAR_SHARE else "MISSED"
    return (
        f"greatest of {len(LOADS)} neighbours named first in {right} of {runs} runs (all in order in {whole}); "
        f"looking took {100 * share:.3f} % of a core ({100 * min(shares):.3f}–{100 * max(shares):.3f})  "
        f"≥ {100 * BAR_NAMED:g} % and ≤ {100 * BAR_SHARE:g} % {met}"
    )
