"""More processes call more of what starts and feeds them: that is a setting, and no work."""

from __future__ import annotations

import pytest

from profkit.compare.process_calls import calls_of_processes
from profkit.compare.sampled_calls import call_ratios
from profkit.model import Run
from profkit.verdict.readings import Case
from tests.programs import Fn, compare, one_side, program, training

IMPORTLIB = "<frozen importlib._bootstrap>"
POOL = "/usr/lib/python3.11/multiprocessing/pool.py"
LOADS = "<built-in method marshal.loads>"
DUMP = "<method 'dump' of '_pickle.Pickler' objects>"
FORKING = "/usr/lib/python3.11/multiprocessing/reduction.py"


def worker(tasks: int, items: int, *, modules: int = 300, imports: float = 0.002) -> list[Fn]:
    """A process that imports its modules, and then works on its share in so many tasks."""
    return [
        Fn("_find_and_load", 1, 0.0, file=IMPORTLIB),
        Fn(LOADS, modules, imports * modules, callers={"_find_and_load": modules}),
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


def compared(a: Run, b: Run) -> Case:
    return compare(one_side(a), one_side(b))


def added(comparison: Case, name: str, processes: tuple[int, int]) -> float:
    table, calls = comparison.signals.table, comparison.signals.calls
    return float(calls_of_processes(table, calls, call_ratios(table), processes)[table.name.index(name)])


def test_more_workers_import_and_are_fed_more_often() -> None:
    found = compared(with_workers(2), with_workers(6))
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
    other_way = compared(with_workers(6), with_workers(2))
    assert added(other_way, LOADS, (7, 3)) == -4 * 300
    assert other_way.signals.movement.calls_factor == pytest.approx(1.0, abs=1e-3)


def test_what_the_workers_do_more_is_work() -> None:
    found = compared(with_workers(2), with_workers(6, items=2400))
    assert added(found, "augment", (3, 7)) == 0
    assert added(found, DUMP, (3, 7)) == 400
    assert found.signals.movement.calls_factor > 1.1
    more = compared(with_workers(2), with_workers(6, steps=200))
    assert added(more, "step", (3, 7)) == 0
    assert more.signals.movement.calls_factor > 1.3
