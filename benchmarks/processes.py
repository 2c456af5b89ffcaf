"""What a capture adds to processes that live for milliseconds: ``python -m benchmarks.processes [VERSION…]``.

One program starts processes in several ways and takes the time of each; it runs plain and under ``profkit capture``,
in turn. A row has the medians of all processes of a way, what a capture adds, the least time of both, and the median
and range of the ratios of neighbouring runs. The interpreters are those of new environments: what packages do when
Python starts is not measured. The import of PyTorch is, in an interpreter of the version that has it (one of those in
PROFKIT_TEST_PYTHONS, or this one).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import environment, machine, progress
from tests.interpreters import VARIABLE, find, having

#: Of each way to start a process: how the row is called, and the most that a capture may add, as a ratio or in
#: seconds; ``None`` without a goal.
ROWS: dict[str, tuple[str, float | None, float | None]] = {
    "fork": ("os.fork() alone, in the parent", 1.2, None),
    "child": ("fork, os._exit, waitpid", None, None),
    "calls": ("the same, with 10 calls in Python", None, None),
    "subprocess": ("subprocess.run([python, '-c', 'pass'])", None, 0.005),
    "spawn": ("spawn: Process(target=f), start, join", None, 0.005),
    "import": ("subprocess.run([python, '-c', 'import …'])", 1.05, None),
}

#: Processes of a run that import: seconds each.
IMPORTS = 3

#: ``PROGRAM RESULT.json FORKS PROCESSES IMPORTS MODULE PYTHON``, in the target's interpreter.
PROGRAM = """
import os, sys
from time import perf_counter

def nothing():
    pass

def call(n):
    return n and call(n - 1)

def fork(found, calls):
    begun = perf_counter()
    pid = os.fork()
    if not pid:
        if calls:
            call(calls)
        os._exit(0)
    forked = perf_counter()
    os.waitpid(pid, 0)
    found.append(forked - begun)
    return perf_counter() - begun

def main():
    forks, processes, imports = map(int, sys.argv[2:5])
    module, having = sys.argv[5:]
    times = {"fork": []}
    # Modules such as threading have functions of their own called in each child.
    times["child"] = [fork(times["fork"], 0) for _ in range(forks)]
    times["calls"] = [fork([], 10) for _ in range(forks)]
    import json, multiprocessing, subprocess
    spawn = multiprocessing.get_context("spawn")
    for name, count, start in (
        ("subprocess", processes, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)),
        ("spawn", processes, lambda: in_process(spawn)),
        ("import", imports, lambda: subprocess.run([having, "-c", "import " + module], check=True)),
    ):
        found = []
        for _ in range(count):
            begun = perf_counter()
            start()
            found.append(perf_counter() - begun)
        times[name] = found
    with open(sys.argv[1], "w") as stream:
        json.dump(times, stream)

def in_process(context):
    process = context.Process(target=nothing)
    process.start()
    process.join()

if __name__ == "__main__":
    main()
"""


def times(python: str, work: Path, captured: bool, words: Sequence[str]) -> dict[str, list[float]]:
    """Run the program once; return the seconds of each process by the way that it was started."""
    command = [python, "program.py", "times.json", *words]
    if captured:
        (work / "processes.prof").unlink(missing_ok=True)
        command = [sys.executable, "-m", "profkit", "capture", "-o", "processes.prof", "--", *command]
    subprocess.run(
        command, cwd=work, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    found: dict[str, list[float]] = json.loads((work / "times.json").read_text())
    return {name: seconds for name, seconds in found.items() if seconds}


def row(
    version: str, name: str, pairs: list[tuple[dict[str, list[float]], dict[str, list[float]]]], module: str
) -> str:
    """Return one row of the table, from pairs of runs, plain and captured."""
    title, most_ratio, most_s = ROWS[name]
    title = title.replace("…", module)
    medians = [
        (statistics.median(plain[name]), statistics.median(captured[name])) for plain, captured in pairs
    ]
    ratios = sorted(captured / plain for plain, captured in medians)
    added = sorted(captured - plain for plain, captured in medians)
    ratio, more = statistics.median(ratios), statistics.median(added)
    least = [min(min(run[way][name]) for run in pairs) for way in (0, 1)]
    bar = ""
    if most_ratio is not None:
        bar = f"  ≤ {most_ratio:g} × {'met' if ratio <= most_ratio else 'MISSED'}"
    if most_s is not None:
        bar = f"  ≤ {most_s * 1e3:g} ms {'met' if more <= most_s else 'MISSED'}"
    return (
        f"{version:<5} {title:<40} {statistics.median(m[0] for m in medians) * 1e3:7.2f} "
        f"{statistics.median(m[1] for m in medians) * 1e3:8.2f} {more * 1e3:6.2f}  "
        f"{least[0] * 1e3:6.2f} {least[1] * 1e3:6.2f}  {ratio:5.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}){bar}"
    )


def main() -> None:
    """Measure the versions that were asked for, or those of the goals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description=__doc__)
    parser.add_argument("versions", nargs="*", default=["3.11", "3.12"], help="such as 3.12")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of runs (default: %(default)s)")
    parser.add_argument("--forks", type=int, default=200, help="forks of a run (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=20, help="new interpreters of a run, of each kind")
    parser.add_argument("--module", default="torch", help="to be imported (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="as --repeats 2 --forks 50 --processes 5")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.forks, options.processes = 2, 50, 5
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(
        f"{'ms a process':<46} {'plain':>7} {'captured':>8} {'added':>6}  {'least of both':>13}  ratio (of runs)"
    )
    used: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        (work / "program.py").write_text(PROGRAM)
        for version in options.versions:
            python = find(version)
            if python is None:
                print(f"{version:<5} no such interpreter on this machine")
                continue
            subprocess.run([python, "-m", "venv", "--without-pip", work / version], check=True)
            python = str(work / version / "bin" / "python")
            imports = having(options.module, version)
            if imports is None:
                progress(f"{version}: no interpreter with {options.module}; name some in {VARIABLE}")
            counts = (options.forks, options.processes, IMPORTS if imports else 0)
            words = (*map(str, counts), options.module, imports or "")
            pairs = []
            for number in range(options.repeats):
                plain, captured = (times(python, work, how, words) for how in (False, True))
                pairs.append((plain, captured))
                progress(f"{version}: {number + 1} of {options.repeats}")
            for name in pairs[0][0]:
                print(row(version, name, pairs, options.module), flush=True)
            used.append(python)
        print(machine(*used))


if __name__ == "__main__":
    main()
