"""The benchmarks of a capture: what two profiles have in common, and that what can be asked for is there."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import pytest

from benchmarks.accuracy.__main__ import HERE, SLOWED
from benchmarks.accuracy.agreement import Function, Truth, agreement, leading
from benchmarks.overhead.runnable import NAMES, Place, UnavailableError, runnable
from tests.shared import finished


def exact(calls: float, tottime: float) -> Function:
    return Function(calls, calls, calls, tottime, 0.0)


def key(name: str) -> tuple[str, int, str]:
    return ("program.py", 1, name)


TRUTH = {key("f"): exact(2000, 6.0), key("g"): exact(10, 3.0), key("h"): exact(1, 1.0)}


def test_an_exact_profile_agrees_with_itself() -> None:
    found = agreement(TRUTH, TRUTH, [TRUTH])
    assert (found.calls, found.times, found.wrong, found.unknown) == (0, 0, (), 0)
    assert (found.worst, found.unseen_s, found.same_first) == (0.0, 0.0, True)


def test_intervals_hold_the_number_or_do_not() -> None:
    seen = {
        key("f"): Function(1500, 900, 2400, 3.5, 0.6),  # 70 % of the time, ± 12
        key("g"): Function(30, 20, 40, 1.0, 0.1),  # 20 %, ± 2
        key("h"): Function(math.nan, math.nan, math.nan, 0.5, 0.0),
    }
    found = agreement(TRUTH, seen, [TRUTH])
    assert (found.calls, found.calls_held, found.unknown) == (2, 1, 1)
    assert (found.busy, found.busy_held) == (1, 1)
    assert found.ratio == pytest.approx(0.75)
    assert (found.times, found.times_held) == (2, 1)
    assert found.worst == pytest.approx(0.1)


def test_a_count_that_is_stated_as_exact_is_wrong_if_it_differs() -> None:
    assert agreement(TRUTH, {**TRUTH, key("g"): exact(11, 3.0)}, [TRUTH]).wrong == ("g 11 for 10",)


def test_what_a_profile_lacks_is_not_passed_over() -> None:
    found = agreement(TRUTH, {key("f"): TRUTH[key("f")]}, [TRUTH])
    assert found.unseen_s == pytest.approx(0.4)
    assert found.worst == pytest.approx(0.4)
    assert (found.same_first, found.common_first) == (False, 1)


def test_the_first_functions_are_those_with_most_self_time() -> None:
    assert leading(TRUTH, 2) == [key("f"), key("g")]


@pytest.mark.parametrize("name", SLOWED)
def test_the_slowed_function_is_in_its_program(name: str) -> None:
    source = (HERE / f"{name}.py").read_text(encoding="utf-8")
    assert f"def {SLOWED[name].rpartition('.')[2]}(" in source
    compile(source, name, "exec")
    assert 'os.environ.get("SLOWER", "1")' in source


@pytest.mark.parametrize("name", ["genetic", "records", "threads", "server"])
def test_programs_of_python_alone_need_nothing(tmp_path: Path, name: str) -> None:
    program = runnable(name, Place(sys.executable, None, tmp_path / name, 1))
    assert program.folder.is_dir()
    assert Path(program.command[1]).exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    assert "log_parser" in NAMES
    with pytest.raises(UnavailableError, match="needs --environment"):
        runnable("log_parser", Place(sys.executable, None, tmp_path / "log_parser", 1))


@pytest.mark.parametrize("name", ["overhead.__main__", "accuracy.__main__", "processes"])
def test_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    assert "--quick" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["overhead", "accuracy"])
def test_an_unknown_program_is_one_clear_line(name: str) -> None:
    done = finished([sys.executable, "-m", f"benchmarks.{name}", "unheard"], Path(__file__).parents[2])
    assert done.returncode == 2
    assert "unheard: not one of" in done.stderr.splitlines()[-1]


def test_what_may_be_among_the_first_by_its_interval_is_no_other_set() -> None:
    usual = {key(f"f{i}"): exact(10, 20.0 - i) for i in range(12)}
    swapped = {
        **usual,
        key("f9"): Function(10, 10, 10, 9.5, 1.0),
        key("f10"): Function(10, 10, 10, 10.5, 1.0),
    }
    assert agreement(usual, swapped, [usual]).same_first
    sure = {**swapped, key("f9"): Function(10, 10, 10, 9.5, 0.1), key("f10"): Function(10, 10, 10, 10.5, 0.1)}
    found = agreement(usual, sure, [usual])
    assert (found.same_first, found.common_first) == (False, 9)


def test_the_truth_is_held_by_an_interval_around_it() -> None:
    truth = Truth(2.0, 400_000)  # of which the calls take up to 0.1 s
    assert truth.held(Function(10, 10, 10, 1.8, 0.3))
    assert truth.held(Function(10, 10, 10, 2.15, 0.1))
    assert not truth.held(Function(10, 10, 10, 1.8, 0.1))
    assert not truth.held(Function(10, 10, 10, 2.25, 0.1))
