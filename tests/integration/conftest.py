"""Interpreters that tests run on, which are skipped where they are not there."""

from __future__ import annotations

import pytest

from tests.interpreters import BOTH_WAYS, EACH_WAY, interpreter


@pytest.fixture(params=BOTH_WAYS)
def both_ways(request: pytest.FixtureRequest) -> str:
    return interpreter(request.param)


@pytest.fixture(params=EACH_WAY)
def each_way(request: pytest.FixtureRequest) -> str:
    return interpreter(request.param)
