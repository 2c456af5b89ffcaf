"""Other programs that ran while a side's runs queued, over all its repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from profkit.model import Neighbour, Neighbours, Run

#: Cores from which a neighbour is worth naming.
NOTICED = 0.05


def neighbours_of(runs: Sequence[Run]) -> Neighbours | None:
    """Return a side's mean neighbours, matched by order of cores used, since pids differ between runs."""
    known = [
        run.machine.neighbours
        for run in runs
        if run.machine is not None and run.machine.neighbours is not None
    ]
    if len(known) < 2:
        return known[0] if known else None
    kinds: dict[tuple[str, str, str], list[list[Neighbour]]] = {}
    for number, found in enumerate(known):
        for one in found.listed:
            of_runs = kinds.setdefault((one.name, one.user, one.group), [[] for _ in known])
            of_runs[number].append(one)
    listed = [_mean(place, len(known)) for of_runs in kinds.values() for place in zip_longest(*of_runs)]
    cores = [found.cores for found in known]
    return Neighbours(
        queued_s=sum(found.queued_s for found in known),
        listed=tuple(sorted(listed, key=lambda one: -one.cores)),
        cores=None if None in cores else sum(c for c in cores if c is not None) / len(cores),
        all_visible=all(found.all_visible for found in known),
    )


def _mean(place: Sequence[Neighbour | None], runs: int) -> Neighbour:
    present = [one for one in place if one is not None]
    same = len({one.pid for one in present}) == 1
    return replace(
        present[0],
        cores=sum(one.cores for one in present) / runs,
        pid=present[0].pid if same else None,
        processes=max(one.processes for one in present),
    )
