"""profkit and other profilers at the same work: ``python -m benchmarks.peers [--quick] [--out FILE]``.

Profiles of 1,000 to 100,000 functions are loaded, sorted and compared, up to 1,000 files are summed, and a program of
as many functions is captured. Each peer has an environment of its own, made once in the directory of
``--environments``; a peer that cannot be installed is named with the reason. Each measurement is a process, profkit's
and the peers' in turn. For loading, sorting, comparing and summing only the work is timed, after it was done once on
small files; for captures the whole command is.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import big_profiles
from benchmarks.measuring import ROOT, environment, machine, progress

#: Packages by the peers' names; pstats and cProfile are Python's own, Tachyon is Python 3.15's.
PACKAGES = {
    "snakeviz": "snakeviz",
    "gprof2dot": "gprof2dot",
    "Hatchet": "llnl-hatchet",
    "yappi": "yappi",
    "pyinstrument": "pyinstrument",
    "py-spy": "py-spy",
    "VizTracer": "viztracer",
    "Scalene": "scalene",
}
TACHYON = "Tachyon"
#: A measurement that takes longer is ended, and larger ones are left out; from the second on it is not repeated.
LIMIT_S, REPEATED_TO_S = 30.0, 5.0
#: Calls of the captured program, whatever its number of functions, and functions of a summed file.
_CALLS, _SUMMED = 2_000_000, 1_000
#: Runs the work on two small files first: what it imports and compiles is not timed. Hatchet recurses deeply.
_TIMED = """
import sys, time
sys.setrecursionlimit(100_000)
for names in (["small-1.prof", "small-2.prof"], sys.argv[1:]):
    {before}
    begin = time.perf_counter()
    {work}
print(time.perf_counter() - begin)
"""
#: What is run before the clock and on it, by task and peer. The first of each task is profkit.
_CODE: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "load": {
        "profkit": ("import profkit", "profkit.read(names[0])"),
        "pstats": ("import pstats", "pstats.Stats(names[0])"),
        "snakeviz": (
            "import pstats\nfrom snakeviz.stats import table_rows",
            "table_rows(pstats.Stats(names[0]))",
        ),
        "gprof2dot": ("import gprof2dot", "gprof2dot.PstatsParser(names[0]).parse()"),
        "Hatchet": ("import hatchet", "hatchet.GraphFrame.from_cprofile(names[0])"),
    },
    "sort": {
        "profkit": (
            "import profkit\nrun = profkit.read(names[0])",
            "[row for _, row in zip(range(20), run.functions())]",
        ),
        "pstats": (
            "import io, pstats\nread = pstats.Stats(names[0], stream=io.StringIO())",
            "read.sort_stats('tottime').print_stats(20)",
        ),
        "Hatchet": (
            "import hatchet\nread = hatchet.GraphFrame.from_cprofile(names[0])",
            "read.dataframe.sort_values('time', ascending=False).head(20)",
        ),
    },
    "diff": {
        "profkit": (
            "import profkit",
            "[row for _, row in zip(range(20), profkit.diff(*names).functions())]",
        ),
        "pstats, subtracted by hand": (
            "import pstats",
            """a, b = (pstats.Stats(name).stats for name in names)
sorted((a[key][2] - b[key][2], key) for key in a.keys() & b.keys())[:20]""",
        ),
        "gprof2dot": (
            "import gprof2dot",
            "gprof2dot.main('-f pstats -n 0 -e 0 -o compared.dot --compare'.split() + names)",
        ),
        "Hatchet": (
            "import hatchet",
            """a, b = (hatchet.GraphFrame.from_cprofile(name) for name in names)
(b - a).dataframe.sort_values('time', ascending=False).head(20)""",
        ),
    },
    "aggregate": {
        "profkit": (
            "from profkit.formats.load import load_run\nfrom profkit.model.merge import merge_profiles",
            "merge_profiles([load_run(name).processes[0].threads[0].profile for name in names])",
        ),
        "pstats": ("import pstats", "pstats.Stats(*names)"),
        "gprof2dot": ("import gprof2dot", "gprof2dot.PstatsParser(*names).parse()"),
        "Hatchet": (
            "import functools, hatchet, operator",
            "functools.reduce(operator.add, map(hatchet.GraphFrame.from_cprofile, names))",
        ),
    },
}
#: Options and words of each command that captures ``prog.py``, behind the interpreter of the peer's environment.
_CAPTURES: Mapping[str, tuple[str, ...]] = {
    "the program alone": ("prog.py",),
    "cProfile": ("-m", "cProfile", "-o", "out.cprofile", "prog.py"),
    "yappi": ("-m", "yappi", "-f", "pstat", "-o", "out.yappi", "prog.py"),
    "pyinstrument": ("-m", "pyinstrument", "-o", "out.pyisession", "prog.py"),
    "VizTracer": ("-m", "viztracer", "--quiet", "-o", "out.json", "prog.py"),
    "Scalene": ("-m", "scalene", "run", "-o", "out.scalene.json", "prog.py"),
    TACHYON: ("-m", "profiling.sampling", "run", "--pstats", "-o", "out.tachyon", "prog.py"),
}


@dataclass(frozen=True)
class Environments:
    """Interpreters by peer, versions by peer, and why a peer is missing."""

    pythons: Mapping[str, str]
    versions: Mapping[str, str]
    missing: Mapping[str, str]


def set_up(directory: Path) -> Environments:
    """Make what is not there yet of the peers' environments."""
    pythons, versions, missing = {}, {}, {}
    for name, package in PACKAGES.items():
        python = directory / package / "bin" / "python"
        install = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install", package]
        version = [str(python), "-c", f"from importlib.metadata import version; print(version({package!r}))"]
        try:
            if not python.exists():
                progress(f"{name}: installing")
                _output([sys.executable, "-m", "venv", str(directory / package)])
            if subprocess.run(version, capture_output=True).returncode:
                _output(install)
            pythons[name], versions[name] = str(python), _output(version)
        except subprocess.CalledProcessError as error:
            missing[name] = f"cannot be installed: {_reason(error)}"
    try:
        there = _output([str(ROOT / ".ci" / "newer-pythons")]).splitlines()
        pythons[TACHYON] = next(path for path in there if path.endswith("3.15"))
        versions[TACHYON] = f"of Python {machine(pythons[TACHYON]).rpartition(' ')[2]}"
    except subprocess.CalledProcessError as error:
        missing[TACHYON] = f"no Python 3.15: {_reason(error)}"
    return Environments(pythons, versions, missing)


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _reason(error: subprocess.CalledProcessError) -> str:
    """Return the last line of what a command said that failed."""
    said = (error.stderr or error.stdout or "").strip().splitlines()
    return (said[-1] if said else f"exit code {error.returncode}")[:160]


def _once(command: Sequence[str], cwd: Path, *, whole: bool) -> float:
    """Return seconds of a command: of all of it, or those that it prints; infinite beyond the limit."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return math.inf
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, out, err)
    return time.perf_counter() - begin if whole else float(out.split()[-1])


@dataclass(frozen=True)
class Contender:
    """Who does a task, with a command for each size."""

    name: str
    commands: Mapping[int, Sequence[str]]


class Table:
    """Seconds of one task, measured in turn, as text."""

    def __init__(
        self, title: str, sizes: Sequence[int], contenders: Sequence[Contender], whole: bool
    ) -> None:
        self.title, self.sizes, self.contenders, self.whole = title, sizes, contenders, whole
        self.rounds: dict[tuple[str, int], list[float]] = {}
        self.failed: dict[str, str] = {}

    def measure(self, cwd: Path, repeats: int) -> None:
        """Run everything in turn, size by size."""
        for size in self.sizes:
            for number in range(repeats):
                for one in self.contenders:
                    before = [s for of in self.sizes for s in self.rounds.get((one.name, of), [])]
                    known = self.rounds.setdefault((one.name, size), [])
                    if one.name in self.failed or math.inf in before or (number and known[0] > REPEATED_TO_S):
                        continue
                    try:
                        known.append(_once(one.commands[size], cwd, whole=self.whole))
                    except subprocess.CalledProcessError as error:
                        self.failed[one.name] = f"{self.title}, {size:,}: {_reason(error)}"
                    progress(f"{self.title} {size:,} {one.name}: {known[-1] if known else math.nan:.3f} s")

    def _cell(self, name: str, size: int) -> str:
        ours, own = (self.rounds.get((of, size), []) for of in (self.contenders[0].name, name))
        if not own:
            return "failed" if name in self.failed else ""
        if math.inf in own:
            return f"> {LIMIT_S:.0f} s"
        ratio = statistics.median(b / a for a, b in zip(ours, own, strict=False))
        median = statistics.median(own)
        return f"{median * 1e3:,.{0 if median >= 0.1 else 1}f} ms {ratio:7.2f}×"

    def _growth(self, name: str) -> str:
        points = [
            (math.log(size), math.log(statistics.median(own)))
            for size in self.sizes
            if (own := self.rounds.get((name, size))) and math.inf not in own
        ]
        return f"{statistics.linear_regression(*zip(*points, strict=True)).slope:.2f}" if points[1:] else ""

    def lines(self, unit: str) -> list[str]:
        """Return the rows under a heading."""
        heads = "".join(f"{f'{size:,} {unit}':>22}" for size in self.sizes)
        found = [f"{self.title:<26}{heads}  growth"]
        for one in self.contenders:
            cells = "".join(f"{self._cell(one.name, size):>22}" for size in self.sizes)
            found.append(f"{one.name:<26}{cells}{self._growth(one.name):>8}".rstrip())
        return found


def write_program(directory: Path, functions: int) -> None:
    """Write a program of so many functions, in modules of a thousand, that makes the same number of calls."""
    directory.mkdir()
    for number in range(functions // 1000):
        made = "\n".join(f"def function_{i}(x):\n    return x + {i}\n" for i in range(1000))
        each = "def run(times):\n    for f in ALL:\n        for x in range(times):\n            f(x)\n"
        listed = "ALL = [value for name, value in sorted(globals().items()) if name.startswith('function')]\n"
        (directory / f"module_{number}.py").write_text(f"{made}\n{listed}\n{each}")
    (directory / "prog.py").write_text(
        "import importlib\n"
        f"for number in range({functions // 1000}):\n"
        f"    importlib.import_module(f'module_{{number}}').run({_CALLS // functions})\n"
    )


def _analyses(work: Path, at: Environments, sizes: Sequence[int], files: Sequence[int]) -> list[Table]:
    pythons = {
        **dict.fromkeys(("profkit", "pstats", "pstats, subtracted by hand"), sys.executable),
        **at.pythons,
    }
    for size in sizes:
        for seed in (1, 2):
            big_profiles.write(work / f"{size}-{seed}.prof", size, seed, user=1)
    for number in (1, 2):
        big_profiles.write(work / f"small-{number}.prof", 100, number, user=1)
    for number in range(max(files)):
        big_profiles.write(work / f"file-{number}.prof", _SUMMED, number, user=1)
    tables = []
    for task, codes in _CODE.items():
        of = files if task == "aggregate" else sizes
        contenders = []
        for name, (before, timed) in codes.items():
            if name in at.missing:
                continue
            code = _TIMED.format(before=before.replace("\n", "; "), work=timed.replace("\n", "; "))
            names = {
                size: [f"file-{n}.prof" for n in range(size)]
                if task == "aggregate"
                else [f"{size}-{seed}.prof" for seed in ((1, 2) if task == "diff" else (1,))]
                for size in of
            }
            commands = {size: [pythons[name], "-c", code, *names[size]] for size in of}
            contenders.append(Contender(name, commands))
        tables.append(Table(task, of, contenders, whole=False))
    return tables


def _captures(work: Path, at: Environments, sizes: Sequence[int]) -> list[Table]:
    for size in sizes:
        write_program(work / f"program-{size}", size)
        for python in (sys.executable, *([at.pythons[TACHYON]] if TACHYON in at.pythons else ())):
            _once([python, f"program-{size}/prog.py"], work, whole=True)  # keeps the byte code

    def commands(python: str, *words: str) -> Mapping[int, Sequence[str]]:
        # All run in `work`: the program is named by its directory.
        return {
            size: [python, *(f"program-{size}/prog.py" if w == "prog.py" else w for w in words)]
            for size in sizes
        }

    def ours(target: str, *options: str) -> Mapping[int, Sequence[str]]:
        words = ("-m", "profkit", "capture", "--quiet", "-o", "out.prof", *options, "--", target, "prog.py")
        return commands(sys.executable, *words)

    here = [Contender("profkit capture", ours(sys.executable))]
    here.append(Contender("profkit capture --exact", ours(sys.executable, "--exact")))
    for name, words in _CAPTURES.items():
        if name not in at.missing and name != TACHYON:
            here.append(Contender(name, commands(at.pythons.get(name, sys.executable), *words)))
    if "py-spy" in at.pythons:
        tool = str(Path(at.pythons["py-spy"]).with_name("py-spy"))
        words = ("record", "-f", "raw", "-o", "out.pyspy", "--", at.pythons["py-spy"], "prog.py")
        here.append(Contender("py-spy", commands(tool, *words)))
    tables = [Table("capture", sizes, here, whole=True)]
    if TACHYON in at.pythons:
        python = at.pythons[TACHYON]
        newer = [Contender("profkit capture", ours(python))]
        newer += [
            Contender(name, commands(python, *_CAPTURES[name])) for name in ("the program alone", TACHYON)
        ]
        tables.append(Table("capture, Python 3.15", sizes, newer, whole=True))
    return tables


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, once each: to try it out")
    parser.add_argument("--out", type=Path, help="file for the tables, too")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "peers", metavar="DIR")
    options = parser.parse_args()
    at = set_up(options.environments.resolve())
    sizes, files = (
        ((1_000, 10_000), (10, 100)) if options.quick else ((1_000, 10_000, 100_000), (10, 100, 1_000))
    )
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        tables = [*_analyses(work, at, sizes, files), *_captures(work, at, sizes)]
        for table in tables:
            table.measure(work, 1 if options.quick else 3)
    versions = ", ".join(f"{name} {version}" for name, version in at.versions.items())
    head = (
        f"{datetime.date.today()}, {machine(sys.executable)}; "
        f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    )
    lines = [head, versions, ""]
    for table in tables:
        lines += [*table.lines("files" if table.title == "aggregate" else "functions"), ""]
    lines += [f"{name}: {why}" for name, why in at.missing.items()]
    lines += [f"{name}, {why}" for table in tables for name, why in table.failed.items()]
    text = "\n".join(lines).rstrip() + "\n"
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
