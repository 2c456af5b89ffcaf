"""What the NVTX tests look at in a run."""

from __future__ import annotations

from profkit.capture.native import nvtx_library
from profkit.model import Process
from profkit.model.ranges import Ranges
from tests.requirements import require


def require_collector() -> None:
    """Skip the calling test where the collector was not compiled."""
    require("native", nvtx_library() is not None, "profkit is installed without its NVTX collector")


def ranges_of(process: Process) -> Ranges:
    assert process.ranges is not None
    return process.ranges


def rows(process: Process) -> list[tuple[str, str, int]]:
    """Name, domain and kind of each range and mark."""
    ranges = ranges_of(process)
    columns = zip(ranges.name.tolist(), ranges.domain.tolist(), ranges.kind.tolist(), strict=True)
    return [(ranges.strings[name], ranges.strings[domain], kind) for name, domain, kind in columns]
