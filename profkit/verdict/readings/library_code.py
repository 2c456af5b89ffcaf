"""Which code of libraries ran: code that the baseline did not run, and compilation of functions while it ran."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from profkit.compare.result_types import DiffTable
from profkit.identity.lookup_columns import rows_where
from profkit.model import SITE
from profkit.verdict.rule import Case, Reading

#: Functions of just-in-time compilers in which all compilation happens: names by file, by package.
_COMPILERS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "numba": {"numba/core/dispatcher.py": frozenset(("_compile_for_args",))},
    "torch": {
        "torch/_dynamo/convert_frame.py": frozenset(("_compile",)),
        "torch/_inductor/compile_fx.py": frozenset(("compile_fx",)),
        "torch/utils/cpp_extension.py": frozenset(("_jit_compile",)),
    },
    "jax": {"jax/_src/compiler.py": frozenset(("compile_or_get_cached", "backend_compile"))},
    "triton": {"triton/compiler/compiler.py": frozenset(("compile",))},
}
_COMPILING = frozenset().union(*(names for places in _COMPILERS.values() for names in places.values()))


def jit_compiling(table: DiffTable) -> tuple[str, float, float]:
    """Return the compiler whose compiling took most of the added time, and its seconds on both sides."""
    best = "", 0.0, 0.0
    named = table.in_roots(SITE) & rows_where(table.name, lambda name: name.rpartition(".")[2] in _COMPILING)
    rows = [
        (row, table.keys[row].path, table.name[row].rpartition(".")[2])
        for row in np.flatnonzero(named).tolist()
    ]
    for package, places in _COMPILERS.items():
        at = [row for row, path, name in rows if name in places.get(path, ())]
        if at:
            # They call each other.
            before, after = (float(side.cumtime[at].max()) for side in (table.baseline, table.candidate))
            if after - before > best[2] - best[1]:
                best = package, before, after
    return best


def new_code(table: DiffTable) -> tuple[str, float]:
    """Return the library with most active time in modules that the baseline did not run, and all such seconds.

    Modules, since samples meet other small functions in each run. What only the baseline ran is taken off.
    """
    sides = table.candidate, table.baseline
    of_libraries = table.in_roots(SITE)
    paths = {row: table.keys[row].path for row in np.flatnonzero(of_libraries).tolist()}
    modules = [{paths[row] for row in np.flatnonzero(of_libraries & side.present).tolist()} for side in sides]
    seconds: dict[str, float] = {}
    for sign, side, others in ((1, sides[0], modules[1]), (-1, sides[1], modules[0])):
        for row in np.flatnonzero(of_libraries & side.present & (side.active > 0)).tolist():
            if paths[row] not in others:
                library = paths[row].partition("/")[0].removesuffix(".py")
                seconds[library] = seconds.get(library, 0.0) + sign * float(side.active[row])
    return max(seconds, key=lambda name: seconds[name], default=""), sum(seconds.values())


def _new_part(case: Case) -> float | None:
    table = case.signals.table
    added = float(table.candidate.active.sum() - table.baseline.active.sum())
    # Workers may do it beside each other.
    lost = max(added, case.account.program_s)
    return max(0.0, min(1.0, new_code(table)[1] / lost)) if lost > 0 else None


def _jit_part(case: Case) -> float | None:
    _, before, after = jit_compiling(case.signals.table)
    added = case.account.program_s
    # Functions have the time of all ranks, of which each lost as much.
    grown = after / max(1, case.now.mains) - before / max(1, case.before.mains)
    return min(1.0, grown / added) if added > 0 else None


LIBRARY_CODE: Mapping[str, Reading] = {
    "library.new": Reading(
        "share",
        "part of the lost or added time in modules of libraries that the baseline did not run, less the reverse",
        _new_part,
    ),
    "library.named": Reading(
        "text", "the library with most of it", lambda c: new_code(c.signals.table)[0] or None
    ),
    "jit.part": Reading(
        "share", "part of the lost time in which a just-in-time compiler compiled functions", _jit_part
    ),
    "jit.named": Reading("text", "that compiler", lambda c: jit_compiling(c.signals.table)[0] or None),
}
