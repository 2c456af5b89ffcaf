"""Fixtures of the tests that run real programs."""

from __future__ import annotations

import pytest

from tests.integration.nvtx_ranges import require_collector


@pytest.fixture(params=["collector", "python"])
def how(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables for a capture with the compiled NVTX collector, and for one without."""
    if request.param == "python":
        return {"PROFKIT_NO_NATIVE": "1"}
    require_collector()
    return {}
