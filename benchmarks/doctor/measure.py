"""Asks every library under every limit, and says which limits it honours.

A limit is honoured where the library then takes less than without it. Two CPUs suffice for that: one of them, or a
quota of one, is a limit. They do not suffice to tell a library that takes one thread per core from one that takes one
per CPU where a core has one of them; the tables say what was measured on which machine.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.doctor.conditions import VIEWS, asked, quota_views
from benchmarks.doctor.probes import PROBES, Probe
from profkit.formats.codec import Codec
from profkit.study.doctor_libraries import Honours, Variable

#: Asks for so many more threads than by default.
MORE = 3
#: Quotas in CPUs: rounded down both are 1, to the next number 1 and 2, up 2 and 2.
ODD_QUOTAS = (1.2, 1.6)
ROUNDING = {(1, 1): "floor", (1, 2): "round", (2, 2): "ceil"}


def measure(name: str, python: Path, versions: Mapping[str, str], version_of_python: str) -> Honours:
    """Ask one library of an environment.

    Parameters
    ----------
    name
        Of `PROBES`.
    python, versions, version_of_python
        The interpreter, its distributions with their versions, and its own version.

    Raises
    ------
    RuntimeError
        This machine has one CPU only, or the library gave no number.
    """
    probe = PROBES[name]
    if len(os.sched_getaffinity(0)) < 2:
        raise RuntimeError("a limit cannot be seen on a machine with one CPU")
    first = str(min(os.sched_getaffinity(0)))
    base = asked(python, probe)
    affinity = asked(python, probe, around=["taskset", "-c", first]) < base
    views, quota = _quota(python, probe, base)
    variables = tuple(_variables(python, probe, base))
    version = f"{probe.package} {versions[probe.package]}" if probe.package else f"Python {version_of_python}"
    return Honours(name, version, affinity, quota, views, variables)


def _quota(python: Path, probe: Probe, base: int) -> tuple[tuple[str, ...], str]:
    with quota_views(1.0) as found:
        honoured = [
            view for view in VIEWS if view in found and asked(python, probe, around=found[view]) < base
        ]
    if not honoured:
        return (), ""
    sizes = []
    for cores in ODD_QUOTAS:
        with quota_views(cores) as found:
            sizes.append(asked(python, probe, around=found[honoured[-1]]))
    return tuple(honoured), ROUNDING.get((sizes[0], sizes[1]), "ceil")


def _variables(python: Path, probe: Probe, base: int) -> list[Variable]:
    """Return the variables that have an effect, the one that holds first."""
    few, many = (1 if base > 1 else 2), base + MORE
    one_cpu = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    effective = []
    for name, form in probe.variables.items():
        if asked(python, probe, {name: form.format(n=few)}) != base:
            more = asked(python, probe, {name: form.format(n=many)})
            cap = ""
            if more <= base:
                on_one = asked(python, probe, {name: form.format(n=many)}, around=one_cpu)
                cap = "machine" if on_one > asked(python, probe, around=one_cpu) else "default"
            effective.append(Variable(name, cap))
    if len(effective) < 2:
        return effective
    wins = dict.fromkeys((v.name for v in effective), 0)
    for one, other in itertools.permutations((v.name for v in effective), 2):
        # The greater number holds only where this variable does; the lesser would be right of an upper bound, too.
        both = {one: probe.variables[one].format(n=2), other: probe.variables[other].format(n=1)}
        wins[one] += asked(python, probe, both) == 2
    return sorted(effective, key=lambda v: -wins[v.name])


def written(rows: Sequence[Honours], date: str, machine: str) -> str:
    """Return the file that holds a table, a row on each line."""
    codec = Codec(Honours)
    lines = ",\n".join(f"  {json.dumps(codec.write(row))}" for row in rows)
    return f'{{\n "date": {json.dumps(date)},\n "machine": {json.dumps(machine)},\n "limits": [\n{lines}\n ]\n}}\n'
