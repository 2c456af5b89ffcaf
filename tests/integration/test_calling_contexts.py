"""By what chains of callers functions were called: real programs under the real command, and their pages."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.capture import native as compiled
from profkit.capture.agent.reserve import RESERVE_SUFFIX
from profkit.capture.mapped_tables import MappedTables
from profkit.model import Thread
from profkit.model.paths import depths, with_callees
from tests.integration.capturing import ROOT, captured, environment, in_process
from tests.integration.tracing import require_tracer
from tests.records import traced_spool

#: `leaf` is called by two functions, with another amount of work from each; `down` calls itself, `even` and
#: `odd` each other.
PROGRAM = """
import sys, threading, time
def leaf(n): return sum(i * i for i in range(n))
def left(): return leaf(40_000)
def right(times): return [leaf(40_000) for _ in range(times)]
def down(n): return leaf(10) if n == 0 else down(n - 1)
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
def gone():
    try:
        raise KeyError
    except KeyError:
        time.sleep(0.05)
def many():
    for i in range(5): left()
    right(int(sys.argv[1]))
    for i in range(50): down(300); even(200)
    gone()
many()
thread = threading.Thread(target=many, name="other")
thread.start(); thread.join()
"""


@pytest.fixture(autouse=True)
def built() -> None:
    require_tracer()


def chains(thread: Thread) -> dict[tuple[str, ...], tuple[int, float]]:
    """Calls and seconds with callees, by the names from the outermost function in; `…` for those not kept apart."""
    paths, profile = thread.paths, thread.profile
    within = with_callees(paths.parent, paths.tottime)
    found: dict[tuple[str, ...], tuple[int, float]] = {}
    reached: list[tuple[str, ...]] = []
    own = zip(profile.qualname, profile.name, strict=True)
    functions = [profile.strings[qualname or name] for qualname, name in own]
    for at, (row, parent) in enumerate(zip(paths.function.tolist(), paths.parent.tolist(), strict=True)):
        chain = (*(reached[parent] if parent >= 0 else ()), "…" if row < 0 else functions[row])
        reached.append(chain)
        calls, seconds = found.get(chain, (0, 0.0))
        found[chain] = calls + int(paths.ncalls[at]), seconds + float(within[at])
    return found


@pytest.mark.alone  # short calls have no more time than the tracer takes, which other load multiplies
def test_calls_are_where_they_were_made_and_nothing_is_lost(tmp_path: Path) -> None:
    run = captured(tmp_path, sys.executable, "-c", PROGRAM, "15")
    threads = [thread for thread in run.processes[0].threads if thread.paths is not None]
    assert {thread.name for thread in threads} >= {"MainThread", "other"}
    for thread in threads:  # calls and times add up in test_windows.py
        paths, profile = thread.paths, thread.profile
        for ours, theirs in ((paths.wait, profile.wait), (paths.blocked, profile.blocked)):
            assert ours.sum() == pytest.approx(theirs.sum(), rel=1e-6, abs=1e-9)
    for thread in (thread for thread in threads if thread.name in ("MainThread", "other")):
        found = chains(thread)
        (top,) = {chain[: chain.index("many") + 1] for chain in found if "many" in chain}
        assert found[(*top, "left", "leaf")][0] == 5
        of_right = [count for chain, (count, _) in found.items() if chain[-1] == "leaf" and "right" in chain]
        assert of_right == [15]
        # Recursion is with the outermost call, its own function or not.
        assert found[(*top, "down")][0] == 50 * 301
        assert not any(chain.count("down") > 1 or chain.count("even") > 1 for chain in found)
        assert found[(*top, "even")][0] + found[(*top, "even", "odd")][0] == 50 * 201
        assert found[(*top, "gone", "<built-in method time.sleep>")][1] > 0.04


def test_a_page_shows_which_caller_made_it_slower(tmp_path: Path) -> None:
    """Three times the calls from `right`: those are red, and `left`, which calls the same function, is not."""
    for name, times in (("a", "5"), ("b", "15")):
        captured(tmp_path, sys.executable, "-c", PROGRAM, times)
        (tmp_path / "run.prof").rename(tmp_path / f"{name}.prof")
    in_process(tmp_path, "diff", "a.prof", "b.prof", "-o", "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "reconstructed" not in text
    data = json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])
    stacks, names = data["stacks"], data["functions"]["names"]
    assert stacks["measured"]
    calls: dict[str, list[int]] = {}
    around: list[str] = []
    for depth, row, after, before in zip(
        stacks["depth"], stacks["row"], stacks["after"]["ncalls"], stacks["before"]["ncalls"], strict=True
    ):
        around = [*around[:depth], names[row] if row >= 0 else "…"]
        if around[-1] == "leaf":
            caller = next(name for name in reversed(around) if name in ("left", "right", "down"))
            calls.setdefault(caller, []).append(after - before)
    assert calls["left"] == [0, 0]
    assert sum(calls["right"]) == 20


#: More chains of callers than a tracer keeps: each of 9 functions calls all that are not open yet. It then
#: waits to be killed.
CHAINS = """
import os
def make(name):
    def call(left):
        for other in left:
            functions[other](left - {other})
    call.__code__ = call.__code__.replace(co_name=name, co_firstlineno=int(name))
    return call
functions = {n: make(str(n)) for n in range(1, 10)}
def afterwards(): os.kill(os.getpid(), 9)
for n in functions: functions[n](frozenset(functions) - {n})
afterwards()
"""


def test_so_many_contexts_that_not_all_are_kept_lose_no_time(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CHAINS], env=traced_spool(tmp_path), timeout=120)
    assert done.returncode == -signal.SIGKILL
    (path,) = tmp_path.glob("*" + RESERVE_SUFFIX)
    (table,) = MappedTables(path.read_bytes()).threads(None, {}, {})
    header = (Path(compiled.__file__).parent / "tracer" / "paths.h").read_text()
    most = int(re.search(r"MOST_PATHS = (\d+)", header)[1])
    paths = table.paths
    # One more for each that others were called from; a few are the agent's own, which are left out.
    assert most - 10 <= len(paths.parent) <= 2 * most
    assert (paths.function < 0).any()
    calls = table.functions.calls.sum() + len(table.open.function)
    assert paths.calls.sum() == calls
    seconds = table.functions.tottime.sum() + table.open.own.sum()
    assert paths.tottime.sum() == pytest.approx(seconds, rel=1e-9)
    assert depths(paths.parent).max() < 40


WINDOW = """
import profkit
def leaf(): return sum(range(20_000))
def before(): return [leaf() for _ in range(3)]
def measured():
    profkit.start()
    for _ in range(7): leaf()
    profkit.stop()
def outer():
    before()
    measured()
outer()
"""


def test_calls_that_were_open_when_tracing_began_are_around_what_they_called(tmp_path: Path) -> None:
    env = environment(PYTHONPATH=str(ROOT))
    run = captured(tmp_path, sys.executable, "-c", WINDOW, options=("--start-paused",), env=env)
    thread = run.processes[0].threads[0]
    found = chains(thread)
    assert {chain for chain in found if chain[-1] == "leaf"} == {("<module>", "outer", "measured", "leaf")}
    assert found[("<module>", "outer", "measured", "leaf")][0] == 7
    # But for what profkit's own functions called, which opened the window.
    assert 0.9 * thread.profile.total < thread.paths.tottime.sum() <= 1.02 * thread.profile.total
