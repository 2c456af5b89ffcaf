"""How right sampled profiles are: ``python -m benchmarks.accuracy [NAME…]``.

Deterministic programs are captured once with ``--exact``, and several times by default and with ``--sampled``, in
turn. Of each capture: which part of the stated 95 % intervals of calls holds the exact number; which part of those
of self time, as shares of all self time, holds the mean of the other captures of that way; and whether the first ten
functions are the same set, but for what intervals leave open. Self times of ``--exact`` are no truth: it slows code
in Python by more than calls in C. So of one function the truth is measured without profkit, as what twice its work
adds to the program's CPU time.

Then one function of the program is given 10, 20 and 50 % more to do, by a variable of the environment, captured by
default, and compared with the default capture of that round: is the function the first that ``profkit diff`` lists?
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import profkit
from benchmarks.accuracy.agreement import (
    FIRST,
    Agreement,
    Functions,
    Truth,
    agreement,
    functions_of,
    leading,
    shares,
)
from benchmarks.measuring import PROFKIT, cpu_of_children, environment, interpreter, machine, progress

HERE = Path(__file__).parent / "programs"
#: Of each program the function that is slowed down.
SLOWED = {
    "ledger": "interest",
    "expressions": "evaluate",
    "arrays": "weigh",
    "texts": "checksum",
    "meadow": "Fox.hunt",
    "orders": "compare",
}
FACTORS = (1.1, 1.2, 1.5)
#: Ways of capture that are compared with the exact one.
WAYS = {"default": (), "sampled": ("--sampled",)}
#: Least parts of intervals that hold, and of runs with the same first functions.
BAR = 0.95
#: Captures of a way, and runs without: with fewer there is nothing to compare with.
FEWEST = 3
#: Longest that one run may take, seconds.
PATIENCE_S = 600


@dataclass(frozen=True, slots=True)
class Slowing:
    """What ``diff`` said of a function that has more to do: the first function that it lists, and its verdict."""

    factor: float
    first: str
    found: bool
    place: int
    cause: str
    confidence: float | None
    wall: float


@dataclass(frozen=True, slots=True)
class Result:
    """All that was seen of a program.

    Attributes
    ----------
    tied
        Exact self time of the tenth function over that of the eleventh: near 1 the first ten are a coin's toss.
    slowed_share
        Of the function that is slowed down, in the exact run.
    """

    name: str
    exact_s: float
    default_s: float
    tied: float
    slowed_share: float
    agreements: dict[str, list[Agreement]]
    slowings: list[Slowing]
    loop_s: float
    exact_says_s: float
    said: dict[str, list[tuple[float, float, bool]]]


def alone(python: str, name: str, work: int, repeats: int, calls: float) -> Truth:
    """Return what the slowed function of a program takes: its work once and twice, in turn, without profkit."""
    took: dict[float, list[float]] = {1.0: [], 2.0: []}
    for _ in range(repeats):
        for slower, of in took.items():
            before = cpu_of_children()
            env = {**environment(), "SLOWER": str(slower)}
            target = [python, str(HERE / f"{name}.py"), str(work)]
            subprocess.run(target, env=env, stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
            of.append(cpu_of_children() - before)
    return Truth(statistics.median(took[2.0]) - statistics.median(took[1.0]), calls)


def capture(
    python: str, name: str, work: int, output: Path, options: Sequence[str] = (), slower: float = 1.0
) -> Path:
    """Capture one run of a program."""
    command = [*PROFKIT, "capture", "--quiet", *options, "-o", str(output)]
    # Not an argument: the command would tell that the two runs differ.
    env = {**environment(), "SLOWER": str(slower)}
    target = [python, str(HERE / f"{name}.py"), str(work)]
    done = subprocess.run(
        [*command, "--", *target],
        cwd=output.parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join([*command, '--', *target])}: ended with {done.returncode}: {done.stderr[-1000:]}"
        )
    return output


def slowing(name: str, factor: float, usual: Path, slow: Path) -> Slowing:
    """Compare two captures, and see what is said first."""
    said = subprocess.run(
        [*PROFKIT, "diff", str(usual), str(slow), "--format", "json"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(said.stdout)
    names = [row["name"] for row in found["functions"]]
    place = names.index(SLOWED[name]) + 1 if SLOWED[name] in names else 0
    verdict = found["verdict"]
    return Slowing(
        factor,
        names[0] if names else "",
        place == 1,
        place,
        verdict["cause"],
        verdict["confidence"],
        found["slowdown"]["value"],
    )


def measure(python: str, name: str, work: int, repeats: int, folder: Path) -> Result:
    """Take all runs of a program in turn, and compare them."""
    folder.mkdir()

    def taken(way: str, options: Sequence[str] = (), slower: float = 1.0) -> tuple[Path, profkit.Run]:
        path = capture(python, name, work, folder / f"{way}.prof", options, slower)
        run = profkit.read(path)
        progress(f"{name} {way}: {run.wall_s:.1f} s")
        return path, run

    whole = taken("exact", ("--exact",))[1]
    exact = functions_of(whole)
    seen: dict[str, list[Functions]] = {way: [] for way in WAYS}
    slowings, walls = [], []
    for number in range(repeats):
        for way, options in WAYS.items():
            path, run = taken(f"{way}-{number}", options)
            seen[way].append(functions_of(run))
            if way == "default":
                usual = path
                walls.append(run.wall_s or 0.0)
        slowings += [
            slowing(name, factor, usual, taken(f"slower-{factor:g}-{number}", slower=factor)[0])
            for factor in FACTORS
        ]
    times = [exact[key].tottime for key in leading(exact, FIRST + 1)]
    slowed = next(key for key in leading(exact) if key[2] == SLOWED[name])
    truth = alone(python, name, work, max(repeats, FEWEST), exact[slowed].calls)
    agreements = {
        way: [agreement(exact, each, [o for o in of if o is not each]) for each in of]
        for way, of in seen.items()
    }
    return Result(
        name,
        whole.wall_s or 0.0,
        statistics.median(walls),
        times[FIRST - 1] / times[FIRST],
        sum(share for key, share in shares(exact).items() if key[2] == SLOWED[name]),
        agreements,
        slowings,
        truth.loop_s,
        exact[slowed].tottime,
        {
            way: [(each[slowed].tottime, each[slowed].error, truth.held(each[slowed])) for each in of]
            for way, of in seen.items()
        },
    )


def part(held: int, of: int) -> str:
    """Return a part in percent and what it is of."""
    return f"{100 * held / of:5.1f} % of {of}" if of else "none"


def held(agreements: Sequence[Agreement]) -> str:
    """Return what several captures of a way have in common, as the columns of a row."""
    calls, busy, times = (
        part(
            sum(getattr(each, f"{what}_held") for each in agreements),
            sum(getattr(each, what) for each in agreements),
        )
        for what in ("calls", "busy", "times")
    )
    same = part(sum(each.same_first for each in agreements), len(agreements))
    worst = 100 * max(each.worst for each in agreements)
    common = statistics.mean(each.common_first for each in agreements)
    wrong = len({text for each in agreements for text in each.wrong})
    unknown = statistics.mean(each.unknown for each in agreements)
    ratio = statistics.median(each.ratio for each in agreements)
    of_calls = f"{calls:>16} {busy:>16} {ratio:>5.2f} {wrong:>6} {unknown:>7.1f}"
    return f"{of_calls} {times:>16} {worst:>7.1f} {same:>14} {common:>7.1f}"


def table(results: Sequence[Result]) -> str:
    """Return the table, and how far the goals are met."""
    of_calls = f"{'calls held':>16} {'of busy ones':>16} {'ratio':>5} {'wrong':>6} {'unknown':>7}"
    of_times = f"{'self time held':>16} {'worst/%':>7} {'same first ten':>14} {'common':>7}"
    lines = [f"{'':<21} {of_calls} {of_times}  exact/s default/s 10th/11th"]
    for result in results:
        walls = f"  {result.exact_s:7.1f} {result.default_s:9.1f} {result.tied:9.2f}"
        lines += [
            f"{result.name:<12} {way:<8} {held(agreements)}{walls if way == 'default' else ''}"
            for way, agreements in result.agreements.items()
        ]
    for way in WAYS:
        every = [each for result in results for each in result.agreements[way]]
        lines.append(f"{'all':<12} {way:<8} {held(every)}  ≥ {100 * BAR:g} % {met(every)}")
    lines.append("")
    lines.append(
        f"{'self time of':<24} {'loop/s':>9} {'exact/s':>8}  stated, and how often it holds the first"
    )
    for result in results:
        cells = "  ".join(
            f"{way} {statistics.median(s for s, _, _ in of):.2f} ± {statistics.median(e for _, e, _ in of):.2f}: "
            f"{sum(yes for *_, yes in of)} of {len(of)}"
            for way, of in result.said.items()
        )
        name = f"{result.name} {SLOWED[result.name]}"
        lines.append(f"{name:<24} {result.loop_s:>9.2f} {result.exact_says_s:>8.2f}  {cells}")
    lines.append("")
    lines.append(f"{'slowed function':<24} {'share':>7}  {'named first, of runs with ' + 'more to do by':<}")
    for result in results:
        name = f"{result.name} {SLOWED[result.name]}"
        cells = "  ".join(found(result.slowings, factor) for factor in FACTORS)
        lines.append(f"{name:<24} {100 * result.slowed_share:5.1f} %  {cells}")
    every_slowing = [each for result in results for each in result.slowings]
    lines.append(f"{'all':<32}  " + "  ".join(found(every_slowing, factor) for factor in FACTORS))
    return "\n".join(lines)


def found(slowings: Sequence[Slowing], factor: float) -> str:
    """Return how often the slowed function was named first, and in which ratios of the walls."""
    of = [each for each in slowings if each.factor == factor]
    ratio = statistics.median(each.wall for each in of)
    return f"{100 * factor - 100:2.0f} %: {sum(each.found for each in of)} of {len(of)} (wall × {ratio:.2f})"


def met(agreements: Sequence[Agreement]) -> str:
    """Say of each goal whether it is met."""
    goals = {
        "calls": (sum(a.calls_held for a in agreements), sum(a.calls for a in agreements)),
        "of busy functions": (sum(a.busy_held for a in agreements), sum(a.busy for a in agreements)),
        "self time": (sum(a.times_held for a in agreements), sum(a.times for a in agreements)),
        "first ten": (sum(a.same_first for a in agreements), len(agreements)),
    }
    return ", ".join(
        f"{goal} {'not asked' if not of else 'met' if yes >= BAR * of else 'MISSED'}"
        for goal, (yes, of) in goals.items()
    )


def main() -> None:
    """Measure what was asked for, or everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SLOWED)} (default: all)")
    parser.add_argument(
        "--python", default=sys.executable, help="another interpreter; arrays needs NumPy in it"
    )
    parser.add_argument("--repeats", type=int, default=5, help="captures of each way (default: %(default)s)")
    parser.add_argument(
        "--work", type=int, default=6, help="seconds of a program, about (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="as --work 2 --repeats 3: ten minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all that was seen")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SLOWED]
    if unknown:
        parser.error(f"{unknown[0]}: not one of {', '.join(SLOWED)}")
    python = interpreter(options.python)
    if python is None:
        parser.error(f"there is no interpreter {options.python}")
    work, repeats = (2, FEWEST) if options.quick else (options.work, options.repeats)
    with tempfile.TemporaryDirectory() as directory:
        results = [
            measure(python, name, work, repeats, Path(directory, name)) for name in options.names or SLOWED
        ]
    where = f"{machine(python)}; --work {work}, {repeats} captures of each way"
    print(f"{table(results)}\n{where}")
    if options.json:
        seen = {"machine": where, "programs": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(seen, indent=1) + "\n")


if __name__ == "__main__":
    main()
