"""Compare several configurations with a reference. Runs with equal settings are repeats of one of them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from profkit.errors import UsageError
from profkit.measure.intervals import Estimate
from profkit.model import Notice, Run, RunSet
from profkit.model.arrays import known
from profkit.study.run_facts import RunFacts, facts_of
from profkit.study.setting_results import median_of, median_quantiles, pooled_spread
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
    """One row; `failed` runs are measured only if all failed.

    `named`: its runs in a command, or one of them if no argument is just these; empty if no single file is one.
    `low_s` and `high_s`: 95 % interval of the wall, NaN if unknown. `buckets`: median seconds, in the order
    of `RUN_BUCKETS`. `fastest`: not distinguishable from the fastest row, of those with a run that succeeded.
    `slowdown`, `cause`, `kind` and `confidence` are against the reference, and empty for itself.
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

    @property
    def succeeded(self) -> bool:
        return self.failed < len(self.files)


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
    facts: list[RunFacts]

    @property
    def measured(self) -> list[int]:
        """The positions of the runs that succeeded; all if none did."""
        every = range(len(self.runs))
        return [i for i in every if not self.facts[i].failed] or list(every)

    @property
    def failed(self) -> int:
        return sum(one.failed for one in self.facts)


def _configurations(sides: Sequence[RunSet], by: str) -> list[_Group]:
    """Divide runs into rows, in order of occurrence; raises `UsageError` unless `by` is in `GROUPINGS`."""
    if by not in GROUPINGS:
        raise UsageError(f"is not known, use {', '.join(GROUPINGS)}", "group_by", by)
    members: dict[object, list[tuple[str, Run, RunFacts]]] = {}
    for number, side in enumerate(sides):
        for run in side.runs:
            facts = facts_of(run)
            members.setdefault(_key(by, number, facts), []).append((side.label, run, facts))
    groups = [(tuple(dict.fromkeys(label for label, _, _ in group)), group) for group in members.values()]
    found = []
    for named, group in groups:
        own = group[0][2]
        label = named[0] if len(named) == 1 else ""
        # Rows of one argument need their differences as a name; for other rows the argument is enough.
        rivals = [other[0][2] for names, other in groups if label == "" or names == named]
        path = own.files[0]
        configuration = Configuration(argument=path) if by == "run" else _told_apart(label, path, own, rivals)
        found.append(
            _Group(configuration, named[0], [run for _, run, _ in group], [facts for _, _, facts in group])
        )
    return found


def _key(by: str, number: int, facts: RunFacts) -> object:
    if by == "argument":
        return number
    if by == "run":
        return (number, facts.files)
    variables = tuple(facts.environment.items())
    settings = (facts.command, variables, facts.cpus, facts.revision, facts.dirty, facts.host)
    if by == "auto":
        return (number, settings)
    return settings if by == "settings" else getattr(facts, by)


def _told_apart(label: str, path: str, own: RunFacts, rivals: Sequence[RunFacts]) -> Configuration:
    def differs(name: str) -> bool:
        return len({getattr(facts, name) for facts in rivals}) > 1

    names = sorted({name for facts in rivals for name in facts.environment})
    varied = [name for name in names if len({facts.environment.get(name) for facts in rivals}) > 1]
    found = Configuration(
        argument=label,
        words=_words(own.command, [facts.command for facts in rivals]),
        environment={name: own.environment.get(name, "unset") for name in varied},
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
    measured = [[group.facts[i] for i in group.measured] for group in groups]
    times = [np.array([facts.wall_s for facts in found]) for found in measured]
    medians = np.array([median_of(found) for found in times])
    spread = pooled_spread(times)
    half, apart = median_quantiles(tuple(map(len, times)))
    succeeded = np.array([group.failed < len(group.runs) for group in groups])
    best = int(np.argmin(np.where(succeeded, medians, np.inf)))
    reference = _reference(groups, against, best)
    rows = []
    for i, (group, facts) in enumerate(zip(groups, measured, strict=True)):
        slowdown, cause, kind, confidence = Estimate(1.0), "", "", None
        if i != reference:
            found = diagnose(_side(groups[reference]), _side(group))
            slowdown, verdict = found.slowdown, found.verdict
            cause, kind, confidence = verdict.cause, verdict.kind or "", verdict.confidence
        width = spread * float(half[i])
        iterations = known(one.iteration_s for one in facts)
        rows.append(
            Compared(
                configuration=group.configuration,
                files=tuple(run.path for run in group.runs),
                named=_named(group, sides),
                runs=len(facts),
                failed=group.failed,
                median_s=float(medians[i]),
                low_s=float(medians[i]) * math.exp(-width),
                high_s=float(medians[i]) * math.exp(width),
                buckets=tuple(map(median_of, zip(*(one.buckets for one in facts), strict=True))),
                iteration_s=float(np.median(iterations)) if iterations else None,
                slowdown=slowdown,
                cause=cause,
                kind=kind,
                confidence=confidence,
                fastest=bool(succeeded[i])
                and (i == best or bool(math.log(medians[i] / medians[best]) <= spread * apart)),
            )
        )
    notices = tuple(notice for side in sides for notice in side.skipped)
    return Comparisons(tuple(rows), reference, best, spread, notices)


def _named(group: _Group, sides: Sequence[RunSet]) -> str:
    own = set(map(id, group.runs))
    if any(side.label == group.argument and set(map(id, side.runs)) == own for side in sides):
        return group.argument
    path = group.runs[group.measured[0]].path
    return path if os.path.exists(path) else ""  # joined ranks have no file of their own


def _side(group: _Group) -> RunSet:
    return RunSet(group.argument, tuple(group.runs[i] for i in group.measured))


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
