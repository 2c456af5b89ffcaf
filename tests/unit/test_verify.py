"""Advice that is tried: what it changes in a command or in a program, and when runs decide."""

from __future__ import annotations

import ast
import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from profkit.capture.agent.edited import edit
from profkit.errors import UsageError
from profkit.measure.intervals import Estimate
from profkit.measure.size_calls import SizeCall, size_calls
from profkit.model import FunctionKey, Host, Process, Roots, Run, RunSet, Thread
from profkit.model.written_sizes import WrittenSize
from profkit.report.wording.studies import plan_line, so_far, tried_notes, tried_verdict
from profkit.study.setting_results import Cell
from profkit.study.verify import ADVISED, AS_IT_WAS, Change, Tried, _outcome, advised, plan_of, space_of_two
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.types import Advice
from tests.builders import Row, captured, profile

COMMAND = ("python", "train.py", "--threads", "8", "--note", "{x}")


class TestSettings:
    def test_both_commands_and_their_variables(self) -> None:
        changed = ("taskset", "-c", "0-1", *COMMAND[:3], "2", *COMMAND[4:])
        environment = {"OMP_NUM_THREADS": "8", "HOME": "/h"}
        threads = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
        space = space_of_two(Change(COMMAND, changed, threads), environment)
        before, after = space.settings()
        assert (before[0], after[0]) == (AS_IT_WAS, ADVISED)
        assert space.command_of(before) == list(COMMAND)
        assert space.command_of(after) == list(changed)
        assert space.environment_of(before, environment) == environment
        assert space.environment_of(after, environment) == {**environment, **threads}

    def test_what_changes_nothing_is_refused(self) -> None:
        with pytest.raises(UsageError, match="changes nothing"):
            space_of_two(Change(COMMAND, COMMAND, {"OMP_NUM_THREADS": "2"}), {"OMP_NUM_THREADS": "2"})

    @pytest.mark.parametrize(
        ("ratio", "outcome"),
        [
            (Estimate(4.0, 3.0, 5.0), "helps"),
            (Estimate(0.5, 0.4, 0.9), "worse"),
            (Estimate(1.0, 0.98, 1.02), "no-better"),
            (Estimate(1.2, 0.9, 1.6), ""),
            (Estimate(2.0), ""),
        ],
    )
    def test_an_interval_decides(self, ratio: Estimate, outcome: str) -> None:
        assert _outcome(ratio) == outcome


def cell_of(*times: float, problem: str = "") -> Cell:
    """Return one of the two settings, with the times of its runs."""
    median = statistics.median(times) if times else math.nan
    unknown = [math.nan] * 7
    return Cell((), times, median, *unknown, "", "", False, 0, 0, 0, problem)


BEFORE = cell_of(35.7, 35.8, 36.0)
TRIED = Tried("helps", BEFORE, cell_of(5.9, 5.8, 6.0), Estimate(6.07, 5.8, 6.3))


class TestWords:
    def test_predicted_against_measured(self) -> None:
        block = tried_verdict(TRIED, 30.8, 28.4)
        said = "Predicted 28.4 to 30.8 s, measured 29.9 s saved; medians of 3 runs each, in turn."
        assert block.headline == "The advice helps: 35.8 s → 5.90 s, 6.07× [5.80, 6.30]"
        assert (block.summary, block.tone) == (said, "good")
        assert tried_verdict(TRIED, 30.8).summary.startswith("Predicted up to 30.8 s, measured")
        assert tried_notes(TRIED, 36.0) == []

    def test_what_does_not_end_well(self) -> None:
        before = replace(BEFORE, median=5.9, disturbed=2)
        same = replace(TRIED, outcome="no-better", before=before, ratio=Estimate(1.0, 0.98, 1.02))
        gone, disturbed = tried_notes(same, 35.8)
        assert "the cause is gone" in gone
        assert "2 runs shared the CPUs" in disturbed
        assert tried_verdict(same, 30.8).headline.startswith("No better: 5.90 s → 5.90 s, 1.00×")
        tried = replace(TRIED, outcome="undecided", ratio=Estimate(6.07), stopped=True)
        assert so_far(tried) == "after 3 rounds: 35.8 s → 5.90 s, 6.07×"
        assert tried_verdict(tried, 30.8).headline == "Stopped before it was decided: 35.8 s → 5.90 s, 6.07×"
        failed = Tried("fails", cell_of(5.0), cell_of(problem="exit status 3"), Estimate(1.0))
        block = tried_verdict(failed, 1.0)
        assert (block.tone, block.summary) == ("bad", "exit status 3.")

    def test_what_is_going_to_run_is_said_first(self) -> None:
        line = plan_line(plan_of(27.6, 6.7))
        assert line.startswith("as it was and with the advice, in turn: 6 to 24 runs, 2 min to 10 min; ")
        # A long program has as much time as an answer needs, unless the user says otherwise.
        long = plan_of(1000.0, math.nan)
        assert long.limit_s > long.shortest_s
        assert "at least 80 min: use --limit 4800" in plan_line(plan_of(1000.0, 400.0, limit_s=60.0))


SOURCE = """\
import os
import torch
from multiprocessing import Pool
os.environ["OMP_NUM_THREADS"] = "8"
torch.set_num_threads(8)

class Trainer:
    @staticmethod
    def start(n):
        def inner():
            torch.set_num_threads(16)
        with Pool(processes=n) as pool:
            return pool, DataLoader(data, batch_size=4), DataLoader(data, num_workers=16)

def other():
    Pool(64), Pool()
"""


@pytest.mark.parametrize(
    ("line", "function", "code", "edited", "lines"),
    [
        (1, "<module>", "torch.set_num_threads(2)", "torch.set_num_threads(2)", [5]),
        (1, "<module>", 'os.environ["OMP_NUM_THREADS"] = "2"', "os.environ['OMP_NUM_THREADS'] = '2'", [4]),
        (8, "Trainer.start", "Pool(2)", "Pool(processes=2)", [12]),
        # The line where a function begins may be that of its decorator or of its def.
        (9, "Trainer.start", "Pool(2)", "Pool(processes=2)", [12]),
        (
            *(8, "Trainer.start", "DataLoader(…, num_workers=3)"),
            *("DataLoader(data, batch_size=4, num_workers=3)", [13, 13]),
        ),
        (10, "Trainer.start.<locals>.inner", "torch.set_num_threads(2)", "torch.set_num_threads(2)", [11]),
        (15, "other", "Pool(2)", "(Pool(2), Pool(2))", [16, 16]),
        (15, "other", "torch.set_num_threads(2)", "", []),
        (99, "gone", "Pool(2)", "", []),
    ],
)
def test_the_call_of_one_function_is_edited(
    line: int, function: str, code: str, edited: str, lines: list[int]
) -> None:
    tree, found = edit(SOURCE, "train.py", line, function, code)
    assert found == lines
    before, after = ast.unparse(ast.parse(SOURCE)).splitlines(), ast.unparse(tree).splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert (edited in changed[0] and len(changed) == 1) if lines else not changed


@pytest.mark.parametrize(
    ("command", "at"),
    [
        ("python train.py --lr 1", 1),
        ("/usr/bin/python3.11 -u -X dev -m pkg.train --lr 1", 4),
        ("mpirun -n 4 python -Wignore train.py", 5),
        ("env A=1 python -W ignore train.py", 5),
        ("python -c pass", None),
        ("torchrun train.py", None),
    ],
)
def test_where_a_command_names_its_program(command: str, at: int | None, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    where = FunctionKey("project", "train.py", "other")
    advice = Advice("start-fewer", subject="Pool(2)", where=where, line=15)
    change = advised(advice, command.split(), [tmp_path / "nowhere", tmp_path])
    if at is None:
        assert change is None
        return
    words = list(change.changed)
    assert words[:at] == command.split()[:at]
    assert words[at + 1 : at + 5] == [str(tmp_path / "train.py"), "15", "other", "Pool(2)"]
    assert words[at + 5 :] == command.split()[at:]
    assert change.edit == "train.py:16: Pool(2)"


@pytest.mark.parametrize(
    "advice",
    [
        Advice("capture-idle", COMMAND),
        Advice("edit-code", subject="torch.set_num_threads(2)"),
        Advice("list-processes", ("ps",)),
        Advice("edit-code", subject="Pool(2)", where=FunctionKey("project", "gone.py", "main")),
    ],
)
def test_what_changes_no_command_cannot_be_tried(advice: Advice, tmp_path: Path) -> None:
    assert advised(advice, COMMAND, [tmp_path]) is None


ROWS = [
    Row("/job/train.py", 5, "main", qualname="main"),
    Row("/usr/lib/python3.11/multiprocessing/context.py", 115, "Pool", qualname="BaseContext.Pool"),
    Row("/usr/lib/python3.11/multiprocessing/pool.py", 183, "__init__", qualname="Pool.__init__"),
    Row("~", 0, "<built-in method torch.set_num_threads>"),
    Row("/env/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", 244, "_worker_loop"),
]
EDGES = [(0, 1, 1, 0.1), (1, 2, 1, 0.1), (4, 3, 1, 0.1)]


def test_the_program_s_function_is_found_through_the_library_s() -> None:
    roots = Roots(("/usr/lib/python3.11",), ("/env/lib/python3.11/site-packages",), ("/job",))

    def run(edges: list[tuple[int, int, int, float]] | None) -> Run:
        return Run("a", (Process(threads=(Thread(profile(ROWS, edges)),), roots=roots),))

    # A loader's worker sets its own threads: nobody can edit that.
    assert size_calls(run(EDGES)) == (SizeCall("pool", FunctionKey("project", "train.py", "main"), 5),)
    assert size_calls(run(None)) == ()

    rows = [*ROWS, Row("/job/train.py", 40, "other", qualname="other")]
    found = Thread(profile(rows, EDGES), written_sizes=(WrittenSize(5, "torch"), WrittenSize(5, "pool")))
    unseen = SizeCall("torch", FunctionKey("project", "train.py", "other"), 40)
    assert size_calls(Run("a", (Process(threads=(found,), roots=roots),)))[1:] == (unseen,)
    two = Thread(profile(rows), written_sizes=(WrittenSize(0, "torch"), WrittenSize(5, "torch")))
    assert size_calls(Run("a", (Process(threads=(two,), roots=roots),))) == (), "which of them is not known"


FAST = [Row("/job/m.py", 10 * i, f"f{i}", 100, 0.3, source=f"s{i}", wait=0.0, cumwait=0.0) for i in range(10)]


def advice_of(*children: tuple[float, float], affinity: int = 2, ran: float = 3.0) -> list[Advice]:
    """Of a run that ran for `ran`, not 3 s as before, and queued for 3 s, beside children (run, queue)."""
    slow = [replace(row, tottime=ran / 10 + 0.3, wait=0.3) for row in FAST]
    sides = []
    for label, rows, own, waits, cpus in (("a", FAST, 3.0, 0.0, 2), ("b", slow, ran, 1.0, affinity)):
        helpers = [(took, waits * queued) for took, queued in children]
        wait = 3.0 * waits
        run = captured(profile(rows), wall=own + wait, run=own, wait=wait, children=helpers)
        host = Host(name="host", cpu_model="cpu", cpus=2, affinity=cpus)
        # Its pools were looked for.
        processes = tuple(replace(process, host=host, pools=()) for process in run.processes)
        run = replace(run, processes=processes, manifest=replace(run.manifest, host=host))
        sides.append(RunSet(label, (run,)))
    found = diff(*sides).verdict
    assert (found.cause, found.kind) == ("contention", "self-oversubscription")
    return list(found.advice)


def test_a_run_on_one_cpu_is_let_onto_the_others() -> None:
    first, fewer, leave, verify = advice_of((2.0, 3.0), affinity=1)
    assert (first.kind, first.argv) == ("more-cpus", ("taskset", "-c", "0-1", "python", "train.py"))
    # 5 CPU seconds on two CPUs take 2.5 s at least.
    assert 0 < first.predicted_gain_s <= 6.0 - 2.5
    # On one CPU they take 5 s, however few of them there are.
    assert (fewer.kind, fewer.predicted_gain_s) == ("start-fewer", pytest.approx(1.0))
    assert (leave.kind, leave.subject[0]) == ("not-the-code", "f")
    assert leave.numbers["queued"] == pytest.approx(0.3)
    assert (verify.argv, len(verify.files)) == (("profkit", "verify"), 2)


def test_no_more_is_promised_than_a_baseline_on_as_many_cpus_reached() -> None:
    """Its two CPUs were idle for a sixth of the time: 4 s of work took 2.4 s there, not 2 s."""
    first = advice_of((2.0, 3.0), affinity=1, ran=2.0)[0]
    assert (first.kind, first.predicted_gain_s) == ("more-cpus", pytest.approx(5.0 - 2.4))


def test_full_cpus_get_no_promises() -> None:
    # Two CPUs need 6 s for 12 s of work: fewer processes would not be faster.
    assert [advice.kind for advice in advice_of((4.5, 4.5), (4.5, 4.5))] == ["give-cpus", "not-the-code"]
