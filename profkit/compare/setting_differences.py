"""Differences between both manifests: machine, interpreter, variables, packages, revision."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.measure.run_settings import revision_of, set_by_hand
from profkit.model import Host, Pool, Process, Run, RunSet


@dataclass(frozen=True, slots=True)
class Setting:
    """One difference, of a `kind` in `_facts`; a value is empty if not set, not installed or unknown."""

    kind: str
    name: str
    baseline: str
    candidate: str


def differences(baseline: RunSet, candidate: RunSet) -> tuple[Setting, ...]:
    """Return the differences of the first runs, ordered by kind; empty if a side has no manifest."""
    a, b = baseline.runs[0], candidate.runs[0]
    if a.manifest is None or b.manifest is None:
        return ()
    found: list[Setting] = []
    others = _facts(b)
    for kind, facts_a in _facts(a).items():
        facts_b = others[kind]
        names = dict.fromkeys((*facts_a, *facts_b))
        for name in names if kind in ("machine", "python", "source") else sorted(names):
            one, other = facts_a.get(name, ""), facts_b.get(name, "")
            if one != other:
                found.append(Setting(kind, name, one, other))
    return tuple(found)


def _facts(run: Run) -> dict[str, dict[str, str]]:
    """Return the values by kind and name, in the order in which they are listed."""
    assert run.manifest is not None
    first = run.processes[0] if run.processes else Process()
    revision = revision_of(run)
    return {
        "machine": _machine(run.manifest.host),
        "python": {"python": first.python} if first.python else {},
        "variable": set_by_hand(run.manifest.environment),
        "pool": _pools(first.pools or ()),
        "package": dict(run.manifest.packages),
        "source": {"revision": revision} if revision else {},
    }


def _machine(host: Host) -> dict[str, str]:
    facts = {
        "host": host.name,
        "system": host.system,
        "CPU model": host.cpu_model,
        "CPUs": str(host.cpus or ""),
        "usable CPUs": str(host.affinity or ""),
        "CPU quota": "" if host.quota_cpus is None else f"{host.quota_cpus:g} CPUs",
    }
    return {name: value for name, value in facts.items() if value}


def _pools(pools: tuple[Pool, ...]) -> dict[str, str]:
    facts: dict[str, list[str]] = {}
    for pool in pools:
        size = "?" if pool.threads is None else str(pool.threads)
        why = pool.variable or pool.origin
        facts.setdefault(pool.library, []).append(f"{size} ({why})" if why else size)
    return {library: ", ".join(sizes) for library, sizes in facts.items()}
