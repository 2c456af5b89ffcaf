"""What a study minimises or maximises: wall time, an NVTX range, or a number in output or a JSON file."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from profkit.errors import UsageError
from profkit.formats import load_run
from profkit.measure.range_stats import range_rows
from profkit.study.journal import COUNTED, Trial
from profkit.study.trials import tail

#: Bytes of a log that are searched, from its end: a training run may print for hours.
MOST_OUTPUT = 1 << 24
_STEP = re.compile(r"\[(?P<index>-?\d{1,9})\]|\.?(?P<name>[^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class Objective:
    """One figure of a run; `text` is what the user wrote.

    `kind`: ``wall``, ``range``, ``output`` or ``json``. `what`: name of the range (with ``@DOMAIN``), regular
    expression, or path in the JSON `file`, which is relative to the working directory.
    """

    kind: str
    text: str = "wall"
    what: str = ""
    file: str = ""
    maximise: bool = False

    @property
    def seconds(self) -> bool:
        """Whether it is a time."""
        return self.kind in ("wall", "range")

    def figure(self, trial: Trial) -> float | None:
        """Return the figure of a run that succeeded, ``None`` for another one."""
        if trial.status not in COUNTED:
            return None
        return trial.wall_s if self.kind == "wall" else trial.objective

    def of_output(self, log: Path) -> list[float]:
        """Return every number in the output so far, in order."""
        printed = (_number(match[1]) for match in re.finditer(self.what, tail(log, MOST_OUTPUT)))
        return [value for value in printed if value is not None]

    def measure(self, log: Path, run_file: Path | None, began: float) -> float | None:
        """Return a successful run's figure that is not its wall; a JSON file from before `began` is ignored."""
        if self.kind == "output":
            values = self.of_output(log)
            return float(np.median(values)) if values else None
        if self.kind == "range":
            return None if run_file is None else _of_range(run_file, self.what)
        return _of_json(Path(self.file), self.what, began)

    def missing(self) -> str:
        """Return why a run has no figure."""
        if self.kind == "range":
            return f"it has no NVTX range {self.what}"
        if self.kind == "output":
            return f"no positive number in its output matches {self.what}"
        return f"{self.file} has no positive number at {self.what}, or was not written by it"


WALL = Objective("wall")


def parse_objective(text: str, *, maximise: bool) -> Objective:
    """Parse ``wall``, ``range:NAME[@DOMAIN]``, ``output:REGEX`` with one group, or ``json:FILE:PATH``.

    A path reads like ``[-1].elapsed_time``. Raises `UsageError` if the text is invalid.
    """
    kind, _, rest = text.partition(":")
    problem, what, file = "", rest, ""
    if text == "wall":
        problem = "wall time can only be minimised" if maximise else ""
    elif not rest or kind not in ("range", "output", "json"):
        problem = "give wall, range:NAME, output:REGEX or json:FILE:PATH"
    elif kind == "output":
        try:
            if re.compile(rest).groups != 1:
                problem = "put one group around the number, as in output:([0-9.]+) sec/batch"
        except re.error as error:
            problem = f"is not a regular expression: {error}"
    elif kind == "json":
        file, _, what = rest.rpartition(":")
        if not file or _steps(what) is None:
            problem = "give json:FILE:PATH with a path such as [-1].elapsed_time"
    if problem:
        raise UsageError(problem, "objective", text)
    return Objective(kind, text, what, file, maximise)


def _steps(path: str) -> list[str | int] | None:
    """Return the keys and indices of a path, ``None`` if it is malformed."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        steps.append(int(found["index"]) if found["index"] else found["name"])
        at = found.end()
    return steps or None


def _of_json(file: Path, path: str, began: float) -> float | None:
    try:
        # One second: file systems round modification times.
        if file.stat().st_mtime < began - 1:
            return None
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    for step in _steps(path) or ():
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return _number(value)


def _of_range(run_file: Path, what: str) -> float | None:
    name, _, domain = what.partition("@")
    run = load_run(run_file, edges=False)
    for row in range_rows(run.processes):
        if row.key.name == name and not row.key.mark and (not domain or row.key.domain == domain):
            return row.median_s
    return None


def _number(value: object) -> float | None:
    """Return a positive finite number, ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number > 0 else None
