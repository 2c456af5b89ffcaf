"""What capturing adds to programs: ``python -m benchmarks.overhead [NAME…]``.

Programs of the verdict benchmark in their clean condition (with ``--environment``), and others that a tracer has
trouble with: a genetic search in a Pool, lines parsed in Python, threads that share one GIL, an asyncio server with
its clients, the demo, whose parent polls, another project's tests, and ChainerMN with four ranks where its
environment is. Each runs plain and captured with the budget at its default, in turn. A capture's wall is that of the
target, without packing, less 15 ms for the start; a figure is the median of the ratios to the plain wall, round by
round. *stated* is the same as the run file itself estimates it. Up to 3.11 an
interpreter other than this one needs a tracer of its own (``profkit doctor --build-tracers``): without one the
column of the tiers says so, and the figure is that of snapshots.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import ROOT, interpreter, machine, progress
from benchmarks.overhead.runnable import NAMES, Place, Program, UnavailableError, runnable
from profkit.formats.runfile import read_run
from profkit.model import Process, Run

#: Greatest ratios of the target's wall with the default budget: the median over programs, and the worst.
MEDIAN_BAR, WORST_BAR = 1.05, 1.10
#: Seconds of a start that are not held against a capture.
FIXED_S = 0.015
#: Longest that one run may take, seconds.
PATIENCE_S = 600
#: Ways to capture beside the default, by the option that asks for them.
FURTHER = ("--exact", "--counters-only")


@dataclass(frozen=True, slots=True)
class Captured:
    """One captured run: its wall, seconds; that over what it would be without capture, by its own estimate; tiers."""

    wall: float
    stated: float
    tiers: str


class FailedError(Exception):
    """A run did not end well; says which, and what it wrote last."""


def run(command: Sequence[str], program: Program, env: Mapping[str, str]) -> float:
    """Return the seconds of a process from its start to its end."""
    with tempfile.TemporaryFile("w+") as said:
        begin = time.perf_counter()
        try:
            status = subprocess.run(
                command,
                cwd=program.folder,
                env=env,
                stdout=said,
                stderr=said,
                timeout=PATIENCE_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise FailedError(f"{' '.join(command)}: not done after {PATIENCE_S} s") from None
        took = time.perf_counter() - begin
        if status:
            said.seek(0)
            raise FailedError(f"{' '.join(command)}: ended with {status}: {said.read()[-1000:]}")
    return took


def captured(program: Program, env: Mapping[str, str], way: str) -> Captured:
    """Run a program under capture: by default, or with an option."""
    output = program.folder / "run.prof"
    output.unlink(missing_ok=True)
    options = ("--quiet", *((way,) if way else ()), "-o", str(output))
    run((sys.executable, "-m", "profkit", "capture", *options, "--", *program.command), program, env)
    found = read_run(str(output), edges=False)
    assert found.manifest is not None
    wall = found.manifest.wall_s
    return Captured(wall, stated(found), tiers(found))


def stated(found: Run) -> float:
    """Return the wall over what it would have been, as the main process estimates it; NaN where it does not."""
    main = found.processes[0] if found.processes else None
    if main is None or main.effect is None or not main.wall_s:
        return math.nan
    return main.wall_s / (main.wall_s - main.effect.seconds)


def tiers(found: Run) -> str:
    """Return the tiers of the first process in their order, and of how many others with which."""

    def kinds(process: Process) -> str:
        return "→".join(tier.kind for tier in process.tiers) or "no tracer"

    first, *others = [kinds(process) for process in found.processes]
    return ", ".join([first, *(f"{n} others {kind}" for kind, n in Counter(others).most_common())])


def measure(name: str, program: Program, further: Sequence[str], repeats: int) -> float:
    """Run a program in all ways in turn, print its row, and return its ratio."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(ROOT), **program.variables}
    ways = ("", *further)
    plain: list[float] = []
    seen: list[list[Captured]] = []
    for number in range(repeats + 1):
        wall = run(program.command, program, env)
        rows = [captured(program, env, way) for way in ways]
        progress(
            f"{name} {number}/{repeats}: plain {wall:.2f} s, "
            + ", ".join(f"{way or 'captured'} {row.wall:.2f} s" for way, row in zip(ways, rows, strict=True))
        )
        if number:  # the first warms caches
            plain.append(wall)
            seen.append(rows)
    ratios = [
        sorted((row[way].wall - FIXED_S) / wall for row, wall in zip(seen, plain, strict=True))
        for way in range(len(ways))
    ]
    ratio, *others = [statistics.median(way) for way in ratios]
    # Repeats are to be seen alike: where they are not, all that was seen.
    alike = " | ".join(dict.fromkeys(row[0].tiers for row in seen))
    print(
        f"{name:<15} {statistics.median(plain):8.2f} {ratio:9.3f} ({ratios[0][0]:.2f}–{ratios[0][-1]:.2f})"
        + "".join(f" {other:9.3f}" for other in others)
        + f" {statistics.median(row[0].stated for row in seen):8.3f}  {alike}",
        flush=True,
    )
    return ratio


def main() -> None:
    """Measure what was asked for, or everything that can run here."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--environment", type=Path, help="where the libraries of the verdict benchmark are")
    parser.add_argument("--python", default=sys.executable, help="another interpreter, or a version: 3.12")
    parser.add_argument("--repeats", type=int, default=5, help="rounds a figure (default: %(default)s)")
    parser.add_argument(
        "--work", type=int, default=5, help="of most programs, seconds (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="as --work 1 --repeats 2: a few minutes")
    for way in FURTHER:
        parser.add_argument(way, dest="further", action="append_const", const=way, help="a column more")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"{unknown[0]}: not one of {', '.join(NAMES)}")
    python = interpreter(options.python)
    if python is None:
        parser.error(f"there is no interpreter {options.python}")
    work, repeats = (1, 2) if options.quick else (options.work, options.repeats)
    found: dict[str, float] = {}
    bad: list[str] = []
    further = [way for way in FURTHER if way in (options.further or ())]
    print(
        f"{'':<15} {'plain/s':>8} {'captured':>21}"
        + "".join(f" {way.strip('-')[:8]:>9}" for way in further)
        + f" {'stated':>8}  tiers of the first process, and of others"
    )
    pythons = [python]
    with tempfile.TemporaryDirectory() as directory:
        for name in options.names or NAMES:
            try:
                program = runnable(name, Place(python, options.environment, Path(directory, name), work))
                pythons.append(program.python)
                found[name] = measure(name, program, further, repeats)
            except UnavailableError as error:
                progress(f"{name}: left out, {error}")
            except FailedError as error:
                progress(f"{name}: FAILED, {error}")
                bad.append(name)
    if found:
        median, worst = statistics.median(found.values()), max(found, key=found.__getitem__)
        print(
            f"{len(found)} programs: median {median:.3f} ≤ {MEDIAN_BAR:g} "
            f"{'met' if median <= MEDIAN_BAR else 'MISSED'}, worst {found[worst]:.3f} ({worst}) ≤ {WORST_BAR:g} "
            f"{'met' if found[worst] <= WORST_BAR else 'MISSED'}"
        )
    print(f"{machine(*pythons)}; --work {work}, medians of {repeats} in turn")
    if bad:
        raise SystemExit(f"failed: {', '.join(bad)}")


if __name__ == "__main__":
    main()
