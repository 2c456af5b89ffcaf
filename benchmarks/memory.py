"""Memory that a captured program takes, and that it takes alone and under cProfile: ``python -m benchmarks.memory``.

The programs are those that would make a tracer's tables grow for ever: threads that live for a moment, and functions
that are compiled as the program goes. Each says its largest resident memory when it ends; what the tracer maps is
part of that.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import environment
from tests.interpreters import find

#: Most that a captured program may take, MiB beyond the program alone.
BAR_MIB = 8.0

THREADS = """
import threading

def work():
    return sum(range(10))

for _ in range(20_000):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
THREADS_AT_ONCE = """
import threading

def work():
    barrier.wait()
    return sum(range(10))

barrier = threading.Barrier(50)
for _ in range(400):
    threads = [threading.Thread(target=work) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
EVALUATED = """
def double(number):
    return 2 * number

for number in range(500_000):
    eval(f"double({number}) + {number}")
"""
#: As loky and Dask do: a function that comes with its code, for each task.
TASKS = """
import marshal, types

def task(number):
    return sum(step(n) for n in range(3)) + number

def step(number):
    return number + 1

sent = marshal.dumps(task.__code__)
for number in range(100_000):
    types.FunctionType(marshal.loads(sent), globals(), "task")(number)
"""
PROGRAMS = {
    "20 000 threads, one by one": THREADS,
    "20 000 threads, 50 at once": THREADS_AT_ONCE,
    "eval of 500 000 texts": EVALUATED,
    "100 000 unpickled tasks": TASKS,
}
_SAYS = """
import re
with open("/proc/self/status") as status, open("memory", "w") as file:
    file.write(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1])
"""


def peak(command: list[str], work: Path) -> float:
    """Largest resident memory of the program that a command runs, MiB."""
    (work / "memory").unlink(missing_ok=True)
    subprocess.run(command, cwd=work, env=environment(), check=True)
    return int((work / "memory").read_text()) / 1024


def measure(version: str, name: str, work: Path, repeats: int) -> str:
    """Return the line of one program under one interpreter."""
    python = str(find(version))
    (work / "program.py").write_text(PROGRAMS[name] + _SAYS)
    ways = (
        [python, "program.py"],
        [python, "-m", "cProfile", "-o", "plain.prof", "program.py"],
        [sys.executable, "-m", "profkit", "capture", "-q", "-o", "run.prof", "--", python, "program.py"],
    )
    plain, theirs, ours = (statistics.median(peak(way, work) for _ in range(repeats)) for way in ways)
    met = "met" if ours <= plain + BAR_MIB else "MISSED"
    return f"{version:<5} {name:<28} {plain:8.1f} {theirs:9.1f} {ours:8.1f}   ≤ {plain + BAR_MIB:.1f} {met}"


def report(versions: list[str], repeats: int) -> None:
    """Print a line for each program and version."""
    print(f"{'largest resident memory, MiB':<34} {'plain':>8} {'cProfile':>9} {'captured':>8}   bar")
    with tempfile.TemporaryDirectory() as directory:
        for version in versions:
            if find(version) is None:
                print(f"{version:<5} no such interpreter on this machine")
                continue
            for name in PROGRAMS:
                print(measure(version, name, Path(directory), repeats), flush=True)


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("versions", nargs="*", default=["3.11", "3.12"], help="such as 3.12")
    parser.add_argument("--repeats", type=int, default=1, help="runs a figure (default: %(default)s)")
    options = parser.parse_args()
    report(options.versions, options.repeats)


if __name__ == "__main__":
    main()
