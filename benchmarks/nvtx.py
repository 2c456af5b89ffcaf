"""What an NVTX range costs with profkit's collector: ``python -m benchmarks.nvtx``, nanoseconds a push/pop pair.

Whole processes, one after the other in turn: without a tool, with one that throws everything away, with the
compiled collector, and with the nvtx package's functions replaced by ones that append to a list, which is the
least that recording from Python can cost, and loses all when the process is killed. The figure is what the
collector itself adds to a tool that throws everything away, as a part of what the list costs: the median over the
rounds. Needs a C compiler and the nvtx package.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import environment
from profkit.capture.native import nvtx_library

#: Most that the collector may add, as a part of what appending to a list in Python costs.
BAR = 1.0

WAYS = ("no tool", "null tool", "collector", "list")

#: ``DRIVER WAY PAIRS`` prints one line a case: nanoseconds a pair, the least of five rounds.
DRIVER = """
import sys
from _thread import get_ident
from time import monotonic_ns, perf_counter_ns

way, pairs = sys.argv[1], int(sys.argv[2])
import nvtx

if way == "list":
    events = []
    append = events.append

    class annotate:
        def __init__(self, message=None, color=None, domain=None, category=None, payload=None):
            self.message, self.domain = message, domain
        def __enter__(self):
            append((1, monotonic_ns(), get_ident(), self.domain, self.message))
            return self
        def __exit__(self, *error):
            append((2, monotonic_ns(), get_ident(), self.domain, None))
            return False

    def push_range(message=None, color="blue", domain=None, category=None, payload=None):
        append((1, monotonic_ns(), get_ident(), domain, message))

    def pop_range(domain=None):
        append((2, monotonic_ns(), get_ident(), domain, None))

    nvtx.annotate, nvtx.push_range, nvtx.pop_range = annotate, push_range, pop_range

annotate, push_range, pop_range = nvtx.annotate, nvtx.push_range, nvtx.pop_range
domain = nvtx.get_domain("measured")
attributes = domain.get_event_attributes(message="a name of usual length")
push, pop = domain.push_range, domain.pop_range

def new(n):
    for _ in range(n):
        with annotate("a name of usual length"):
            pass

def reused(n):
    again = annotate("a name of usual length")
    for _ in range(n):
        with again:
            pass

def module(n):
    for _ in range(n):
        push_range("a name of usual length")
        pop_range()

def of_domain(n):
    for _ in range(n):
        push(attributes)
        pop()

cases = [("annotate, new", new), ("annotate, reused", reused), ("push_range/pop_range", module)]
if way != "list":
    cases.append(("Domain API", of_domain))
for name, case in cases:
    least = None
    for _ in range(5):
        begin = perf_counter_ns()
        case(pairs)
        took = (perf_counter_ns() - begin) / pairs
        least = took if least is None else min(least, took)
        if way == "list":
            events.clear()
    print("%s\\t%.2f" % (name, least))
"""


@dataclass(frozen=True)
class Programs:
    """What is run."""

    driver: Path
    caller: Path
    null_tool: Path


def build(work: Path) -> Programs:
    """Write the driver, and compile the caller and the tool that throws everything away."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("there is no C compiler here")
    programs = Programs(work / "driver.py", work / "caller", work / "null_tool.so")
    programs.driver.write_text(DRIVER)
    here = Path(__file__).parent
    flags = [compiler, "-O2", "-w"]
    subprocess.run([*flags, here / "nvtx_caller.c", "-o", programs.caller, "-ldl"], check=True)
    subprocess.run(
        [*flags, "-fPIC", "-shared", here / "nvtx_null_tool.c", "-o", programs.null_tool], check=True
    )
    return programs


def measure(way: str, programs: Programs, pairs: int) -> dict[str, float]:
    """Run one way once; nanoseconds a pair by case."""
    with tempfile.TemporaryDirectory() as spool:
        variables = {k: v for k, v in environment().items() if not k.startswith(("NVTX_", "PROFKIT_"))}
        variables["PROFKIT_SPOOL"] = spool
        tool = {"null tool": programs.null_tool, "collector": nvtx_library()}.get(way)
        if tool is not None:
            variables["NVTX_INJECTION64_PATH"] = str(tool)
        words = [sys.executable, programs.driver, way, str(pairs)]
        found = {
            name: float(value)
            for name, value in (line.split("\t") for line in _output(words, variables).splitlines())
        }
        if way in ("no tool", "null tool", "collector"):
            found["C caller"] = float(_output([programs.caller, str(10 * pairs)], variables))
        if way == "collector" and not list(Path(spool).glob("*.nvtx")):
            sys.exit(f"{way}: nothing was recorded")
    return found


def _output(words: list[object], variables: dict[str, str]) -> str:
    return subprocess.run(
        [os.fspath(word) if isinstance(word, Path) else str(word) for word in words],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def row(name: str, rounds: list[dict[str, dict[str, float]]]) -> str:
    """One case: medians of every way, and the ratio to the list where there is one."""
    cells = [
        f"{statistics.median(r[way][name] for r in rounds):10.1f}" if name in rounds[0][way] else f"{'–':>10}"
        for way in WAYS
    ]
    text = f"{name:<22}" + "".join(cells)
    if name not in rounds[0]["list"]:
        return text
    ratios = sorted((r["collector"][name] - r["null tool"][name]) / r["list"][name] for r in rounds)
    ratio = statistics.median(ratios)
    met = "met" if ratio <= BAR else "MISSED"
    return f"{text}  {ratio:5.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})  ≤ {BAR:g} {met}"


def main() -> None:
    """Measure all ways in turn and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nvtx", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="rounds (default: %(default)s)")
    parser.add_argument(
        "--pairs", type=int, default=100_000, help="push/pop pairs a round (default: %(default)s)"
    )
    options = parser.parse_args()
    if nvtx_library() is None:
        sys.exit("profkit's collector is not built here")
    with tempfile.TemporaryDirectory() as work:
        programs = build(Path(work))
        rounds = [
            {way: measure(way, programs, options.pairs) for way in WAYS} for _ in range(options.repeats)
        ]
    print(
        f"{'ns a push/pop pair':<22}"
        + "".join(f"{way:>10}" for way in WAYS)
        + "  (collector − null tool) / list"
    )
    for name in ("annotate, new", "annotate, reused", "push_range/pop_range", "Domain API", "C caller"):
        print(row(name, rounds), flush=True)


if __name__ == "__main__":
    main()
