"""How often ``profkit ranks`` accuses a rank of a balanced job, and how often it finds one that is slow.

``python -m benchmarks.rank_errors DIRECTORY`` captures real MPI jobs into the directory, as many as it lacks
(``mpirun -n 4`` of tests/integration/programs/mpi_ranks.py: balanced, and with 10, 20 and 50 % more work in one
rank), and studies them. Then it puts jobs of 64 ranks together from the balanced ones: each synthetic rank has the
deviations from its job's medians that one real rank had, in all functions at once, and one rank of each job is made
slower.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.measuring import ROOT, environment
from profkit.study.rank_study import RankStudy
from profkit.study.rank_table import RankTable, rank_table
from profkit.study.ranks import study_ranks
from profkit.study.workers import crew

_PROGRAM = ROOT / "tests" / "integration" / "programs" / "mpi_ranks.py"
_EXTRA = (0.1, 0.2, 0.5)
_SLOWED = "gradient"
_PARTS = ("run_s", "queue_s", "blocked_s", "waits_s")


def capture(directory: Path, balanced: int, slow: int) -> None:
    """Capture the jobs that a directory lacks."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = [(f"bal{i}", []) for i in range(1, balanced + 1)]
    wanted += [(f"slow{x}-{i}", [str(i % 4), str(x)]) for x in _EXTRA for i in range(1, slow + 1)]
    settings = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
    for name, words in wanted:
        target = directory / f"{name}.prof"
        if not target.exists():
            job = ["mpirun", "--oversubscribe", "-n", "4", sys.executable, str(_PROGRAM), "150", *words]
            command = [sys.executable, "-m", "profkit", "capture", "-q", "-o", str(target), "--", *job]
            subprocess.run(command, check=True, env={**environment(), **settings})


def read(path: Path) -> RankTable:
    """Read one job."""
    with crew([str(path)]) as workers:
        return rank_table([str(path)], workers)


def synthetic(
    tables: Sequence[RankTable], ranks: int, random: np.random.Generator, extra: float
) -> RankTable:
    """Put a job together; its rank 0 does `extra` times more work, and waits less."""
    base = tables[0]
    column = {key: i for i, key in enumerate(base.functions)}
    usual = np.median(base.values, axis=1)
    middle = {name: float(np.median([getattr(m, name) for m in base.members])) for name in _PARTS}
    values = np.zeros((len(base.values), ranks, len(base.functions)), np.float32)
    members = []
    for r in range(ranks):
        table = tables[random.integers(len(tables))]
        i = int(random.integers(len(table.members)))
        median = np.median(table.values, axis=1)
        factor = np.ones_like(usual)
        for j, key in enumerate(table.functions):
            if key in column:
                known = median[:, j] > 0
                factor[known, column[key]] = table.values[known, i, j] / median[known, j]
        values[:, r] = usual * factor
        own = {
            name: middle[name]
            * getattr(table.members[i], name)
            / max(float(np.median([getattr(m, name) for m in table.members])), 1e-9)
            for name in _PARTS
        }
        members.append(replace(base.members[0], label=f"rank {r}", rank=r, **own))
    slowed = next(j for j, key in enumerate(base.functions) if key.qualname == _SLOWED)
    more = float(values[1, 0, slowed]) * extra
    values[1, 0, slowed] += more
    first = members[0]
    members[0] = replace(first, run_s=first.run_s + more, waits_s=max(0.0, first.waits_s - more))
    return RankTable(tuple(members), base.functions, values, (), ())


def accused(study: RankStudy) -> set[int]:
    """Return the ranks that are called stragglers."""
    return {s.member for s in study.stragglers}


def share(hits: int, of: int) -> str:
    """Return a rate as its counts."""
    return f"{hits} of {of}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rank_errors", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--balanced", type=int, default=16)
    parser.add_argument("--slow", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=200, help="synthetic jobs of each kind")
    parser.add_argument("--ranks", type=int, default=64)
    options = parser.parse_args()
    capture(options.directory, options.balanced, options.slow)
    print(f"load of the machine at the end of capturing: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    tables = [read(options.directory / f"bal{i}.prof") for i in range(1, options.balanced + 1)]
    false = sum(bool(accused(study_ranks(table))) for table in tables)
    print(f"real, balanced, 4 ranks: a straggler claimed in {share(false, len(tables))}")
    for extra in _EXTRA:
        found = wrong = 0
        for i in range(1, options.slow + 1):
            got = accused(study_ranks(read(options.directory / f"slow{extra}-{i}.prof")))
            found += i % 4 in got
            wrong += bool(got - {i % 4})
        named = share(found, options.slow)
        print(f"real, one rank + {extra:.0%}, 4 ranks: found in {named}, another accused in {wrong}")
    random = np.random.default_rng(12)
    for extra in (0.0, 0.05, *_EXTRA):
        found = wrong = 0
        for _ in range(options.jobs):
            got = accused(study_ranks(synthetic(tables, options.ranks, random, extra)))
            found += 0 in got
            wrong += bool(got - {0})
        named = share(found, options.jobs)
        print(
            f"synthetic, {options.ranks} ranks, rank 0 + {extra:.0%}: it is named in {named}, another in {wrong}"
        )


if __name__ == "__main__":
    main()
