"""Which functions wait by design: by their names, and by whom they call and serve."""

from __future__ import annotations

import pytest

from profkit.compare.waiting_rows import waiting_rows
from profkit.measure.waits_by_name import is_wait
from profkit.model import BUILTIN, PROJECT, STDLIB
from profkit.verdict.diagnosis import diagnose as diff
from tests.programs import ACQUIRE, Fn, one_side, program

CONNECTION = "/usr/lib/python3.11/multiprocessing/connection.py"
SELECTORS = "/usr/lib/python3.11/selectors.py"
POLL = "<method 'poll' of 'select.poll' objects>"
READ = "<method 'read' of '_io.BufferedReader' objects>"


def waiting(*functions: Fn, edges: bool = True) -> set[str]:
    """Names of the functions that wait, in a program whose ``main`` computes as well."""
    run = program([Fn("main", 1, 1.0), *functions])
    found = diff(one_side(run), one_side(run), calls=True)
    rows = waiting_rows(found.table, found.calls if edges else None)
    return {name for name, waits in zip(found.table.name, rows.tolist(), strict=True) if waits}


def test_what_wraps_waiting_waits_where_callers_are_known() -> None:
    functions = (
        Fn("Connection.poll", 100, 0.01, callers={"main": 100}, file=CONNECTION),
        Fn("PollSelector.select", 100, 0.02, callers={"Connection.poll": 100}, file=SELECTORS),
        Fn(POLL, 100, 0.0, 0.0, 2.0, {"PollSelector.select": 100}),
    )
    assert waiting(*functions) == {"Connection.poll", "PollSelector.select", POLL}
    assert waiting(*functions, edges=False) == {POLL}


def test_what_is_called_for_nothing_but_waiting_waits() -> None:
    served = (
        Fn("PollSelector.select", 100, 0.01, callers={"main": 100}, file=SELECTORS),
        Fn(POLL, 100, 0.0, 0.0, 2.0, {"PollSelector.select": 100}),
        Fn("SelectorKey.__new__", 100, 0.01, callers={"PollSelector.select": 100}, file=SELECTORS),
        Fn("<built-in method builtins.max>", 100, 0.01, callers={"PollSelector.select": 100}),
    )
    assert waiting(*served) == {fn.name for fn in served}
    # The same function that others call as often is theirs too.
    shared = Fn(
        "<built-in method builtins.max>", 200, 0.01, callers={"PollSelector.select": 100, "main": 100}
    )
    assert waiting(*served[:3], shared) == {fn.name for fn in served[:3]}


def test_a_projects_own_loop_is_the_projects() -> None:
    loop = Fn("wait_for_result", 1, 0.01, callers={"main": 1})
    sleep = Fn("<built-in method time.sleep>", 100, 0.0, 0.0, 2.0, {"wait_for_result": 100})
    helper = Fn("check", 100, 0.01, callers={"wait_for_result": 100})
    assert waiting(loop, sleep, helper) == {sleep.name}


def test_a_library_that_waits_for_the_smaller_part_computes() -> None:
    fit = Fn("fit", 1, 2.0, callers={"main": 1}, file="/usr/lib/python3.11/statistics.py")
    assert waiting(fit, Fn(ACQUIRE, 10, 0.0, 0.0, 0.5, {"fit": 10})) == {ACQUIRE}


def test_what_wraps_reading_computes() -> None:
    """Reading waits, but who reads a file decodes and copies it as well."""
    load = Fn("load", 1, 0.1, callers={"main": 1}, file="/usr/lib/python3.11/json/__init__.py")
    assert waiting(load, Fn(READ, 10, 0.0, 0.0, 2.0, {"load": 10})) == {READ}


@pytest.mark.parametrize(
    ("name", "root", "waits"),
    [
        ("<method 'acquire' of '_thread.lock' objects>", STDLIB, True),
        (POLL, STDLIB, True),
        ("<built-in method time.sleep>", STDLIB, True),
        ("<built-in method time.sleep>", BUILTIN, True),
        ("<built-in method posix.read>", STDLIB, True),
        ("<built-in method posix.readlink>", STDLIB, False),
        ("<method 'recv_into' of '_socket.socket' objects>", STDLIB, True),
        ("<method '_accept' of '_socket.socket' objects>", BUILTIN, True),
        ("<method 'get' of '_queue.SimpleQueue' objects>", STDLIB, True),
        ("Pool._handle_tasks", STDLIB, True),
        ("<method 'get' of 'dict' objects>", STDLIB, False),
        ("<method 'join' of 'str' objects>", STDLIB, False),
        ("Reader.read", STDLIB, False),
        # A project's own function of such a name may compute.
        ("Queue.wait", STDLIB, True),
        ("Simulation.wait", PROJECT, False),
    ],
)
def test_what_waits_by_its_name(name: str, root: str, waits: bool) -> None:
    assert is_wait(name, root) is waits
