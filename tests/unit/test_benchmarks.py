"""The benchmarks' own rules: what is true of a pair, what is counted as right, what two profiles agree in."""

from __future__ import annotations

import ast
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.agreement import Function, agreement
from benchmarks.verdict.__main__ import main
from benchmarks.verdict.alone import alone
from benchmarks.verdict.calibrate import FEWEST, fit, held_out, tables
from benchmarks.verdict.catalogue import CONDITIONS, PROGRAMS
from benchmarks.verdict.changes import CHANGES
from benchmarks.verdict.corpus import read_corpus
from benchmarks.verdict.judge import Judgement, judge
from benchmarks.verdict.learn import write_steps
from benchmarks.verdict.pairs import LeftOut, make_pairs
from benchmarks.verdict.score import calibration, confusion, figures, summary
from benchmarks.verdict.tables import report
from benchmarks.verdict.truth import RIGHT, Intent, Measured, intent_of, of_another, of_pair
from profkit.formats.runfile import read_run
from profkit.verdict.calibration import STEPS
from profkit.verdict.types import CAUSES
from tests.shared import ROOT, SAMPLES, finished, words_of
from tests.unit.test_architecture import imports_of

VERDICT = ROOT / "benchmarks" / "verdict"


def measured(wall: float, wait: float = 0.0) -> Measured:
    """A run of one thread that computes or queues all the time."""
    return Measured(wall, wall - wait, wait, 0.0, 0.0, 2.0, wait)


#: Ten clean runs of one thread: they differ by up to 9 %, and queue for up to 9 milliseconds.
CLEAN = [measured(1 + i / 100, wait=i / 1000) for i in range(10)]


def intent(condition: str) -> Intent:
    return intent_of(CONDITIONS[condition], CONDITIONS[CONDITIONS[condition].baseline])


def constants(path: Path, kind: type) -> Iterator[float]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and type(node.value) is kind:
            yield node.value


def test_the_truth_holds_no_threshold_of_the_rules() -> None:
    # What calibration.py holds was learnt from this truth and decides nothing.
    rules = [path for path in (ROOT / "profkit" / "verdict").rglob("*.py") if path.stem != "calibration"]
    thresholds = {value for path in rules for value in constants(path, float)}
    assert len(thresholds) > 10, "the rules' thresholds are not where this test looks for them"
    assert not thresholds & set(constants(VERDICT / "truth.py", float))
    # Left: no difference, one thread at least, two runs that have a difference.
    assert set(constants(VERDICT / "truth.py", int)) <= {0, 1, 2}


@pytest.mark.parametrize("module", ["truth", "catalogue", "watch"])
def test_what_decides_the_truth_imports_nothing_that_is_judged(module: str) -> None:
    names = {name for name, _ in imports_of(VERDICT / f"{module}.py")}
    own = {name for name in names if name.startswith(("profkit", "benchmarks", "sample_profiles"))}
    assert own <= {"benchmarks.verdict.catalogue"}


def test_the_kind_of_contention_follows_from_the_condition() -> None:
    kinds = {name: set(intent(name).kinds) for name in CONDITIONS}
    assert kinds["hogs-1x"] == kinds["bursty"] == kinds["rank-hog"] == {"external-load"}
    assert kinds["threads"] == kinds["workers"] == kinds["pinned"] == {"self-oversubscription"}
    assert kinds["quota"] == {"cpu-quota"}
    # Tied to one CPU on both sides: only the neighbour is new. Against a clean run both are.
    assert kinds["pinned-hog"] == {"external-load"}
    both = intent_of(CONDITIONS["pinned-hog"], CONDITIONS["clean"])
    assert both.kinds == {"external-load", "self-oversubscription"}
    for name in words_of("clean changed work2 size isa stopped locked slow-store beside-changed"):
        assert not kinds[name]


def test_the_same_neighbour_on_both_sides_is_no_cause() -> None:
    assert intent("beside-changed").causes == {"code-change"}
    against_clean = intent_of(CONDITIONS["beside-changed"], CONDITIONS["clean"])
    assert against_clean.causes == {"code-change", "contention"}
    assert against_clean.mixed


@pytest.mark.parametrize(
    ("condition", "baseline", "candidate", "causes"),
    [
        # Queueing explains the loss.
        ("hogs-1x", 4, measured(2.0, wait=0.95), {"contention"}),
        # Longer than this clean run by as much as the longest clean run is longer than the shortest, and by more.
        ("changed", 0, measured(CLEAN[9].wall_s), {"code-change", "no-change"}),
        ("changed", 0, measured(1.10), {"code-change"}),
        # A slow clean run hides the same loss.
        ("changed", 9, measured(1.10), {"code-change", "no-change"}),
        # Not decided: slower without queueing, queueing without a loss, queueing that explains less than half.
        ("hogs-1x", 4, measured(1.5), None),
        ("hogs-1x", 4, measured(1.04, wait=0.2), None),
        ("hogs-1x", 4, measured(2.0, wait=0.3), None),
        # The neighbour took nothing. Two clean runs typically differ by 30 milliseconds: less cannot be seen.
        ("hogs-1x", 4, measured(1.06, wait=0.005), {"no-change"}),
        ("hogs-1x", 4, measured(1.06, wait=0.03), {"no-change"}),
        ("hogs-1x", 4, measured(1.06, wait=0.04), None),
        # Longer than any clean run, but not by enough: a loss that the other side may hide.
        ("hogs-1x", 4, measured(1.10, wait=0.005), None),
        ("hogs-1x", 4, measured(0.8, wait=0.005), {"no-change", "faster"}),
    ],
)
def test_what_is_true_of_a_pair(
    condition: str, baseline: int, candidate: Measured, causes: set[str] | None
) -> None:
    found = of_pair(intent(condition), CLEAN, CLEAN[baseline : baseline + 1], [candidate])
    assert (None if found is None else found.causes) == causes
    if found is not None:
        assert found.label in found.causes
        assert found.contended == ("contention" in found.causes)
        assert found.kinds == ({"external-load"} if found.contended else set())


def test_of_another_program_nothing_can_be_said() -> None:
    found = of_another(CLEAN[:1], [measured(2.0, wait=1.0)])
    assert (found.causes, found.contended) == ({"inconclusive"}, False)
    judged = [said(cause, ("inconclusive",), form="another") for cause in ("inconclusive", "contention")]
    assert [j.outcome for j in judged] == ["right", "wrong"]
    assert figures(judged).inconclusive.hits == 0
    assert not fit(judged[:1]), "what is not claimed has no confidence"


def said(cause: str, causes: tuple[str, ...], *, contended: bool = False, **more: object) -> Judgement:
    values: dict[str, object] = (
        {"arm": "counters", "runs": 1, "workload": "w", "programs": ("w",), "condition": "c"}
        | {"form": "forward", "label": causes[0], "contended": contended, "causes": causes, "kinds": ()}
        | {"effect": 2.0, "cause": cause, "kind": None, "confidence": 0.9, "rule": f"rule of {cause}"}
        | {"strength": math.nan, "baseline": (0,), "candidate": (0,)}
    )
    return Judgement(**{**values, **more})  # type: ignore[arg-type]


def test_figures_tell_misses_from_false_alarms() -> None:
    of_others = {"contended": True, "kinds": ("external-load",)}
    judged = [
        said("contention", ("contention",), **of_others, kind="external-load"),
        said("contention", ("contention",), **of_others, kind="cpu-quota"),
        said("slower-machine", ("contention",), contended=True),
        said("contention", ("no-change",)),
        said("inconclusive", ("code-change",)),
        said("code-change", ("code-change", "contention"), contended=True),
    ]
    found = figures(judged)
    assert (found.recall.hits, found.recall.of) == (2, 3)
    assert (found.kind.hits, found.kind.of) == (1, 2)
    assert (found.alarms.hits, found.alarms.of) == (1, 2)
    assert (found.wrong.hits, found.inconclusive.hits) == (2, 1)
    whole, program, group = summary(judged)
    assert (whole["program"], program["program"], whole["recall"], whole["pairs"]) == (None, "w", [2, 3], 6)
    assert [group[key] for key in ("right", "inconclusive", "wrong")] == [[3, 6], [1, 6], [2, 6]]
    assert group["group"] == "c"
    assert confusion(judged)["contention"] == {"contention": 2, "slower-machine": 1}


def test_confidence_rises_with_strength_and_is_learnt_on_other_programs() -> None:
    weak = [
        said("contention", ("no-change",) if i % 3 else ("contention",), strength=0.1 + i / 1e3)
        for i in range(30)
    ]
    strong = [said("contention", ("contention",), strength=0.5 + i / 1e3) for i in range(30)]
    table = fit(weak + strong)
    rule = "rule of contention"
    (least, low), *_, (_, high) = table[rule]
    assert least == -math.inf
    assert low < 0.5 < 0.9 < high < 1.0
    other = [said("contention", ("no-change",), strength=0.6, workload="other", programs=("other",))] * 5
    # What one program was compared with is not learnt from for that one either.
    other += [said("contention", ("inconclusive",), strength=0.6, programs=("other", "w"))] * 50
    learnt = [j for j in held_out(weak + strong + other) if j.workload == "other"]
    assert {j.confidence for j in learnt} == {high}


def test_confidences_are_learnt_and_scored_as_users_see_them() -> None:
    rule = "rule of contention"
    right = [said("contention", ("contention",), stated=0.97)] * 40
    doubted = [said("contention", ("no-change",), stated=0.97, doubt=0.85)] * 40
    beside = [said("contention", ("no-change",), stated=0.97, left=0.9)] * 40
    # What is doubted, or said beside other causes, is no part of the share that these lower.
    assert tables(right + doubted + beside) == {"counters, one": fit(right)}
    (share,) = (share for _, share in fit(right)[rule])
    of_others = [
        said("contention", ("contention",), workload="v", programs=("v",), stated=0.97, **more)
        for more in ({}, {"doubt": 0.85}, {"doubt": 0.6}, {"left": 0.9}, {"doubt": 0.85, "left": 0.9})
    ]
    found = [j.confidence for j in held_out(right + of_others) if j.workload == "v"]
    assert found == pytest.approx([share, 0.85, math.nan, share * 0.9, 0.85 * 0.9], nan_ok=True)
    shown = [j for j in held_out(right + of_others) if j.workload == "v"]
    assert sum(right.of for *_, right in calibration(shown)) == 4, "what is not printed is not scored"
    assert not fit(right[: FEWEST - 1]), "so few have no share"


def test_every_condition_and_change_of_the_catalogue_exists() -> None:
    for name, program in PROGRAMS.items():
        source = (ROOT / "benchmarks" / "verdict" / "programs" / f"{name}.py").read_text()
        compile(source, name, "exec")
        for condition in program.conditions:
            assert RIGHT[CONDITIONS[condition].label] <= set(CAUSES)
            assert CONDITIONS[condition].baseline in ("clean", *program.conditions)
            if CONDITIONS[condition].changed:
                changed = CHANGES[name].apply(source)
                compile(changed, name, "exec")
                assert changed != source
        assert not program.isa or "isa" in program.conditions


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Real runs in the corpus's layout: the samples of this repository, clean and beside busy processes."""
    source = SAMPLES / "tokenize_corpus"
    for condition, name, repeats in (("clean", "clean-1", 3), ("hogs-1x", "external-load", 1)):
        folder = tmp_path / "tokenize_corpus" / condition
        folder.mkdir(parents=True)
        for repeat in range(repeats):
            (folder / f"{repeat}.prof").write_bytes((source / f"{name}.prof").read_bytes())
            wall = read_run(folder / f"{repeat}.prof").manifest.wall_s  # type: ignore[union-attr]
            wall *= 1 + repeat / 100
            waits = 0.0 if condition == "clean" else 0.45 * wall
            facts = {"wall_s": wall, "tree_run_s": wall - waits, "tree_wait_s": waits}
            facts |= {"others_cores": waits, "throttled": 0, "cpus": 2}
            process = [1, 1, wall - waits, waits, wall - waits, waits]
            record = {"label": "", "baseline": "clean", "measured": facts, "processes": [process]}
            (folder / f"{repeat}.json").write_text(json.dumps(record))
    return tmp_path


def test_a_corpus_is_read_paired_and_judged(corpus: Path) -> None:
    pairs, left_out = make_pairs(read_corpus(corpus))
    # Of three clean runs, one is left beside a pair of them: it shows no spread.
    assert left_out == [LeftOut("tokenize_corpus", "clean", "null", 1)] * 6
    assert {(p.form, p.truth.contended) for p in pairs} == {("forward", True), ("reversed", False)}
    judged = list(judge(pairs))
    # Of sampled runs there are no plain profiles: they lack the calls that cProfile counts.
    assert {(j.arm, j.form, j.cause) for j in judged} == {
        ("counters", "forward", "contention"),
        ("counters", "reversed", "faster"),
    }


def test_runs_alone_are_judged_and_calibrated(corpus: Path, tmp_path: Path) -> None:
    single, left_out = alone(read_corpus(corpus))
    assert not left_out
    assert {(j.condition, j.causes, j.cause, j.outcome) for j in single} == {
        ("clean", (), "inconclusive", "inconclusive"),
        ("hogs-1x", ("contention",), "contention", "right"),
    }
    claims = [j for j in single if j.rule] * FEWEST
    table = fit(claims)
    assert {*table} == {j.rule for j in claims}
    text = report([], [], single, left_out)
    assert "| contention " in text
    assert "| nothing lacking: clean |" in text
    module = tmp_path / "calibration.py"
    module.write_text("import math\n\nSTEPS: dict = {}\n")
    write_steps(module, {"alone": table})
    written: dict[str, Any] = {}
    exec(module.read_text().replace("Mapping", "dict"), written)
    steps = written["STEPS"]
    share = pytest.approx((FEWEST + 1) / (FEWEST + 2), abs=1e-3)
    assert steps["alone"]["run-queue-wait"][0] == (-math.inf, share)
    # What was not learnt keeps what it had.
    assert steps["alone"]["throttling"] == STEPS["alone"]["throttling"]
    assert steps["plain, one"] == {**STEPS["plain, one"]}


def test_the_command_line_has_what_the_page_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["benchmarks.verdict", "take", str(tmp_path), "--environment", "nowhere", "--dry-run"]
    monkeypatch.setattr("sys.argv", line)
    main()
    assert "runs, about" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", [*line[:-1], "--programs", "unheard"])
    with pytest.raises(SystemExit, match="unheard: not a program"):
        main()
    monkeypatch.setattr("sys.argv", ["benchmarks.verdict", "setup", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()


# The benchmarks of a capture: what two profiles have in common, and that what can be asked for is there


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


@pytest.mark.parametrize("name", ["overhead", "accuracy", "processes"])
def test_help_and_an_unknown_program(name: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    assert "--quick" in finished([*command, "--help"], ROOT).stdout
    if name != "processes":
        done = finished([*command, "unheard"], ROOT, 2)
        assert "unheard: not one of" in done.stderr.splitlines()[-1]
