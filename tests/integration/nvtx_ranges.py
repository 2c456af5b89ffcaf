"""What the NVTX tests look at in a run."""

from __future__ import annotations

import numpy as np

from profkit.capture.native import nvtx_library
from profkit.model import Process
from profkit.model.ranges import MARK, OPEN, PUSHED, STARTED, Ranges
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


EXPECTED = [
    *(row for i in range(5) for row in (f"step {i}", "forward", "decorated", "backward")),
    *("finished", "handed over", "store", "store", "store", "in a domain", "leaked"),
]


def check(process: Process) -> None:
    ranges = ranges_of(process)
    found = rows(process)
    assert [name for name, _, _ in found] == EXPECTED
    assert {domain for name, domain, _ in found if name in ("store", "in a domain")} == {"my library"}
    assert [kind for name, _, kind in found if name == "store"] == [PUSHED, STARTED, MARK]
    assert {name: kind for name, _, kind in found}["handed over"] == STARTED
    at = EXPECTED.index
    parent = ranges.parent
    assert parent[at("step 3")] == -1
    assert parent[at("step 3") + 1] == at("step 3")
    assert parent[at("step 3") + 2] == at("step 3") + 1
    assert parent[at("step 3") + 3] == at("step 3")
    seconds = ranges.duration_s
    assert (seconds[[i for i, name in enumerate(EXPECTED) if name == "decorated"]] >= 0.002).all()
    assert seconds[at("handed over")] >= 0.002
    assert ranges.end_ns[-1] == OPEN
    assert ranges.unmatched == 1
    assert ranges.color[at("decorated")] & 0xFFFFFF == 0x008000
    category = [ranges.strings[i] for i in ranges.category]
    assert (category[at("decorated")], category[at("store")]) == ("work", "disk")
    assert int(ranges.payload[at("decorated")]) == 7
    backward = [i for i, name in enumerate(EXPECTED) if name == "backward"]
    assert ranges.payload[backward].view(np.float64).tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert set(ranges.thread.tolist()) == {process.threads[0].tid}
