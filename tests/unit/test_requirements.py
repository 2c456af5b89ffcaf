"""A promised requirement that is missing fails; any other only skips."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.interpreters import interpreter
from tests.requirements import VARIABLE, imported, require

#: Either, told apart by its words: a skip where a failure is expected would skip the test.
ENDED = (pytest.fail.Exception, pytest.skip.Exception)


def test_a_library_that_is_there_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "all")
    require("mpi", True, "no mpirun")
    assert imported("json.decoder").JSONDecoder


@pytest.mark.parametrize(
    ("promised", "asked", "said"),
    [
        ("interpreters", lambda: require("mpi", False, "no mpirun"), "mpi: no mpirun"),
        ("interpreters, mpi", lambda: require("mpi", False, "no mpirun"), "promises mpi, but: no mpirun"),
        ("all", lambda: require("mpi", False, "no mpirun"), "promises mpi, but: no mpirun"),
        # A library is promised by its package's name,
        ("", lambda: imported("no_such.part"), "no_such: no_such is not installed"),
        ("no_such", lambda: imported("no_such.part"), "promises no_such, but: no_such is not installed"),
        # and an interpreter by where it comes from.
        ("newer-interpreters", lambda: interpreter("3.2"), "interpreters: "),
        ("interpreters", lambda: interpreter("3.2"), "promises interpreters, but: no CPython 3.2 here"),
        ("interpreters", lambda: interpreter("3.99"), "newer-interpreters: "),
        (
            *("newer-interpreters", lambda: interpreter("3.99")),
            "promises newer-interpreters, but: no CPython 3.99 here",
        ),
    ],
)
def test_what_is_missing_skips_and_fails_where_it_is_promised(
    monkeypatch: pytest.MonkeyPatch, promised: str, asked: Callable[[], object], said: str
) -> None:
    monkeypatch.setenv(VARIABLE, promised)
    with pytest.raises(ENDED, match=said):
        asked()
