"""``python -m fuzz``: run targets, replay inputs, make seeds, and report what was reached."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fuzz import native
from fuzz.target import TARGETS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands; returns 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="fuzz targets, one after the other")
    run.add_argument(
        "targets", nargs="*", help=f"{', '.join(TARGETS)}, or those in C: {', '.join(native.TARGETS)}; all"
    )
    run.add_argument("--seconds", type=int, default=60, help="for each target [60]")
    run.add_argument(
        "--runs", type=int, default=0, help="inputs of each target; 0 is as many as the time allows"
    )
    run.add_argument(
        "--quick", action="store_true", help="a fixed number of inputs from the committed ones alone"
    )
    run.add_argument("--seed", type=int, default=1, help="of the random generator [1]")
    replay = commands.add_parser("replay", help="check files, or all committed inputs of a target")
    replay.add_argument("target", choices=TARGETS)
    replay.add_argument("files", nargs="*")
    seeds = commands.add_parser("seeds", help="make the seeds again")
    seeds.add_argument("only", nargs="?", default="", help="one target")
    commands.add_parser("status", help="inputs so far, and findings, of each target")
    coverage = commands.add_parser("coverage", help="lines and branches that the inputs reach, by module")
    coverage.add_argument("--all", action="store_true", help="the inputs of the working corpus too")
    coverage.add_argument(
        "--readers", action="store_true", help="of each reader, with the lines that are not reached"
    )
    minimise = commands.add_parser(
        "minimise", help="keep of the working corpus what reaches something of its own"
    )
    minimise.add_argument("targets", nargs="*", help="all")
    given = parser.parse_args(arguments)

    from fuzz import work

    if given.command == "run":
        return work.run(given.targets, given.seconds, given.runs, given.seed, quick=given.quick)
    if given.command == "replay":
        return work.replay(given.target, given.files)
    if given.command == "seeds":
        from fuzz.seeds import make

        make(given.only)
        return 0
    if given.command == "status":
        return work.status()
    if given.command == "coverage":
        return work.coverage(everything=given.all, readers=given.readers)
    return work.minimise(given.targets)


if __name__ == "__main__":
    sys.exit(main())
