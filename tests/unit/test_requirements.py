"""A promised requirement that is missing fails; any other only skips."""

from __future__ import annotations

import pytest

from tests.interpreters import interpreter
from tests.requirements import VARIABLE, imported, require

Failed = pytest.fail.Exception
Skipped = pytest.skip.Exception


@pytest.mark.parametrize(
    ("promised", "ended", "said"),
    [
        ("interpreters", Skipped, "mpi: no mpirun"),
        *((promised, Failed, "promises mpi, but: no mpirun") for promised in ("interpreters, mpi", "all")),
    ],
)
def test_what_is_missing_skips_and_fails_where_it_is_promised(
    monkeypatch: pytest.MonkeyPatch, promised: str, ended: type[BaseException], said: str
) -> None:
    monkeypatch.setenv(VARIABLE, promised)
    require("mpi", True, "no mpirun")
    with pytest.raises(ended, match=said):
        require("mpi", False, "no mpirun")


def test_a_library_is_promised_by_its_packages_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "no_such_package")
    assert imported("json.decoder").JSONDecoder
    with pytest.raises(Failed, match="promises no_such_package, but: no_such_package is not installed"):
        imported("no_such_package.part")
    monkeypatch.setenv(VARIABLE, "")
    with pytest.raises(Skipped, match="no_such_package is not installed"):
        imported("no_such_package")


@pytest.mark.parametrize(("version", "promise"), [("3.2", "interpreters"), ("3.99", "newer-interpreters")])
def test_interpreters_are_promised_by_where_they_come_from(
    monkeypatch: pytest.MonkeyPatch, version: str, promise: str
) -> None:
    monkeypatch.setenv(VARIABLE, promise)
    with pytest.raises(Failed, match=f"promises {promise}, but: no CPython {version} here"):
        interpreter(version)
    monkeypatch.setenv(VARIABLE, "interpreters" if version == "3.99" else "newer-interpreters")
    with pytest.raises(Skipped):
        interpreter(version)
