"""``python -m benchmarks.verdict setup|take|report|confidences|facts``: labelled runs and the score of verdicts."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.verdict.corpus import Sample
    from benchmarks.verdict.judge import Judgement

MARKS = ("<!-- table: written by `python -m benchmarks.verdict report --doc` -->", "<!-- end of table -->")
OF_CONFIDENCES = (
    "<!-- confidences: written by `python -m benchmarks.verdict confidences --doc` -->",
    "<!-- end of confidences -->",
)

#: Where what was learnt is written.
MODULES = Path("profkit")


def main() -> None:
    """Parse the command line and do the one thing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdict", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    for name, text in (
        ("report", "score the verdicts"),
        ("facts", "write what the rules see, a line per pair"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "directory", nargs="*", type=Path, help="what `take` wrote; several are one corpus"
        )
        command.add_argument("--corpus", action="append", type=Path, default=[], help="a further one")
        command.add_argument("--programs", nargs="+", metavar="NAME", help="only these")
        command.add_argument("--arm", choices=["counters", "plain"], help="only this one")
        command.add_argument("-o", "--output", type=Path, help="file to write")
    commands.choices["report"].add_argument("--json", type=Path, help="also write every verdict, a line each")
    commands.choices["report"].add_argument("--summary", type=Path, help="write the figures as JSON")
    commands.choices["report"].add_argument(
        "--doc", type=Path, help="put the tables between the marks of this file"
    )
    commands.choices["report"].add_argument(
        "--wrong", action="store_true", help="also list wrong verdicts, and the pairs left out"
    )
    commands.choices["report"].add_argument(
        "--learnt",
        action="store_true",
        help="use weights and noise as they are, not those learnt without each program",
    )

    commands.choices["report"].add_argument(
        "--learn",
        action="store_true",
        help="write the weights that were learnt into profkit/compare/starvation_weights.py",
    )

    command = commands.add_parser(
        "confidences", help="score the confidences, from verdicts of `report --json`"
    )
    command.add_argument("verdicts", nargs="+", type=Path, help="what `report --json` wrote")
    command.add_argument(
        "--arm",
        nargs="+",
        choices=["counters", "plain", "alone"],
        help="only these: the others keep what they have",
    )
    command.add_argument("--rules", nargs="+", metavar="ID", help="learn only of these")
    command.add_argument("--doc", type=Path, help="put the tables between the marks of this file")
    command.add_argument(
        "--learn", action="store_true", help="write what was learnt into profkit/verdict/calibration.py"
    )

    command = commands.add_parser("setup", help="make the programs' environment")
    command.add_argument("environment", type=Path)
    command.add_argument("--python", default=sys.executable, help="interpreter to make it with")

    command = commands.add_parser(
        "take", help="run every program under every condition; goes on where it stopped"
    )
    command.add_argument("directory", type=Path)
    command.add_argument("--environment", type=Path, required=True, help="what `setup` made")
    command.add_argument("--programs", nargs="+", metavar="NAME", help="only these")
    command.add_argument("--conditions", nargs="+", metavar="NAME", default=[], help="only these, and clean")
    command.add_argument("--repeats", type=int, default=5, help="runs a condition; twice as many clean")
    command.add_argument(
        "--noisy", action="store_true", help="do not wait for a quiet machine: to try things out"
    )
    command.add_argument(
        "--exact", action="store_true", help="trace every call: what `report --arm plain` judges"
    )
    command.add_argument(
        "--work", type=float, default=1.0, metavar="TIMES", help="as much work, for a machine with more CPUs"
    )
    command.add_argument("--dry-run", action="store_true", help="only say how long it would take")

    options = parser.parse_args()
    steps = {
        "setup": _setup,
        "take": _take,
        "report": _report,
        "confidences": _confidences,
        "facts": _facts,
    }
    steps[options.command](options)


def _setup(options: argparse.Namespace) -> None:
    from benchmarks.verdict.take import setup

    setup(options.environment, options.python)


def _take(options: argparse.Namespace) -> None:
    from benchmarks.verdict.catalogue import CONDITIONS, PROGRAMS
    from benchmarks.verdict.take import cells, estimate, take

    names = options.programs or sorted(PROGRAMS)
    for unknown in [n for n in names if n not in PROGRAMS] + [
        c for c in options.conditions if c not in CONDITIONS
    ]:
        raise SystemExit(f"{unknown}: not a program or condition of catalogue.py")
    wanted = cells(names, options.conditions, options.repeats)
    if options.dry_run:
        print(f"{len(wanted)} runs, about {estimate(options.directory, wanted) / 60:.0f} minutes")
        return
    quiet = not options.noisy
    take(options.directory, options.environment, wanted, quiet=quiet, exact=options.exact, work=options.work)


def _samples(options: argparse.Namespace) -> list[Sample]:
    from benchmarks.verdict.corpus import read_corpus

    directories = [*options.directory, *options.corpus]
    if not directories:
        raise SystemExit("name a directory that holds a corpus")
    samples = [s for directory in directories for s in read_corpus(directory)]
    if options.programs:
        samples = [s for s in samples if s.workload in options.programs]
    return samples


def _arms(options: argparse.Namespace) -> tuple[str, ...]:
    return (options.arm,) if options.arm else ("counters", "plain")


def _report(options: argparse.Namespace) -> None:
    from benchmarks.verdict.alone import alone
    from benchmarks.verdict.judge import judge
    from benchmarks.verdict.learn import learn_without, noise_without
    from benchmarks.verdict.pairs import make_pairs
    from benchmarks.verdict.tables import report

    begin = time.perf_counter()
    samples, arms = _samples(options), _arms(options)
    pairs, left_out = make_pairs(samples)
    judged: list[Judgement] = []
    weights = None if options.learnt or "plain" not in arms else learn_without(pairs)
    noises = None if options.learnt else noise_without(pairs)
    for verdict in judge(pairs, arms, weights, noises):
        judged.append(verdict)
        if sys.stderr.isatty() and len(judged) % 20 == 0:
            print(f"\r{len(judged)} of {len(pairs) * len(arms)}", end="", file=sys.stderr)
    single, single_left_out = alone(samples)
    text = report(judged, left_out, single, single_left_out)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    if options.summary:
        from benchmarks.verdict.score import summary

        rows = ",\n".join(json.dumps(row) for row in summary([*judged, *single]))
        options.summary.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    if options.doc:
        _into(options.doc, MARKS, text)
    if options.learn:
        from benchmarks.verdict.learn import examples, learn, write

        write(MODULES / "compare" / "starvation_weights.py", learn(list(examples(pairs))))
    print(text)
    if options.wrong:
        for j in (*judged, *single):
            if j.outcome == "wrong":
                print(
                    f"{j.arm}/{j.runs} {j.workload}/{j.condition} {j.form} {j.baseline}→{j.candidate} "
                    f"×{j.effect:.2f}: {j.cause} ({j.kind}, {j.rule}, "
                    f"{j.confidence:.2f}), not {' or '.join(j.causes) or 'anything'}"
                )
        for pair, count in Counter(left_out).items():
            print(f"left out {count}: {pair.workload}/{pair.condition} {pair.form}, {pair.runs} a side")
    if options.json:
        from benchmarks.verdict.judge import finite

        with options.json.open("w", encoding="utf-8") as file:
            for j in (*judged, *single):
                file.write(json.dumps(finite({**asdict(j), "outcome": j.outcome})) + "\n")
    print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr)


def _into(document: Path, marks: tuple[str, str], text: str) -> None:
    """Replace what lies between the marks of a document."""
    head, begin, rest = document.read_text(encoding="utf-8").partition(marks[0])
    _, end, tail = rest.partition(marks[1])
    if not begin or not end:
        raise SystemExit(f"{document}: lacks the marks {marks[0]} and {marks[1]}")
    document.write_text(f"{head}{begin}\n\n{text}\n{end}{tail}", encoding="utf-8")


def _facts(options: argparse.Namespace) -> None:
    from benchmarks.verdict.judge import fact_lines
    from benchmarks.verdict.pairs import make_pairs

    pairs, _ = make_pairs(_samples(options))
    file = options.output.open("w", encoding="utf-8") if options.output else sys.stdout
    for record in fact_lines(pairs, _arms(options)):
        file.write(json.dumps(record) + "\n")
    file.flush()


def _confidences(options: argparse.Namespace) -> None:
    from benchmarks.verdict.calibrate import tables
    from benchmarks.verdict.judge import read_judgements
    from benchmarks.verdict.learn import write_steps
    from benchmarks.verdict.tables import confidences

    judged = [
        j for path in options.verdicts for j in read_judgements(path) if j.arm in (options.arm or j.arm)
    ]
    text = confidences(judged)
    if options.doc:
        _into(options.doc, OF_CONFIDENCES, text)
    if options.learn:
        learnt = [j for j in judged if j.rule in (options.rules or [j.rule])]
        write_steps(MODULES / "verdict" / "calibration.py", tables(learnt))
    print(text)


if __name__ == "__main__":
    # Verdicts need no cycles collected, and the loaded runs are many objects.
    gc.disable()
    main()
