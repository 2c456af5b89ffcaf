"""Interleaved repeats of whole processes: what every benchmark here is made of.

Machines are noisy and drift, so the two commands of a ratio run in turn, A B A B …, and the figure is the
median of the ratios pair by pair. Nothing here is a test: a busy machine may not fail a build.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.host import read_host

ROOT = Path(__file__).parents[1]
PROFKIT = [sys.executable, "-m", "profkit"]


@dataclass(frozen=True)
class Ratio:
    """What a comparison gave: medians of both, and of the ratio of pairs with its least and greatest."""

    name: str
    ours_s: float
    peer_s: float
    ratio: float
    least: float
    most: float
    bar: float

    def line(self) -> str:
        """One row of the table that is printed."""
        met = "met" if self.ratio <= self.bar else "MISSED"
        return (
            f"{self.name:<58} {self.ours_s * 1e3:8.1f} {self.peer_s * 1e3:8.1f} "
            f"{self.ratio:6.2f} ({self.least:.2f}–{self.most:.2f})  ≤ {self.bar:<5g} {met}"
        )


def environment() -> dict[str, str]:
    """The shell's environment, one BLAS thread, this checkout importable, and bytecode kept, as a package's is."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"}


def machine(*pythons: str) -> str:
    """What a table was measured on: CPU model and number, and the versions of the interpreters that ran programs."""
    host = read_host()
    code = "import platform; print(platform.python_version())"
    versions = [
        subprocess.run([python, "-E", "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        for python in dict.fromkeys(pythons)
    ]
    return (
        f"{host.cpu_model or 'unknown CPU'}, {host.affinity or host.cpus} CPUs, Python {', '.join(versions)}"
    )


def interpreter(named: str) -> str | None:
    """Return the absolute path of an interpreter, named by a path, a command or a version; None if there is none."""
    from tests.interpreters import find  # pytest is not where profkit alone is installed

    found = shutil.which(named) or find(named)
    # Not resolved: a virtual environment's interpreter is a link.
    return None if found is None else os.path.abspath(found)


def has_module(python: str, module: str) -> bool:
    """Whether an interpreter has a module."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code], check=False, env=environment()).returncode == 0


def cpu_of_children() -> float:
    """CPU seconds of the processes that have ended and were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def progress(text: str) -> None:
    """Say on standard error what has just been done."""
    print(text, file=sys.stderr, flush=True)


def seconds(command: Sequence[str], cwd: Path) -> float:
    """Wall time of a process from its start to its end; its output is thrown away."""
    begin = time.perf_counter()
    subprocess.run(command, cwd=cwd, env=environment(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def compare(
    name: str,
    ours: Sequence[str],
    peer: Sequence[str],
    *,
    bar: float,
    cwd: Path,
    repeats: int,
    allowance_s: float = 0.0,
) -> Ratio:
    """Run both commands in turn, after one warm-up each, and return the median ratio.

    ``allowance_s`` is what the bar grants on top of the ratio, in seconds; it is taken off ours first.
    """
    seconds(ours, cwd), seconds(peer, cwd)
    pairs = [(seconds(ours, cwd) - allowance_s, seconds(peer, cwd)) for _ in range(repeats)]
    ratios = [a / b for a, b in pairs]
    return Ratio(
        name,
        statistics.median(a for a, _ in pairs) + allowance_s,
        statistics.median(b for _, b in pairs),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        bar,
    )


def peak_memory(command: Sequence[str], cwd: Path) -> int:
    """Greatest resident memory of a process, bytes."""
    process = subprocess.Popen(command, cwd=cwd, env=environment(), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_maxrss * 1024
