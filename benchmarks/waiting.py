"""What sampling of waiting costs where no compiled tracer runs: ``python -m benchmarks.waiting [VERSION…]``.

One process works under cProfile's collector in slices, in turn with and without samples, beside nobody or beside
busy processes on one CPU. The figures are medians over pairs of slices: CPU time of the process for the same work,
and wall time. Ratios of neighbouring slices of one run see less of the machine's noise than those of two runs would.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from benchmarks.measuring import ROOT, environment
from tests.interpreters import find

#: Most that samples may add to the CPU time of the process, and to its wall time: a program that computes alone.
BAR_CPU, BAR_WALL = 1.02, 1.02

#: ``DRIVER AGENT'S-DIRECTORY THREADS COMPETITORS SLICES SECONDS``
DRIVER = """
import json, os, subprocess, sys, threading, time
sys.path.insert(0, sys.argv[1])
from agent.ticker import Ticker
from agent.tracer import Tracer

threads, competitors, slices = map(int, sys.argv[2:5])
seconds = float(sys.argv[5])

def leaf(n):
    total = 0
    for i in range(n):
        total += i * i
    return total

def branch():
    for _ in range(10):
        leaf(1000)

def work(rounds):
    for _ in range(rounds):
        branch()

def everybody(rounds):
    started = [threading.Thread(target=work, args=(rounds // threads,)) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()

if competitors:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
busy = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(competitors)]
try:
    tracer = Tracer()
    tracer.start(0)
    ticker = Ticker(tracer.sample)
    begun = time.perf_counter()
    work(300)
    rounds = max(threads, int(300 * seconds / (time.perf_counter() - begun)))
    found = []
    for number in range(2 * slices):
        sampled = number % 2 == 1
        if sampled:
            ticker.start()
        cpu, wall, count = time.process_time(), time.perf_counter(), tracer.sampling.samples
        everybody(rounds) if threads > 1 else work(rounds)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if sampled:
            ticker.stop()
        found.append((cpu, wall, (tracer.sampling.samples - count) / wall))
    print(json.dumps(found))
finally:
    for process in busy:
        process.kill()
        process.wait()
"""


def measure(version: str, python: str, threads: int, competitors: int, slices: int, work: Path) -> str:
    """Return one row of the table."""
    (work / "driver.py").write_text(DRIVER)
    command = [python, "driver.py", str(ROOT / "profkit" / "capture")]
    command += [str(threads), str(competitors), str(slices), "0.7"]
    done = subprocess.run(command, cwd=work, env=environment(), stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    pairs = list(zip(found[0::2], found[1::2], strict=True))
    cpu = sorted(b[0] / a[0] for a, b in pairs)
    wall = sorted(b[1] / a[1] for a, b in pairs)
    rate = statistics.median(b[2] for _, b in pairs)
    ratios = statistics.median(cpu), statistics.median(wall)
    # Beside others the wall time is theirs to decide; it is told, not judged.
    within = ratios[0] <= BAR_CPU and (competitors or ratios[1] <= BAR_WALL)
    bar = f"≤ {BAR_CPU:g}" + ("" if competitors else " both")
    return (
        f"{version:<5} {threads:>7} {competitors:>11} {rate:>9.0f} {ratios[0]:>8.3f} ({cpu[0]:.3f}–{cpu[-1]:.3f}) "
        f"{ratios[1]:>8.3f} ({wall[0]:.3f}–{wall[-1]:.3f})  {bar} {'met' if within else 'MISSED'}"
    )


def main() -> None:
    """Measure the versions that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waiting", description=__doc__)
    parser.add_argument(
        "versions", nargs="*", default=["3.11", "3.13"], help="such as 3.12 (default: %(default)s)"
    )
    parser.add_argument(
        "--slices", type=int, default=7, help="pairs of slices a figure (default: %(default)s)"
    )
    options = parser.parse_args()
    print(f"{'':<5} {'threads':>7} {'competitors':>11} {'samples/s':>9} {'CPU with/without':>22} {'wall':>8}")
    with tempfile.TemporaryDirectory() as directory:
        for version in options.versions:
            python = find(version)
            if python is None:
                print(f"{version:<5} no such interpreter on this machine")
                continue
            for threads, competitors in ((1, 0), (8, 0), (1, 3)):
                print(
                    measure(version, python, threads, competitors, options.slices, Path(directory)),
                    flush=True,
                )


if __name__ == "__main__":
    main()
