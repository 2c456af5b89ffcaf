"""Sections on thread pools: what a run has, asks for and gets, and how two sides differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from profkit.capture.agent.settings import RECORDED_VARIABLES
from profkit.measure.inventory import Inventory, ProcessNeed, inventory
from profkit.model import Pool, Run
from profkit.model.pools import whole_number
from profkit.model.surrogates import spelled_out
from profkit.report import units
from profkit.report.document import Column, Note, Row, Section, Table
from profkit.report.jsonvalues import members, plain
from profkit.report.listed import Listed, Of
from profkit.report.text import clean

#: Variables that identify processes of one job, and so always differ.
_IDENTITY = frozenset(
    """
    RANK LOCAL_RANK OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK PMI_RANK PMIX_RANK MPI_LOCALRANKID
    MV2_COMM_WORLD_RANK SLURM_PROCID SLURM_LOCALID SLURM_STEP_ID NVTX_INJECTION64_PATH JOBLIB_TEMP_FOLDER
    """.split()  # noqa: SIM905
)


def pool_sections(run: Run, limit: int) -> list[Section]:
    """Return a run's pools, equal processes in one row (`limit` 0: all); empty if not recorded."""
    taken = inventory(run)
    if all(process.pools is None for process in taken.processes):
        return []
    groups: dict[object, list[ProcessNeed]] = {}
    for process in taken.processes:
        key = (process.role, process.host, _texts(process.pools), process.idle)
        groups.setdefault(key, []).append(process)
    listed = Listed(groups.values(), limit, "groups of processes")
    surprising = any(map(_surprising, listed.shown))
    table = listed.table(
        Of("processes", lambda group: f"{len(group)} × " * (len(group) > 1) + clean(group[0].role)),
        Of("pools, threads each", lambda group: _pools(group[0]), "prose"),
        Of("expected", lambda group: "waits" if group[0].idle else _cores(group[0].expected_cores), "pid", 1),
        Of("used", lambda group: _cores(_mean(one.observed_cores for one in group)), "pid", 1),
        Of("demanded", lambda group: _cores(_mean(one.demand_cores for one in group)), "pid", 1),
        Of("CPUs", lambda group: _cpus(group[0].available_cpus), "pid", 2),
        notes=(
            "Cores per process over its life. Demanded: used plus queued for.",
            "● asked for more than the sizes of its pools explain." if surprising else "",
        ),
        marked=_surprising,
        tone=lambda group: "bad" if _surprising(group) else "",
    )
    return [Section("Thread pools", (Note(_total(taken)), table))]


def _surprising(group: Sequence[ProcessNeed]) -> bool:
    return any(process.surprising for process in group)


def _pools(process: ProcessNeed) -> str:
    said = "; ".join(map(clean, _texts(process.pools)))
    return said or ("none" if process.pools is not None else "not known")


def _total(taken: Inventory) -> str:
    known = (
        ("the pools of all processes that work ask for {} cores", _cores, taken.expected_cores),
        ("{} were used", _cores, taken.observed_cores),
        ("{} demanded", _cores, taken.demand_cores),
        ("{} are available", _cpus, taken.available_cpus),
    )
    parts = [said.format(written(number)) for said, written, number in known if number is not None]
    text = ", ".join(parts)
    if taken.oversubscribed and taken.oversubscription is not None:
        text += f": {taken.oversubscription:.1f} for each CPU"
    return f"On average over the run, {text}." if parts else "Their CPU use is not known."


def _texts(pools: Sequence[Pool] | None) -> tuple[str, ...]:
    """Return a text per pool; copies of a library with one size share one."""
    return tuple(dict.fromkeys(f"{pool.library} {_pool_size(pool)}" for pool in pools or ()))


def _pool_size(pool: Pool) -> str:
    if pool.threads is None:
        return "(size not known)"
    asked = whole_number(pool.variable.partition("=")[2])
    capped = ", capped" if asked is not None and asked > pool.threads else ""
    why = {
        "variable": f"{pool.variable}{capped}",
        "default": f"default; {pool.variable} was set too late" if pool.variable else "default",
        "program": "set by the program",
    }.get(pool.origin, "")
    peak = f", {pool.peak} before" if pool.peak is not None else ""
    return f"{pool.threads}{peak}" + (f" ({why})" if why else "")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cores(value: float | None) -> str:
    if value is None:
        return units.UNKNOWN
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


def _cpus(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value:g}"


# What differs


def pool_differences(baseline: Inventory | None, candidate: Inventory | None) -> list[Section]:
    if baseline is None or candidate is None:
        return []
    settings = (
        *_machines(baseline, candidate),
        *_sizes(baseline, candidate),
        *_variables(baseline, candidate),
    )
    rows = [Row((name, clean(before), clean(after))) for name, before, after in settings if before != after]
    if not rows:
        return []
    rows += [
        Row((name, before, after))
        for name, before, after in _cores_rows(baseline, candidate)
        if {before, after} != {units.UNKNOWN}
    ]
    columns = (Column("", "text"), Column("baseline", "prose"), Column("candidate", "prose"))
    return [Section("What differs in threads and CPUs", (Table(columns, tuple(rows)),))]


def _machines(a: Inventory, b: Inventory) -> Iterable[tuple[str, str, str]]:
    for name, field in (("CPUs that the run may use", "available_cpus"), ("CPU quota", "quota_cpus")):
        yield name, _cpus(getattr(a, field)), _cpus(getattr(b, field))
    for name in ("workers", "ranks"):
        yield name, str(getattr(a, name)), str(getattr(b, name))


def _sizes(a: Inventory, b: Inventory) -> Iterable[tuple[str, str, str]]:
    """Yield pool sizes by library where both sides have it."""
    if not (_was_asked(a) and _was_asked(b)):
        return
    # Processes may idle on one side under equal settings: a role that works on either side counts on both.
    roles = {process.role for side in (a, b) for process in side.processes if not process.idle}
    of_a, of_b = _by_library(a, roles), _by_library(b, roles)
    for library in sorted({*of_a, *of_b}):
        yield f"{clean(library)} threads", of_a.get(library, "none"), of_b.get(library, "none")


def _was_asked(side: Inventory) -> bool:
    return any(process.pools is not None for process in side.processes)


def _by_library(side: Inventory, roles: Collection[str]) -> dict[str, str]:
    found: dict[str, dict[str, None]] = {}
    for process in side.processes:
        for pool in (process.pools or ()) if process.role in roles else ():
            found.setdefault(pool.library, {})[_pool_size(pool)] = None
    return {library: ", ".join(sorted(texts)) for library, texts in found.items()}


def _variables(a: Inventory, b: Inventory) -> Iterable[tuple[str, str, str]]:
    for name in sorted((RECORDED_VARIABLES - _IDENTITY) & {*a.environment, *b.environment}):
        yield name, a.environment.get(name, "not set"), b.environment.get(name, "not set")


def _cores_rows(a: Inventory, b: Inventory) -> Iterable[tuple[str, str, str]]:
    """Yield consequences of the differences; they vary a little in any pair, so they do not count alone."""
    working = [sum(host.working for host in side.hosts) for side in (a, b)]
    yield "processes at work", str(working[0]), str(working[1])
    yield "cores asked for", _cores(a.expected_cores), _cores(b.expected_cores)
    yield "cores used", _cores(a.observed_cores), _cores(b.observed_cores)
    yield "cores demanded", _cores(a.demand_cores), _cores(b.demand_cores)


# JSON


def inventory_object(taken: Inventory) -> dict[str, Any]:
    """Return ``inventory``, of ``profkit.show/2`` and of each side in ``profkit.diff/2``."""
    pools: dict[tuple[object, ...], dict[str, Any]] = {}
    for pool in (pool for need in taken.processes for pool in need.pools or ()):
        of_pool = plain(pool)
        entry = pools.setdefault(tuple(of_pool.values()), {**of_pool, "processes": 0})
        entry["processes"] += 1
    known = sorted(RECORDED_VARIABLES & {*taken.environment})
    return members(
        taken,
        "expected_cores observed_cores demand_cores available_cpus oversubscription workers ranks pools environment",
        pools=list(pools.values()),
        environment={name: spelled_out(taken.environment[name]) for name in known},
    )
