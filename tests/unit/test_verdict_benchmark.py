"""The score's own rules: what is true of a pair, what is counted as right, and what a confidence is learnt from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.verdict.__main__ import main
from benchmarks.verdict.calibrate import confidence_of, fit, held_out
from benchmarks.verdict.catalogue import CONDITIONS, PROGRAMS
from benchmarks.verdict.changes import CHANGES
from benchmarks.verdict.corpus import foreign_run, full_run, read_corpus
from benchmarks.verdict.judge import Judgement, judge
from benchmarks.verdict.pairs import make_pairs
from benchmarks.verdict.score import confusion, figures, summary
from benchmarks.verdict.take import cells
from benchmarks.verdict.truth import INTENTS, Measured, of_pair, of_reversed, of_same
from profkit.formats.runfile import read_run

ROOT = Path(__file__).parents[2]
CLEAN = Measured(1.0, 1.0, 0.0, 0.0, 0.0, 2.0)


def measured(wall: float, run: float, wait: float, others: float = 0.0, throttled: float = 0.0) -> Measured:
    return Measured(wall, run, wait, others, throttled, 2.0)


def test_a_neighbour_that_took_nothing_is_no_contention() -> None:
    truth = of_pair(INTENTS["contention"], CLEAN, measured(1.02, 1.0, 0.01, others=1.0))
    assert truth is not None
    assert (truth.label, truth.causes, truth.contended) == ("no-change", {"no-change"}, False)


def test_who_contends_is_measured() -> None:
    external = of_pair(INTENTS["contention"], CLEAN, measured(2.0, 1.0, 1.0, others=1.5))
    itself = of_pair(INTENTS["contention"], CLEAN, measured(2.0, 4.0, 8.0))
    assert external is not None
    assert itself is not None
    assert (external.contended, external.kinds) == (True, {"external-load"})
    assert (itself.contended, itself.kinds) == (True, {"self-oversubscription"})


@pytest.mark.parametrize(
    "candidate",
    [measured(1.5, 1.5, 0.0, others=1.0), measured(1.0, 1.0, 0.2, others=1.0)],
    ids=["slower without waiting", "waiting without being slower"],
)
def test_what_cannot_be_told_is_left_out(candidate: Measured) -> None:
    assert of_pair(INTENTS["contention"], CLEAN, candidate) is None


def test_a_quota_that_was_not_felt_is_no_contention() -> None:
    felt = of_pair(INTENTS["cpu-quota"], CLEAN, measured(2.0, 1.0, 1.0, throttled=0.9))
    unfelt = of_pair(INTENTS["cpu-quota"], CLEAN, measured(1.0, 1.0, 0.0))
    assert felt is not None
    assert unfelt is not None
    assert (felt.kinds, unfelt.label) == ({"cpu-quota"}, "no-change")


def test_more_data_may_be_taken_for_a_slower_machine_but_not_for_other_code() -> None:
    truth = of_pair(INTENTS["larger-input"], CLEAN, measured(1.6, 1.6, 0.0))
    assert truth is not None
    assert truth.causes == {"workload-change", "slower-machine"}


def test_a_slow_clean_run_hides_what_was_lost() -> None:
    lost, slow = measured(1.5, 1.0, 1.0, others=1.0), measured(1.45, 1.4, 0.0)
    assert of_pair(INTENTS["contention"], CLEAN, lost, slow) is None
    changed = of_pair(INTENTS["code-change"], CLEAN, measured(1.5, 1.5, 0.0), slow)
    assert changed is not None
    assert changed.causes == {"code-change", "no-change"}


def test_clean_runs_of_a_machine_that_slowed_down_may_be_called_so() -> None:
    slower = of_same("no-change", CLEAN, measured(1.5, 1.5, 0.0))
    waited = of_same("no-change", CLEAN, measured(1.5, 1.0, 0.5))
    assert slower is not None
    assert waited is not None
    assert slower.causes == {"no-change", "slower-machine"}
    assert waited.causes == {"no-change"}


def test_the_way_back_is_faster() -> None:
    truth = of_pair(INTENTS["workload-change"], CLEAN, measured(2.0, 2.0, 0.0))
    assert truth is not None
    back = of_reversed(truth)
    assert back is not None
    assert back.causes == {"faster", "workload-change"}
    small = of_pair(INTENTS["code-change"], CLEAN, measured(1.05, 1.0, 0.0))
    assert small is not None
    assert of_reversed(small) is None


def test_two_contended_runs_of_different_luck_are_left_out() -> None:
    assert of_same("contention", measured(2.0, 1.0, 1.0), measured(3.0, 1.0, 2.0)) is None
    assert of_same("contention", measured(2.0, 1.0, 1.0), measured(2.1, 1.0, 1.1)) is not None
    # Clean runs that differ are what false alarms are counted on.
    assert of_same("no-change", CLEAN, measured(2.0, 1.0, 1.0)) is not None


def said(cause: str, causes: tuple[str, ...], *, contended: bool = False, **more: object) -> Judgement:
    values: dict[str, object] = {
        "arm": "counters",
        "runs": 1,
        "workload": "w",
        "condition": "c",
        "form": "forward",
        "label": causes[0],
        "contended": contended,
        "causes": causes,
        "kinds": (),
        "effect": 2.0,
        "cause": cause,
        "kind": None,
        "confidence": 0.9,
        "rule": f"rule of {cause}",
        "strength": float("nan"),
        "baseline": (0,),
        "candidate": (0,),
    }
    return Judgement(**{**values, **more})  # type: ignore[arg-type]


def test_figures_tell_misses_from_false_alarms() -> None:
    judged = [
        said("contention", ("contention",), contended=True, kinds=("external-load",), kind="external-load"),
        said("contention", ("contention",), contended=True, kinds=("external-load",), kind="cpu-quota"),
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
    whole, program = summary(judged)
    assert (whole["program"], program["program"], whole["recall"], whole["pairs"]) == (None, "w", [2, 3], 6)
    assert confusion(judged)["contention"] == {"contention": 2, "slower-machine": 1}


def test_confidence_rises_with_strength_and_is_learnt_on_other_programs() -> None:
    weak = [
        said("contention", ("no-change",) if i % 3 else ("contention",), strength=0.1 + i / 1e3)
        for i in range(30)
    ]
    strong = [said("contention", ("contention",), strength=0.5 + i / 1e3) for i in range(30)]
    table = fit(weak + strong)
    rule = "rule of contention"
    low, high = confidence_of(table, rule, 0.1), confidence_of(table, rule, 0.9)
    assert low is not None
    assert high is not None
    assert low < 0.5 < 0.9 < high < 1.0
    assert confidence_of(table, rule, 0.0) == low
    assert confidence_of(table, "never seen", 1.0) is None
    other = [said("contention", ("no-change",), strength=0.6, workload="other") for _ in range(5)]
    learnt = [j for j in held_out(weak + strong + other) if j.workload == "other"]
    assert {j.confidence for j in learnt} == {high}


def test_every_condition_and_change_of_the_catalogue_exists() -> None:
    for name, program in PROGRAMS.items():
        source = (ROOT / "benchmarks" / "verdict" / "programs" / f"{name}.py").read_text()
        compile(source, name, "exec")
        for condition in program.conditions:
            assert CONDITIONS[condition].label in INTENTS
            assert CONDITIONS[condition].baseline in ("clean", *program.conditions)
            if CONDITIONS[condition].changed:
                changed = CHANGES[name].apply(source)
                compile(changed, name, "exec")
                assert changed != source
        assert not program.isa or "isa" in program.conditions


def test_rounds_are_interleaved_and_clean_runs_are_twice_as_many() -> None:
    wanted = cells(["log_parser", "ledger"], [], 3)
    assert len(set(wanted)) == len(wanted)
    clean = [c for c in wanted if c.condition == "clean"]
    assert sorted(c.repeat for c in clean if c.program == "ledger") == [0, 1, 2, 3, 4, 5]
    assert {c.repeat for c in wanted[: len(wanted) // 3]} == {0, 1}
    assert wanted == cells(["log_parser", "ledger"], [], 3)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Real runs in the corpus's layout: the samples of this repository, clean and beside busy processes."""
    source = ROOT / "sample_profiles" / "tokenize_corpus"
    for condition, label, waits in (("clean", "no-change", 0.0), ("external-load", "contention", 2.0)):
        name = "clean-1" if condition == "clean" else condition
        folder = tmp_path / "tokenize_corpus" / condition
        folder.mkdir(parents=True)
        (folder / "0.prof").write_bytes((source / f"{name}.prof").read_bytes())
        wall = read_run(folder / "0.prof").manifest.wall_s  # type: ignore[union-attr]
        facts = {
            "wall_s": wall,
            "tree_run_s": 1.0,
            "tree_wait_s": waits,
            "others_cores": waits,
            "throttled": 0,
            "cpus": 2,
        }
        (folder / "0.json").write_text(json.dumps({"label": label, "baseline": "clean", "measured": facts}))
    return tmp_path


def test_a_corpus_is_read_paired_and_judged(corpus: Path) -> None:
    samples = read_corpus(corpus)
    pairs, left_out = make_pairs(samples)
    assert left_out == 0
    assert {(p.form, p.truth.contended) for p in pairs} == {("forward", True), ("reversed", False)}
    judged = list(judge(pairs))
    assert {j.arm for j in judged} == {"counters", "plain"}
    counters = {j.form: j.cause for j in judged if j.arm == "counters"}
    assert counters == {"forward": "contention", "reversed": "faster"}


def test_the_plain_view_knows_only_what_a_plain_profiler_writes(corpus: Path) -> None:
    sample = read_corpus(corpus)[0]
    whole, plain = full_run(sample), foreign_run(sample)
    assert whole.manifest is not None
    assert (plain.manifest, plain.machine, len(plain.processes)) == (None, None, 1)
    profile = plain.processes[0].threads[0].profile
    assert profile.wait is None
    assert not profile.source_hash.any()
    assert plain.processes[0].threads[0].run_s is None
    assert profile.total == pytest.approx(whole.processes[0].threads[0].profile.total)


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
