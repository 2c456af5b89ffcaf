"""``python -m benchmarks.advice PYTHON DIRECTORY``: does the first advice of a comparison win back what was lost?

The programs of the verdict benchmark that lose time to their own threads and workers, or for being tied to one CPU,
in the ways in which programs take such a number: from an argument, from a variable, from a number in the source.
Each is captured as it should be and contended, the two are compared, and ``profkit verify`` runs the first advice.
Runs that are not captured say what was lost and what came back. What is there is kept: a call that was stopped goes
on.

PYTHON has the programs' libraries (``python -m benchmarks.verdict setup``). Leave the machine alone meanwhile.

``--corpus DIR`` runs nothing: of every pair of the verdict benchmark's corpus that lost time to the program itself,
it looks whether the first advice undoes what was done, and what it promises.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import profkit
from benchmarks.verdict.catalogue import PROGRAMS, TOO_MANY_PER_CPU
from benchmarks.verdict.corpus import read_corpus
from benchmarks.verdict.pairs import make_pairs
from profkit.verdict.types import Advice

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS_AT = ROOT / "benchmarks" / "verdict" / "programs"
SETTINGS = 'json.loads(Path("settings.json").read_text())'
CPUS = len(os.sched_getaffinity(0))
#: Runs without a capture that say how long the program takes as it should be.
CLEAN_RUNS = 5
#: Part of the clean time below which nothing was lost: runs of one condition differ by as much.
LOST = 0.05
#: What counts as won back, and as harm.
ENOUGH, HARM = 0.8, 0.05


@dataclass(frozen=True, slots=True)
class Case:
    """One pair: a program, what it has too many of, and where it takes the number from."""

    program: str
    size: str
    form: str

    @property
    def name(self) -> str:
        """As it is called in the table and in the directory."""
        return f"{self.program}-{self.size}-{self.form}"


CASES = (
    *(
        Case(p, "threads", form)
        for p in ("train_conv", "infer_omp", "vision_cv")
        for form in ("argument", "code")
    ),
    Case("fit_models", "threads", "variable"),
    *(
        Case(p, "workers", form)
        for p in ("archive_pool", "augment_pool", "poll_pool")
        for form in ("argument", "code")
    ),
    # Surplus threads that take nothing from each other: advice must do no harm.
    *(Case(p, "threads", "argument") for p in ("thumbnails", "digests", "pixels_ne")),
    *(Case(p, "cpus", "pinned") for p in ("vision_cv", "thumbnails", "digests")),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one pair; seconds, medians of runs without a capture."""

    case: str
    verdict: str
    advice: str
    outcome: str
    clean_s: float
    contended_s: float
    advised_s: float | None
    predicted_s: float | None
    least_s: float | None

    @property
    def lost_s(self) -> float:
        """What contention cost."""
        return self.contended_s - self.clean_s

    @property
    def counts(self) -> bool:
        """Whether anything was lost."""
        return self.lost_s > LOST * self.clean_s

    @property
    def kept(self) -> bool:
        """Whether `ENOUGH` came back of the least that was promised."""
        return self.advised_s is not None and self.contended_s - self.advised_s >= ENOUGH * (
            self.least_s or 0.0
        )

    @property
    def won_back(self) -> float:
        """Part (1) of the loss."""
        return (self.contended_s - self.advised_s) / self.lost_s if self.advised_s is not None else 0.0

    @property
    def harmed(self) -> bool:
        """Whether it takes longer with the advice."""
        return self.outcome == "fails" or (self.advised_s or 0.0) > (1 + HARM) * self.contended_s


def main() -> None:
    """Measure what is missing, as far as the time allows, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", type=Path, nargs="?", help="interpreter of the programs")
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--only", nargs="*", default=[case.name for case in CASES], help="cases")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further case after so long")
    parser.add_argument(
        "--work", type=float, default=1.0, help="times as much work as in the verdict benchmark"
    )
    parser.add_argument("--corpus", type=Path, help="look at the pairs of this corpus instead")
    given = parser.parse_args()
    if given.corpus is not None:
        print(_of_corpus(given.corpus))
        return
    if given.python is None or given.directory is None:
        parser.error("name the interpreter of the programs and a directory")
    begun = time.monotonic()
    found = []
    for case in (case for case in CASES if case.name in given.only):
        file = given.directory.resolve() / case.name / "result.json"
        if not file.exists() and time.monotonic() - begun < given.seconds:
            file.parent.mkdir(parents=True, exist_ok=True)
            result = _measured(case, given.python.absolute(), file.parent, given.work)
            if result is None:
                why = "other programs ran, or the capture as it should be was the slower one"
                print(f"{case.name}: left out, {why}", flush=True)
            else:
                file.write_text(json.dumps(asdict(result), indent=1) + "\n")
        if file.exists():
            found.append(Result(**json.loads(file.read_text())))
    print("\n".join(_table(found)))


def _of_corpus(directory: Path) -> str:
    """Say of how many pairs the first advice is to go back to the number, or the CPUs, of the clean runs."""
    pairs, _ = make_pairs(read_corpus(directory))
    itself = frozenset(("self-oversubscription",))
    undone, parts = 0, []
    chosen = [
        p
        for p in pairs
        if p.truth.contended and p.truth.kinds == itself and p.form == "forward" and p.runs == 1
    ]
    for pair in chosen:
        before, after = pair.baseline[0], pair.candidate[0]
        advice = profkit.diff(before.path, after.path).verdict.advice
        first = advice[0] if advice else Advice("")
        clean = round(before.measured.cpus)
        if after.setup.cpu is not None:
            undone += first.argv[:3] == ("taskset", "-c", f"0-{clean - 1}")
        else:
            numbers = re.findall(r"\d+", " ".join((first.subject, *first.env.values())))
            undone += numbers == [str(clean)]
        parts.append(first.predicted_gain_s / (after.measured.wall_s - before.measured.wall_s))
    low, middle, high = statistics.quantiles(parts, n=4)
    return (
        f"In {undone} of {len(chosen)} pairs the first advice undoes what was done; it promises {middle:.2f} of what "
        f"was lost (median; {low:.2f} to {high:.2f} in half of them)."
    )


def _measured(case: Case, python: Path, place: Path, work: float) -> Result | None:
    """Return what came of a pair; ``None`` where other programs took CPUs while it was captured."""
    few, many = (1, 1) if case.size == "cpus" else (CPUS, TOO_MANY_PER_CPU * CPUS)
    commands = {}
    # As the verdict benchmark does: profkit is tied with the program, and the command does not say so.
    tied = {"clean": [], "contended": ["taskset", "-c", "0"] if case.form == "pinned" else []}
    for side, number in (("clean", few), ("contended", many)):
        commands[side] = _staged(case, python, place / side, number, work)
    for side, (command, variables) in commands.items():
        output = place / f"{side}.prof"
        _run(["capture", "-q", "-o", str(output), "--", *command], place / side, variables, tied[side])
    compared = json.loads(_run(["diff", "clean.prof", "contended.prof", "--format", "json"], place, {}))
    verdict, advice = compared["verdict"], compared["verdict"]["advice"]
    if verdict["kind"] == "external-load":
        return None
    tried: dict[str, Any] = {
        "outcome": "no advice",
        "advice": {"kind": ""},
        "after_s": None,
        "predicted_gain_s": None,
        "least_gain_s": None,
    }
    words = [
        "verify",
        "clean.prof",
        "contended.prof",
        "1",
        "--no-profile",
        "-q",
        "--format",
        "json",
        "--limit",
        str(round(40 * work)),
    ]
    if advice and advice[0]["cures"]:
        tried = json.loads(_run(words, place, {}) or json.dumps(tried))
    command, variables = commands["clean"]
    clean = [_seconds(command, place / "clean", variables) for _ in range(CLEAN_RUNS)]
    command, variables = commands["contended"]
    contended = tried.get("before_s") or statistics.median(
        _seconds([*tied["contended"], *command], place / "contended", variables) for _ in range(CLEAN_RUNS)
    )
    lost = contended - statistics.median(clean)
    if compared["account"]["added_s"] <= 0 < lost - LOST * statistics.median(clean):
        return None  # the run as it should be was the slow one of those that were captured
    return Result(
        case.name,
        verdict["cause"],
        advice[0]["kind"] if advice else "",
        tried["outcome"],
        statistics.median(clean),
        contended,
        tried["after_s"],
        tried["predicted_gain_s"],
        tried["least_gain_s"],
    )


def _staged(
    case: Case, python: Path, place: Path, number: int, work: float
) -> tuple[list[str], dict[str, str]]:
    """Put the program into a directory, and return its command and variables."""
    place.mkdir(exist_ok=True)
    program = PROGRAMS[case.program]
    source = (PROGRAMS_AT / f"{case.program}.py").read_text(encoding="utf-8")
    settings = {"work": round(program.work * work), "size": 1.0, "threads": CPUS, "workers": CPUS, "port": 0}
    command = [str(python), f"{case.program}.py"]
    variables = dict(program.environment)
    if case.form == "argument":
        read = f'int(__import__("sys").argv[__import__("sys").argv.index("--{case.size}") + 1])'
        assert SETTINGS in source
        source = source.replace(SETTINGS, f'{{**{SETTINGS}, "{case.size}": {read}}}')
        command += [f"--{case.size}", str(number)]
    elif case.form == "code":
        wanted = f'SETTINGS["{case.size}"]'
        assert wanted in source
        source = source.replace(wanted, str(number))
    elif case.form == "variable":
        variables[program.thread_variable] = str(number)
    (place / f"{case.program}.py").write_text(source, encoding="utf-8")
    (place / "settings.json").write_text(json.dumps(settings))
    return command, variables


def _environment(variables: dict[str, str]) -> dict[str, str]:
    kept = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "PATH", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | variables


def _run(words: list[str], place: Path, variables: dict[str, str], before: Sequence[str] = ()) -> str:
    """Run profkit and return what it printed; empty where there was nothing that it could try."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from profkit.cli import main; main()"
    done = subprocess.run(
        [*before, sys.executable, "-c", start, *words],
        cwd=place,
        env=_environment(variables),
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode not in (0, 2) or (done.returncode == 2 and words[0] != "verify"):
        raise SystemExit(f"profkit {' '.join(words)}: exit status {done.returncode}")
    return done.stdout.decode()


def _seconds(command: list[str], place: Path, variables: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(
        command, cwd=place, env=_environment(variables), stdout=subprocess.DEVNULL, check=True, timeout=120
    )
    return time.perf_counter() - begin


def _table(found: list[Result]) -> Iterator[str]:
    yield "| program, too many of, from | clean | contended | with the first advice | advice | predicted | won back |"
    yield "|---|---|---|---|---|---|---|"
    for one in found:
        after = "–" if one.advised_s is None else f"{one.advised_s:.2f} s"
        least = f"{one.least_s:.2f}" if one.least_s else "up"
        predicted = "–" if one.predicted_s is None else f"{least} to {one.predicted_s:.2f} s"
        won = "–" if not one.counts else f"{one.contended_s - (one.advised_s or one.contended_s):.2f} s"
        part = "nothing was lost" if not one.counts else f"{won}, {one.won_back:.0%}"
        yield (
            f"| `{one.case}` | {one.clean_s:.2f} s | {one.contended_s:.2f} s | {after} | "
            f"{one.advice or one.verdict} | {predicted} | {part} |"
        )
    counted = [one for one in found if one.counts]
    good = sum(one.won_back >= ENOUGH for one in counted)
    yield ""
    yield (
        f"{good} of {len(counted)} pairs that lost time won back 80 % of it or more, and "
        f"{sum(one.kept for one in counted)} 80 % of the least that was promised; "
        f"{sum(one.harmed for one in found)} of {len(found)} were harmed."
    )


if __name__ == "__main__":
    main()
