"""``python -m benchmarks.studies PYTHON DIRECTORY``: what `profkit sweep` and `profkit tune` are worth, and cost.

PYTHON has the libraries of the verdict benchmark (``python -m benchmarks.verdict setup``). Of every program that has
workers or threads, the whole grid is measured with ``sweep --no-profile``, then ``tune`` searches it with 12 trials
from several seeds. A search is right if its setting's median in the grid is within 5 % of the grid's best, or cannot
be told apart from it. Leave the machine alone meanwhile: it takes about half an hour. What was begun goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.verdict.catalogue import PROGRAMS
from profkit.api.study import read_sweep
from profkit.study.setting_results import Results

ROOT = Path(__file__).resolve().parents[2]
RUN = Path(__file__).resolve().parent / "run_program.py"
#: Programs that take the number from their settings: workers, threads, or both; and the part of their usual work.
STUDIED = {
    "archive_pool": ("workers",),
    "augment_pool": ("workers", "threads"),
    "poll_pool": ("workers", "threads"),
    "digests": ("threads",),
    "infer_omp": ("threads",),
    "linear_algebra": ("threads",),
    "neighbours_np": ("threads",),
    "pixels_ne": ("threads",),
    "spectra": ("threads",),
    "thumbnails": ("threads",),
    "train_conv": ("threads",),
    "vision_cv": ("threads",),
}
GRID = "1,2,3,4,6,8"
REPEAT = 3
TRIALS = 12
SEEDS = 3
CLOSE = 1.05


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", type=Path, help="interpreter of the programs")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", nargs="*", default=list(STUDIED), help="programs")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    close = right = searches = 0
    print(
        f"{'program':<16} {'settings':>8} {'default':>9} {'best':>9}  found by {SEEDS} searches of {TRIALS} trials"
    )
    for name in given.only:
        grid = _grid(given.python, given.directory, name)
        medians = {cell.setting: cell.median for cell in grid.cells}
        marked = {cell.setting for cell in grid.cells if cell.best}
        best = min(medians.values())
        found = []
        for seed in range(SEEDS):
            setting = _searched(given.python, given.directory, name, seed)
            close += medians[setting] <= CLOSE * best
            good = medians[setting] <= CLOSE * best or setting in marked
            right += good
            searches += 1
            found.append(f"{','.join(setting)} {medians[setting] / best:.2f}×" + ("" if good else " MISSED"))
        worst = max(medians.values())
        print(f"{name:<16} {len(medians):>8} {worst:>8.2f}s {best:>8.2f}s  {'; '.join(found)}", flush=True)
    print(
        f"\nwithin 5 % of the grid's best: {close} of {searches}; that, or not to be told apart from it: {right}"
    )
    if given.only == list(STUDIED):
        _overhead(given.directory)


def _command(python: Path, name: str, parameters: tuple[str, ...]) -> list[str]:
    words = ["{workers}" if "workers" in parameters else "1", "{threads}" if "threads" in parameters else "1"]
    return ["--", str(python), str(RUN), name, *words, str(PROGRAMS[name].work)]


def _profkit(*words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        [sys.executable, "-m", "profkit", *words], env=environment, stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise SystemExit(f"profkit {' '.join(words)}: exit status {done.returncode}")


def _grid(python: Path, directory: Path, name: str) -> Results:
    place = directory / f"{name}-grid"
    parameters = STUDIED[name]
    options = [word for parameter in parameters for word in ("-p", f"{parameter}={GRID}")]
    options += ["--repeat", str(REPEAT), "--no-profile", "--quiet", "--dir", str(place)]
    _profkit("sweep", *options, *_command(python, name, parameters))
    return read_sweep(place).study


def _searched(python: Path, directory: Path, name: str, seed: int) -> tuple[str, ...]:
    """Return the setting that a search advises; it searches the values of the grid."""
    place = directory / f"{name}-tune-{seed}"
    report = directory / f"{name}-tune-{seed}.json"
    parameters = STUDIED[name]
    if not report.exists():
        options = [word for parameter in parameters for word in ("-p", f"{parameter}={GRID}")]
        options += ["--baseline", ",".join(f"{parameter}=8" for parameter in parameters)]
        options += ["--trials", str(TRIALS), "--repeat", "3", "--no-profile", "--quiet", "--seed", str(seed)]
        _profkit(
            "tune", *options, "--dir", str(place), "-o", str(report), *_command(python, name, parameters)
        )
    value = json.loads(report.read_text())
    last = value["confirmed"] or value
    setting = last["cells"][last["advised"]]["setting"]
    return tuple(setting[parameter] for parameter in parameters)


def _overhead(directory: Path) -> None:
    """What a run of a sweep takes beyond the same captures by hand."""
    program = [sys.executable, "-c", "import time; time.sleep(0.2)"]
    runs = 20
    plain, swept = [], []
    for attempt in range(3):
        place = directory / f"overhead-{attempt}-{os.getpid()}"
        begin = time.perf_counter()
        options = ["-e", "PROFKIT_STUDY=1,2", "--repeat", str(runs // 2), "--quiet", "--dir", str(place)]
        _profkit("sweep", *options, "--", *program)
        swept.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        for number in range(runs):
            _profkit("capture", "--quiet", "-o", str(place / f"by-hand-{number}.prof"), "--", *program)
        plain.append(time.perf_counter() - begin)
    more = statistics.median((s - p) / runs for s, p in zip(swept, plain, strict=True))
    print(f"a run of a sweep takes {1e3 * more:.0f} ms more than profkit capture by hand (bar: 100 ms)")


if __name__ == "__main__":
    main()
