"""Evidence of the total times, and of what the times of all functions show: orders, scatter, lost slices."""

from __future__ import annotations

import math

from profkit.verdict.evidence.producing import Found, Producers
from profkit.verdict.rule import Case
from profkit.verdict.thresholds import value
from profkit.verdict.types import Evidence


def _wall(case: Case) -> Found:
    """Return the walls of both sides, or their self times where a wall is unknown."""
    a, b = case.before, case.now
    walls = bool(a.wall_s) and bool(b.wall_s)
    factor = math.exp(case.signals.log_walls)
    yield Evidence(
        "wall" if walls else "self-time",
        "s",
        a.wall_s if walls else a.total_s,
        b.wall_s if walls else b.total_s,
        reading="times" if walls or min(a.total_s, b.total_s) > 0 else "",
        numbers={"factor": factor},
    )


def _capture(case: Case) -> Found:
    before, after = case.signals.capture_s
    yield Evidence(
        "capture",
        "s",
        before,
        after,
        reading="of-difference",
        numbers={"share": case.read("account.capture")},
    )


def _distance(case: Case) -> Found:
    s = case.signals
    yield Evidence("order.distance", "distance", 0.0, s.ranking.rbo, s.ranking.noise_floor, "noise-reaches")


def _elsewhere(case: Case) -> Found:
    yield Evidence(
        "order.elsewhere",
        "share",
        0.0,
        case.signals.ranking.total_variation,
        value("moved.tv"),
        "noise-reaches",
    )


def _scatter(case: Case) -> Found:
    yield Evidence(
        "scatter",
        "factor",
        1.0,
        math.exp(case.signals.noisier),
        math.exp(value("repeats.noisier")),
        "only-lost-slices",
    )


def _signs(case: Case) -> Found:
    starved = case.signals.starved
    yield Evidence("signs", "share", None, starved.probability, starved.threshold, "signs-weighed")


def _lumps(case: Case) -> Found:
    found = case.signals.lumps
    if math.isfinite(found.median_s):
        hit = case.signals.signs["all_hit"]
        yield Evidence(
            "lumps", "share", None, hit, reading="lost-slices", numbers={"seconds": found.median_s}
        )


def _lumps_alike(case: Case) -> Found:
    found = case.signals.lumps
    if math.isfinite(found.alike):
        yield Evidence("lumps.alike", "share", None, found.alike, numbers={"count": found.count})


TOTALS_AND_ORDERS: Producers = {
    "wall": _wall,
    "self-time": lambda case: [
        Evidence("self-time", "s", case.before.total_s, case.now.total_s, reading="identical")
    ],
    "capture": _capture,
    "distance": _distance,
    "elsewhere": _elsewhere,
    "scatter": _scatter,
    "signs": _signs,
    "lumps": _lumps,
    "lumps-alike": _lumps_alike,
}
