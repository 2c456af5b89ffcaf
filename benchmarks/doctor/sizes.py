"""Whether libraries have the sizes that `profkit doctor` says: the real command, and libraries under real limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.doctor.conditions import asked, quota_views
from benchmarks.doctor.probes import PROBES

ROOT = Path(__file__).resolve().parents[2]
#: Variables that are set, alone and together with one CPU of the affinity.
SETTINGS: Sequence[Mapping[str, str]] = (
    {},
    {"OMP_NUM_THREADS": "1"},
    {"OMP_NUM_THREADS": "5"},
    {"MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "3", "POLARS_MAX_THREADS": "3", "PYTHON_CPU_COUNT": "3"},
)


def compare_sizes(python: Path, only: Sequence[str] = ()) -> tuple[int, list[str]]:
    """Return how many sizes were compared, and those that differ."""
    compared, wrong = 0, []
    one = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    with quota_views(1.0) as views:
        limits: dict[str, Sequence[str]] = {"none": [], "one CPU": one}
        limits |= {f"quota {view}": words for view, words in views.items()}
        for limit, around in limits.items():
            for setting in SETTINGS if limit in ("none", "one CPU") else SETTINGS[:2]:
                for library, said in _said(python, around, setting).items():
                    if library not in (only or PROBES):
                        continue
                    try:
                        real = asked(python, PROBES[library], setting, around=around)
                    except RuntimeError as error:
                        print(f"{library}: {error}", flush=True)
                        continue
                    compared += 1
                    if real != said:
                        wrong.append(f"{library} under {limit}, {setting}: {said} said, {real} in fact")
                        print(wrong[-1], flush=True)
    return compared, wrong


def _said(python: Path, around: Sequence[str], setting: Mapping[str, str]) -> dict[str, int]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **setting}
    command = [sys.executable, "-m", "profkit", "doctor", "--format", "json", "--python", str(python)]
    done = subprocess.run([*around, *command], env=environment, check=True, capture_output=True)
    return {row["library"]: row["size"] for row in json.loads(done.stdout)["libraries"]}
