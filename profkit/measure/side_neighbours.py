"""Other programs that ran while a side's runs queued, over all its repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from profkit.model import Neighbour, Neighbours, Run
from profkit.model.arrays import known

#: Cores from which a neighbour is worth naming.
NOTICED = 0.05


def neighbours_of(runs: Sequence[Run]) -> Neighbours | None:
    """Return a side's mean neighbours, matched by order of cores used, since pids differ between runs."""
    each = known(None if run.machine is None else run.machine.neighbours for run in runs)
    if len(each) < 2:
        return each[0] if each else None
    kinds: dict[tuple[str, str, str], list[list[Neighbour]]] = {}
    for number, found in enumerate(each):
        for one in found.listed:
            of_runs = kinds.setdefault((one.name, one.user, one.group), [[] for _ in each])
            of_runs[number].append(one)
    listed = [_mean(place, len(each)) for of_runs in kinds.values() for place in zip_longest(*of_runs)]
    cores = [found.cores for found in each]
    return Neighbours(
        queued_s=sum(found.queued_s for found in each),
        listed=tuple(sorted(listed, key=lambda one: -one.cores)),
        cores=None if None in cores else sum(c for c in cores if c is not None) / len(cores),
        all_visible=all(found.all_visible for found in each),
    )


def _mean(place: Sequence[Neighbour | None], runs: int) -> Neighbour:
    present = known(place)
    same = len({one.pid for one in present}) == 1
    return replace(
        present[0],
        cores=sum(one.cores for one in present) / runs,
        pid=present[0].pid if same else None,
        processes=max(one.processes for one in present),
    )
