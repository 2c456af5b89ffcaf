"""What ``profkit attach`` does to a running program: ``python -m benchmarks.attach [--threads 10 100 300]``.

A program of many threads that sleep, and of one that works a little and sleeps for 1 ms in turn, and takes down
how long each turn took. It runs alone, with ``profkit attach`` (functions sampled by py-spy), and with ``py-spy
record`` as it comes, which stops every thread for each sample. Figures are of the turns in that time, the start and
the end of the tool included; those in brackets are ratios to the program alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.measuring import environment
from profkit.capture.host import read_host
from profkit.capture.pyspy import sampler_command
from profkit.formats import load_run

#: Python that only sleeps or calls a little; it answers with what it took down since the last answer, in ns.
PROGRAM = """
import sys, threading, time

def rest(depth):
    if depth:
        rest(depth - 1)
    else:
        time.sleep(10000)

def leaf(number):
    return number + 1

def work():
    number = 0
    for _ in range(300):
        number = leaf(number)

def answer():
    global turns
    for line in sys.stdin:
        taken, turns = turns, []
        print(*taken, flush=True)

turns = []
for _ in range(int(sys.argv[1]) - 2):
    threading.Thread(target=rest, args=(5,), daemon=True).start()
threading.Thread(target=answer, daemon=True).start()
while True:
    begin = time.perf_counter_ns()
    work()
    time.sleep(0.001)
    turns.append(time.perf_counter_ns() - begin)
"""


@dataclass(frozen=True)
class Turns:
    """Milliseconds of the turns: median, 99th percentile, greatest; how many in a second; CPU of py-spy."""

    p50: float
    p99: float
    most: float
    rate: float
    cpu: float = 0.0
    hz: float = 0.0

    def line(self, threads: int, how: str, plain: Turns) -> str:
        """One row of the table."""
        pairs = (
            (self.p50, plain.p50),
            (self.p99, plain.p99),
            (self.most, plain.most),
            (self.rate, plain.rate),
        )
        figures = [f"{own:7.2f} ({own / alone:5.2f})" for own, alone in pairs]
        return f"{threads:>7}  {how:<15} {'  '.join(figures)}  {100 * self.cpu:10.1f}  {self.hz:9.1f}"


class Program:
    """The program, running."""

    def __init__(self, path: Path, threads: int) -> None:
        words = [sys.executable, str(path), str(threads)]
        self._process = subprocess.Popen(
            words, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        time.sleep(1.0)
        self._answer()

    def _answer(self) -> list[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return [int(word) / 1e6 for word in self._process.stdout.readline().split()]

    def while_runs(self, what: Callable[[], tuple[float, float]]) -> Turns:
        """Take down the turns while something runs, which returns py-spy's part of a CPU and its rate."""
        self._answer()
        begin = time.perf_counter()
        cpu, hz = what()
        seconds = time.perf_counter() - begin
        turns = sorted(self._answer())
        return Turns(
            statistics.median(turns),
            turns[int(0.99 * len(turns))],
            turns[-1],
            len(turns) / seconds,
            cpu,
            hz,
        )

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def measure(threads: int, seconds: float, repeats: int, work: Path) -> list[str]:
    """Return the rows of this number of threads: medians of the repeats."""
    path = work / "program.py"
    path.write_text(PROGRAM)
    program = Program(path, threads)

    def alone() -> tuple[float, float]:
        time.sleep(seconds)
        return 0.0, 0.0

    def attached() -> tuple[float, float]:
        file = work / "attached.prof"
        words = ["attach", str(program.pid), "--duration", str(seconds), "--functions", "sample", "-q"]
        subprocess.run(
            [sys.executable, "-m", "profkit", *words, "-o", str(file)], env=environment(), check=True
        )
        (found,) = (notice.numbers for notice in load_run(file).warnings if notice.code == "attach-sampled")
        file.unlink()
        return float(found["share"]), float(found["rate"])

    def stopping() -> tuple[float, float]:
        words = [str(sampler_command()), "record", "--pid", str(program.pid), "--format", "speedscope"]
        spy = subprocess.Popen(
            [*words, "--subprocesses", "--idle", "--output", str(work / "stacks.json")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(seconds)
        spy.send_signal(signal.SIGINT)
        usage = os.wait4(spy.pid, 0)[2]
        spy.returncode = 0
        return (usage.ru_utime + usage.ru_stime) / seconds, 100.0

    ways = {"alone": alone, "profkit attach": attached, "py-spy record": stopping}
    try:
        found = [{how: program.while_runs(what) for how, what in ways.items()} for _ in range(repeats)]
    finally:
        program.end()
    columns = {how: zip(*(astuple(one[how]) for one in found), strict=True) for how in ways}
    medians = {how: Turns(*map(statistics.median, figures)) for how, figures in columns.items()}
    return [turns.line(threads, how, medians["alone"]) for how, turns in medians.items()]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attach", description=__doc__)
    parser.add_argument(
        "--threads", type=int, nargs="*", default=[10, 100, 300], help="(default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each look (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=1, help="rounds; medians (default: %(default)s)")
    options = parser.parse_args()
    version = subprocess.run(
        [str(sampler_command()), "--version"], capture_output=True, text=True
    ).stdout.strip()
    host = read_host()
    print(f"{host.cpu_model}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {version}")
    print(
        f"{'threads':>7}  {'':<15} {'p50/ms':>15}  {'p99/ms':>15}  {'max/ms':>15}  {'turns a second':>15}  "
        f"{'% of a CPU':>10}  {'samples/s':>9}"
    )
    with tempfile.TemporaryDirectory() as directory:
        for threads in options.threads:
            for row in measure(threads, options.seconds, options.repeats, Path(directory)):
                print(row, flush=True)


if __name__ == "__main__":
    main()
