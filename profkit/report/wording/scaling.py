"""Runs with different numbers of processes and nodes in words: the fastest, and where more are slower."""

from __future__ import annotations

import math

from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.study.scaling import Place, Scaling, SlowDown

#: Global efficiency (1) from which POP calls a program's scaling acceptable.
ACCEPTABLE = 0.8
#: Speed-up from which more processes are said to help.
NOTICEABLE = 1.1


def place_name(place: Place) -> str:
    """Return ``8 processes on 2 nodes``."""
    processes = "1 process" if place.processes == 1 else f"{place.processes:,} processes"
    nodes = "1 node" if place.nodes == 1 else f"{place.nodes:,} nodes"
    return f"{processes} on {nodes}"


def slowdown_text(study: Scaling, slow: SlowDown) -> str:
    """Return what gets slower with more processes or nodes, and which efficiency fell most."""
    fewer, more = study.places[slow.fewer], study.places[slow.more]
    falls = [
        (after / before, name)
        for before, after, name in (
            (fewer.balance, more.balance, "load balance"),
            (fewer.communication, more.communication, "communication efficiency"),
            (fewer.computation, more.computation, "computation scaling"),
        )
        if before > 0 and math.isfinite(after)
    ]
    why = ""
    if falls and min(falls)[0] < 1:
        why = f" What fell most is the {min(falls)[1]}, to {units.factor(min(falls)[0])} of what it was."
    doubt = "" if math.isfinite(more.low_s) else " Nothing ran twice: repeat the runs before you rely on it."
    return f"{place_name(more)}: {units.factor(slow.factor)} as long as {place_name(fewer)}.{why}{doubt}"


def scaling_verdict(study: Scaling) -> VerdictBlock:
    """Return the answer."""
    best = min(study.places, key=lambda place: place.median_s)
    reference = study.places[0]
    if study.slowdowns:
        slow = study.slowdowns[0]
        fewer, more = study.places[slow.fewer], study.places[slow.more]
        changed = (
            f"From {fewer.nodes} to {more.nodes} nodes"
            if fewer.nodes != more.nodes
            else f"From {fewer.processes} to {more.processes} processes"
        )
        return VerdictBlock(
            f"{changed} it becomes {units.factor(slow.factor)} slower",
            f"{slowdown_text(study, slow)} The fastest is {place_name(best)}: {units.seconds(best.median_s)}.",
            "bad",
        )
    last = study.places[-1]
    good = last.whole >= ACCEPTABLE
    gains = study.weak or last.speedup > NOTICEABLE
    if study.weak:
        said = (
            f"{place_name(last)} take {units.factor(1 / last.speedup)} the time of {place_name(reference)}."
        )
    else:
        said = (
            f"{place_name(last)} are {units.factor(last.speedup)} as fast as {place_name(reference)}; ideal is "
            f"{units.factor(last.ideal)}."
        )
    return VerdictBlock(
        "It scales well" if good else "It scales, with losses" if gains else "More processes hardly help",
        f"{said} Global efficiency {units.share(last.whole)}.",
        "good" if good else "unsure",
    )
