"""``profkit merge`` of spools that a hostile or broken writer left: one line, and memory in proportion to them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.records import record_bytes, samples_bytes
from tests.shared import finished

LAUNCH = {"command": ["python"], "cwd": "/work", "started": "2026-01-01T00:00:00+00:00", "wall_s": 1.0}
#: Bytes that any merge may take, and times the size of what it reads.
BASE, FACTOR = 500 * 10**6, 20


def _many_processes(size: int) -> bytes:
    seen = {"parent": 1, "born": 7, "command": ["x"], "cpu_s": 0.0, "first_ns": 1, "last_ns": 2}
    seen |= {"peak_threads": 1, "alive": False, "folded": [0, 0, 0], "threads": []}
    return samples_bytes([{**seen, "pid": 100 + i, "ns_pid": 100 + i} for i in range(9_000)])


SPOOLS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "a list of nothing": ("a.record", lambda size: record_bytes(agent_tids=[None] * size)),
    "dictionaries": ("a.record", lambda size: record_bytes(notes={str(i): {} for i in range(size // 12)})),
    "tasks": ("a.record", lambda _: record_bytes(tasks=[[i + 1, "", 0, 0, 0] for i in range(20_000)])),
    "processes": ("sampler.samples", _many_processes),
    "facts": ("launch.json", lambda size: json.dumps({**LAUNCH, "x": [[]] * (size // 4)}).encode()),
}


@pytest.mark.parametrize("name", SPOOLS)
def test_memory_in_proportion_to_the_file(tmp_path: Path, name: str) -> None:
    file, make = SPOOLS[name]
    (tmp_path / "launch.json").write_text(json.dumps(LAUNCH))
    (tmp_path / "b.record").write_bytes(record_bytes(pid=11))
    data = make(4_000_000)
    (tmp_path / file).write_bytes(data)
    # Started by a small process: what is forked begins with the memory of the one that it is forked from.
    measured = (
        "import resource, subprocess, sys; status = subprocess.call(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(status)"
    )
    merge = [sys.executable, "-m", "profkit", "merge", str(tmp_path), "-o", str(tmp_path / "run.prof")]
    done = finished([sys.executable, "-c", measured, *merge])
    text = done.stderr
    assert done.returncode in (0, 2), text
    assert all(line.startswith("profkit: ") for line in text.splitlines()), text
    assert done.returncode == 0 or text.count("\n") == 1, text
    assert int(done.stdout.split()[-1]) * 1024 < BASE + FACTOR * len(data)
