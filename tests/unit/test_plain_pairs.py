"""What two profiles of plain cProfile say by themselves: edits, waits, more workers, quotas and stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from profkit.compare.result_types import DiffTable
from profkit.formats.load import load_run
from profkit.model import Run
from profkit.report.wording.verdicts import comparison_block
from profkit.verdict.types import Diff
from tests.programs import ACQUIRE, Fn, compare, diffed, plain, training

SCRIPT = """\
def words(count):
    return [str(i * 7919) for i in range(count)]


def score(word):
    total = 0
    for digit in word:
        total = total * 31 + ord(digit)
    return total


def total_of(found):
    return sum(map(score, found))


def rest(found):
    return sorted(found)[0]


def listed(found):
    kept = []
    for word in found:
        if word not in kept[-200:]:
            kept.append(word)
    return kept


def main():
    for _ in range(5):
        found = words(4000)
        total_of(found)
        rest(found)


main()
"""
LOOP = "    for digit in word:\n        total = total * 31 + ord(digit)\n"
NESTED = "    for base in range(40):\n        for digit in word:\n            total = total * 31 % 97 + ord(digit)\n"


def profiled(folder: Path, source: str) -> Run:
    """What ``python -m cProfile -o`` writes of a program."""
    folder.mkdir()
    (folder / "job.py").write_text(source)
    command = [sys.executable, "-m", "cProfile", "-o", "job.prof", "job.py"]
    subprocess.run(command, cwd=folder, check=True)
    return load_run(folder / "job.prof")


def changed_in(table: DiffTable) -> set[str]:
    return {table.name[row] for row, same in enumerate(table.same_source) if same is False}


def test_an_edit_shows_in_the_definitions_below_it(tmp_path: Path) -> None:
    before = profiled(tmp_path / "before", SCRIPT)
    after = profiled(tmp_path / "after", SCRIPT.replace(LOOP, NESTED))
    found = diffed(before, after)
    verdict = found.verdict
    assert (verdict.cause, verdict.rule, verdict.subject) == ("code-change", "changed-source", "score")
    assert changed_in(found.table) == {"score"}
    (source,) = (e for e in verdict.evidence if e.signal == "function.source")
    assert (source.reading, source.numbers) == ("source-lines", {"lines": 1})
    back = diffed(after, before).table
    assert [back.added_lines[row] for row in range(len(back)) if back.name[row] == "score"] == [-1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def words(count):", "import math\n\n\ndef words(count):"),
        ("def rest(found):", "def unused(found):\n    return found\n\n\ndef rest(found):"),
        (
            "def rest(found):\n",
            "def first(found):\n    return found[0]\n\n\ndef rest(found):\n    first(found)\n",
        ),
    ],
    ids=["an import above all", "a function that nobody calls", "a new function"],
)
def test_lines_that_no_function_got_change_none(tmp_path: Path, old: str, new: str) -> None:
    """A new function that is called is code by itself; one that is not may stand in the body above it."""
    before = profiled(tmp_path / "before", SCRIPT)
    after = profiled(tmp_path / "after", SCRIPT.replace(old, new))
    table = compare(before, after).signals.table
    assert changed_in(table) <= {"rest", "total_of"}


@pytest.mark.parametrize(
    ("waits", "cause"),
    [
        ("<built-in method select.select>", "inconclusive"),
        # A socket is something outside.
        ("<method 'recv_into' of '_socket.socket' objects>", "blocked"),
    ],
)
def test_one_with_threads_may_wait_for_them(waits: str, cause: str) -> None:
    def run(waited: float) -> Run:
        thread = Fn("<built-in method _thread.start_new_thread>", 3, callers={"main": 3})
        return plain([*training(), Fn(waits, 50, off=waited, callers={"step": 50}), thread])

    found = diffed(run(0.1), run(4.0))
    assert found.verdict.cause == cause
    unclear = "other threads and processes" in comparison_block(found).summary
    assert unclear is (cause == "inconclusive")


FORK = "<built-in method posix.fork>"
LIBRARY = "/usr/lib/python3.11/multiprocessing/"


class TestMoreStarted:
    def run(self, processes: int, waited: float) -> Run:
        fork = Fn(FORK, processes, 0.001, callers={"main": processes})
        return plain([*training(), fork, Fn(ACQUIRE, 200, off=waited, callers={"main": 200})])

    def test_more_processes_that_are_waited_for_are_contention_of_the_program_with_itself(self) -> None:
        found = diffed(self.run(2, 1.0), self.run(8, 5.0))
        assert (found.verdict.cause, found.verdict.rule) == ("contention", "more-started")
        assert found.verdict.kind == "self-oversubscription"
        assert "8 processes instead of 2" in comparison_block(found).summary

    def test_starting_more_of_them_is_no_more_work(self) -> None:
        def run(processes: int) -> Run:
            called = {"_repopulate_pool": processes}
            started = [
                Fn("_repopulate_pool", 1, 0.001, callers={"main": 1}, file=f"{LIBRARY}pool.py"),
                Fn("start", processes, 0.01, callers=called, file=f"{LIBRARY}process.py"),
                Fn(FORK, processes, 0.2 * processes, callers={"start": processes}),
            ]
            return plain([*training(), *started])

        found = diffed(run(2), run(8))
        assert found.verdict.cause != "workload-change"
        assert found.account.seconds("work") == pytest.approx(0.0, abs=0.01)
        assert found.account.seconds("startup") == pytest.approx(1.2, abs=0.05)

    def test_of_what_more_of_them_are_sent_only_as_much_comes_with_them(self) -> None:
        """The third gets half as much as two did; that all get more is work. The main process sends it."""

        def run(processes: int, messages: int) -> Run:
            fork = Fn(FORK, processes, 0.001, callers={"main": processes})
            sends = {"callers": {"main": messages}, "file": f"{LIBRARY}reduction.py"}
            return plain([*training(), fork, Fn("dumps", messages, 0.01 * messages, **sends)])

        found = diffed(run(2, 100), run(3, 200)).account
        assert (found.seconds("startup"), found.seconds("work")) == pytest.approx((0.5, 0.5), abs=0.01)

    def test_starting_them_counts_as_waiting_for_them_does(self) -> None:
        def run(processes: int, forked: float, waited: float) -> Run:
            launch = Fn(
                "_launch", processes, 0.001, callers={"main": processes}, file=f"{LIBRARY}popen_fork.py"
            )
            fork = Fn(FORK, processes, forked, callers={"_launch": processes})
            return plain([*training(), launch, fork, Fn(ACQUIRE, 200, off=waited, callers={"main": 200})])

        found = diffed(run(2, 0.05, 0.1), run(80, 1.2, 0.9))
        assert found.verdict.rule == "more-started"
        assert found.verdict.advice[0].kind == "start-once"


def test_functions_of_a_library_that_only_the_candidate_calls_are_other_work() -> None:
    """Files that are compressed now: the program has no other source, and the library no other module."""
    read = Fn("read", 300, 0.05, callers={"main": 300}, file="/usr/lib/python3.11/zipfile.py")
    inflate = Fn("<method 'decompress' of 'zlib.Decompress' objects>", 300, 3.0, callers={"read": 300})
    found = diffed(plain([*training(), read]), plain([*training(), read, inflate]))
    assert (found.verdict.cause, found.verdict.rule) == ("workload-change", "more-calls")
    assert found.verdict.subject == "zlib.Decompress.decompress"
    assert (found.verdict.evidence[0].baseline, found.verdict.evidence[0].candidate) == (0, 300)


@pytest.mark.parametrize(
    ("file", "cause"),
    [
        ("/usr/lib/python3.11/json/decoder.py", "workload-change"),
        ("/w/m.py", "code-change"),
        # It may call native code that has threads of its own, which a profile does not show.
        ("/usr/lib/python3/site-packages/lib/linalg.py", "inconclusive"),
    ],
)
def test_one_slower_function_of_a_library_has_more_to_do(file: str, cause: str) -> None:
    def run(seconds: float) -> Run:
        return plain([*training(), Fn("raw_decode", 500, seconds, callers={"main": 500}, file=file)])

    found = diffed(run(1.0), run(4.0))
    assert found.verdict.cause == cause
    assert "raw_decode alone" in comparison_block(found).summary or found.verdict.subject == "raw_decode"


@pytest.mark.parametrize(
    ("name", "calls", "before", "after", "cause"),
    [
        ("<built-in method zlib.compress>", 500, 0.5, 10.0, "workload-change"),
        # Neighbours alone may slow a native function that takes most of the time,
        ("<built-in method zlib.compress>", 500, 0.5, 1.5, "inconclusive"),
        # and a full disk, a lock or the threads of a library may slow these.
        ("<method 'commit' of 'sqlite3.Connection' objects>", 500, 0.5, 10.0, "inconclusive"),
        ("<built-in method builtins.print>", 500, 0.5, 10.0, "inconclusive"),
        ("<built-in method numpy.dot>", 500, 0.5, 10.0, "inconclusive"),
        # One call shows no scatter: a loss within the drift of clean runs says nothing about its code.
        ("load", 1, 0.15, 0.45, "inconclusive"),
        ("load", 50, 0.15, 0.45, "code-change"),
        ("load", 1, 0.15, 3.15, "code-change"),
    ],
)
def test_one_slower_function(name: str, calls: int, before: float, after: float, cause: str) -> None:
    a, b = (plain([*training(), Fn(name, calls, took, callers={"main": calls})]) for took in (before, after))
    assert diffed(a, b).verdict.cause == cause


class TestLoops:
    """A function that is called as often as before, and calls another one more often."""

    def run(self, steps: int, *more: Fn) -> Run:
        epoch = Fn("epoch", 20, 0.02, callers={"main": 20})
        gradient = Fn("gradient", 20 * steps, 0.0005 * 20 * steps, callers={"epoch": 20 * steps})
        return plain([Fn("main", 1, 0.5), epoch, gradient, *more])

    def test_of_the_same_functions_may_have_another_setting(self) -> None:
        found = diffed(self.run(100), self.run(1600))
        assert (found.verdict.rule, found.verdict.confidence) == ("calls-per-call", None)
        assert "such as a batch size" in comparison_block(found).summary
        assert [one.kind for one in found.verdict.advice[:2]] == ["git-log", "compare-inputs"]

    def test_of_other_functions_is_code(self) -> None:
        other = Fn("penalty", 20 * 400, 4.0, callers={"epoch": 20 * 400})
        found = diffed(self.run(100), self.run(100, other))
        assert found.verdict.cause == "code-change"
        assert "such as a batch size" not in comparison_block(found).summary


def short(*lumps: float) -> list[Fn]:
    """Twelve short functions, of which the first ones lost so many seconds each."""
    lost = [*lumps, *[0.0] * (12 - len(lumps))]
    return [Fn(f"short{i}", 20, 0.003 + 0.0001 * i + lost[i], callers={"step": 20}) for i in range(12)]


@pytest.mark.parametrize(
    ("lumps", "expected", "said"),
    [
        ((0.060, 0.062, 0.058, 0.061), ("contention", "quota-lumps", "cpu-quota"), "as under a CPU quota"),
        ((0.201, 0.202, 0.200), ("blocked", "stops", None), "longer than a CPU quota's period"),
        ((0.011, 0.011, 0.010, 0.012), ("inconclusive", "nothing-decides", None), "or neighbours"),
        ((0.110, 0.350, 0.190, 0.250, 0.120, 0.500), ("inconclusive", "nothing-decides", None), ""),
        ((0.004, 0.030, 0.009, 0.055, 0.017, 0.090), ("contention", "starved", None), ""),
    ],
    ids=["within a quota's period", "longer than that", "short", "longer than slices", "of every length"],
)
def test_slices_that_were_lost(
    lumps: tuple[float, ...], expected: tuple[str, str, str | None], said: str
) -> None:
    """Short functions lost so many seconds each, and long ones as much in all."""
    found = diffed(plain([*training(), *short()]), plain([*training(slower=2.2), *short(*lumps)]))
    assert (found.verdict.cause, found.verdict.rule, found.verdict.kind) == expected
    summary = comparison_block(found).summary
    assert said in summary
    assert ("stalled repeatedly" in summary) is bool(said)


def test_stalls_of_short_functions_do_not_hide_the_one_that_lost_most() -> None:
    def run(dot: float, *lumps: float) -> Run:
        native = Fn("<built-in method numpy.dot>", 500, dot, callers={"step": 500})
        return plain([*training(), *short(*lumps), native])

    found = diffed(run(1.0), run(5.0, 0.011, 0.011, 0.012))
    assert found.verdict.cause == "inconclusive"
    summary = comparison_block(found).summary
    assert summary.startswith("numpy.dot got slower")
    assert "The candidate stalled repeatedly" in summary
    assert "stalled" not in comparison_block(diffed(run(1.0), run(5.0))).summary


@pytest.mark.parametrize(
    ("names", "cause"),
    [
        (
            ("<method 'execute' of 'sqlite3.Connection' objects>", "<built-in method builtins.sorted>"),
            "inconclusive",
        ),
        # Their threads may be more than the CPUs, and spin.
        (("<method 'dot' of 'numpy.ndarray' objects>", "<built-in method torch.conv2d>"), "contention"),
    ],
)
def test_lost_slices_are_not_why_few_functions_take_a_hundred_times_as_long(
    names: tuple[str, str], cause: str
) -> None:
    """Two functions have nearly all of the loss; on a busy machine, short functions lost slices as well."""

    def run(factor: float, slower: float, *lumps: float) -> Run:
        few = [Fn(name, 500, 0.03 * factor, callers={"step": 500}) for name in names]
        return plain([*training(slower=slower), *short(*lumps), *few])

    found = diffed(run(1.0, 1.0), run(100.0, 1.3, 0.004, 0.030, 0.009, 0.055, 0.017, 0.090))
    assert found.verdict.cause == cause


def test_another_library_call_in_a_function_that_both_sides_have_is_its_code() -> None:
    """``shared`` is called by other functions of the library now: what it takes more is not its cost per call."""

    def run(way: str, cost: float) -> Run:
        called = Fn(way, 100, 0.001, callers={"forward": 100}, file="/usr/lib/python3/site-packages/lib/a.py")
        shared = Fn("<built-in method lib.shared>", 100, cost, callers={way: 100})
        return plain([*training(), called, shared])

    found = diffed(run("quick", 0.01), run("thorough", 3.0))
    assert (found.verdict.cause, found.verdict.subject) == ("code-change", "forward")
    assert found.account.seconds("code") == pytest.approx(2.99, abs=0.05)


def test_a_function_that_stood_there_uncalled_is_not_new_code(tmp_path: Path) -> None:
    """It is new where it stands in the place of another."""
    # `listed` takes ten times as long as `rest`: a busy machine does not make up for that.
    script = SCRIPT.replace("-200", "-2000")
    before = profiled(tmp_path / "before", script)

    def matched(found: Diff, *names: str) -> list[str]:
        return [found.table.match[found.table.name.index(name)] for name in names]

    found = diffed(before, profiled(tmp_path / "chosen", script.replace("        rest(", "        listed(")))
    assert matched(found, "rest", "listed") == ["uncalled", "uncalled"]
    # An edit that leaves all lines where they were does not show: it may have chosen the function.
    assert found.verdict.cause == "inconclusive"
    assert "listed makes up" in comparison_block(found).summary
    found = diffed(before, profiled(tmp_path / "renamed", script.replace("rest(", "distinct(")))
    assert matched(found, "rest", "distinct") == ["gone", "new"]


#: A function that loops over its data, and what it calls in every twentieth turn.
LOOPING = """\
def {}(values):
    total = 0.0
    for at, value in enumerate(values):
        total = (total * 0.5 + value * value - at) % 1000.0 + (value - total * 0.25) ** 2 % 7.0
        if at % 20 == 0:
            {}


"""
LOOPS = {"spread": "abs(total)", "smoothed": "values.index(0.0)", "counted": "abs(max(total, at))"}


def looping(items: int, **fewer: int) -> str:
    """A program that calls each of these functions forty times with so many items, or with fewer."""
    calls = [f"    {name}(values[: {fewer.get(name, items)}])\n" for name in LOOPS]
    loop = f"values = [float(i % 97) for i in range({items})]\nfor _ in range(40):\n"
    return "".join([*(LOOPING.format(name, call) for name, call in LOOPS.items()), loop, *calls])


def test_loops_that_run_longer_have_more_data(tmp_path: Path) -> None:
    """No call that takes time is made more often: each function has twice as much to go through."""
    small = profiled(tmp_path / "small", looping(4000))
    found = diffed(small, profiled(tmp_path / "large", looping(8000)))
    assert (found.verdict.cause, found.verdict.rule) == ("workload-change", "longer-loops")
    loops = {e.subject: (e.baseline, e.candidate) for e in found.verdict.evidence if e.signal == "loop"}
    assert loops == {"counted": (16000, 32000), "spread": (8000, 16000), "smoothed": (8000, 16000)}
    assert "more data: 3 functions, such as" in comparison_block(found).summary
    # Two functions that do more may as well have been changed.
    two = profiled(tmp_path / "two", looping(8000, smoothed=4000))
    assert diffed(small, two).verdict.rule != "longer-loops"


def test_one_slower_function_is_no_cause_where_most_of_the_loss_is_waiting() -> None:
    def side(blurred: float, slept: float) -> Run:
        sleep = Fn("<built-in method time.sleep>", 100, off=slept, callers={"step": 100})
        return plain([*training(times={"sharpen": blurred}), sleep])

    assert diffed(side(1.0, 0.1), side(3.0, 0.1)).verdict.rule == "one-function"
    found = diffed(side(1.0, 0.1), side(3.0, 8.0)).verdict
    assert (found.cause, found.rule) != ("code-change", "one-function")


def test_less_work_makes_no_program_slower() -> None:
    def side(steps: int, slept: float) -> Run:
        sleep = Fn("<built-in method time.sleep>", 100, off=slept, callers={"main": 100})
        return plain([*training(steps), sleep])

    assert diffed(side(100, 0.1), side(50, 0.1)).verdict.cause in ("workload-change", "faster")
    found = diffed(side(100, 0.1), side(50, 20.0)).verdict
    assert found.cause not in ("workload-change", "code-change")
