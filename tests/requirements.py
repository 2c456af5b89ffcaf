"""What a test needs from the machine: skip without it, except where it was promised.

A test that needs an MPI, say, skips with a reason on a laptop without one. On a machine that must run it,
``PROFKIT_REQUIRE=mpi,interpreters`` turns the skip into a failure, so that it cannot vanish unnoticed.
"""

from __future__ import annotations

import os

import pytest

__all__ = ["VARIABLE", "require", "required"]

#: Names, separated by commas, of the requirements that may not be missing; ``all`` stands for every one.
VARIABLE = "PROFKIT_REQUIRE"


def required() -> frozenset[str]:
    """Return the names in `VARIABLE`."""
    return frozenset(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())


def require(name: str, available: bool, why: str) -> None:
    """Skip the calling test unless what it needs is there; fail where that was promised.

    Parameters
    ----------
    name
        What is needed, as it is written in `VARIABLE`: ``mpi``, ``interpreters``, ``compiler``, …
    available
        Whether it is there.
    why
        What is missing, for the person who reads the list of skipped tests.
    """
    if available:
        return
    if required() & {name, "all"}:
        pytest.fail(f"{VARIABLE} promises {name}, but: {why}", pytrace=False)
    pytest.skip(f"{name}: {why}")
