"""Wall seconds of importing by package, from caller–callee sums; nested imports included.

Most is the import system's own time, which cannot be told apart by package. `measure.imports` has CPU time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import eq

import numpy as np

from profkit.identity.function_keys import function_keys
from profkit.identity.lookup_columns import Looked
from profkit.measure.imports import import_rows
from profkit.measure.side_facts import main_processes
from profkit.model import GENERATED, Process, Profile, Roots, Run, RunSet
from profkit.model.arrays import known, median

#: Files whose functions a module body calls to import others.
_IMPORTING = re.compile(r"<frozen importlib\.|(?:^|/)importlib/(?:_bootstrap|__init__)")
#: Imports matter from this part of the wall and these seconds on, or from so many seconds on (convention).
#: NumPy takes 0.1 s: small programs are not warned about what they cannot avoid.
MATTER_SHARE = 0.05
MATTER_LEAST_S = 0.1
MATTER_S = 1.0
#: Part of the difference of walls from which the first lines of a comparison name imports (convention).
MATTER_PART = 0.1
#: Packages below this on both sides are not listed: clock noise or one scheduler slice is as much.
LISTED_S = 1e-3


@dataclass(frozen=True, slots=True)
class ImportedPackage:
    """A package that processes imported, nested imports included; seconds of all and of main processes."""

    package: str
    seconds: float
    main_s: float
    processes: int


@dataclass(frozen=True, slots=True)
class Imports:
    """All importing of a run, or a side's medians; `packages` overlap, and processes may import at once."""

    seconds: float
    main_s: float
    matter: bool
    packages: tuple[ImportedPackage, ...]


def imports_of(run: Run, processes: Sequence[Process]) -> Imports | None:
    """Return what these processes imported; ``None`` if no profile has a call of the import system."""
    mains = {id(process) for process in main_processes(processes)}
    importing = 0
    total = in_main = 0.0
    found: dict[str, tuple[float, float, int]] = {}
    for process in processes:
        of_process: dict[str, float] = {}
        main = id(process) in mains
        before = total
        for profile in (thread.profile for thread in process.threads):
            seconds = float(profile.cumtime[import_rows(profile)].sum())  # nested imports count once
            total += seconds
            in_main += seconds * main
            for package, own in _packages(profile, process.roots, seconds) if seconds else ():
                of_process[package] = of_process.get(package, 0.0) + own
        importing += total > before
        for package, seconds in of_process.items():
            all_s, main_s, number = found.get(package, (0.0, 0.0, 0))
            found[package] = all_s + seconds, main_s + seconds * main, number + 1
    if not importing:
        return None
    wall = run.wall_s
    if wall is None:
        wall = max((p.wall_s or sum(t.profile.total for t in p.threads) for p in processes), default=0.0)
    rows = [ImportedPackage(name, *sums) for name, sums in found.items() if sums[0] >= LISTED_S]
    return Imports(total, in_main, matters(total / importing, wall), _longest_first(rows))


def _longest_first(rows: Iterable[ImportedPackage]) -> tuple[ImportedPackage, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.seconds, row.package)))


def matters(seconds: float, wall_s: float) -> bool:
    """Return whether so many seconds of importing, more or less, matter beside a wall."""
    return abs(seconds) >= min(MATTER_S, max(MATTER_LEAST_S, MATTER_SHARE * wall_s))


def imports_of_side(side: RunSet, selected: Iterable[Sequence[Process]]) -> Imports | None:
    """Return the medians over the runs of a side; `selected` are the compared processes of each run."""
    each = known(imports_of(run, processes) for run, processes in zip(side.runs, selected, strict=True))
    if len(each) < 2:
        return each[0] if each else None
    absent = ImportedPackage("", 0.0, 0.0, 0)
    of_runs = [{row.package: row for row in found.packages} for found in each]
    rows = []
    for package in dict.fromkeys(name for of_run in of_runs for name in of_run):
        same = [of_run.get(package, absent) for of_run in of_runs]
        seconds, main_s, processes = (
            float(median([getattr(row, name) for row in same])) for name in ("seconds", "main_s", "processes")
        )
        if seconds >= LISTED_S:
            rows.append(ImportedPackage(package, seconds, main_s, round(processes)))
    return Imports(
        float(median([found.seconds for found in each])),
        float(median([found.main_s for found in each])),
        any(found.matter for found in each),
        _longest_first(rows),
    )


def _packages(profile: Profile, roots: Roots, most: float) -> Iterable[tuple[str, float]]:
    """Yield packages that a thread imported, with seconds to be added up.

    A package's longest module counts, and others that take too long to be inside it. A module body longer
    than all imports is the program itself.
    """
    bodies = Looked(profile.name, profile.strings).where(partial(eq, "<module>"))
    body = np.flatnonzero(bodies & (profile.cumtime <= most))
    # Captures record modules; computing keys of all functions is slow.
    keys = None if profile.module[body].any() else function_keys(profile, roots)
    within = np.zeros(len(profile))
    if profile.edges is None:
        within[:] = most
    else:
        edges = profile.edges
        into = Looked(profile.file, profile.strings).where(_IMPORTING.search)[edges.callee]
        np.add.at(within, edges.caller[into], edges.cumtime[into])
    counted: dict[str, float] = {}
    for row in body[np.argsort(-profile.cumtime[body], kind="stable")].tolist():
        name = profile.strings[profile.module[row]]
        if keys is not None and keys[row].root != GENERATED:
            name = keys[row].path.partition("/")[0].removeprefix("<frozen ").removesuffix(">")
        package = name.partition(".")[0]
        if not package:
            continue
        seconds = float(profile.cumtime[row])
        if seconds > counted.get(package, 0.0):
            counted[package] = max(counted.get(package, 0.0), float(within[row]))
            yield package, seconds
