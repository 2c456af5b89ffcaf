"""What a test needs from the machine: skip without it, except where it was promised.

A test that needs an MPI, say, skips with a reason on a laptop without one. On a machine that must run it,
``PROFKIT_REQUIRE=mpi,interpreters`` turns the skip into a failure, so that it cannot vanish unnoticed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType

import pytest

#: Names, separated by commas, of the requirements that may not be missing; ``all`` stands for every one.
VARIABLE = "PROFKIT_REQUIRE"


def required() -> frozenset[str]:
    """Return the names in `VARIABLE`."""
    return frozenset(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


def require(name: str, available: bool, why: str) -> None:
    """Skip the calling test unless what it needs (a name of `VARIABLE`) is there; fail where that was promised."""
    if available:
        return
    if required() & {name, "all"}:
        pytest.fail(f"{VARIABLE} promises {name}, but: {why}", pytrace=False)
    pytest.skip(f"{name}: {why}")


def imported(name: str) -> ModuleType:
    """Return a library, such as ``snakeviz.stats``, or skip the calling test; it is promised by its first word."""
    package = name.partition(".")[0]
    require(package, importlib.util.find_spec(package) is not None, f"{package} is not installed")
    return importlib.import_module(name)
