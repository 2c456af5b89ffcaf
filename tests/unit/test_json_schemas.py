"""The published schemas of JSON output: what runs give follows them, and they know what the code can say."""

from __future__ import annotations

import copy
import functools
import json
import operator
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from profkit.cli.app import COMMANDS, app
from profkit.compare.result_types import UNCALLED, UNSEEN
from profkit.formats import write_run
from profkit.formats.load import join_ranks, load_run, load_side
from profkit.identity.align import RUNGS
from profkit.model import ROOTS, Window
from profkit.report.jsondoc import DIFF_SCHEMA, SHOW_SCHEMA, diff_object, show_object
from profkit.report.jsonvalues import _OBJECTS, dumps
from profkit.verdict.account import BUCKETS, CAPTURE, GPU, PAUSES, RUN_BUCKETS
from profkit.verdict.alone import judge_run
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.types import CAUSES, UNITS, RunVerdict
from tests import report_builders as build
from tests.rank_files import Did, rank_run
from tests.shared import Capture, check_schema, exit_code, validator

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_profiles"
RUNS = sorted(path.relative_to(SAMPLES).with_suffix("").as_posix() for path in SAMPLES.glob("*/*.prof"))
PAIRS = [(f"{name.partition('/')[0]}/clean-1", name) for name in RUNS if not name.endswith("/clean-1")]


def schema(name: str) -> Any:
    return validator(name).schema


def plain(value: Any) -> Any:
    """What a reader gets of an object: JSON has no infinity, and no lone surrogate."""
    text = dumps(value)
    text.encode("ascii")
    read = json.loads(text, parse_constant=pytest.fail)
    json.dumps(read, ensure_ascii=False).encode("utf-8")
    return read


def test_each_type_with_members_of_its_own_is_one_type() -> None:
    for module, name in (place.split(".") for place in _OBJECTS):
        sources = [path.read_text(encoding="utf-8") for path in (ROOT / "profkit").rglob(f"{module}.py")]
        assert sum(len(re.findall(rf"^class {name}\b", text, re.M)) for text in sources) == 1, (
            f"{module}.{name}"
        )


def compared(baseline: str, candidate: str) -> Any:
    sides = (load_side(str(SAMPLES / f"{name}.prof")) for name in (baseline, candidate))
    return plain(diff_object(diff(*sides), 5, explain=True))


@pytest.mark.parametrize(("baseline", "candidate"), PAIRS)
def test_a_comparison_of_samples_follows_the_schema(baseline: str, candidate: str) -> None:
    value = compared(baseline, candidate)
    check_schema(value, "diff-2.json")
    added = value["candidate"]["wall_s"] - value["baseline"]["wall_s"]
    assert value["account"]["added_s"] == pytest.approx(added, abs=1e-6)


@pytest.mark.parametrize("name", RUNS)
def test_a_sample_follows_the_schema(name: str) -> None:
    run = load_run(SAMPLES / f"{name}.prof")
    value = plain(show_object(run, limit=5, judged=judge_run(run, run.processes), explain=True))
    check_schema(value, "show-2.json")


@pytest.mark.parametrize("name", ["contended", "quiet", "hostile", "several_causes"])
@pytest.mark.parametrize("limit", [0, 3])
def test_a_diff_follows_its_schema(name: str, limit: int) -> None:
    diff = getattr(build, name)()
    value = plain(diff_object(diff, limit))
    check_schema(value, "diff-2.json")
    assert value["functions_total"] == len(diff.table)
    assert len(value["functions"]) == (min(3, len(diff.table)) if limit else len(diff.table))


@pytest.mark.parametrize("name", ["foreign_run", "captured_run", "hostile_run"])
@pytest.mark.parametrize(
    "judged", [build.UNJUDGED, build.alone(), replace(build.alone(), verdict=None), build.hostile_alone()]
)
@pytest.mark.parametrize("explain", [False, True])
def test_a_run_follows_its_schema(name: str, judged: RunVerdict, explain: bool) -> None:
    value = plain(show_object(getattr(build, name)(), judged=judged, explain=explain))
    check_schema(value, "show-2.json")
    assert (value["verdict"] is None) == (judged.verdict is None)
    assert ("checks" in value) == explain


def test_a_run_is_summed_over_its_threads() -> None:
    value = plain(show_object(build.captured_run(), judged=build.UNJUDGED))
    solve = value["functions"][0]
    assert (solve["name"], solve["ncalls"], solve["path"]) == ("solve", 80, "numpy/linalg/_linalg.py")
    assert solve["tottime"] == pytest.approx(2 * 2.9391)
    assert value["machine"]["psi_some"] == pytest.approx(7.2 / 12.4)
    thread = value["processes"][1]["threads"][0]
    assert thread["open_calls"] == [
        {"name": "train_one_epoch", "file": "/home/ann/job/train.py", "line": 40, "cumtime": 9.5}
    ]
    assert [f["rank"] for f in thread["functions"]] == [1, 2, 3, 4, 5]


def test_windows_are_listed_with_their_times() -> None:
    run = build.captured_run()
    windows = tuple(Window(f"epoch {i}" if i else "", 2.0 * i, 2.0 * i + 1.5, i != 1) for i in range(3))
    run = replace(run, manifest=replace(run.manifest, wall_s=3.0, whole_s=12.4, windows=windows))
    value = plain(show_object(run, limit=2, judged=build.UNJUDGED))
    check_schema(value, "show-2.json")
    assert value["windows"] == [
        {"name": "", "begin_s": 0.0, "end_s": 1.5, "captured": True},
        {"name": "epoch 1", "begin_s": 2.0, "end_s": 3.5, "captured": False},
    ]
    assert value["windows_total"] == 3
    assert (value["manifest"]["wall_s"], value["manifest"]["whole_s"]) == (3.0, 12.4)
    assert len(plain(show_object(run, limit=0, judged=build.UNJUDGED))["windows"]) == 3


def test_the_schemas_know_every_unit_bucket_cause_root_rung_and_version() -> None:
    for name, buckets, version in (
        ("diff-2.json", (*BUCKETS, *PAUSES, GPU, CAPTURE), DIFF_SCHEMA),
        ("show-2.json", (*RUN_BUCKETS, *PAUSES, GPU), SHOW_SCHEMA),
    ):
        found = schema(name)
        assert found["properties"]["schema"]["const"] == version
        assert found["$defs"]["unit"]["enum"] == list(UNITS)
        assert found["$defs"]["bucket"]["enum"] == list(buckets)
        assert found["$defs"]["cause"]["enum"] == list(CAUSES)
        assert found["$defs"]["function"]["properties"]["root"]["enum"] == list(ROOTS)
    function = schema("diff-2.json")["$defs"]["function"]["properties"]
    assert function["match"]["enum"] == [*RUNGS, "new", "gone", UNCALLED, UNSEEN]


def objects(value: Any, path: tuple[str, ...] = ()) -> Any:
    """Every object in a schema that lists its fields, with where it is."""
    if isinstance(value, dict):
        if "properties" in value and "type" in value:
            yield path, value
        for key, item in value.items():
            yield from objects(item, (*path, key))


@pytest.mark.parametrize(
    "name", ["diff-1.json", "show-1.json", "diff-2.json", "show-2.json", "compare-1.json", "history-1.json"]
)
def test_a_schema_allows_no_field_that_it_does_not_describe(name: str) -> None:
    found = list(objects(schema(name)))
    assert len(found) >= 4
    for path, value in found:
        assert value["additionalProperties"] is False, path
        optional = value["properties"].keys() - set(value["required"])
        # Only --explain and a trace of a GPU add a field.
        assert optional <= ({"checks", "gpu"} if path == () else set()), path


#: What each command with ``--format`` is tried with; runs of a job are in ``{job}``.
CALLS: dict[str, tuple[str, ...]] = {
    "show": ("{samples}/oversubscribed.prof", "--explain"),
    "diff": ("{samples}/clean-1.prof", "{samples}/oversubscribed.prof", "--explain"),
    "compare": ("{samples}/clean-1.prof", "{samples}/clean-2.prof", "{samples}/oversubscribed.prof"),
    "history": ("{samples}",),
    "ranks": ("{job}",),
    "scaling": ("{job}", "{samples}/clean-1.prof"),
    "doctor": ("--ranks", "2"),
}
#: It runs programs: its output is validated where it is tested.
ELSEWHERE = {"verify"}


def test_every_command_with_a_format_is_tried() -> None:
    commands = {name: app.get_command(click.Context(app), name) for name in COMMANDS}
    asked = {name for name, command in commands.items() if any(p.name == "format" for p in command.params)}
    assert asked == CALLS.keys() | ELSEWHERE


@pytest.mark.parametrize("name", CALLS)
def test_what_a_command_prints_follows_its_schema(name: str, tmp_path: Path, capsys: Capture) -> None:
    places = {"samples": str(SAMPLES / "train_mlp"), "job": str(tmp_path / "job.prof")}
    if "{job}" in " ".join(CALLS[name]):
        did = {"load": Did(100, 1.0), "step": Did(100, 2.0)}
        write_run(places["job"], join_ranks([rank_run(rank, did, size=2) for rank in range(2)]))
    assert exit_code(name, *(word.format(**places) for word in CALLS[name]), "--format", "json") == 0
    value = json.loads(capsys.readouterr().out)
    written = value["schema"].removeprefix("profkit.").replace("/", "-")
    assert written.rpartition("-")[0] == name
    check_schema(value, f"{written}.json")


def test_next_commands_are_words_and_say_why() -> None:
    value = compared("train_mlp/clean-1", "train_mlp/oversubscribed")
    first, advice = value["next_commands"][0], value["verdict"]["advice"][0]
    assert first["argv"] == ["profkit", "capture", "-o", "limited.prof", "--", *advice["argv"]]
    assert first["env"] == advice["env"] == {"OPENBLAS_NUM_THREADS": "1"}
    assert first["why"] in advice["text"]
    run = load_run(SAMPLES / "train_mlp" / "clean-1.prof")
    clean = plain(show_object(run, limit=5, judged=judge_run(run, run.processes)))
    assert clean["next_commands"] == []


#: Names that say their unit by themselves.
SAYING = ("_s", "_cores", "_cpus", "share", "_ratio", "_bytes")


def without_unit(value: Any, name: str = "") -> Any:
    """The fields of a schema that hold a number whose unit neither its name nor the schema says."""
    if isinstance(value, dict):
        kinds = value.get("type", ())
        is_number = "number" in ([kinds] if isinstance(kinds, str) else kinds)
        if is_number and not name.endswith(SAYING) and "unit" not in value:
            yield name
        for key, item in value.items():
            if key in ("properties", "$defs"):
                for field, about in item.items():
                    yield from without_unit(about, field)
            else:
                yield from without_unit(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from without_unit(item, name)


@pytest.mark.parametrize("name", ["diff-2.json", "show-2.json", "compare-1.json", "history-1.json"])
def test_every_number_has_a_unit(name: str) -> None:
    assert list(without_unit(schema(name))) == []
    assert list(without_unit({"properties": {"wait": {"type": ["number", "null"]}}})) == ["wait"]


def test_a_forgotten_field_and_formatted_evidence_are_refused() -> None:
    value = compared("tokenize_corpus/clean-1", "tokenize_corpus/external-load")
    check_schema(value, "diff-2.json")
    for place, change in (
        (("account",), {"helpers": 1.0}),
        (("verdict",), {"rule": None}),
        (("verdict", "evidence", 0), {"threshold": "15 %"}),
        (("verdict", "evidence", 0), {"unit": "%"}),
        (("verdict", "advice", 0), {"cures": "speeds"}),
        (("comparability", "warnings"), "calls differ"),
        (("functions", 0, "candidate"), {"active": "1 s"}),
    ):
        changed = copy.deepcopy(value)
        item = functools.reduce(operator.getitem, place, changed)
        if isinstance(item, list):
            item.append(change)
        else:
            item.update(change)
        assert not validator("diff-2.json").is_valid(changed), (place, change)
