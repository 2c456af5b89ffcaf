"""Where other calls and other costs come from: changed code, or more work."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.compare.call_sites import CallSites
from profkit.compare.handed_down import handed_down
from profkit.compare.origins import Origins
from profkit.compare.process_calls import calls_of_processes
from profkit.compare.sampled_calls import call_ratios
from profkit.model import Run
from profkit.verdict.judge import judge
from profkit.verdict.rule import Case
from tests.builders import with_main, with_thread
from tests.programs import Fn, compare, estimated, plain, program, training


class Found:
    """Origins of a pair, by names of functions."""

    def __init__(self, a: Run, b: Run) -> None:
        signals = compare(a, b).signals
        self.names = signals.table.name
        self.origins: Origins = signals.origins

    def calls(self, name: str) -> float:
        """Part of the other calls of a function that changed code has made, weighed over its sites."""
        sites, row = self.origins.sites, self.names.index(name)
        weight = np.where(sites.one_sided, 1.0, np.abs(sites.log_ratio)) + 1e-12
        return float(sites.by_row(weight * sites.from_code)[row] / sites.by_row(weight)[row])

    def cost(self, name: str) -> float:
        return float(self.origins.cost_from_code[self.names.index(name)])

    @property
    def found(self) -> list[tuple[str, str, float, float, bool]]:
        return [
            (self.names[o.row], self.names[o.callee], o.before, o.after, o.from_code)
            for o in self.origins.found
        ]


DOT = "<built-in method lib.dot>"
#: `blur` turns oftener, as its source changed.
LOOP = {"per_step": {"sharpen": 20}, "changed": {"blur": "with a loop"}}


def test_calls_are_divided_between_a_loop_and_more_steps() -> None:
    """2,000 calls would be 1,000 for the steps alone: of the 3,500 added, 3,000 are the loop's."""
    found = Found(program(training()), program(training(200, **LOOP)))
    assert found.calls("sharpen") == pytest.approx(3000 / 3500, rel=1e-3)
    assert [found.calls(name) for name in ("step", "blur", DOT)] == [0.0, 0.0, 0.0]
    assert sorted(found.found) == [
        ("blur", "sharpen", 5.0, 20.0, True),
        ("main", "step", 100.0, 200.0, False),
    ]
    # What the steps take with all that they call, at the baseline's cost.
    (steps,) = (origin for origin in found.origins.found if not origin.from_code)
    assert (steps.seconds, steps.calls) == (pytest.approx(3.15), 1)
    assert not Found(program(training()), program(training(200))).origins.cost_from_code.any()


@pytest.mark.parametrize(("changed", "part"), [({"blur": "with a loop"}, 1.0), ({}, 0.0)])
def test_changed_code_makes_calls_though_its_own_are_not_known(
    changed: Mapping[str, str], part: float
) -> None:
    unknown = {"blur": None}
    a = estimated(program(training()), 0.05, of=unknown)
    b = estimated(program(training(per_step={"sharpen": 20}, changed=changed)), 0.05, of=unknown)
    assert Found(a, b).calls("sharpen") == part


def copying(depth: int, source: str, *, edited_module: bool = False) -> Run:
    """A snapshot in each step: shallow, or by two functions of the standard library that call each other so deep."""
    copy = "/usr/lib/python3.11/copy.py"
    calls, inner = 100 * depth, 100 * depth - 100
    functions = [
        Fn("<module>", 1, 0.01, source="edited" if edited_module else "module"),
        Fn("step", 100, 2.0, callers={"<module>": 100}),
        Fn("snapshot", 100, 0.001, callers={"step": 100}, source=source),
    ]
    if depth:
        callers = {"snapshot": 100, "_copy_list": inner}
        functions += [
            Fn("deepcopy", calls, 1e-5 * calls, callers=callers, file=copy),
            Fn("_copy_list", inner, 1e-5 * calls, callers={"deepcopy": inner}, file=copy),
        ]
    return program(functions)


def test_calls_below_changed_code_are_its_own_through_any_recursion() -> None:
    a, b = copying(0, "shallow"), copying(10_000, "deep", edited_module=True)
    found = Found(a, b)
    assert [found.calls(name) for name in ("deepcopy", "_copy_list")] == pytest.approx([1.0, 1.0], abs=1e-3)
    verdict = judge(compare(a, b))
    # The module was edited as well, but gained nothing.
    assert (verdict.rule, verdict.subject) == ("changed-source", "snapshot")
    # The same calls with the same source of their callers are more work.
    more = Found(copying(10, "deep"), copying(10_000, "deep"))
    assert more.calls("deepcopy") == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(
    ("slower", "changed", "below"), [("sharpen", "blur", "blur"), ("load", "forward", "")]
)
def test_a_changed_function_that_gained_nothing_has_nothing_below_it(
    slower: str, changed: str, below: str
) -> None:
    """`blur` calls what got slower; what `forward` takes with its callees is as before."""
    other = program(training(times={slower: 3.0}, changed={changed: "edited"}))
    signals = compare(program(training()), other).signals
    assert signals.table.shown(signals.movement.below_row) == below


def test_samples_that_met_a_recursion_only_inside_belong_to_what_enters_it() -> None:
    # No sample met the outermost call alone, and all that is known of it is what it took with its callees.
    a, b = copying(0, "shallow"), site_times(copying(10_000, "deep"), {("snapshot", "deepcopy"): 0.0})
    found = Found(estimated(a, 0.05), estimated(b, 0.05, of=dict.fromkeys(("deepcopy", "_copy_list"))))
    below = [found.origins.below[found.names.index(name)] for name in ("deepcopy", "_copy_list")]
    assert below == pytest.approx([1.0, 1.0], abs=0.01)


@given(st.integers(2, 30), st.randoms(use_true_random=False))
def test_what_is_handed_down_is_what_the_equations_say(n: int, draw: random.Random) -> None:
    """Any graph, with recursion of any depth: each function gets parts of its callers, and one its own."""
    pairs = [(caller, callee) for caller in range(n) for callee in range(1, n) if draw.random() < 0.3]
    pairs += [(callee - 1, callee) for callee in range(1, n)]
    caller, callee = np.array(pairs, np.intp).T
    weight = np.array([draw.choice((0.2, 1.0, 5.0)) for _ in pairs])
    weight /= np.bincount(callee, weight, n)[callee]
    own = np.zeros(n)
    own[0] = 1.0

    def step(current: np.ndarray) -> np.ndarray:
        return own + np.bincount(callee, weight * current[caller], n)

    found = handed_down(step, own.copy(), (caller, callee, weight), (np.zeros(n), np.ones(n)))
    # All comes from the first one.
    assert found == pytest.approx(np.ones(n), abs=0.05)


#: `sharpen` calls `kernel` through a function of a library; neither takes time itself.
def through_a_library(source: str, seconds: float) -> Run:
    chain = [
        Fn("sharpen", 100, callers={"load": 100}, source=source),
        Fn("filter", 100, callers={"sharpen": 100}, file="/usr/lib/python3.11/site-packages/image.py"),
        Fn("<built-in method image.kernel>", 100, seconds, callers={"filter": 100}),
    ]
    return estimated(program(training(extra=chain)), None)


def test_cost_below_changed_code_is_its_own_through_functions_that_no_sample_was_in() -> None:
    before, kernel = through_a_library("three", 0.5), "<built-in method image.kernel>"
    assert Found(before, through_a_library("nine", 2.5)).cost(kernel) == pytest.approx(1.0)
    assert Found(before, through_a_library("three", 2.5)).cost(kernel) == 0.0


def fitted(rows: int) -> Run:
    """`fit` was a product of its own, or calls a library for each row, which then takes nearly all of the time."""
    library = {"file": "/usr/lib/python3.11/site-packages/fit.py"}
    total = Fn("_sum", 50 + rows, 0.01 + 1e-4 * rows, callers={"load": 50, "polyfit": rows}, **library)
    loop = [
        Fn("fit", 50, callers={"load": 50}, source="row by row"),
        Fn("fit.each", 50, 0.2, callers={"fit": 50}),
        Fn("polyfit", rows, 40.0, callers={"fit.each": rows}, **library),
        total,
    ]
    product = Fn("fit", 50, 0.2, callers={"load": 50}, source="a product")
    short = [product, replace(total, callers={"load": 50})]
    unknown = {"load": None, "fit": None, "fit.each": None, "_sum": 0.9 if not rows else 0.1}
    return estimated(program(training(extra=loop if rows else short)), 0.1, of=unknown)


@pytest.mark.parametrize("exchanged", [False, True])
def test_what_changed_code_calls_is_its_own_whichever_side_calls_it(exchanged: bool) -> None:
    sides = fitted(0), fitted(20_000)
    found = Found(*(sides[::-1] if exchanged else sides))
    assert found.cost("polyfit") == pytest.approx(1.0)
    assert found.calls("_sum") == pytest.approx(1.0, abs=0.01)


def test_calls_are_handed_down_to_what_they_call() -> None:
    """``step`` calls ``forward`` three times instead of once: the products below are its doing as well."""
    more = {"per_step": {"forward": 3}, "changed": {"step": "thrice"}}
    product = Fn(DOT, 1600, 1.6, callers={"forward": 1200, "backward": 400})
    found = Found(program(training()), program([*training(**more)[:-1], product]))
    assert found.found == [("step", "forward", 1.0, 3.0, True)]
    assert found.calls("forward") == 1.0
    assert found.calls(DOT) == pytest.approx(1.0)


def test_new_functions_of_a_project_whose_sources_are_known_are_code() -> None:
    helper = Fn("helper", 500, 1.0, callers={"blur": 500})
    found = Found(program(training()), program([*training(changed={"blur": "calls helper"}), helper]))
    assert found.calls("helper") == 1.0
    # Whoever calls it: functions are passed around.
    passed = Found(program(training()), program([*training(), replace(helper, callers={"load": 500})]))
    assert passed.calls("helper") == 1.0
    library = replace(helper, file="/v/site-packages/lib/a.py", callers={"load": 500})
    unchanged = Found(program(training()), program([*training(), library]))
    assert unchanged.calls("helper") == 0.0


def test_native_functions_that_a_changed_root_calls_are_its_code() -> None:
    def run(cost: float, source: str) -> Run:
        native = Fn("<built-in method lib.solve>", 10, cost, callers={"main": 10})
        return program([*training(changed={"main": source}), native])

    found = Found(run(0.5, "small"), run(3.0, "large matrices"))
    assert found.cost("<built-in method lib.solve>") == pytest.approx(1.0)


def test_another_python_changes_libraries_and_not_the_project() -> None:
    def run(source: str, python: str) -> Run:
        file = "/usr/lib/python3.11/json/a.py"
        library = Fn("parse", 100, 0.1, callers={"load": 100}, file=file, source=source)
        return with_main(program([*training(), library]), python=python)

    same = Found(run("a", "3.11.7"), run("b", "3.11.7"))
    assert same.cost("parse") == 0.0  # nothing of it changed but the source
    other = Found(run("a", "3.11.7"), run("b", "3.12.1"))
    assert not other.origins.cost_from_code.any()


def test_without_callers_changed_functions_are_all_there_is() -> None:
    def bare(run: Run) -> Run:
        return with_thread(run, profile=replace(run.processes[0].threads[0].profile, edges=None))

    found = Found(bare(program(training())), bare(program(training(**LOOP))))
    assert found.found == []
    assert found.calls("blur") == 1.0
    assert found.calls("sharpen") == 0.0


# More processes call more of what starts and feeds them: that is a setting, and no work

IMPORTLIB = "<frozen importlib._bootstrap>"
POOL = "/usr/lib/python3.11/multiprocessing/pool.py"
LOADS = "<built-in method marshal.loads>"
DUMP = "<method 'dump' of '_pickle.Pickler' objects>"
FORKING = "/usr/lib/python3.11/multiprocessing/reduction.py"


def worker(tasks: int, items: int) -> list[Fn]:
    """A process that imports its modules, and then works on its share in so many tasks."""
    return [
        Fn("_find_and_load", 1, 0.0, file=IMPORTLIB),
        Fn(LOADS, 300, 0.6, callers={"_find_and_load": 300}),
        Fn("setup", 1, 0.05, callers={"_find_and_load": 1}),
        Fn("worker", 1, 0.0, file=POOL),
        Fn("dumps", tasks, 0.0005 * tasks, callers={"worker": tasks}, file=FORKING),
        Fn(DUMP, tasks, 0.001 * tasks, callers={"dumps": tasks}),
        Fn("augment", items, 0.001 * items, callers={"worker": items}),
    ]


def with_workers(number: int, *, items: int = 1200, steps: int = 100) -> Run:
    # Each batch goes to all workers, so that each of them has as many tasks as there are batches.
    share = items // number
    return program(training(steps), workers=[worker(steps, share) for _ in range(number)])


def added(comparison: Case, name: str, processes: tuple[int, int], *, recorded: bool = True) -> float:
    table, calls = comparison.signals.table, comparison.signals.calls
    found = calls_of_processes(table, calls, call_ratios(table), processes, recorded=recorded)
    return float(found[table.name.index(name)])


def test_more_workers_import_and_are_fed_more_often() -> None:
    found = compare(with_workers(2), with_workers(6))
    # `setup` is the project's own, called while a module is imported.
    expected = {LOADS: 4 * 300, "setup": 4, "dumps": 400, DUMP: 400, "augment": 0, "step": 0}
    assert {name: added(found, name, (3, 7)) for name in expected} == expected
    # As many processes: nothing comes with their number.
    assert added(found, LOADS, (3, 3)) == 0
    assert found.signals.movement.calls_factor == pytest.approx(1.0, abs=1e-3)
    assert found.account.seconds("work") == pytest.approx(0.0, abs=1e-3)
    sites = found.signals.origins.sites
    of_loads = sites.row == found.signals.table.name.index(LOADS)
    assert sites.of_processes[of_loads].tolist() == pytest.approx([1.0] * int(of_loads.sum()))
    assert not sites.from_code[of_loads].any()
    other_way = compare(with_workers(6), with_workers(2))
    assert added(other_way, LOADS, (7, 3)) == -4 * 300
    assert other_way.signals.movement.calls_factor == pytest.approx(1.0, abs=1e-3)


def test_what_the_workers_do_more_is_work() -> None:
    found = compare(with_workers(2), with_workers(6, items=2400))
    assert added(found, "augment", (3, 7)) == 0
    assert added(found, DUMP, (3, 7)) == 400
    assert found.signals.movement.calls_factor > 1.1
    more = compare(with_workers(2), with_workers(6, steps=200))
    assert added(more, "step", (3, 7)) == 0
    assert more.signals.movement.calls_factor > 1.3


def test_programs_that_are_not_recorded_call_nothing_of_the_table() -> None:
    """A script calls its own functions as many times more as it starts other programs."""

    def script(number: int) -> Run:
        subprocess = "/usr/lib/python3.11/subprocess.py"
        functions = [
            Fn("<module>", 1, 0.01),
            Fn("run", number, 0.001, callers={"<module>": number}, file=subprocess),
            Fn("<built-in method _posixsubprocess.fork_exec>", number, 0.01, callers={"run": number}),
            Fn("augment", 100 * number, 0.1 * number, callers={"<module>": 100 * number}),
        ]
        run = program(functions)
        main = run.processes[0]
        child = replace(main, role="child", threads=(), profiled=False, cpu_s=0.1, parent=main.pid)
        return replace(run, processes=(main, *(replace(child, pid=1000 + i) for i in range(number))))

    found = compare(script(6), script(12))
    assert added(found, "augment", (6, 12), recorded=False) == 0
    assert added(found, "run", (6, 12), recorded=False) == 6
    assert found.signals.movement.calls_factor == pytest.approx(2.0, rel=0.02)
    assert found.account.seconds("work") == pytest.approx(0.6, rel=0.02)


def test_more_messages_to_each_process_do_not_come_with_their_number() -> None:
    """Three workers in place of two, each of which gets a hundred times as many."""
    found = compare(with_workers(2), with_workers(3, steps=100 * 100))
    assert added(found, DUMP, (3, 4)) == 0.5 * 2 * 100


# What other calls account for: divided by who calls, exact, symmetric and bounded

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
    profile = run.processes[0].threads[0].profile
    edges = profile.edges
    names = [profile.strings[name] for name in profile.name.tolist()]
    pairs = zip(edges.caller.tolist(), edges.callee.tolist(), edges.tottime.tolist(), strict=True)
    own = np.array([times.get((names[a], names[b]), usual) for a, b, usual in pairs])
    changed = replace(profile, edges=replace(edges, tottime=own)).validate()
    return with_thread(run, profile=changed)


def summing(items: int, each: float, long: float) -> Run:
    """`report` sums a few long lists, a generator many short ones."""
    total = long + items * each
    functions = [
        Fn("main", run=0.1),
        Fn("report", 4, 0.1, callers={"main": 4}),
        Fn("items", 20_000, 1.0, callers={"main": 20_000}),
        Fn(SUM, 4 + items, total, callers={"report": 4} | ({"items": items} if items else {})),
    ]
    return site_times(plain(functions), {("report", SUM): long, ("items", SUM): items * each})


def test_a_few_long_calls_do_not_price_many_short_ones() -> None:
    found = compare(summing(0, 0.0, 2.0), summing(20_000, 1e-4, 2.0))
    # Two seconds in short calls that were not there, and nothing else.
    account = found.account
    assert account.seconds("work") + account.seconds("code") == pytest.approx(2.0)
    assert account.seconds("speed") == pytest.approx(0.0, abs=1e-9)
    assert 1 < found.signals.movement.calls_factor < 2


def test_a_caller_that_was_renamed_calls_the_same_as_often() -> None:
    def called_by(name: str, cost: float) -> Run:
        step = Fn(name, 100, 0.5, callers={"main": 100})
        return plain([Fn("main", run=0.1), step, Fn(SUM, 1000, cost, callers={name: 1000})])

    found = compare(called_by("step", 2.0), called_by("one_step", 3.0))
    sites, row = found.signals.origins.sites, found.signals.table.name.index(SUM)
    before, after = (np.where(np.arange(sites.n) == row, time, 0.0) for time in (2.0, 3.0))
    # Seconds that other calls of `sum` account for, where it took so long.
    assert sites.by_row(sites.seconds(before, after))[row] == pytest.approx(0.0)
