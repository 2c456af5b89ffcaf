"""Words of results: every id has some, none is left over, and numbers read as people write them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from profkit.model import FunctionKey
from profkit.report import units
from profkit.report.wording import verdicts as wording
from profkit.report.wording.accounts import BUCKET_TITLES, waterfall
from profkit.report.wording.advice import ADVICE, advice_text
from profkit.report.wording.evidence import READINGS, SIGNALS, evidence_texts, value_text
from profkit.report.wording.functions import moved_text
from profkit.report.wording.summaries import SUMMARIES, summary_of
from profkit.report.wording.verdicts import run_block, verdict_block
from profkit.verdict.account import BUCKETS, CAPTURE, GPU, PAUSES, RUN_BUCKETS, Account, Bucket, Part
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.rules import RULES, RULES_ALONE, RULES_OF_ESTIMATES
from profkit.verdict.types import UNITS, Advice, Evidence, Finding, RunVerdict, Value, Verdict
from tests import report_builders as build
from tests.builders import Row, foreign, profile
from tests.programs import ACQUIRE
from tests.verdict_sources import calls, constants, sources


def texts(node: ast.expr, module: ast.Module, asked: tuple[str, ...] = ()) -> set[str]:
    """Texts that an argument may have; fails where its module does not tell. `asked` are names on the way."""
    if isinstance(node, ast.Constant):
        return {node.value}
    if isinstance(node, ast.IfExp):
        return texts(node.body, module, asked) | texts(node.orelse, module, asked)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return set().union(*(texts(one, module, asked) for one in (*node.func.value.values, node.args[1])))
    assert isinstance(node, ast.Name), ast.dump(node)
    if node.id in asked:  # handed on under the same name
        return set()
    asked = (*asked, node.id)
    found: set[str] = set()
    for place in ast.walk(module):
        if isinstance(place, ast.Assign) and node.id in set().union(*map(named, place.targets)):
            found |= texts(place.value, module, asked)
        if isinstance(place, ast.For) and node in ast.walk(place) and node.id in named(place.target):
            found |= returned_by(place.iter.func.id)
        if isinstance(place, ast.FunctionDef):
            parameters = [argument.arg for argument in place.args.args]
            for call in calls(module, place.name) if node.id in parameters else ():
                found |= texts(call.args[parameters.index(node.id)], module, asked)
    assert found or asked[1:], f"where {node.id} comes from is not known"
    return found


def named(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def returned_by(function: str) -> set[str]:
    """All texts in the body of a function of the room but its docstring."""
    every = (node for module in sources().values() for node in module.body)
    (found,) = (node for node in every if isinstance(node, ast.FunctionDef) and node.name == function)
    return set().union(*map(constants, found.body[1:]))


def produced(kind: str, argument: int, keyword: str, *modules: str) -> set[str]:
    """Texts that calls of a type are given at one place, or by its keyword."""
    found: set[str] = set()
    for name in modules:
        module = sources()[name]
        # `of_sides` hands both on to `Evidence`.
        makers = () if name.endswith("/producing.py") else (kind, "of_sides")
        for call in (call for maker in makers for call in calls(module, maker)):
            given = [k.value for k in call.keywords if k.arg == keyword] or call.args[argument : argument + 1]
            if given:
                found |= texts(given[0], module)
            else:
                found.add("")
    return found


OF_EVIDENCE = tuple(name for name in sources() if name.startswith("evidence/"))
ADVISERS = ("advice/producers.py", "advice/size_limits.py")


@pytest.mark.parametrize(
    ("kind", "argument", "keyword", "modules", "worded"),
    [
        ("Evidence", 0, "signal", OF_EVIDENCE, SIGNALS),
        ("Evidence", 5, "reading", OF_EVIDENCE, READINGS),
        ("Advice", 0, "kind", ADVISERS, ADVICE),
    ],
    ids=["signals", "readings", "advice"],
)
def test_every_id_has_words_and_none_is_left_over(
    kind: str, argument: int, keyword: str, modules: tuple[str, ...], worded: Mapping[str, Any]
) -> None:
    assert produced(kind, argument, keyword, *modules) == set(worded)


def test_evidence_and_advice_are_made_nowhere_else() -> None:
    for name, module in sources().items():
        assert not list(calls(module, "Evidence")) or name in OF_EVIDENCE
        assert not list(calls(module, "Advice")) or name in ADVISERS


def test_every_rule_and_every_reason_has_a_sentence_and_none_is_left_over() -> None:
    judge = sources()["judge.py"]
    reasons = {text for call in calls(judge, "_inconclusive") for text in texts(call.args[1], judge)}
    assert set(SUMMARIES) == {rule.id for rule in (*RULES, *RULES_OF_ESTIMATES, *RULES_ALONE)} | reasons
    assert set(wording._UNDECIDED) <= reasons | {rule.id for rule in RULES_OF_ESTIMATES}


def test_every_kind_of_a_cause_has_words() -> None:
    """A cause without a headline fails where each is rendered, in test_report_renderers.py."""
    kinds = set()
    for module in ("readings/cpu_queueing.py", "alone.py"):
        function = next(n for n in sources()[module].body if getattr(n, "name", "") == "_kind")
        kinds |= {text for text in constants(function) if "-" in text}
    assert kinds | {"cpu-quota", "shared-hardware", "shared-gpu", "short-memory"} == set(wording._KINDS)


def test_every_bucket_has_a_title_and_none_is_left_over() -> None:
    assert set(BUCKET_TITLES) == {*BUCKETS, *PAUSES, GPU, CAPTURE, *RUN_BUCKETS}


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("cores", 1.5, "1.50 cores"),
        ("cores", 1.0, "1 core"),
        ("count", 0.5, "0.50"),
        ("bytes", 210e6, "210 MB"),
        ("distance", 0.125, "0.12"),
        ("bool", True, "yes"),
        ("bool", False, "no"),
        ("text", "EPYC", "EPYC"),
        ("text", None, "not set"),
        ("s", None, "–"),
    ],
)
def test_values_by_unit(unit: str, value: Value, text: str) -> None:
    assert unit in UNITS
    assert value_text(unit, value) == text


class Asked(dict[str, Value]):
    """Numbers of a finding that remember which of them a sentence asked for."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Value:
        self.asked.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize(
    ("rule", "alone"),
    [
        (rule, alone)
        for alone, rules in ((False, (*RULES, *RULES_OF_ESTIMATES)), (True, RULES_ALONE))
        for rule in rules
    ],
    ids=lambda v: getattr(v, "id", "alone" if v else "comparison"),
)
def test_a_sentence_asks_for_the_numbers_that_its_rule_gives(rule: Any, alone: bool) -> None:
    asked: set[str] = set()
    subject = "f" if rule.subject else ""
    for who, kind, flag in itertools.product(
        ("main", "rank", "helpers"), ("self-oversubscription", "external-load", None), (True, False)
    ):
        special = {"contention.who": who}
        special |= dict.fromkeys(("code.new", "pair.counters", "contention.others"), flag)
        special |= {"calls.everywhere": 0.9 if flag else 0.1, "delivery": 0.5 * flag}
        numbers = Asked({name: special.get(name, 0.5) for name in rule.numbers})
        found = Finding(rule.id, rule.cause, 0.9, kind=kind, subject=subject, numbers=numbers)
        text = summary_of(found, alone=alone)
        assert text.endswith(".")
        # What was measured is in the sentence: no dash stands for a number.
        assert units.UNKNOWN not in text, text
        asked |= numbers.asked
    # That both sides lacked CPUs is said in the headline.
    assert asked == set(rule.numbers) - {"both.lacked-cpus"}


OF_ITSELF: dict[str, Value] = {"contention.who": "helpers", "helpers.wait": 0.75}
OF_ITSELF |= {"contention.others": True, "account.starts": 0.5}
ITSELF = Finding("run-queue-wait", "contention", 0.9, kind="self-oversubscription", numbers=OF_ITSELF)
OF_NEW: dict[str, Value] = {"account.code": 0.5, "code.new": True}
NEW = Finding("changed-source", "code-change", 0.9, subject="pin", numbers=OF_NEW)
QUOTA = Finding("throttling", "contention", 0.9, kind="cpu-quota", numbers={"throttled": 0.62})


@pytest.mark.parametrize(
    ("others", "stolen", "said"),
    [
        (0.9, 0.1, "while other programs used 0.90 more cores: "),
        (0.1, 0.4, "while other guests of the host took 0.40 more cores: "),
        (None, 0.4, "while other guests of the host took 0.40 more cores: "),
    ],
)
def test_who_shares_the_hardware(others: float | None, stolen: float, said: str) -> None:
    numbers: dict[str, Value] = {"per-call": 1.5, "per-call.everywhere": 0.9}
    numbers |= {"others.added": others, "steal.growth": stolen}
    assert said in summary_of(Finding("shared-hardware", "contention", 0.75, numbers=numbers))


@pytest.mark.parametrize(
    ("delivery", "iterations", "said"),
    [
        (4.0, 0.5, f": {units.seconds(4.0)} against {units.seconds(0.1)}."),
        (0.0, 0.5, f": {units.share(0.5)} of the time of its iterations."),
        (None, None, "."),
    ],
)
def test_how_long_it_waited_for_loaders_as_far_as_it_is_known(
    delivery: float | None, iterations: float | None, said: str
) -> None:
    numbers: dict[str, Value] = {"delivery": delivery, "delivery-before": 0.1, "iterations.wait": iterations}
    text = summary_of(Finding("loading", "data-starvation", 0.9, numbers=numbers))
    assert text.endswith(f"not for a CPU{said}")


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((2, 0), "The baseline ended with exit status 2 and the candidate ended normally"),
        ((139, 139), "The baseline was killed by signal 11 and the candidate was killed by signal 11"),
        ((0, 192), "The baseline ended normally and the candidate was killed by signal 64"),
        ((0, 193), "The baseline ended normally and the candidate ended with exit status 193"),
        ((0, 128), "The baseline ended normally and the candidate ended with exit status 128"),
    ],
)
def test_how_targets_ended(ends: tuple[int, int], said: str) -> None:
    numbers = {"baseline-exit": ends[0], "candidate-exit": ends[1]}
    block = verdict_block(Verdict("inconclusive", "unfinished", numbers=numbers))
    assert block.summary == f"{said}: they may have done different work, so their times cannot be compared."
    assert (block.headline, block.cause, block.confidence) == ("One run failed", "inconclusive", None)


@pytest.mark.parametrize(("confidence", "tone"), [(0.29, "unsure"), (0.69, "bad"), (None, "bad")])
def test_what_is_wrong_more_often_than_right_is_no_alarm(confidence: float | None, tone: str) -> None:
    numbers = {"off": 0.5, "blocked.on": "socket"}
    block = verdict_block(Verdict("blocked", "off-cpu", confidence, numbers=numbers), alone=True)
    assert block.tone == tone
    assert ("by design" in block.summary) is (tone == "unsure")


@pytest.mark.parametrize(
    ("wall", "queued", "merged", "said"),
    [
        (10.0, 0.1, (), "No contention for CPUs found: it waited for a CPU for 1.0 % of the time"),
        (10.0, 2.0, (), "It waited for a CPU for 20.0 % of the time"),
        (0.4, 0.0, (), None),
        (10.0, 0.0, ("running", "queue"), None),
    ],
    ids=["runs", "queues", "too short", "without counters"],
)
def test_what_is_said_first_of_a_run_without_a_verdict(
    wall: float, queued: float, merged: tuple[str, ...], said: str | None
) -> None:
    seconds = {"running": wall - queued - 1.0, "queue": queued}
    buckets = tuple(Bucket(name, seconds.get(name, 0.0)) for name in RUN_BUCKETS)
    blocks = run_block(RunVerdict(Account(0.0, wall, buckets, merged), None))
    assert [block.headline for block in blocks] == ([] if said is None else [said])
    assert [block.tone for block in blocks] == ([] if said is None else ["good" if queued < 1 else "unsure"])


NEIGHBOURS: dict[str, Value] = (
    {"named": 4, "name-0": "python3", "pid-0": 812, "processes-0": 1, "cores-0": 1.0}
    | {"group-0": "docker 3fa9c1d2e4b5", "name-1": "sh", "pid-1": 90, "cores-1": 0.42, "children-1": True}
    | {"name-2": "worker", "pid-2": None, "processes-2": 16, "cores-2": 0.3}
)
CALLED: dict[str, Value] = {"caller": "g", "calls": 100}
ASKED: dict[str, Value] = {"threads": 8, "processes": 2, "origin": "default", "variable": ""}
EVIDENCE = (
    Evidence("demand", "cores", 0.98, 3.33, 2.5, "own-threads-compete", whole=(2.0, 2.0)),
    Evidence("origin", "count", 0.5, 1 / 3, 0.0, "per-call-of", "f", numbers=CALLED),
    Evidence("neighbours", "text", reading="who-ran", numbers=NEIGHBOURS),
    Evidence("neighbours", "text", reading="who-ran", numbers={"named": 0, "hidden": 1.5}),
    Evidence("function.source", "text", reading="source-new", subject="f"),
    Evidence("main.off", "s", None, 8.0, reading="waiting-for-something", whole=(None, 10.0)),
    Evidence("pools.asked", "cores", 2.0, 16.0, 2.0, "pool", "openblas", (2.0, 2.0), ASKED),
)
MAIN, MODULE = FunctionKey("project", "model/train.py", "main"), FunctionKey("project", "run.py", "<module>")
ADVISED = (
    Advice("edit-code", subject="torch.set_num_threads(1)", where=MAIN, line=51, predicted_gain_s=2.0),
    Advice("edit-code", subject="Pool(8)", where=MAIN, line=9, predicted_gain_s=2.0, least_gain_s=0.9),
    # A module begins at its first line, wherever the call is.
    Advice("edit-code", subject="Pool(2)", where=MODULE, line=1),
    Advice("more-cpus", ("taskset", "-c", "0-3", "a"), numbers={"cpus": 1.0, "machine": 4}),
    Advice("start-fewer", numbers={"processes": 16, "cpus": 8.0, "most": 8, "workers": 7}),
    Advice("show-waiting", ("profkit", "show", "--by", "cumtime"), files=("my run.prof",)),
    # A gain that is not known, or none, is not promised.
    Advice("within-quota", ("a",), {"OMP_NUM_THREADS": "2"}, cures="queue"),
)


def test_findings_evidence_and_advice_are_worded_as_recorded(golden: Callable[[str, str], None]) -> None:
    findings = [summary_of(ITSELF, alone=True), summary_of(NEW), summary_of(QUOTA, alone=True)]
    evidence = ["|".join(evidence_texts(piece)) for piece in EVIDENCE]
    golden("wording.txt", "\n".join([*findings, *evidence, *map(advice_text, ADVISED)]) + "\n")


def test_every_advice_is_one_line_that_a_shell_reads_or_skips() -> None:
    import shlex

    numbers = {"processes": 2, "cpus": 2.0, "most": 1, "workers": 1, "runs": 4, "machine": 4}
    numbers |= {"queued": 1.0, "before": 0.1, "after": 0.1}
    for kind in ADVICE:
        text = advice_text(Advice(kind, ("x", "it's"), {"A": "b c"}, subject="f\nrm -rf /", numbers=numbers))
        assert "\n" not in text
        words = shlex.split(text, comments=True)
        assert text.startswith("#") or words, kind
        assert "-rf" not in words


def test_steps_of_a_waterfall() -> None:
    fewer = waterfall(build.account(5.0, 3.0, work=-1.995, startup=-0.002, rest=-0.003))
    assert [step.title for step in fewer.steps] == ["fewer calls"], "what has no size has no step"
    assert (fewer.before_s, fewer.after_s) == (5.0, 3.0)
    assert waterfall(build.account(0.0, 2.0, speed=2.0)).before_s == 0.0, "it took no time, and is a baseline"
    alone = waterfall(replace(build.alone().account, merged=("running", "queue")))
    assert (alone.before_s, alone.steps[1].title) == (None, "running or queued")
    assert all(step.beyond for step in alone.steps)


def test_a_step_names_the_functions_that_make_most_of_it() -> None:
    parts = (Part(0, "solve", 1.0), Part(1, "a.b", 0.5), Part(2, "c", 0.3), Part(3, "step", 0.4, "range"))
    bucket = Bucket("code", 2.0, 1.5, 2.5, 1.0, parts)
    small = replace(bucket, parts=(Part(0, "solve", 0.1),))
    for found, about in ((bucket, ("solve", "a.b")), (small, ())):
        assert waterfall(Account(3.0, 5.0, (found,))).steps[0].about == about


FILLER = [Row("m.py", 10 * i, f"f{i}", 10, 1.0 / (i + 1), source=f"s{i}", wait=0.0) for i in range(20)]


def hot(calls: int, seconds: float) -> Row:
    return Row("m.py", 900, "hot", calls, seconds)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            *(hot(1000, 0.0001), hot(1013, 5.2489)),
            "rose from #21 to #1; nearly the same calls, 51,815× per call",
        ),
        (
            *(Row("~", 0, ACQUIRE, 10, 0.1), Row("~", 0, ACQUIRE, 10, 5.0)),
            "rose from #10 to #1; waits by design, same calls, 50.0× per call",
        ),
    ],
)
def test_how_a_function_moved(before: Row, after: Row, said: str) -> None:
    table = diff(foreign(profile([*FILLER, before])), foreign(profile([*FILLER, after]))).table
    assert moved_text(table, table.name.index(after.name)) == said
