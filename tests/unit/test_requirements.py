"""A promised requirement that is missing fails; any other only skips."""

from __future__ import annotations

import pytest

from tests.interpreters import interpreter
from tests.requirements import VARIABLE, imported, require

#: Either, told apart by its words: a skip where a failure is expected would skip the test.
ENDED = (pytest.fail.Exception, pytest.skip.Exception)


@pytest.mark.parametrize(
    ("promised", "said"),
    [
        ("interpreters", "mpi: no mpirun"),
        ("interpreters, mpi", "promises mpi, but: no mpirun"),
        ("all", "promises mpi, but: no mpirun"),
    ],
)
def test_what_is_missing_skips_and_fails_where_it_is_promised(
    monkeypatch: pytest.MonkeyPatch, promised: str, said: str
) -> None:
    monkeypatch.setenv(VARIABLE, promised)
    require("mpi", True, "no mpirun")
    with pytest.raises(ENDED, match=said):
        require("mpi", False, "no mpirun")


def test_a_library_is_promised_by_its_packages_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert imported("json.decoder").JSONDecoder
    for promised, said in (
        ("no_such_package", "promises no_such_package, but: no_such"),
        ("", "package: no_such"),
    ):
        monkeypatch.setenv(VARIABLE, promised)
        with pytest.raises(ENDED, match=f"{said}_package is not installed"):
            imported("no_such_package.part")


@pytest.mark.parametrize(("version", "promise"), [("3.2", "interpreters"), ("3.99", "newer-interpreters")])
def test_interpreters_are_promised_by_where_they_come_from(
    monkeypatch: pytest.MonkeyPatch, version: str, promise: str
) -> None:
    other = "interpreters" if version == "3.99" else "newer-interpreters"
    promised_is_missing = f"promises {promise}, but: no CPython {version} here"
    for promised, said in ((promise, promised_is_missing), (other, f"{promise}: ")):
        monkeypatch.setenv(VARIABLE, promised)
        with pytest.raises(ENDED, match=said):
            interpreter(version)
