"""NVTX ranges in captured runs: the real nvtx package under the real command, and the traps of NVTX.

XLA's domain, leaked ranges, processes that die, pools, profile functions, names of threads, programs without Python;
which functions run inside ranges, and who opened those.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.native import nvtx_library
from profkit.measure.range_functions import InsideRanges, RangeFunctions, range_functions
from profkit.measure.range_stats import RangeKey, fold_names, pattern_of, range_rows
from profkit.model import Process, Run
from profkit.model.ranges import MARK, OPEN, PUSHED, STARTED
from tests.integration.capturing import (
    PROGRAMS,
    captured,
    codes,
    environment,
    in_process,
    ranges_of,
    require_collector,
    rows,
    run_capture,
    script,
)
from tests.integration.tracing import compiled, require_tracer
from tests.interpreters import packages
from tests.requirements import require
from tests.shared import finished

PROGRAM = str(PROGRAMS / "annotated.py")


@pytest.fixture(autouse=True)
def built() -> None:
    require_collector()


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


def test_everything_that_the_nvtx_package_can_do(tmp_path: Path) -> None:
    run = captured(tmp_path, sys.executable, PROGRAM)
    (process,) = run.processes
    check(process)
    assert run.warnings == ()
    assert "NVTX_INJECTION64_PATH" not in process.environment, "what profkit set is no fact of the target's"
    # Ranges are on the clock of the manifest, and within the run.
    ranges = ranges_of(process)
    begin = run.manifest.clocks["monotonic"]
    assert begin < ranges.begin_ns.min() / 1e9
    assert ranges.begin_ns.max() / 1e9 < begin + run.manifest.wall_s + 1


def test_another_tool_is_not_put_aside(tmp_path: Path) -> None:
    env = environment(NVTX_INJECTION64_PATH="/opt/nsight/libToolsInjection64.so")
    program = "import os; print(os.environ['NVTX_INJECTION64_PATH'])"
    done = run_capture(tmp_path, sys.executable, "-c", program, env=env)
    assert done.stdout == "/opt/nsight/libToolsInjection64.so\n"
    assert "another tool receives the NVTX ranges" in done.stderr
    assert done.stderr.count("NVTX_INJECTION64_PATH") == 1


def test_nvtx_that_is_switched_off_is_said(tmp_path: Path) -> None:
    env = environment(NVTX_DISABLE="0")
    done = run_capture(tmp_path, sys.executable, PROGRAM, env=env)
    assert "NVTX_DISABLE is set (to 0)" in done.stderr
    (process,) = done.run.processes
    assert {domain for _, domain, _ in rows(process)} == {"my library"}, "the Domain API still speaks"


NATIVE = Path(__file__).parents[1] / "native"


def shown(directory: Path, *words: str) -> str:
    return in_process(directory, "show", "--full", *words).stdout


@pytest.mark.parametrize("wanted", ["", "0", "1"])
def test_xlas_domain_is_taken_on_request_only(tmp_path: Path, wanted: str) -> None:
    library = compiled(tmp_path / "library.so", NATIVE / "nvtx_library.c")
    program = (
        "import ctypes\n"
        f"library = ctypes.CDLL({library!r})\n"
        "print(library.create_domain(b'TSL'), library.create_domain(b'TSLA'))\n"
    )
    done = run_capture(tmp_path, sys.executable, "-c", program, env=environment(PROFKIT_NVTX_XLA=wanted))
    assert done.stdout == ("1 1\n" if wanted == "1" else "0 1\n")
    (process,) = done.run.processes
    assert {domain for _, domain, _ in rows(process)} == ({"TSL", "TSLA"} if wanted == "1" else {"TSLA"})


def test_an_exception_leaks_a_range_and_that_is_told(tmp_path: Path) -> None:
    program = (
        "import nvtx\n"
        "def work():\n"
        "    nvtx.push_range('pushed by hand')\n"
        "    raise ValueError\n"
        "for i in range(3):\n"
        "    try:\n"
        "        with nvtx.annotate('outer'): work()\n"
        "    except ValueError: pass\n"
        "nvtx.push_range('at the end'); nvtx.pop_range()\n"
    )
    (process,) = captured(tmp_path, sys.executable, "-c", program).processes
    ranges = ranges_of(process)
    names = [name for name, _, _ in rows(process)]
    assert names == ["outer", "pushed by hand"] * 3 + ["at the end"]
    # The end of the `with` has popped the inner range: the outer ones are the open ones.
    assert [name for name, end in zip(names, ranges.end_ns, strict=True) if end == OPEN] == ["outer"] * 3
    assert ranges.unmatched == 0
    found = json.loads(shown(tmp_path, "run.prof", "--format", "json"))["ranges"]
    unbalanced = {row["name"]: row["unbalanced"] for row in found}
    assert unbalanced == {"outer": 3, "pushed by hand": 0, "at the end": 0}
    assert "began but never ended" in shown(tmp_path, "run.prof")


def test_pool_workers_have_their_own(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import multiprocessing, nvtx, os\n"
        "def work(i):\n"
        "    with nvtx.annotate(f'work {i}', domain='pool'): return os.getpid()\n"
        "if __name__ == '__main__':\n"
        "    with nvtx.annotate('parent'):\n"
        "        with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "            pool.map(work, range(40), chunksize=1)\n",
    )
    main, *others = captured(tmp_path, sys.executable, program).processes
    assert [name for name, _, _ in rows(main)] == ["parent"]
    done = [row for worker in others if worker.ranges is not None for row in rows(worker)]
    assert sorted(name for name, _, _ in done) == sorted(f"work {i}" for i in range(40))
    assert {domain for _, domain, _ in done} == {"pool"}


def test_nvtxs_own_profiler_is_let_through(tmp_path: Path) -> None:
    """`nvtx.Profile` takes the place of a profile function for a while: its ranges are there, and the gap is said."""
    program = (
        "import nvtx\n"
        "def work(): return sum(range(10))\n"
        "profile = nvtx.Profile(); profile.enable()\n"
        "for _ in range(10): work()\n"
        "profile.disable()\n"
    )
    run = captured(tmp_path, sys.executable, "-c", program)
    names = [name for name, domain, _ in rows(run.processes[0]) if domain == "nvtx.py"]
    assert names.count("sum") == 10
    # Its record goes on when the profiler gives the place back.
    assert codes(run) == (["own-cprofile"] if sys.version_info < (3, 12) else [])


def test_names_reach_threads_that_python_does_not_know(tmp_path: Path) -> None:
    library = compiled(tmp_path / "library.so", NATIVE / "nvtx_library.c")
    program = (
        "import ctypes, time\n"
        f"library = ctypes.CDLL({library!r})\n"
        "name = ctypes.c_char_p(b'data loader of the library')\n"
        "assert library.start_named(name) == 0\n"
        "time.sleep(0.5)\n"  # the thread is seen from outside only
    )
    (process,) = captured(tmp_path, sys.executable, "-c", program).processes
    assert process.ranges is None, "it named a thread and opened no range"
    require("schedstat", len(process.threads) > 1, "this kernel lists no threads")
    assert "data loader of the library" in [thread.name for thread in process.threads]


def test_a_program_that_is_not_python(tmp_path: Path) -> None:
    client = compiled(tmp_path / "client", NATIVE / "nvtx_client.c")
    done = run_capture(tmp_path, client, "threads", "40")
    assert done.stderr.count("no functions are in this run") == 1, done.stderr
    (process,) = done.run.processes
    assert (process.role, process.exit, process.command[1:]) == ("main", "exited", ("threads", "40"))
    assert not process.profiled
    assert len(ranges_of(process)) == 120
    assert process.command[0].endswith("client")
    text = shown(tmp_path, "run.prof")
    assert "nothing; 1 process seen" in text
    assert "thread {n}" in text
    assert "Functions" not in text
    assert "no functions are in this run" in " ".join(text.split())


def test_the_collectors_functions_answer_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = (
        "import ctypes\n"
        f"library = ctypes.PyDLL({str(nvtx_library())!r})\n"
        "library.profkit_nvtx_start.restype = ctypes.c_uint64\n"
        "library.profkit_nvtx_end.argtypes = [ctypes.c_uint64]\n"
        "print(library.profkit_nvtx_push(b'x'), library.profkit_nvtx_pop(), library.profkit_nvtx_start(b'x'))\n"
        "library.profkit_nvtx_mark(b'x'); library.profkit_nvtx_end(5)\n"
    )
    monkeypatch.delenv("PROFKIT_SPOOL", raising=False)
    done = finished([sys.executable, "-c", program])
    assert (done.stdout, done.returncode) == ("-2 -2 0\n", 0), done.stderr


RANGES_AROUND = str(PROGRAMS / "ranges_around.py")


def inside_of(found: InsideRanges, name: str, domain: str = "") -> RangeFunctions:
    result = found.get(RangeKey(name, domain).pattern)
    assert result is not None, name
    return result


def seconds(found: RangeFunctions) -> dict[str, float]:
    return {function.name: function.tottime for function in found.functions}


def openers(found: RangeFunctions) -> dict[str, int]:
    return {opener.name: opener.count for opener in found.opened_by}


#: By name and domain of a range: who opened it how often, where that is looked at, and calls in it.
INSIDE: dict[tuple[str, str], tuple[dict[str, int] | None, dict[str, int]]] = {
    ("outer {n}", ""): ({"nested": 4}, {"work": 8}),  # what is inside the inner range is in both
    ("inner", ""): ({"nested": 4}, {"work": 4}),
    ("decorated", ""): ({"nested": 4}, {"decorated_body": 4}),
    ("walk", ""): ({"recursive": 4}, {"work": 4}),  # a range in one of its own name counts once
    ("leaked", ""): ({"leaks": 1}, {"work": 2}),  # nothing pops it
    ("first", "one"): (None, {"work": 1}),
    ("second", "two"): (None, {"work": 2}),  # each domain has a stack of its own
    ("resume", ""): (None, {"steps": 4, "work": 3}),
    ("level", ""): (None, {"work": 1}),
    ("after the deep", ""): (None, {"work": 1}),
    ("spanning", ""): ({"opens": 1}, {"work": 1}),
    ("in a thread", ""): ({"in_a_thread": 1}, {}),
    ("in the child", ""): ({"child": 1}, {}),
    ("until the end", ""): (None, {"work": 1}),
}


def check_inside(run: Run) -> None:
    found = range_functions(run)
    for key, (opened, counted) in INSIDE.items():
        inside = inside_of(found, *key)
        assert opened in (None, openers(inside)), key
        ncalls = {function.name: function.ncalls for function in inside.functions}
        assert counted.items() <= ncalls.items(), key
    assert "nested" in seconds(inside_of(found, "outer {n}")), "who opened a range runs in it, too"
    child = next(p for p in run.processes if p.pid != run.processes[0].pid)
    calls = child.threads[0].range_calls
    assert [calls.strings[i] for i in calls.name.tolist()] == ["in the child"]

    # The collector folds numbers as reports do: no range is left without its functions.
    for row in range_rows(run.processes):
        assert found.get(row.key.pattern) is not None, row.key
    ranges = [process.ranges for process in run.processes if process.ranges is not None]
    names = [text for part in ranges for text in part.strings]
    assert {pattern_of(text) for text in fold_names(names).values()} == {pattern_of(text) for text in names}


def check_sums(run: Run) -> None:
    """What the functions have inside ranges is the time that their threads were in them."""
    found = range_functions(run)
    compared = 0
    for row in range_rows(run.processes):
        if row.key.name in ("walk", "level") or row.unbalanced or row.total_s < 0.001:
            continue  # their totals count nested ones twice
        known = found.get(row.key.pattern)
        # The two read their clocks one after the other, and may lose the CPU in between.
        assert known.total_s == pytest.approx(row.total_s, rel=0.1, abs=0.02), row.key
        assert known.total_s == pytest.approx(sum(f.tottime for f in known.functions))
        compared += 1
    assert compared >= 5


def test_functions_inside_ranges(tmp_path: Path, both_ways: str) -> None:
    require_tracer()
    env = environment(PYTHONPATH=str(packages(both_ways, "nvtx")))
    run = captured(tmp_path, both_ways, "-W", "ignore", RANGES_AROUND, env=env)
    check_inside(run)
    check_sums(run)


SAMPLED = """
import ctypes, os, threading, time
library = ctypes.PyDLL(os.environ["NVTX_INJECTION64_PATH"])
def work():
    begun = time.thread_time()
    while time.thread_time() - begun < 0.005: pass
def ranges(name):
    library.profkit_nvtx_push(b"all of it")
    for _ in range(60):
        library.profkit_nvtx_push(name)
        work()
        library.profkit_nvtx_pop()
    library.profkit_nvtx_pop()
ranges(b"first")
thread = threading.Thread(target=ranges, args=(b"other",))
thread.start()
thread.join()
"""


@pytest.mark.parametrize("options", [("--sampled",), ("--overhead", "1%")])
def test_functions_inside_ranges_of_a_sampled_process(
    tmp_path: Path, both_ways: str, options: tuple[str, ...]
) -> None:
    """Ranges that were open before, and those of threads that begin later."""
    run = captured(tmp_path, both_ways, "-c", SAMPLED, options=options)
    found, whole = range_functions(run), {row.key.name: row.total_s for row in range_rows(run.processes)}
    for name in ("first", "other", "all of it"):
        assert 0.3 * whole[name] < inside_of(found, name).total_s < 1.2 * whole[name]


def test_a_killed_process_keeps_what_its_last_record_had(tmp_path: Path) -> None:
    require_tracer()
    program = (
        "import nvtx, os, time\n"
        "def work():\n"
        "    time.sleep(3)\n"  # the last record is at most 2 seconds old
        "with nvtx.annotate('long'):\n"
        "    work()\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    run = captured(tmp_path, sys.executable, "-c", program, status=-9)
    found = inside_of(range_functions(run), "long")
    assert seconds(found)["<built-in method time.sleep>"] > 0.0
    assert openers(found) == {"<module>": 1}
