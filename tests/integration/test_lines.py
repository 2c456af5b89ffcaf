"""In which lines of a function the time went, in captures of real programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from profkit.model import Run
from tests.integration.capturing import captured, names, script
from tests.interpreters import EACH_WAY, interpreter

#: Rounds of each loop, one of which is `TURN` on each machine that runs the tests.
TURN = 250_000

#: Three loops of one line each, which take 7, 2 and 1 parts; a native function that one line calls. Where no
#: event has told the sampler of it, its time is its caller's, in the same line.
PROGRAM = f"""
import sys

def loops(turns):
    for i in range(7 * turns): i * i
    for i in range(2 * turns): i * i
    for i in range(turns): i * i

def sorts(times):
    data = list(range(4000, 0, -1)) * 10
    for turn in range(times):
        sorted(data)
    return len(data)

for part in range(4):
    loops({TURN})
sorts(150)
"""
LOOPS, SORTED = [5, 6, 7], 12
#: Captures of which one must show the shares: on a busy machine a look comes late now and then.
TRIES = 3


def lines_of(run: Run, function: str) -> dict[tuple[str, int], float]:
    """Seconds of a function by the function that has the line, and its number."""
    found: dict[tuple[str, int], float] = {}
    for process in run.processes:
        for thread in process.threads:
            functions = names(thread.profile)
            for line in thread.lines or ():
                if function in functions[line.function]:
                    place = functions[line.within], line.line
                    found[place] = found.get(place, 0.0) + line.seconds
    return found


def eventually(capture: Callable[[], Run], holds: Callable[[Run], bool]) -> None:
    runs = []
    for _ in range(TRIES):
        runs.append(capture())
        if holds(runs[-1]):
            return
    pytest.fail("; ".join(f"{lines_of(run, 'loops')} {lines_of(run, 'sort')}" for run in runs))


@pytest.mark.parametrize(("version", "tier"), [*zip(EACH_WAY, ["--sampled", "--exact"] * 2, strict=True)])
def test_shares_of_lines(tmp_path: Path, version: str, tier: str) -> None:
    python = interpreter(version)
    program = script(tmp_path, PROGRAM)

    def holds(run: Run) -> bool:
        loops, sort = lines_of(run, "loops"), lines_of(run, "sort")
        whole = sum(loops.values())
        assert {function for function, _ in loops} == {"loops"}
        # A call begins in the line of its definition.
        assert {line for _, line in loops} <= {LOOPS[0] - 1, *LOOPS}
        first, second, third = (loops.get(("loops", line), 0.0) for line in LOOPS)
        sorts_here = max(sort, key=sort.__getitem__, default=None) == ("sorts", SORTED)
        return sorts_here and first > second > third and 0.5 < first / max(whole, 1e-9) < 0.9

    eventually(lambda: captured(tmp_path, python, program, options=(tier,)), holds)


def test_lines_of_a_wait(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import time\ndef waits():\n    for turn in range(20):\n        time.sleep(0.01)\n"
        "        time.sleep(0.03)\nwaits()\n",
    )

    def holds(run: Run) -> bool:
        found = lines_of(run, "sleep")
        assert {line for _, line in found} <= {4, 5}
        return found.get(("waits", 5), 0.0) > found.get(("waits", 4), 0.0) > 0

    eventually(lambda: captured(tmp_path, sys.executable, program), holds)
