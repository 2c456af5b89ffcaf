"""``python -m benchmarks.doctor measure PYTHON… [--only NAME] [--write]``: which limits libraries honour.

``sizes PYTHON``: whether libraries have the sizes that the command says.
``accuracy CORPUS`` and ``live ENVIRONMENT``: how right answers about programs are; see `accuracy`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
from pathlib import Path

from benchmarks.doctor.accuracy import OWN, live, of_corpus, table
from benchmarks.doctor.measure import measure, written
from benchmarks.doctor.probes import PROBES
from benchmarks.doctor.sizes import compare_sizes
from profkit.study.doctor_libraries import TABLE, Honours

WRITTEN = Path(__file__).parents[2] / "profkit" / "study" / "doctor_table.json"
#: From where on Python's own defaults honour the affinity.
CHANGED = (3, 13)

_ASK = """
import importlib.metadata as m, json, platform
found = {d.metadata["Name"].lower().replace("_", "-"): d.version for d in m.distributions()}
print(json.dumps([platform.python_version(), found]))
"""


def _measure(pythons: list[Path], only: list[str]) -> list[Honours]:
    rows = []
    done: set[str] = set()
    for python in pythons:
        version, packages = json.loads(
            subprocess.run([python, "-c", _ASK], check=True, capture_output=True).stdout
        )
        packages.setdefault("tensorflow", packages.get("tensorflow-cpu", ""))
        for name, probe in PROBES.items():
            wanted = not only or name in only
            if not wanted or (probe.package and (name in done or not packages.get(probe.package))):
                continue
            try:
                row = measure(name, python, packages, version)
            except RuntimeError as error:
                print(f"{name}: {error}", flush=True)
                continue
            if not probe.package:
                late = tuple(map(int, version.split(".")[:2])) >= CHANGED
                values = {f: getattr(row, f) for f in Honours.__dataclass_fields__}
                row = Honours(**{**values, "python": ">=3.13" if late else "<3.13"})
            done.add(name)
            rows.append(row)
            print(row, flush=True)
    return rows


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doctor")
    commands = parser.add_subparsers(dest="command", required=True)
    limits = commands.add_parser("measure", help="which limits libraries honour")
    limits.add_argument("python", nargs="+", type=Path, help="interpreters whose libraries are asked")
    limits.add_argument("--only", action="append", default=[], help="one library; repeatable")
    limits.add_argument(
        "--write", action="store_true", help="write what was found into the table of the package"
    )
    corpus = commands.add_parser(
        "accuracy", help="how right answers are, on the corpus of the verdict benchmark"
    )
    corpus.add_argument("directory", type=Path)
    real = commands.add_parser("live", help="the same, with the real command on real programs")
    real.add_argument(
        "environment", type=Path, help="where `python -m benchmarks.verdict setup` put the libraries"
    )
    real.add_argument("--seconds", type=float, default=3.0)
    real.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine")
    real.add_argument("--only", action="append", default=[], help="one program; repeatable")
    sizes = commands.add_parser("sizes", help="whether libraries have the sizes that the command says")
    sizes.add_argument("python", type=Path)
    sizes.add_argument("--only", action="append", default=[], help="one library; repeatable")
    options = parser.parse_args()
    if options.command == "sizes":
        compared, wrong = compare_sizes(options.python.absolute(), options.only)
        print(f"{compared - len(wrong)} of {compared} sizes right")
        return
    if options.command == "accuracy":
        cases = of_corpus(options.directory)
        own = [case for case in cases if case.name.split("/")[1] in OWN]
        print(f"{len(own)} runs that differ in threads, workers and CPUs only\n{table(own)}\n")
        print(f"{len(cases) - len(own)} other runs\n{table([case for case in cases if case not in own])}")
        return
    if options.command == "live":
        print(table(live(options.environment, options.seconds, options.only, patience_s=options.patience)))
        return
    rows = _measure([path.absolute() for path in options.python], options.only)
    if options.write:
        machine = f"{len(os.sched_getaffinity(0))} CPUs, Linux {platform.release().partition('-')[0]}"
        asked = {(row.library, row.python) for row in rows}
        kept = [row for row in TABLE.limits if options.only and (row.library, row.python) not in asked]
        WRITTEN.write_text(written([*kept, *rows], datetime.date.today().isoformat(), machine))


if __name__ == "__main__":
    main()
