"""What other calls account for: divided by who calls, exact, symmetric and bounded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.compare.call_sites import CallSites
from profkit.model import Run, Thread
from tests.programs import Fn, compare, one_side, plain

SUM = "<built-in method builtins.sum>"

times = st.floats(1e-6, 1e3)
ratios = st.floats(1e-6, 1e6)


def site(log_ratio: float) -> CallSites:
    none, one = np.zeros(1), np.ones(1)
    row = np.zeros(1, np.intp)
    log = np.array([log_ratio])
    return CallSites(row, row - 1, one, one, log, log, log, none > 0, none, none, 1)


def seconds_of(before: float, after: float, ratio: float) -> float:
    return float(site(math.log(ratio)).seconds(np.array([before]), np.array([after]))[0])


@given(times, ratios, ratios)
def test_what_calls_account_for_lies_within_the_difference_where_costs_moved_alike(
    before: float, calls: float, cost: float
) -> None:
    after = before * calls * cost
    found = seconds_of(before, after, calls)
    if (calls >= 1) == (cost >= 1):
        low, high = sorted((0.0, after - before))
        assert low - 1e-6 * after <= found <= high + 1e-6 * max(after, before)
    # Elsewhere the two cancel: by no more than the times that there are, for each factor of e.
    assert abs(found) <= max(before, after) * abs(math.log(calls)) * (1 + 1e-6)


def site_times(run: Run, times: Mapping[tuple[str, str], float]) -> Run:
    """The same with these self times by caller and callee."""
    main = run.processes[0]
    profile = main.threads[0].profile
    edges = profile.edges
    names = [profile.strings[name] for name in profile.name.tolist()]
    pairs = zip(edges.caller.tolist(), edges.callee.tolist(), edges.tottime.tolist(), strict=True)
    own = np.array([times.get((names[a], names[b]), usual) for a, b, usual in pairs])
    changed = replace(profile, edges=replace(edges, tottime=own)).validate()
    return replace(run, processes=(replace(main, threads=(Thread(changed),)),))


def summing(items: int, each: float, long: float) -> Run:
    """`report` sums a few long lists, a generator many short ones."""
    total = long + items * each
    made = plain(
        [
            Fn("main", run=0.1),
            Fn("report", 4, 0.1, callers={"main": 4}),
            Fn("items", 20_000, 1.0, callers={"main": 20_000}),
            Fn(SUM, 4 + items, total, callers={"report": 4} | ({"items": items} if items else {})),
        ]
    )
    return site_times(made, {("report", SUM): long, ("items", SUM): items * each})


def test_a_few_long_calls_do_not_price_many_short_ones() -> None:
    found = compare(one_side(summing(0, 0.0, 2.0)), one_side(summing(20_000, 1e-4, 2.0)))
    # Two seconds in short calls that were not there, and nothing else.
    account = found.account
    assert account.seconds("work") + account.seconds("code") == pytest.approx(2.0)
    assert account.seconds("speed") == pytest.approx(0.0, abs=1e-9)
    assert 1 < found.signals.movement.calls_factor < 2


def test_a_caller_that_was_renamed_calls_the_same_as_often() -> None:
    def called_by(name: str, cost: float) -> Run:
        step = Fn(name, 100, 0.5, callers={"main": 100})
        return plain([Fn("main", run=0.1), step, Fn(SUM, 1000, cost, callers={name: 1000})])

    found = compare(one_side(called_by("step", 2.0)), one_side(called_by("one_step", 3.0)))
    sites, row = found.signals.origins.sites, found.signals.table.name.index(SUM)
    before, after = (np.where(np.arange(sites.n) == row, time, 0.0) for time in (2.0, 3.0))
    # Seconds that other calls of `sum` account for, where it took so long.
    assert sites.by_row(sites.seconds(before, after))[row] == pytest.approx(0.0)
