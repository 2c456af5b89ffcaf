"""How fast `profkit fleet` is, and what it finds: ``python -m benchmarks.fleet``.

Makes 10 000 run files (`make`), 10 jobs × 100 days × 10 runs, adds them, and asks each question. ``--days 20`` is a
fifth of that; ``--keep DIR`` keeps the files and goes on with those that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.fleet.make import SLOW, STARVED, Regression, day_of, noise, write_fleet
from benchmarks.many_ranks import total_memory
from benchmarks.measuring import PROFKIT, cpu_of_children
from profkit.api.fleet import Fleet
from profkit.fleet.slowest import SIGMAS, Trends
from profkit.measure.changepoints import shifts

#: Days by which a change may be off and still be the one that was put in.
NEAR = 3


def _near(days: Sequence[str], found: str, day: int) -> bool:
    return found in days and abs(days.index(found) - day) <= NEAR


def main() -> None:
    """Make, measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--days", type=int, default=100)
    parser.add_argument("--runs", type=int, default=10, help="of a job, each day")
    parser.add_argument("--regressions", type=int, default=30)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = options.keep or Path(name)
        (directory / "runs").mkdir(parents=True, exist_ok=True)
        known = directory / "regressions.json"
        if known.exists():
            put = [Regression(**one) for one in json.loads(known.read_text())]
        else:
            put = write_fleet(
                directory / "runs",
                jobs=options.jobs,
                days=options.days,
                runs=options.runs,
                count=options.regressions,
            )
            known.write_text(json.dumps([asdict(one) for one in put]))
        _measured(directory, put, options.days)


def _measured(directory: Path, put: Sequence[Regression], days: int) -> None:
    files = list((directory / "runs").glob("*.prof"))
    size = sum(path.stat().st_size for path in files)
    cpus = len(os.sched_getaffinity(0))
    print(f"{len(files):,} run files, {size / 1e9:.2f} GB, {cpus} CPUs")

    def fleet(*words: str) -> tuple[float, float, float]:
        """Return wall and CPU seconds, without those of processes that it starts, and MiB, with them."""
        before = cpu_of_children()
        wall, memory = total_memory([*PROFKIT, "fleet", *words], directory)
        return wall, cpu_of_children() - before, memory / 2**20

    few = directory / "few"
    few.mkdir(exist_ok=True)
    for path in files[:: max(1, len(files) // 1000)]:
        shutil.copy(path, few)
    wall, cpu, memory = fleet("add", "few", "--store", "one", "--workers", "1")
    rate = len(list(few.iterdir())) / cpu
    print(f"add, one process: {rate:.0f} files for a second of CPU  ≥ 40, {memory:.0f} MiB", flush=True)
    wall, _, memory = fleet("add", "runs")
    rate = len(files) / wall / cpus
    print(f"add: {wall:.1f} s, {rate:.0f} files/s a CPU  ≥ 40, {memory:.0f} MiB  ≤ 1024", flush=True)
    print("add again: {:.1f} s, {:.1f} s of CPU, {:.0f} MiB".format(*fleet("add", "runs")), flush=True)
    parts = list((directory / "fleet").glob("functions/*/*/*.parquet"))
    stored = sum(path.stat().st_size for path in (directory / "fleet").rglob("*.parquet"))
    print(f"store: {stored / 1e6:.0f} MB, {len(parts):,} parts", flush=True)
    for compacted in (False, True):
        if compacted:
            print("compact: {:.1f} s, {:.1f} s of CPU, {:.0f} MiB".format(*fleet("compact")), flush=True)
        job = put[0].job
        for words in (
            ("slowest", "-o", "slowest.json", "--full-paths"),
            ("hosts", "-o", "hosts.json", "--full-paths"),
            ("trend", put[0].name, "--job", job),
            ("query", "SELECT job, day, median(wall_s) FROM runs GROUP BY ALL"),
            ("query", "SELECT name, sum(tottime) AS s FROM functions GROUP BY name ORDER BY s DESC LIMIT 10"),
            ("compare", f"{job}@last-week", job),
        ):
            wall, cpu, memory = fleet(*words)
            said = f"{wall:.2f} s  ≤ 2, {cpu:.2f} s of CPU, {memory:.0f} MiB  ≤ 1024"
            print(f"{' '.join(words[:2])}: {said}", flush=True)
    _found(directory, put, days)
    _false()


def _false() -> None:
    """Print how many series of the same noise, of five runs a day and without a shift, would be found."""
    random = np.random.default_rng(1)
    for days in (10, 20, 40, 100):
        false = 0
        for _ in range(20):
            series = np.median(random.choice(noise(), (1000, days, 5)), axis=2)
            _, size, beyond = shifts(series)
            false += int(((beyond >= SIGMAS) & (size > 0)).sum())
        print(f"{days} days without a shift: {false / 20:.2f} false of 1 000  ≤ 1", flush=True)


def _found(directory: Path, put: Sequence[Regression], days: int) -> None:
    dates = [day_of(day) for day in range(days)]
    value = json.loads((directory / "slowest.json").read_text())
    wanted = {(one.job, one.path, one.name): one for one in put}
    found = {(f["job"], f["key"]["path"], f["key"]["qualname"]): f["since"] for f in value["functions"]}
    right = {key for key, since in found.items() if key in wanted and _near(dates, since, wanted[key].day)}
    false = [key for key in found if key not in wanted]
    print(f"slowest: {len(right)} of {len(put)} regressions found, {value['series']} series, ", end="")
    print(f"{1000 * len(false) / value['series']:.2f} false of 1 000  ≤ 1")
    for key in wanted.keys() - right:
        one = wanted[key]
        study = (
            Fleet(directory / "fleet")
            .trend(f"{one.path}:{one.name}" if one.path else one.name, one.job)
            .study
        )
        assert isinstance(study, Trends)
        since = [shift.since for shift in study.trends[0].shifts]
        told = "found by trend" if any(_near(dates, day, one.day) for day in since) else "missed by trend too"
        print(f"  {told}: {one}")
    for key in false:
        print(f"  false: {key}, {found[key]}")
    hosts = {h["host"] for h in json.loads((directory / "hosts.json").read_text())["hosts"] if h["slower"]}
    starved = {h["host"] for h in json.loads((directory / "hosts.json").read_text())["hosts"] if h["starved"]}
    print(
        f"hosts: slower {sorted(hosts)} ({SLOW} was made so), starved {sorted(starved)} ({STARVED} was made so)"
    )


if __name__ == "__main__":
    main()
