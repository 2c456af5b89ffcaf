"""JSON output follows its published schemas, also for strings and numbers that JSON does not have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profkit.compare.sampled_calls import UNCALLED, UNSEEN
from profkit.identity.align import RUNGS
from profkit.model import ROOTS, Window
from profkit.report.jsondoc import diff_object, show_object
from profkit.report.jsonvalues import dumps
from profkit.verdict.types import CAUSES, RunVerdict
from tests import report_builders as build
from tests.shared import check_schema

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schema"


def strict(value: Any) -> Any:
    """What a reader gets of an object: JSON has no infinity, and no lone surrogate."""
    text = dumps(value)
    text.encode("ascii")
    read = json.loads(text, parse_constant=pytest.fail)
    json.dumps(read, ensure_ascii=False).encode("utf-8")
    return read


@pytest.mark.parametrize("name", ["contended", "quiet", "hostile"])
@pytest.mark.parametrize("limit", [0, 3])
def test_a_diff_follows_its_schema(name: str, limit: int) -> None:
    diff = getattr(build, name)()
    value = strict(diff_object(diff, limit))
    check_schema(value, "diff-2.json")
    assert value["functions_total"] == len(diff.table)
    assert len(value["functions"]) == (min(3, len(diff.table)) if limit else len(diff.table))


@pytest.mark.parametrize("name", ["foreign_run", "captured_run", "hostile_run"])
@pytest.mark.parametrize(
    "judged", [build.UNJUDGED, build.alone(), replace(build.alone(), verdict=None), build.hostile_alone()]
)
@pytest.mark.parametrize("explain", [False, True])
def test_a_run_follows_its_schema(name: str, judged: RunVerdict, explain: bool) -> None:
    value = strict(show_object(getattr(build, name)(), judged=judged, explain=explain))
    check_schema(value, "show-2.json")
    assert (value["verdict"] is None) == (judged.verdict is None)
    assert ("checks" in value) == explain


def test_a_run_is_summed_over_its_threads() -> None:
    value = strict(show_object(build.captured_run(), judged=build.UNJUDGED))
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
    value = strict(show_object(run, limit=2, judged=build.UNJUDGED))
    check_schema(value, "show-2.json")
    assert value["windows"] == [
        {"name": "", "begin_s": 0.0, "end_s": 1.5, "captured": True},
        {"name": "epoch 1", "begin_s": 2.0, "end_s": 3.5, "captured": False},
    ]
    assert value["windows_total"] == 3
    assert (value["manifest"]["wall_s"], value["manifest"]["whole_s"]) == (3.0, 12.4)
    assert len(strict(show_object(run, limit=0, judged=build.UNJUDGED))["windows"]) == 3


def test_the_schema_knows_every_cause_rung_and_root() -> None:
    for name in ("show-2.json", "diff-2.json"):
        kinds = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))["$defs"]
        function = kinds["function"]["properties"]
        assert kinds["cause"]["enum"] == list(CAUSES)
        assert function["root"]["enum"] == list(ROOTS)
    assert function["match"]["enum"] == [*RUNGS, "new", "gone", UNCALLED, UNSEEN]
