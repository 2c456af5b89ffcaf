"""Compare several configurations with a reference. Runs with equal settings are repeats of one of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from profkit.errors import UsageError
from profkit.measure.intervals import Estimate
from profkit.measure.iterations import iteration_seconds
from profkit.measure.run_settings import set_by_hand
from profkit.model import Notice, Run, RunSet
from profkit.study.setting_results import median_of, median_quantiles, pooled_spread
from profkit.verdict.account import RUN_BUCKETS
from profkit.verdict.alone import judge_run
from profkit.verdict.diagnosis import diagnose

#: Ways to group runs.
GROUPINGS = ("auto", "settings", "argument", "run", "command", "revision", "host")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What distinguishes a row; fields that all rows share are empty, as is `argument` for several."""

    argument: str = ""
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    cpus: float | None = None
    revision: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """One row; `named` names its runs in a command, and `failed` runs are measured only if all failed.

    `low_s` and `high_s`: 95 % interval of the wall, NaN if unknown. `buckets`: median seconds, in the order
    of `RUN_BUCKETS`. `fastest`: not distinguishable from the fastest row. `slowdown`, `cause`, `kind` and
    `confidence` are against the reference, and empty for itself.
    """

    configuration: Configuration
    files: tuple[str, ...]
    named: str
    runs: int
    failed: int
    median_s: float
    low_s: float
    high_s: float
    buckets: tuple[float, ...]
    iteration_s: float | None
    slowdown: Estimate
    cause: str
    kind: str
    confidence: float | None
    fastest: bool


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All rows, in the order in which the user named them; `reference` and `best` are positions in `rows`.

    `spread`: standard deviation of ln(time) within a row, NaN if nothing ran twice.
    """

    rows: tuple[Compared, ...]
    reference: int
    best: int
    spread: float
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    configuration: Configuration
    argument: str
    runs: list[Run]


def _configurations(sides: Sequence[RunSet], by: str) -> list[_Group]:
    """Divide runs into rows, in order of occurrence; raises `UsageError` unless `by` is in `GROUPINGS`."""
    if by not in GROUPINGS:
        raise UsageError(f"is not known, use {', '.join(GROUPINGS)}", "group_by", by)
    groups: dict[object, list[tuple[str, Run]]] = {}
    for number, side in enumerate(sides):
        for run in side.runs:
            groups.setdefault(_key(by, number, run), []).append((side.label, run))
    members = list(groups.values())
    facts = [_facts(group[0][1]) for group in members]
    labels = [tuple(dict.fromkeys(label for label, _ in group)) for group in members]
    found = []
    for own, group, named in zip(facts, members, labels, strict=True):
        label = named[0] if len(named) == 1 else ""
        # Rows of one argument need their differences as a name; for other rows the argument is enough.
        rivals = [other for other, names in zip(facts, labels, strict=True) if label == "" or names == named]
        runs = [run for _, run in group]
        path = runs[0].path
        known = Configuration(argument=path) if by == "run" else _told_apart(label, path, own, rivals)
        found.append(_Group(known, named[0], runs))
    return found


@dataclass(frozen=True, slots=True)
class _Facts:
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    cpus: float | None = None
    revision: str = ""
    dirty: bool = False
    host: str = ""


def _facts(run: Run) -> _Facts:
    manifest = run.manifest
    if manifest is None:
        return _Facts()
    git = manifest.git or {}
    return _Facts(
        manifest.command,
        tuple(set_by_hand(manifest.environment).items()),
        manifest.host.available_cpus,
        git.get("revision", ""),
        git.get("dirty", False),
        manifest.host.name,
    )


def _key(by: str, number: int, run: Run) -> object:
    if by == "argument":
        return number
    if by == "run":
        return (number, run.path)
    facts = _facts(run)
    if by == "auto":
        return (number, facts)
    return facts if by == "settings" else getattr(facts, by)


def _told_apart(label: str, path: str, own: _Facts, rivals: Sequence[_Facts]) -> Configuration:
    def differs(name: str) -> bool:
        return len({getattr(facts, name) for facts in rivals}) > 1

    environments = [dict(facts.environment) for facts in rivals]
    names = sorted({name for environment in environments for name in environment})
    varied = [name for name in names if len({environment.get(name) for environment in environments}) > 1]
    mine = dict(own.environment)
    found = Configuration(
        argument=label,
        words=_words(own.command, [facts.command for facts in rivals]),
        environment={name: mine.get(name, "unset") for name in varied},
        cpus=own.cpus if differs("cpus") else None,
        revision=own.revision if differs("revision") else "",
        host=own.host if differs("host") else "",
    )
    alike = len(rivals) > 1 and found == Configuration(argument=label)
    return Configuration(argument=path) if alike or found == Configuration() else found


def _words(command: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the words that differ between commands, an option's value with its name."""
    if len({len(other) for other in others}) > 1:
        return command
    found: list[str] = []
    for at, word in enumerate(command):
        if len({other[at] for other in others}) > 1:
            option = command[at - 1] if at and not word.startswith("-") else ""
            found += [option, word] if option.startswith("-") else [word]
    return tuple(found)


def compare_runs(sides: Sequence[RunSet], *, by: str = "auto", against: str = "first") -> Comparisons:
    """Compare several configurations; `against` is ``first``, ``best``, or an argument's path or base name.

    Raises `UsageError` if there are fewer than two rows, or the reference is missing or ambiguous.
    """
    groups = _configurations(sides, by)
    if len(groups) < 2:
        raise UsageError(
            f"all {len(groups[0].runs)} runs form one row; add runs of another configuration"
            + ("" if by == "run" else ", or use --group-by run")
        )
    measured = [_measured(group) for group in groups]
    times = [np.array([_wall(run) for run in runs]) for runs, _ in measured]
    medians = np.array([median_of(found) for found in times])
    spread = pooled_spread(times)
    half, apart = median_quantiles(tuple(map(len, times)))
    best = int(np.argmin(medians))
    reference = _reference(groups, against, best)
    basis = RunSet(groups[reference].argument, tuple(measured[reference][0]))
    rows = []
    for i, (group, (runs, failed)) in enumerate(zip(groups, measured, strict=True)):
        slowdown, cause, kind, confidence = Estimate(1.0), "", "", None
        if i != reference:
            found = diagnose(basis, RunSet(group.argument, tuple(runs)))
            slowdown, verdict = found.slowdown, found.verdict
            cause, kind, confidence = verdict.cause, verdict.kind or "", verdict.confidence
        width = spread * float(half[i])
        rows.append(
            Compared(
                configuration=group.configuration,
                files=tuple(run.path for run in group.runs),
                named=_named(group, sides),
                runs=len(runs),
                failed=failed,
                median_s=float(medians[i]),
                low_s=float(medians[i]) * math.exp(-width),
                high_s=float(medians[i]) * math.exp(width),
                buckets=_account(runs),
                iteration_s=_iteration(runs),
                slowdown=slowdown,
                cause=cause,
                kind=kind,
                confidence=confidence,
                fastest=i == best or bool(math.log(medians[i] / medians[best]) <= spread * apart),
            )
        )
    notices = tuple(notice for side in sides for notice in side.skipped)
    return Comparisons(tuple(rows), reference, best, spread, notices)


def _measured(group: _Group) -> tuple[list[Run], int]:
    """Return the runs that succeeded (all if none did), and the number of failures."""
    well = [run for run in group.runs if run.manifest is None or not run.manifest.exit_status]
    return well or group.runs, len(group.runs) - len(well)


def _named(group: _Group, sides: Sequence[RunSet]) -> str:
    side = next(side for side in sides if side.label == group.argument)
    return group.argument if len(side.runs) == len(group.runs) else group.runs[0].path


def _wall(run: Run) -> float:
    """Return the wall time of a run, or its self time if the file has none; positive, for the logarithm."""
    total = sum(profile.total for profile in run.profiles)
    return run.wall_s or max(total, 1e-12)


def _account(runs: Sequence[Run]) -> tuple[float, ...]:
    accounts = [judge_run(run, run.processes).account for run in runs]
    return tuple(median_of(account.whole(name) for account in accounts) for name in RUN_BUCKETS)


def _iteration(runs: Iterable[Run]) -> float | None:
    known = [seconds for run in runs if (seconds := iteration_seconds(run)) is not None]
    return float(np.median(known)) if known else None


def _reference(groups: Sequence[_Group], against: str, best: int) -> int:
    if against in ("first", "best"):
        return 0 if against == "first" else best
    wrong = partial(UsageError, parameter="against", value=against)
    for named in (str, os.path.basename):
        places = [
            i
            for i, group in enumerate(groups)
            if against in {named(group.argument), *map(named, (r.path for r in group.runs))}
        ]
        if len(places) == 1:
            return places[0]
        if places:
            raise wrong(f"matches {len(places)} rows; give a file of one of them")
    raise wrong("is not one of the rows; use first, best or a name you gave")
