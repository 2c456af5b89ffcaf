"""The table, the ranking and the comparability of two sides; which rows of a run are compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profkit.compare.comparability import without_directories
from profkit.compare.pair import select_pair
from profkit.measure.selected_processes import FIRST
from profkit.model import Notice, Profile, Run, RunSet
from profkit.verdict.diagnosis import diagnose as diff
from tests.builders import Row, captured, foreign, profile
from tests.programs import Fn, compare, one_side, plain, program, training

FILLER = [Row("m.py", 10 * i, f"f{i}", 10, 1.0 / (i + 1), source=f"s{i}") for i in range(20)]
SLOWER = profile([replace(r, tottime=1.01 * r.tottime) for r in FILLER])


def run_of(prof: Profile, **known: object) -> Run:
    return captured(prof, wall=4, run=3.9, wait=0, **known)  # type: ignore[arg-type]


def test_every_function_of_either_side_is_one_row_in_order_of_change() -> None:
    a = profile([Row("m.py", 1, "f", 1, 1.0), Row("m.py", 2, "gone", 1, 0.5), Row("m.py", 3, "same", 1, 3.0)])
    b = profile([Row("m.py", 9, "f", 1, 4.0), Row("m.py", 2, "new", 1, 0.25), Row("m.py", 3, "same", 1, 3.0)])
    found = diff(foreign(a), foreign(b))
    table, residue = found.table, found.residue
    assert table.name == ("f", "gone", "new", "same")
    assert table.match == ("rooted", "gone", "new", "exact")
    assert table.line == (9, 2, 2, 3)
    assert table.baseline.rank.tolist() == [2, 3, 0, 1]
    assert table.candidate.rank.tolist() == [1, 0, 3, 2]
    assert table.baseline.present.tolist() == [True, True, False, True]
    assert table.per_call_ratio[0] == 4.0
    assert np.isnan(table.per_call_ratio[1])
    assert (residue.baseline_only, residue.candidate_only) == (1, 1)
    assert residue.baseline_only_share == pytest.approx(0.5 / 4.5)
    assert residue.candidate_only_share == pytest.approx(0.25 / 7.25)


BODY, OTHER_BODY = (Row("m.py", 1, "<module>", 1, 0.1, source=text) for text in ("a file", "another file"))
CALLED = Row("m.py", 8, "f", 1, 1.0, source="f")


@pytest.mark.parametrize(
    ("before", "after", "line", "match"),
    [
        # No definition after the last function of a file shows that it stood there before: the module does.
        ([BODY, CALLED], [BODY, CALLED], 9, "uncalled"),
        ([BODY, CALLED], [OTHER_BODY, CALLED], 9, "new"),
        # Samples may lack the module, as its frame takes no time: the next function did not move, or it did.
        ([CALLED], [CALLED], 3, "uncalled"),
        ([CALLED], [replace(CALLED, line=12)], 3, "new"),
    ],
    ids=["last", "last, new", "first", "first, new"],
)
def test_a_function_that_stood_there_uncalled_is_not_new(
    before: list[Row], after: list[Row], line: int, match: str
) -> None:
    elsewhere = Row("n.py", 1, "g", 1, 1.0)
    added = Row("m.py", line, "added", 1, 2.0, source="added")
    table = diff(foreign(profile([*before, elsewhere])), foreign(profile([*after, elsewhere, added]))).table
    assert dict(zip(table.name, table.match, strict=True))["added"] == match


def test_climb_is_anomalous() -> None:
    a, b = (profile([*FILLER, Row("m.py", 900, "hot", 100, own, source="h")]) for own in (0.105, 2.0))
    table = diff(foreign(a), foreign(b)).table
    row = table.name.index("hot")
    assert np.flatnonzero(table.anomalous).tolist() == [row]
    assert (table.baseline.rank[row], table.candidate.rank[row]) == (10, 1)
    assert table.per_call_ratio[row] == pytest.approx(2.0 / 0.105)
    assert table.same_source[row] is True


def test_replicates_are_medians_and_keep_what_the_first_run_lacks() -> None:
    runs = [[Row("m.py", 1, "f", 10 + i, 1.0 + i)] for i in range(3)]
    for i in (1, 2):
        runs[i].append(Row("m.py", 5, "late", 4, 0.5))
    runs[2].append(Row("m.py", 9, "rare", 4, 0.5))
    side = foreign(*(profile(r) for r in runs))
    found = diff(side, side)
    table = found.table
    values = zip(table.name, table.baseline.ncalls, table.baseline.tottime, strict=True)
    assert set(values) == {("f", 11, 2.0), ("late", 4, 0.5), ("rare", 0, 0.0)}
    assert found.baseline.runs == 3


def test_own_scatter_decides_with_replicates() -> None:
    random = np.random.default_rng(5)

    def side(hot: float, scatter: float) -> RunSet:
        rows = [*((r, 0.01) for r in FILLER), (Row("m.py", 900, "hot", 10, hot), scatter)]
        runs = (
            [replace(r, tottime=r.tottime * np.exp(random.normal(0, s))) for r, s in rows] for _ in range(5)
        )
        return foreign(*map(profile, runs))

    steady, wild = (diff(side(0.3, scatter), side(0.7, scatter)) for scatter in (0.01, 0.6))
    row = steady.table.name.index("hot")
    assert np.flatnonzero(steady.table.anomalous).tolist() == [row]
    assert steady.table.p_value[row] < 0.2
    assert steady.verdict.subject == "hot"
    assert not wild.table.anomalous[wild.table.name.index("hot")]


def test_p_values_need_four_runs_a_side() -> None:
    three, four = (foreign(*[profile(FILLER)] * runs) for runs in (3, 4))
    assert np.isnan(diff(three, three).table.p_value).all()
    assert (diff(four, four).table.p_value == 1).all()


def test_what_stood_still_is_in_no_share_and_in_no_rank() -> None:
    """Where a tracer on both sides measured time off the CPU, functions are ranked by the rest of their self time."""
    sides = ([*training(), Fn("read", 10, 0.2, 0.05, off, {"step": 10})] for off in (0.5, 30.0))
    found = diff(*(one_side(program(side)) for side in sides))
    table, row = found.table, found.table.name.index("read")
    for columns in (table.baseline, table.candidate):
        assert (columns.active[row], columns.rank[row]) == (pytest.approx(0.25), 5)
        assert columns.share.sum() == pytest.approx(1.0)
        assert columns.share[row] == pytest.approx(0.25 / (3.16 + 0.25))
    assert table.candidate.tottime[row] == pytest.approx(30.25)
    assert not table.anomalous.any()
    assert found.ranking.total_variation == pytest.approx(0.0, abs=1e-9)
    assert not found.ranking.reordered
    # The time is not lost from the report: it is what the verdict is about.
    assert found.verdict.cause == "blocked"
    assert found.account.bucket("blocked").parts[0].name == "read"


def test_by_cumtime_what_stood_still_counts() -> None:
    """A function's cumtime is all of it, whatever it and its callees waited for."""
    sides = ([*training(), Fn("read", 10, 0.2, 0.05, off, {"step": 10})] for off in (0.5, 30.0))
    table = diff(*(one_side(program(side)) for side in sides), by="cumtime").table
    row = table.name.index("read")
    assert set(table.name[:3]) == {"main", "step", "read"}
    assert (table.baseline.rank[row], table.candidate.rank[row]) == (8, 3)
    assert table.candidate.share[row] == pytest.approx(30.25 / (3.16 + 30.25))
    assert table.candidate.active[row] == pytest.approx(0.25)


@pytest.mark.parametrize("turned", [False, True])
def test_where_one_side_has_no_wall_self_times_are_compared(turned: bool) -> None:
    """The wall of the captured side includes 2 s before and after its functions."""
    with_wall, without = one_side(program(training(), startup=2.0)), one_side(plain(training(slower=1.5)))
    sides = (without, with_wall) if turned else (with_wall, without)
    factor = 1 / 1.5 if turned else 1.5
    assert diff(*sides).slowdown.value == pytest.approx(factor)
    assert np.exp(compare(*sides).signals.log_walls) == pytest.approx(factor)


def test_comprehensions_fold_across_versions_and_say_so() -> None:
    def side(version: int, *rows: Row) -> Profile:
        shared = [Row(f"/usr/lib/python3.{version}/os.py", 5, "walk"), Row("m.py", 1, "f", 1, 1.0)]
        return profile([*shared, *rows], [(1, 2, 1, 2.0)] if rows else [])

    found = diff(foreign(side(11, Row("m.py", 2, "<listcomp>", 1, 2.0))), foreign(side(13)))
    row = found.table.name.index("f")
    assert found.table.match[row] == "folded-comprehension"
    assert found.table.baseline.tottime[row] == 3.0
    assert "<listcomp>" not in found.table.name
    differs = Notice("python-differs", "", {"baseline": "3.11", "candidate": "3.13"})
    assert differs in found.comparability.warnings


def test_the_same_file_twice_is_said_to_be_one() -> None:
    found = diff(foreign(profile(FILLER)), foreign(profile(FILLER)))
    assert found.verdict.cause == "no-change"
    assert found.verdict.rule == "identical"
    assert Notice("same-capture") in found.comparability.warnings
    assert found.comparability.score == 1


def test_one_run_a_side_cannot_tell_noise() -> None:
    a, b = profile(FILLER), SLOWER
    three = foreign(a, a, a)
    assert Notice("single-run") in diff(foreign(a), foreign(b)).comparability.warnings
    assert Notice("single-run", "candidate") in diff(three, foreign(b)).comparability.warnings
    enough = diff(three, foreign(b, b, b)).comparability.warnings
    assert "single-run" not in {notice.code for notice in enough}


@pytest.mark.parametrize(
    ("change", "code", "candidate"),
    [
        ({"python": "3.13.0"}, "python-differs", "3.13.0"),
        ({"cpu_model": "other"}, "cpu-model-differs", "other"),
        ({"host": "elsewhere"}, "host-differs", "elsewhere"),
        ({"cpus": 16}, "cpus-differ", 16),
        ({"command": ("python", "train.py", "--big")}, "command-differs", "python train.py --big"),
        ({"children": [(1.0, 0.0)]}, "process-count-differs", 2),
    ],
)
def test_each_difference_of_the_runs_is_named_and_costs_score(
    change: dict[str, object], code: str, candidate: str | int
) -> None:
    a, b = run_of(profile(FILLER)), run_of(SLOWER, **change)
    found = diff(RunSet("a", (a,)), RunSet("b", (b,))).comparability
    (notice,) = (notice for notice in found.warnings if notice.code == code)
    assert notice.numbers["candidate"] == candidate
    assert notice.numbers["baseline"] != candidate
    assert found.score < 1


def test_launcher_and_directories_are_no_part_of_a_command() -> None:
    a = run_of(profile(FILLER), command=("/a/bin/python3", "/home/a/train.py", "-n", "3"))
    b = run_of(profile(FILLER[:-1]), command=("python3.11", "train.py", "-n", "3"))
    assert diff(RunSet("a", (a,)), RunSet("b", (b,))).comparability.score == 1


@pytest.mark.parametrize(
    ("command", "program", "data"),
    [
        ("/a/bin/python3.12 /home/a/train.py /data/small", "python train.py /data/small", "small"),
        ("python -u src/train.py -n 3", "python -u train.py -n 3", "3"),
        ("/w/run.sh train.py --on <project>/a", "run.sh train.py --on <project>/a", "a"),
        (r"C:\Python\python.exe C:\w\train.py", "python train.py", "train.py"),
    ],
)
def test_a_command_without_directories_of_its_program_and_of_its_data(
    command: str, program: str, data: str
) -> None:
    words = command.split()
    assert without_directories(words, of_data=False) == tuple(program.split())
    assert without_directories(words) == (*program.split()[:-1], data)


def test_a_sampled_side_is_compared_by_share() -> None:
    """Of one program, sampled for half of its time without its built-in functions; one function grew."""
    rows = [Row("a.py", 5, "f", 10, 2.0), Row("a.py", 9, "g", 3, 1.0)]
    rows.append(Row("~", 0, "<built-in method time.sleep>", 3, 1.0))
    traced = profile(rows, [(1, 2, 3, 1.0)])
    less = profile([replace(rows[0], ncalls=120, tottime=1.2), replace(rows[1], ncalls=80, tottime=0.8)])
    noted = replace(foreign(less).runs[0], warnings=(Notice("sampled-profile"),))
    for turned in (False, True):
        one, other = foreign(traced), RunSet("s", (noted,))
        found = diff(other, one) if turned else diff(one, other)
        table = found.table
        assert table.by_share
        assert (found.verdict.cause, found.verdict.rule) == ("inconclusive", "sampled")
        warned = Notice("one-side-sampled", "baseline" if turned else "candidate")
        assert warned in found.comparability.warnings
        assert found.comparability.score < 0.5
        assert found.warnings == (Notice("sampled-profile").at(file=noted.path),)
        assert set(table.name) == {"f", "g"}, "the built-in function is in its caller"
        at = {name: i for i, name in enumerate(table.name)}
        sides = table.baseline, table.candidate
        by_trace, by_sample = reversed(sides) if turned else sides
        assert by_sample.share[at["f"]] == pytest.approx(0.6)
        assert by_trace.share[at["f"]] == by_trace.share[at["g"]] == pytest.approx(0.5)
        # Seconds of the baseline's total.
        assert [side.tottime.sum() for side in sides] == pytest.approx([2.0 if turned else 4.0] * 2)
        assert (found.baseline.total_s, found.candidate.total_s) == ((2.0, 4.0) if turned else (4.0, 2.0))
        assert not any(side.ncalls.any() for side in sides)
        assert np.isnan(table.per_call_ratio).all()
    # Where neither side knows who calls whom, there are no calls to show.
    assert diff(foreign(profile(rows)), RunSet("s", (noted,)), calls=True).calls is None


def test_foreign_file_is_compared_with_the_first_process_only() -> None:
    run = run_of(profile(FILLER), children=[(1.0, 0.0)])
    plain = foreign(profile(FILLER)).runs[0]
    assert select_pair(plain, run, None)[:2] == (None, FIRST)
    first, second, warnings = select_pair(run, plain, None)
    assert (first, second) == (FIRST, None)
    assert warnings == (Notice("one-process-compared", "baseline", {"processes": 2}),)
    assert select_pair(run, run, None) == (None, None, ())
    assert select_pair(run, plain, "rank:0")[:2] == ("rank:0", FIRST)


def test_functions_of_nearly_equal_time_that_change_places_are_no_reordering() -> None:
    up, down = ([Row("m.py", i, f"f{i}", 1, 1 + s * 0.001 * i) for i in range(12)] for s in (1, -1))
    found = diff(foreign(profile(up)), foreign(profile(down)))
    assert found.ranking.rbo > found.ranking.noise_floor
    assert not found.ranking.reordered
    assert found.verdict.cause == "no-change"


def test_calls_are_told_only_where_they_are_asked_for_and_known() -> None:
    side = foreign(profile([Row("a.py", 1, "main"), Row("a.py", 5, "f")], [(0, 1, 3, 1.0)]))
    assert diff(side, side, calls=True).calls is not None
    assert diff(side, side).calls is None
    bare = foreign(profile([Row("a.py", 1, "main")]))
    assert diff(bare, bare, calls=True).calls is None
