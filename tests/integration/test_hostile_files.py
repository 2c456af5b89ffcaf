"""Files that were made to hurt, through every command: an answer or one line, no traceback, and bounded memory."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.targets.commands import COMMANDS, all_commands
from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.formats.limits import FLOOR, WEIGHTS
from profkit.model import Edges, Process, Profile, Run, Thread
from profkit.model.bounds import EXACT, LAST_NS
from profkit.model.columns import column_dtypes
from profkit.model.ranges import Ranges
from tests.hostile_files import joinable_run
from tests.records import record_bytes, samples_bytes
from tests.requirements import require
from tests.run_files import member_of, npy, rewritten
from tests.shared import finished, succeeded, words_of

#: Least and greatest seconds, other than 0, that a file may hold.
TINY, AGES = 1e-60, 1e12


@pytest.fixture
def good(tmp_path: Path) -> Path:
    write_run(tmp_path / "good.prof", joinable_run())
    return tmp_path / "good.prof"


def with_fields(document: Any, names: tuple[str, ...], value: Any) -> Any:
    """Set fields of these names, wherever they are."""
    if isinstance(document, dict):
        return {k: value if k in names else with_fields(item, names, value) for k, item in document.items()}
    if isinstance(document, list):
        return [with_fields(item, names, value) for item in document]
    return document


def fields(value: Any, *names: str) -> Callable[[Path], dict[str, bytes]]:
    def changes(path: Path) -> dict[str, bytes]:
        return {
            member: json.dumps(with_fields(member_of(path, member), names, value)).encode()
            for member in ("manifest.json", "processes.json")
        }

    return changes


def calls_of_ages(path: Path) -> dict[str, bytes]:
    document = member_of(path, "processes.json")
    for process in document:
        for thread in process["threads"]:
            thread["open_calls"] = [[row, AGES] for row, _ in thread.get("open_calls", ())]
    return {"processes.json": json.dumps(document).encode()}


def columns(value: float, *names: str) -> Callable[[Path], dict[str, bytes]]:
    def changes(path: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(path) as archive:
            found = {name: np.load(io.BytesIO(archive.read(f"{name}.npy"))) for name in names}
        return {f"{name}.npy": npy(np.full(len(old), value, old.dtype)) for name, old in found.items()}

    return changes


SECONDS = words_of(
    "wall_s cpu_s run_s run_queue_wait_s busy_s steal_s psi_some_s tree_cpu_s before_s after_s user_s system_s "
    "throttled_s period_s"
)
COUNTS = words_of(
    "cpus affinity timeslices voluntary_switches involuntary_switches peak_memory_bytes page_faults read_bytes "
    "storage_bytes peak_threads peak_runnable periods throttled_periods memory_limit_bytes refaulted_bytes"
)
TIMES = [f"functions/{name}" for name in words_of("tottime cumtime wait blocked cumwait cumblocked")]
EDGE_TIMES = ("edges/tottime", "edges/cumtime")
CALLS = [f"{group}/{name}" for group in ("functions", "edges") for name in ("ncalls", "primitive_calls")]

#: Files that are refused.
REFUSED = {
    "wall below 0": fields(-5, "wall_s"),
    "denormal wall": fields(5e-324, "wall_s"),
    "infinite wall": fields(float("inf"), "wall_s"),
    "wall that is NaN": fields(float("nan"), "wall_s"),
    "wall of a text": fields("1", "wall_s"),
    "wall of a list": fields([1], "wall_s"),
    "no wall": fields(None, "wall_s"),
    "CPUs below 0": fields(-2, "cpus"),
    "count beyond 64 bits": fields(2**64, "page_faults"),
    "pids of texts": fields("1", "pid"),
    "rank below 0": fields(-1, "rank"),
    "job of a list": fields([1], "job"),
    "job with an id that is a number": fields({"id": 7}, "job"),
    "git of a text": fields("main", "git"),
    "revision that is a number": fields({"revision": 1}, "git"),
    "clocks of the next age": fields({"time": 1e18, "monotonic": 0}, "clocks"),
    "sampler of texts": fields({"cpu_s": "1"}, "sampler"),
    "times that are infinite": columns(np.inf, "functions/tottime"),
    "times that are NaN": columns(np.nan, "functions/cumtime"),
    "times beyond all ages": columns(1e300, "functions/cumtime"),
    "denormal times": columns(5e-324, "functions/tottime"),
    "calls below 0": columns(-1, "functions/ncalls"),
    "calls that overflow": columns(2**62, "functions/ncalls"),
    "ranges that end before they begin": columns(1, "ranges/end_ns"),
    "ranges before time": columns(-(2**62), "ranges/begin_ns"),
    "ranges around themselves": columns(0, "ranges/parent"),
    "readings that are infinite": columns(np.inf, "series/load"),
}

#: Files that hold what can be, however unlikely: what is changed in each.
TAKEN: dict[str, list[Callable[[Path], dict[str, bytes]]]] = {
    "nothing took time": [
        fields(0, *SECONDS, *COUNTS),
        fields([], "command"),
        columns(0, *TIMES, *EDGE_TIMES, *CALLS),
        columns(0, "ranges/begin_ns", "ranges/end_ns", "samples/time_ns", "series/time_ns"),
    ],
    "all took next to no time": [
        fields(TINY, *SECONDS, "quota_cpus", "load"),
        columns(TINY, *TIMES, *EDGE_TIMES),
    ],
    "all took ages": [
        fields(AGES, *SECONDS),
        fields(1 << 20, *COUNTS),
        fields({"time": LAST_NS / 1e9, "monotonic": 0}, "clocks"),
        calls_of_ages,
        columns(AGES, *TIMES, *EDGE_TIMES),
        columns(LAST_NS, "ranges/end_ns", "samples/run_ns", "samples/wait_ns"),
    ],
    "a wall of next to nothing": [fields(TINY, "wall_s"), columns(AGES, *TIMES[2:])],
    "a wall of ages": [fields(AGES, "wall_s"), columns(0, *CALLS)],
    "nothing is known": [
        fields(None, *(name for name in SECONDS if name != "wall_s"), *COUNTS),
        columns(np.nan, "series/busy_s", "series/load", "series/psi_some_s"),
        columns(-1, "ranges/end_ns"),
    ],
    "numbers below 0 and texts that are markup": [
        columns(-1, *TIMES[:2], *EDGE_TIMES),
        columns(-AGES, *TIMES[2:]),
        columns(-3, *(name for name in CALLS if "primitive" in name)),
        columns(-1e18, "series/busy_s", "series/load", "series/psi_some_s"),
        fields("\udce9\x00\x1b[31m</script>|`$", "name", "cwd", "cpu_model", "role", "python"),
    ],
    "as many, as late and as long as can be": [
        columns(EXACT // 1000, *CALLS),
        columns(LAST_NS, "ranges/begin_ns", "ranges/end_ns"),
        fields("x" * 30_000, "name", "cwd", "cpu_model", "profkit", "started", "role", "exit", "python"),
        fields(["word"] * 20_000, "command"),
    ],
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(path: Path, changes: Any) -> None:
    rewritten(path, changes(path))
    with pytest.raises(FormatError, match=r"run\.prof"):
        load_run(path)


@pytest.mark.parametrize(
    "what",  # of each member that a command may read or not, one
    [
        "wall below 0",
        "times that are NaN",
        "calls below 0",
        "ranges around themselves",
        "readings that are infinite",
    ],
)
def test_what_cannot_be_is_refused_by_all_commands(path: Path, good: Path, tmp_path: Path, what: str) -> None:
    rewritten(path, REFUSED[what](path))
    ended = all_commands(path.read_bytes(), good, tmp_path)
    # A directory goes without it, and says so.
    beside_others = [each for each in ended if "SIDE" in each.command]
    assert {each.code for each in beside_others} == {0}
    assert all("x.prof: " in each.printed or '"x.prof"' in each.printed for each in beside_others)
    alone = [each for each in ended if each not in beside_others]
    assert {each.code for each in alone} == {2}
    assert len({each.errors for each in alone}) == 1
    assert "x.prof" in alone[0].errors


#: Reports that say everything, in each format, and what is written besides; of shorter ones, those in JSON.
FULL_REPORTS = [
    command for command in COMMANDS if "--format" not in command or command.endswith("--format json")
]


@pytest.mark.parametrize("changes", TAKEN.values(), ids=TAKEN)
def test_what_can_be_is_taken_by_all_commands(path: Path, good: Path, tmp_path: Path, changes: Any) -> None:
    for change in changes:
        rewritten(path, change(path))
    for ended in all_commands(path.read_bytes(), good, tmp_path, FULL_REPORTS):
        # A run without ranges and samples, or without functions, has nothing that some commands could write.
        assert ended.code == 0 or ended.command.split()[0] in ("export", "view"), ended


def plain(dtypes: Any, group: str, rows: int, **given: Any) -> dict[str, bytes]:
    filled = {**{name: np.zeros(rows, dtype) for name, dtype in dtypes.items()}, **given}
    return {f"{group}/{name}.npy": npy(column.astype(dtypes[name])) for name, column in filled.items()}


def one_process(path: Path, **of_process: Any) -> dict[str, bytes]:
    """Keep the first process, with one thread."""
    first = member_of(path, "processes.json")[0]
    none = {"functions": [0, 0], "edges": [0, 0], "open_calls": [], "range_calls": None, "paths": None}
    beside = {key: [] for key in ("written_sizes", "definitions", "pauses", "lines", "slices")}
    thread = first["threads"][0] | none | beside | of_process.pop("thread", {})
    process = {**first, "ranges": None, "samples": None, **of_process, "threads": [thread]}
    return {"processes.json": json.dumps([process]).encode()}


def many_functions(path: Path) -> dict[str, bytes]:
    """As many functions as a small file may hold, each with a name and a file of its own."""
    each = WEIGHTS["functions"] + WEIGHTS["caller–callee sums"] + 2 * WEIGHTS["strings"] + 400
    n = int(FLOOR * 0.9) // each
    texts = ["", *(f"f{i}" for i in range(n)), *(f"/w/{i}.py" for i in range(n))]
    place = np.arange(n) + 1
    texts_of = {"file": place + n, "name": place, "qualname": place}
    numbers = {"tottime": place / n, "cumtime": place / n, "ncalls": place, "primitive_calls": place}
    return {
        **one_process(path, thread={"functions": [0, n], "edges": [0, n]}),
        **plain(column_dtypes(Profile), "functions", n, **texts_of, **numbers),
        **plain(column_dtypes(Edges), "edges", n, caller=place - 1, callee=place[::-1] - 1),
        **plain(column_dtypes(Profile, optional=True), "functions", n),
        "strings.npy": npy(np.frombuffer("".join(texts).encode(), np.uint8)),
        "string_offsets.npy": npy(np.cumsum([0, *map(len, texts)])),
    }


def many_ranges(path: Path) -> dict[str, bytes]:
    n = int(FLOOR * 0.9) // WEIGHTS["NVTX ranges"]
    begin = np.arange(n) * 1000
    rows = {"begin_ns": begin, "end_ns": begin + 900, "parent": np.full(n, -1)}
    return {
        **one_process(path, ranges={"rows": [0, n]}),
        **plain(column_dtypes(Ranges), "ranges", n, **rows),
        **plain(column_dtypes(Profile), "functions", 0),
        **plain(column_dtypes(Profile, optional=True), "functions", 0),
    }


def many_warnings(path: Path) -> dict[str, bytes]:
    n = int(FLOOR * 0.9) // WEIGHTS["notices"] // 2
    said = [{"code": "text", "subject": f"no. {i}"} for i in range(n)]
    return {"manifest.json": json.dumps({**member_of(path, "manifest.json"), "warnings": said}).encode()}


SHOW, DIFF = "show X --explain -o OUT.html", "diff GOOD X --ticket -o OUT.md"
MERGE, EXPORT = "merge X -o OUT.prof", "export X --to perfetto -o OUT.json"
#: Files of which each holds nearly as much of one thing as its size allows, and the commands that take most for it.
FULL = {
    "functions": (many_functions, (DIFF, MERGE)),
    "ranges": (many_ranges, (SHOW, EXPORT)),
    "warnings": (many_warnings, (SHOW, MERGE)),
}

#: Runs commands in a process that gets no more memory than a command may take: 500 MB and 40 times the file.
LIMITED = """
import os, resource, sys
from pathlib import Path
from fuzz.targets.commands import run_command
file, good, folder, *commands = sys.argv[1:]
own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
most = own + 500_000_000 + 40 * os.path.getsize(file)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
places = {"X": Path(file), "GOOD": Path(good), "OUT": Path(folder, "out")}
for command in commands:
    print(run_command(command, places).code)
"""


@pytest.mark.parametrize(("changes", "commands"), FULL.values(), ids=FULL)
def test_memory_goes_with_the_size_of_the_file(
    path: Path, good: Path, tmp_path: Path, changes: Any, commands: tuple[str, ...]
) -> None:
    """An explosion fails in a process of its own, and not on the machine."""
    require("resource limits", sys.platform == "linux", "limits of addresses work on Linux")
    rewritten(path, changes(path))
    words = [sys.executable, "-c", LIMITED, path, good, tmp_path, *commands]
    done = succeeded(words, Path(__file__).parents[2], timeout=600)
    assert done.stdout.split() == ["0"] * len(commands)


def test_an_empty_run_goes_through_all_commands(path: Path, good: Path, tmp_path: Path) -> None:
    write_run(path, Run("x", (Process(threads=(Thread(Profile.empty()),)),)))
    for ended in all_commands(path.read_bytes(), good, tmp_path):
        assert ended.code == 0 or "has no" in ended.errors or "holds no" in ended.errors, ended


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
