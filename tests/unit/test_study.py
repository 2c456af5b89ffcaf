"""Settings, objectives, journals and figures of studies, and advice that is tried, without running anything."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.agent.edited import edit
from profkit.capture.cpu_limits import Limits
from profkit.errors import FormatError, UsageError
from profkit.measure.intervals import Estimate
from profkit.measure.size_calls import SizeCall, size_calls
from profkit.model import FunctionKey, Host, Process, Roots, Run, RunSet, Thread
from profkit.model.thread import WrittenSize
from profkit.report.wording.studies import (
    confirmed_verdict,
    plan_line,
    so_far,
    study_notes,
    study_verdict,
    tried_notes,
    tried_verdict,
)
from profkit.study.doctor import Demand, Diagnosis
from profkit.study.journal import Journal, Trial, read_plan, read_trials
from profkit.study.objectives import WALL, parse_objective
from profkit.study.setting_results import Cell, Results, gain, results
from profkit.study.space import UNSET, Parameter, Space, parse_parameter, parse_setting
from profkit.study.sweep import Runner, _cpu_seconds
from profkit.study.tune import (
    _is_taken,
    _setting_of,
    _tell,
    advised_settings,
    baseline_of,
    first_settings,
    open_search,
    trials_of,
)
from profkit.study.verify import ADVISED, AS_IT_WAS, Change, Tried, _outcome, advised, plan_of, space_of_two
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.types import Advice
from tests.builders import Row, captured, profile
from tests.programs import program, training
from tests.requirements import imported
from tests.shared import words_of

WORKERS = Parameter("workers", False, ("1", "2", "4"))
THREADS = Parameter("OMP_NUM_THREADS", True, (UNSET, "1", "2"))
COMMAND = ("python", "train.py", "--workers={workers}", "{workers}/{other}", '{"a": 1}')
SPACE = Space(COMMAND, (WORKERS, THREADS))


@pytest.mark.parametrize(
    ("text", "values", "scale"),
    [
        ("w=1,2,4", ("1", "2", "4"), ""),
        ("w=1..4", ("1", "2", "3", "4"), "int"),
        ("w=2..9+3", ("2", "5", "8"), ""),
        ("w=1..20x3", ("1", "3", "9"), ""),
        ("w=1..4:log", ("1", "2", "3", "4"), "log"),
        ("w=gloo,nccl", ("gloo", "nccl"), ""),
        ("w=1..2,8", ("1", "2", "8"), ""),
        ("w=a=b", ("a=b",), ""),
    ],
)
def test_values_are_listed_or_ranges(text: str, values: tuple[str, ...], scale: str) -> None:
    assert parse_parameter(text, environment=False) == Parameter("w", False, values, scale)


@pytest.mark.parametrize(
    "text",
    ["w", "w=", "=1", "1w=1", "w=1,,2", "w=1,1", "w=4..1", "w=1..4x1", "w=0..4x2", "w=0..4:log", "w=1..9+0"],
)
def test_other_values_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=rf"\A.*{re.escape(text)}.*\Z"):
        parse_parameter(text, environment=False)


def test_a_setting_is_put_into_command_and_environment() -> None:
    setting = ("2", UNSET)
    assert SPACE.command_of(setting) == ["python", "train.py", "--workers=2", "2/{other}", '{"a": 1}']
    assert SPACE.environment_of(setting, {"OMP_NUM_THREADS": "8", "HOME": "/h"}) == {"HOME": "/h"}
    assert SPACE.environment_of(("1", "2"), {}) == {"OMP_NUM_THREADS": "2"}
    assert SPACE.label(setting) == "workers=2 OMP_NUM_THREADS=unset"
    assert len(SPACE.settings()) == 9


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (Space(COMMAND, ()), "nothing to vary"),
        (Space(("python",), (WORKERS,)), r"the command has no \{workers\}"),
        (Space(COMMAND, (WORKERS, WORKERS)), "given twice"),
    ],
)
def test_what_cannot_be_studied_is_refused(space: Space, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        space.check()


@pytest.mark.parametrize("text", ["workers=1", "workers=3,OMP_NUM_THREADS=1", "workers,OMP_NUM_THREADS", ""])
def test_a_baseline_names_every_parameter(text: str) -> None:
    assert parse_setting("OMP_NUM_THREADS=1,workers=4", SPACE.parameters) == ("4", "1")
    with pytest.raises(UsageError):
        parse_setting(text, SPACE.parameters)


def test_the_first_settings_are_few_and_in_the_space() -> None:
    space = Space(COMMAND, (WORKERS, Parameter("OMP_NUM_THREADS", True, ("1", "2", "4", "8"))))
    assert first_settings(space, 8) == [("1", "1"), ("4", "1"), ("1", "8")]
    assert baseline_of(space, 8, {}) == ("4", UNSET)
    assert baseline_of(space, 8, {"OMP_NUM_THREADS": "3"}) == ("4", "3")
    words = Space(("x",), (Parameter("backend", False, ("gloo", "nccl")),))
    assert first_settings(words, 8) == [("gloo",)]
    assert baseline_of(words, 8, {}) == ("gloo",)


def diagnosis(ranks: int, workers: int, threads: int, cpus: float, **advice: str) -> Diagnosis:
    demand = Demand(ranks, workers, threads, ranks * max(1, workers) * threads, cpus)
    share, limits = max(1, int(cpus / demand.processes)), Limits(cpus=int(cpus))
    names = tuple(advice.items())
    return Diagnosis(limits, None, (), demand, None, None, demand.oversubscribed, names, share, ())


def test_the_advice_of_doctor_is_a_setting_of_the_study() -> None:
    workers = Parameter("workers", False, ("0", "1", "2", "4", "8"))
    space = Space(COMMAND, (workers, Parameter("OMP_NUM_THREADS", True, (UNSET, "1", "2", "4", "8"))))
    # Eight workers with eight threads each on eight CPUs: one thread each; there are no more workers than CPUs.
    eight = diagnosis(1, 8, 8, 8, OMP_NUM_THREADS="1")
    assert advised_settings(space, ("8", UNSET), eight) == [("8", "1")]
    # Four ranks with eight workers each: fewer threads do not do, two workers of each rank do.
    ranks = diagnosis(4, 8, 8, 8, OMP_NUM_THREADS="1")
    assert advised_settings(space, ("8", UNSET), ranks) == [("8", "1"), ("2", "1")]
    # One process with too many threads, and no workers to reduce.
    assert advised_settings(space, ("0", "8"), diagnosis(1, 0, 8, 4, OMP_NUM_THREADS="4")) == [("0", "4")]
    assert advised_settings(space, ("1", "1"), diagnosis(1, 1, 1, 8)) == []
    # A variable that the study does not vary is no setting of it.
    only = Space(COMMAND, (workers,))
    assert advised_settings(only, ("8",), ranks) == [("2",)]
    assert advised_settings(only, ("auto",), ranks) == [("1",)]


def test_cpu_time_is_that_of_all_processes() -> None:
    """Ranks end as children of a launcher that does not wait for them as its own: the tree alone lacks them."""
    run = program(training(), helpers=[(2.0, 1.0)])
    own = sum(process.cpu_s or 0.0 for process in run.processes)
    assert _cpu_seconds(replace(run, machine=replace(run.machine, tree_cpu_s=0.5))) == pytest.approx(own)
    assert _cpu_seconds(replace(run, machine=replace(run.machine, tree_cpu_s=90.0))) == 90.0
    assert _cpu_seconds(replace(run, processes=(), machine=None)) is None


def test_an_objective_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("epoch 1: 0.50 sec/batch\nnan sec/batch\nepoch 2: 0.30 sec/batch\n0.31 sec/batch\n")
    rate = parse_objective(r"output:([\d.na]+) sec/batch", maximise=False)
    assert rate.of_output(log) == [0.5, 0.3, 0.31]
    assert rate.measure(log, None, 0.0) == 0.31
    assert rate.measure(tmp_path / "none", None, 0.0) is None


def test_a_log_file_counts_if_this_run_wrote_it(tmp_path: Path) -> None:
    file = tmp_path / "log.json"
    file.write_text(json.dumps([{"elapsed_time": 3.5}, {"elapsed_time": 7.25, "a.b": [1]}]))
    last = parse_objective(f"json:{file}:[-1].elapsed_time", maximise=False)
    written = file.stat().st_mtime
    assert last.measure(file, None, written) == 7.25
    assert last.measure(file, None, written + 60) is None
    for path in ("[5].elapsed_time", "[-1].other", "[-1]", "elapsed_time"):
        assert parse_objective(f"json:{file}:{path}", maximise=False).measure(file, None, 0.0) is None
    file.write_text("{")
    os.utime(file, (written, written))
    assert last.measure(file, None, written) is None


@pytest.mark.parametrize(
    "text",
    words_of("|time|output:|output:(|output:no group|output:(a)(b)|json:file|json::[-1]|range:", "|"),
)
def test_a_wrong_objective_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"\A.+\Z"):
        parse_objective(text, maximise=False)


def trials(times: dict[tuple[str, ...], Sequence[float]], parameters: Sequence[Parameter]) -> list[Trial]:
    """Runs that took so long, on two CPUs, of which a tenth was queueing."""
    names = [parameter.name for parameter in parameters]
    return [
        Trial(dict(zip(names, setting, strict=True)), i, "done", "", 0, wall, 2 * wall, 0.1 * wall)
        for setting, walls in times.items()
        for i, wall in enumerate(walls)
    ]


def studied(space: Space, times: dict[tuple[str, ...], Sequence[float]]) -> Results:
    return results(space, trials(times, space.parameters))


def noisy(median: float, runs: int, spread: float, seed: int) -> list[float]:
    noise = np.random.default_rng(seed).standard_normal(runs)
    return [float(x) for x in median * np.exp(spread * noise)]


def test_medians_speedups_and_efficiency() -> None:
    times = {("1",): (8, 8.1, 7.9), ("2",): (4, 4.1, 3.9), ("4",): (4, 4.05, 3.95)}
    found = studied(Space(("x", "{workers}"), (WORKERS,)), times)
    assert [cell.median for cell in found.cells] == [8, 4, 4]
    assert [cell.speedup for cell in found.cells] == [1, 2, 2]
    assert [cell.efficiency for cell in found.cells] == [1, 1, 0.5]
    assert [cell.best for cell in found.cells] == [False, True, True]
    # Of two that cannot be told apart, the one with fewer processes.
    assert found.advised == 1
    assert [cell.cores for cell in found.cells] == pytest.approx([2] * 3)
    assert [cell.queue_share for cell in found.cells] == pytest.approx([0.1] * 3)


def test_a_library_s_own_default_has_no_efficiency() -> None:
    """The baseline leaves a variable unset that the others set to numbers."""
    space = Space(("x",), (Parameter("OMP_NUM_THREADS", True, ("1", "2")),), (("unset",), ("1",), ("2",)))
    found = studied(space, {("unset",): (8, 8.1, 7.9), ("1",): (4, 4.1, 3.9), ("2",): (4, 4.05, 3.95)})
    efficiency = {cell.setting: cell.efficiency for cell in found.cells}
    assert math.isnan(efficiency["unset",])
    assert (efficiency["1",], efficiency["2",]) == (1, 0.5)
    assert found.cells[found.advised].setting == ("1",)


def test_disturbed_runs_count_only_where_there_is_no_other() -> None:
    setting = {"workers": "1", "OMP_NUM_THREADS": "1"}
    ends = ((0, "disturbed", 9.0), (0, "done", 5.0), (1, "disturbed", 7.0))
    made = [Trial(setting, number, status, "", 0, wall) for number, status, wall in ends]
    found = results(SPACE, [*made, Trial(setting, 2, "timeout", "", None, 60.0, problem="ended")])
    cell = next(cell for cell in found.cells if cell.setting == ("1", "1"))
    assert cell.times == (5.0, 7.0)
    assert (cell.failed, cell.disturbed, cell.problem) == (1, 1, "ended")


def test_the_best_setting_is_in_the_marked_set_as_often_as_promised() -> None:
    """95 % for the whole study, where all of nine settings are equally good: that is the worst case."""
    kept = 0
    for seed in range(400):
        times = {s: noisy(1.0, 3, 0.05, 1000 * seed + i) for i, s in enumerate(SPACE.settings())}
        kept += studied(SPACE, times).cells[0].best
    assert kept >= 0.93 * 400


def test_the_interval_of_a_gain_covers_the_truth() -> None:
    space = replace(SPACE, listed=(("1", "1"), ("2", "1")))
    covered = []
    for seed in range(400):
        times = {("1", "1"): noisy(3.0, 5, 0.08, 2 * seed), ("2", "1"): noisy(2.0, 5, 0.08, 2 * seed + 1)}
        ratio = gain(studied(space, times), 0, 1)
        covered.append(ratio.low <= 1.5 <= ratio.high)
    assert 0.93 <= np.mean(covered) <= 0.98


@pytest.mark.parametrize(
    ("times", "tone", "said"),
    [
        ({("1",): (), ("2",): (4, 4.1, 3.9), ("4",): (8, 8.1, 7.9)}, "good", "workers=1 never succeeded"),
        ({("1",): (8,), ("2",): (4,), ("4",): (6,)}, "unsure", "the noise is not known"),
    ],
    ids=["no default", "one run each"],
)
def test_a_default_that_has_nothing_to_be_compared_by_is_not_the_best(
    times: dict[tuple[str, ...], Sequence[float]], tone: str, said: str
) -> None:
    found = studied(Space(("x", "{workers}"), (WORKERS,)), times)
    block = confirmed_verdict(found, gain(found, 0, 1))
    assert block.headline.startswith("Best: workers=2")
    assert block.tone == tone
    assert said in block.summary


def test_of_settings_that_cannot_be_told_from_the_default_the_smallest_is_named() -> None:
    space = Space(("x", "{workers}"), (WORKERS,))
    times = {("1",): (4.02, 4.1, 3.9), ("2",): (4.01, 4.05, 3.95), ("4",): (4, 4.05, 3.95)}
    block = study_verdict(results(space, trials(times, space.parameters), baseline=("2",)))
    assert block.headline == "No setting is better than workers=2 beyond the noise"
    assert "workers=1 takes fewer resources and cannot be told apart. 2 other settings" in block.summary


def test_what_a_failed_run_printed_last_is_shown_as_text() -> None:
    setting = {"workers": "1", "OMP_NUM_THREADS": "1"}
    failed = Trial(setting, 0, "failed", "", 1, 1.0, problem="exit status 1: \x1b[2Jgone")
    assert study_notes(results(SPACE, [failed]))[0].endswith(": 1 run failed (exit status 1: \\x1b[2Jgone).")


def test_a_journal_goes_on_from_what_was_written(tmp_path: Path) -> None:
    first, second = trials({("1", "1"): [3.0, 2.0]}, SPACE.parameters)
    with Journal(tmp_path / "s", SPACE, profiled=True) as journal:
        journal.add(first)
    with open(tmp_path / "s" / "journal.jsonl", "ab") as file:
        file.write(b'{"setting":{"wor')  # torn when the machine went down
    with Journal(tmp_path / "s", SPACE, profiled=True) as journal:
        assert journal.trials == [first]
        journal.add(second)
    assert read_trials(tmp_path / "s") == [first, second]
    assert read_plan(tmp_path / "s").space == SPACE


def test_one_process_at_a_time_works_on_a_journal(tmp_path: Path) -> None:
    with Journal(tmp_path, SPACE, profiled=True), pytest.raises(UsageError, match="another process"):
        Journal(tmp_path, SPACE, profiled=True)


@pytest.mark.parametrize(
    ("space", "profiled", "said"),
    [
        (Space(COMMAND, (WORKERS,)), True, "other parameters"),
        (Space(("a", "{workers}"), SPACE.parameters), True, "another command"),
        (Space(COMMAND, SPACE.parameters, (("1", "1"),)), True, "other settings"),
        (SPACE, False, "captured runs"),
    ],
)
def test_a_study_of_something_else_is_refused(
    space: Space, profiled: bool, said: str, tmp_path: Path
) -> None:
    Journal(tmp_path, SPACE, profiled=True).__exit__(None, None, None)
    with pytest.raises(UsageError, match=said):
        Journal(tmp_path, space, profiled=profiled)


def test_a_damaged_file_is_one_clear_error(tmp_path: Path) -> None:
    Journal(tmp_path, SPACE, profiled=True).__exit__(None, None, None)
    trial = '{"setting":{},"round":"x","status":"done","started":""}'
    for line in ("{", "[]", '{"setting":{}}', trial, "[" * 100_000):
        (tmp_path / "journal.jsonl").write_text(f"{line}\n")
        with pytest.raises(FormatError, match="line 1 is damaged"):
            read_trials(tmp_path)
    for text in ("", "{", "[]", '{"schema": "profkit.study/9"}'):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(FormatError, match="is damaged:"):
            read_plan(tmp_path)


def test_a_trial_that_another_process_finished_is_left_to_it(tmp_path: Path) -> None:
    """SQLite has no locks of rows, so Optuna gives one waiting trial to two processes now and then."""
    optuna = imported("optuna")
    storage = f"sqlite:///{tmp_path / 'shared.db'}"
    study = optuna.create_study(storage=storage, study_name="shared")
    trial = Trial({"workers": "1"}, 0, "done", "", 0, 2.0)
    asked, free = study.ask(), study.ask()
    optuna.load_study(study_name="shared", storage=storage).tell(asked.number, 3.0)
    assert (_is_taken(study, asked), _is_taken(study, free)) == (True, False)
    _tell(study, WALL, asked, trial)
    _tell(study, WALL, free, trial)
    assert [done.value for done in study.get_trials()] == [3.0, 2.0]


@pytest.mark.parametrize("default", [("2", "unset"), ("2", "1")])
def test_the_default_leaves_the_sampler_its_parameters(default: tuple[str, str], tmp_path: Path) -> None:
    """Optuna's samplers search what all complete trials have; the default may lie outside the space."""
    optuna = imported("optuna")
    space = replace(SPACE, parameters=(WORKERS, replace(THREADS, values=("1", "2"))))
    runner = Runner(space, tmp_path, False, {}, None, WALL)
    study = open_search(runner, default, storage="sqlite://", name="one", first=[("1", "1")])
    for setting in (default, ("1", "1")):
        asked = study.ask()
        assert _setting_of(space, asked) == setting
        _tell(study, WALL, asked, Trial(space.named(setting), 0, "done", "", 0, 2.0))
    searched = optuna.search_space.intersection_search_space(study.get_trials())
    assert set(searched) == {"workers", "OMP_NUM_THREADS"}
    assert [space.setting_of(trial.setting) for trial in trials_of(study)] == [default, ("1", "1")]


def test_what_a_sampler_lacks_is_said_before_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported("optuna")
    monkeypatch.setattr("profkit.study.tune.find_spec", lambda name: None)
    runner = Runner(SPACE, tmp_path, False, {}, None, WALL)
    with pytest.raises(UsageError, match="pip install torch scipy"):
        open_search(runner, ("1", "1"), storage="sqlite://", name="one", sampler="gp")


# Advice that is tried: what it changes in a command or in a program, and when runs decide

THREADED = ("python", "train.py", "--threads", "8", "--note", "{x}")


class TestSettings:
    def test_both_commands_and_their_variables(self) -> None:
        changed = ("taskset", "-c", "0-1", *THREADED[:3], "2", *THREADED[4:])
        environment = {"OMP_NUM_THREADS": "8", "HOME": "/h"}
        threads = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
        space = space_of_two(Change(THREADED, changed, threads), environment)
        before, after = space.settings()
        assert (before[0], after[0]) == (AS_IT_WAS, ADVISED)
        assert space.command_of(before) == list(THREADED)
        assert space.command_of(after) == list(changed)
        assert space.environment_of(before, environment) == environment
        assert space.environment_of(after, environment) == {**environment, **threads}

    def test_what_changes_nothing_is_refused(self) -> None:
        with pytest.raises(UsageError, match="changes nothing"):
            space_of_two(Change(THREADED, THREADED, {"OMP_NUM_THREADS": "2"}), {"OMP_NUM_THREADS": "2"})

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
        failed = Tried("fails", cell_of(5.0), cell_of(problem="exit status 3: \x1b[2J"), Estimate(1.0))
        block = tried_verdict(failed, 1.0)
        assert (block.tone, block.summary) == ("bad", "exit status 3: \\x1b[2J.")

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
        Advice("capture-idle", THREADED),
        Advice("edit-code", subject="torch.set_num_threads(2)"),
        Advice("list-processes", ("ps",)),
        Advice("edit-code", subject="Pool(2)", where=FunctionKey("project", "gone.py", "main")),
    ],
)
def test_what_changes_no_command_cannot_be_tried(advice: Advice, tmp_path: Path) -> None:
    assert advised(advice, THREADED, [tmp_path]) is None


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
