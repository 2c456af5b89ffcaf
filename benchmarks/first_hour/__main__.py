"""How often the first line is right: ``python -m benchmarks.first_hour [NAME…] --environment ENV``.

Ten programs as an engineer meets them in the first hour with profkit, written by an author who had not read the
rules (cases.py). Each pair is captured, baseline and candidate in turn and in the other order from one pair to the
next, and compared; one row says which cause the headline names, and whether that is right. Of the MPI job one run
is captured, and `profkit ranks` names the rank that holds the others up.

profkit is that of the interpreter which runs this (installed, not that of the working directory), and its variables
for threads are left out, so that libraries start as many threads as they do by themselves. ``--plain`` runs the
programs without profkit and prints their walls alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.first_hour.cases import CASES, SIDES, Answer, Case
from benchmarks.measuring import machine, progress

#: Shares of all pairs: at least so many right, at most so many wrong.
RIGHT_BAR, WRONG_BAR = 28 / 30, 1 / 30
#: Longest that one run may take, seconds.
PATIENCE_S = 180
#: Not passed on to the programs: what makes this checkout importable there, and what limits threads.
LEFT_OUT = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
THREADS = "_NUM_THREADS"
#: Root may start ranks.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
#: What a pair can be.
RIGHT, WRONG, INCONCLUSIVE = "right", "wrong", "inconclusive"


class FailedError(Exception):
    """A command did not end well; says which, and what it wrote last."""


@dataclass(frozen=True, slots=True)
class Row:
    """One pair: the walls of its sides in seconds, what the headline says, and whether that is right.

    ``named_below``: it is wrong for one reason alone, that the name is missing in the headline, and the sentence
    below the headline has it.
    """

    case: str
    pair: int
    baseline_s: float | None
    candidate_s: float | None
    cause: str
    kind: str | None
    headline: str
    confidence: float | None
    outcome: str
    summary: str
    named_below: bool = False

    def line(self) -> str:
        """As it is printed."""
        walls = "".join(
            "       –" if wall is None else f"{wall:8.2f}" for wall in (self.baseline_s, self.candidate_s)
        )
        below = "  [named in the sentence below]" if self.named_below else ""
        said = f"{self.cause:<16} {self.kind or '–':<21}  {self.headline}"
        return f"{self.case:<8}{walls}  {self.outcome:<12}  {said}{below}"


def environment() -> dict[str, str]:
    """The shell's, without what is not the program's."""
    kept = {k: v for k, v in os.environ.items() if k not in LEFT_OUT and not k.endswith(THREADS)}
    return {**kept, **MPI}


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command to its end, and return its output."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"{' '.join(command)}: not done after {PATIENCE_S} s") from None
    if done.returncode:
        raise FailedError(f"{' '.join(command)}: ended with {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout


def capture(case: Case, side: int, python: str, folder: Path, output: Path) -> None:
    """Capture one side in its default mode."""
    command = (sys.executable, "-m", "profkit", "capture", "--quiet", "-o", str(output), "--")
    run((*command, *case.command(side, python)), folder)


def asked(*words: str, folder: Path) -> dict[str, Any]:
    """What a command of profkit says as JSON."""
    answer: dict[str, Any] = json.loads(
        run((sys.executable, "-m", "profkit", *words, "--format", "json"), folder)
    )
    return answer


def accepted(answer: Answer, cause: str, kind: str | None, headline: str) -> bool:
    """Whether this headline is this answer."""
    return (
        cause == answer.cause
        and answer.kind in (None, kind)
        and (not answer.names or any(name in headline for name in answer.names))
    )


def judged(case: Case, cause: str, kind: str | None, headline: str) -> str:
    """Which of the three a headline is."""
    if any(accepted(answer, cause, kind, headline) for answer in case.right):
        return RIGHT
    return INCONCLUSIVE if cause == "inconclusive" else WRONG


def named_below(case: Case, verdict: Mapping[str, Any]) -> bool:
    """Whether a headline that is wrong were right if the sentence below it counted."""
    cause, kind, headline = verdict["cause"], verdict["kind"], verdict["headline"]
    further = judged(case, cause, kind, f"{headline} {verdict['summary']}")
    return judged(case, cause, kind, headline) == WRONG and further == RIGHT


def compare(name: str, case: Case, pair: int, python: str, folder: Path) -> Row:
    """Capture both sides, and ask why one is slower."""
    places = case.stage(folder)
    outputs = [folder / f"{side}.prof" for side in SIDES]
    for side in (0, 1) if pair % 2 else (1, 0):
        capture(case, side, python, places[side], outputs[side])
    found = asked("diff", *map(str, outputs), folder=folder)
    verdict = found["verdict"]
    return Row(
        name,
        pair,
        found["baseline"]["wall_s"],
        found["candidate"]["wall_s"],
        verdict["cause"],
        verdict["kind"],
        verdict["headline"],
        verdict["confidence"],
        judged(case, verdict["cause"], verdict["kind"], verdict["headline"]),
        verdict["summary"],
        named_below(case, verdict),
    )


def rank(name: str, case: Case, pair: int, python: str, folder: Path) -> Row:
    """Capture a job, and ask which rank holds the others up: right are this one alone, and why it does."""
    output = folder / "job.prof"
    capture(case, 0, python, case.stage(folder)[0], output)
    found = asked("ranks", str(output), folder=folder)
    named = [(found["processes"][row["process"]]["rank"], row["kind"]) for row in found["stragglers"]]
    headline = ", ".join(f"rank {number}: {kind}" for number, kind in named) or "no straggler"
    cause = named[0][1] if named else "inconclusive" if found["unclear"] else "none"
    outcome = judged(case, cause, None, headline)
    if [number for number, _ in named] != [case.straggler] and outcome == RIGHT:
        outcome = WRONG
    wall = found["efficiency"]["runtime_s"]
    report = run((sys.executable, "-m", "profkit", "ranks", str(output)), folder).strip()
    return Row(name, pair, wall, None, cause, None, headline, None, outcome, report.partition("\n\n")[0])


def measure(name: str, pair: int, python: str) -> Row:
    """Run one pair of a case in a folder that is thrown away; what fails is wrong."""
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix=f"first-hour-{name}-") as directory:
        try:
            return (rank if case.ranks else compare)(name, case, pair, python, Path(directory))
        except FailedError as error:
            return Row(name, pair, None, None, "failed", None, str(error), None, WRONG, "")


def plain(name: str, python: str, pairs: int) -> Iterator[list[float]]:
    """Run both sides of a case without profkit, `pairs` times; yield their walls."""
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix=f"first-hour-{name}-") as directory:
        places = case.stage(Path(directory))
        for _ in range(pairs):
            walls = []
            for side in (0,) if case.ranks else (0, 1):
                begin = time.perf_counter()
                run(case.command(side, python), places[side])
                walls.append(time.perf_counter() - begin)
            yield walls


def warm(name: str, python: str) -> None:
    """Run both sides once without profkit: libraries that were not used for a while are read from the disk again."""
    try:
        list(plain(name, python, 1))
    except FailedError as error:
        progress(f"{name}: {error}")


def summed(rows: Sequence[Row]) -> str:
    """The last line's first half."""
    n, count = len(rows), Counter(row.outcome for row in rows)
    below = sum(row.named_below for row in rows)
    return (
        f"{count[RIGHT]} of {n} right, {count[WRONG]} wrong, {count[INCONCLUSIVE]} inconclusive "
        f"(goal: >= {round(RIGHT_BAR * n)} right, <= {round(WRONG_BAR * n)} wrong)"
        + (f"; {below} of the wrong have the name in the sentence below the headline" if below else "")
    )


def written(rows: Sequence[Row], where: str) -> Mapping[str, object]:
    """What ``--json`` keeps."""
    return {"machine": where, "result": summed(rows), "rows": [asdict(row) for row in rows]}


def main() -> None:
    """Run what was asked for, or all ten."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_hour", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--environment", type=Path, required=True, help="where the programs' libraries are")
    parser.add_argument("--pairs", type=int, default=3, help="of each case (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows")
    parser.add_argument(
        "--plain", action="store_true", help="print walls without profkit, and compare nothing"
    )
    options = parser.parse_args()
    names = options.names or tuple(CASES)
    for name in names:
        if name not in CASES:
            parser.error(f"{name}: not one of {', '.join(CASES)}")
    python = str((options.environment / "bin" / "python").absolute())
    if not os.access(python, os.X_OK):
        parser.error(f"{options.environment} is no environment: there is no {python}")
    if options.plain:
        for name in names:
            for walls in plain(name, python, options.pairs):
                cells = "".join(f"{wall:8.2f}" for wall in walls)
                print(f"{name:<8}{cells}  {walls[-1] / walls[0]:.2f}×", flush=True)
        return
    rows: list[Row] = []
    print(f"{'':<8}{'base/s':>8}{'cand/s':>8}  {'':<12}  {'cause':<16} {'kind':<21}  first line")
    for name in names:
        warm(name, python)
        for pair in range(1, options.pairs + 1):
            row = measure(name, pair, python)
            rows.append(row)
            print(row.line(), flush=True)
            progress(f"{name} {pair}/{options.pairs}: {row.outcome}. {row.summary}")
    where = machine(sys.executable, python)
    print(f"{summed(rows)}; {where}")
    if options.json is not None:
        options.json.write_text(json.dumps(written(rows, where), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
