"""Whatever the format, a report says the same: verdict, confidence, evidence, and the functions that moved most."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from profkit.formats.load import load_side
from profkit.measure.waits_by_name import is_wait
from profkit.model import Run
from profkit.report import html, markdown, svg, terminal, units
from profkit.report.diffdoc import diff_document
from profkit.report.document import Document
from profkit.report.jsondoc import diff_object
from profkit.report.jsonvalues import dumps
from profkit.report.pictures import diff_figures
from profkit.report.wording.accounts import waterfall
from profkit.report.wording.evidence import evidence_texts
from profkit.report.wording.functions import display_name
from profkit.report.wording.summaries import summary_of
from profkit.report.wording.verdicts import comparison_block, verdict_block
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.types import Diff, Value
from tests import report_builders as build
from tests.shared import words_of_page

SAMPLES = Path(__file__).parents[2] / "sample_profiles"


def sample(baseline: str, candidate: str) -> tuple[Diff, Document]:
    sides = load_side(SAMPLES / baseline), load_side(SAMPLES / candidate)
    return drawn(diff(*sides, calls=True), *(side.runs[0] for side in sides))


def drawn(found: Diff, *runs: Run) -> tuple[Diff, Document]:
    return found, replace(diff_document(found), figures=diff_figures(found, *runs))


CASES: dict[str, Callable[[], tuple[Diff, Document]]] = {
    "built": lambda: drawn(build.contended(), build.captured_run(), build.captured_run()),
    "contention": lambda: sample("train_mlp/clean-1.prof", "train_mlp/oversubscribed.prof"),
    "code change": lambda: sample("train_mlp/clean-1.prof", "train_mlp/code-change.prof"),
    "other work": lambda: sample("tokenize_corpus/clean-1.prof", "tokenize_corpus/doubled-work.prof"),
    "no change": lambda: sample("train_mlp/clean-1.prof", "train_mlp/clean-2.prof"),
}


def as_json(value: Value) -> Any:
    """A value as it is after writing and reading."""
    return pytest.approx(value, rel=1e-4) if isinstance(value, float) else value


def words(text: str) -> str:
    return " ".join(text.split())


def in_markdown(text: str) -> str:
    return words(unescape(re.sub(r"</?[a-z][^>]*>", "", text).replace("**", "")))


def in_svg(text: str) -> str:
    root = ElementTree.fromstring(text)
    return words(" ".join(" ".join(node.itertext()) for node in root if not node.tag.endswith("style")))


@pytest.mark.parametrize("name", CASES)
def test_every_format_says_the_same(name: str) -> None:
    found, document = CASES[name]()
    texts = {
        "terminal": words(terminal.render(document, width=240)),
        "markdown": in_markdown(markdown.render(document)),
        "html": words_of_page(html.render(document)),
        "svg": in_svg(svg.render(document)),
    }
    data = json.loads(dumps(diff_object(found)))
    verdict, told = found.verdict, data["verdict"]
    assert (told["cause"], told["rule"]) == (verdict.cause, verdict.rule)
    assert told["confidence"] == as_json(verdict.confidence)
    assert [(e["signal"], e["baseline"], e["candidate"]) for e in told["evidence"]] == [
        (e.signal, as_json(e.baseline), as_json(e.candidate)) for e in verdict.evidence
    ]
    assert [(b["name"], b["seconds"]) for b in data["account"]["buckets"]] == [
        (b.name, pytest.approx(b.seconds, rel=1e-4, abs=1e-9)) for b in found.account.buckets
    ]
    titles = {bucket["title"] for bucket in data["account"]["buckets"]}
    assert {step.title for step in waterfall(found.account).steps} <= titles
    assert told["headline"] == comparison_block(found).headline
    moved = [row for row, anomalous in enumerate(found.table.anomalous) if anomalous][:5]
    names = [found.table.name[row] for row in moved]
    assert [f["name"] for f in data["functions"] if f["anomalous"]][:5] == names
    for kind, text in texts.items():
        headline = words(verdict_block(verdict).headline.partition(" (")[0]).lower()
        assert headline in text.lower(), kind
        if verdict.confidence is not None:
            assert f"confidence {units.confidence(verdict.confidence)}" in text.lower(), kind
        assert words(summary_of(verdict)) in text, kind
        for evidence in verdict.evidence:
            for said in evidence_texts(evidence)[:3]:
                # A picture leaves out the middle of long words.
                start = words(said)[: 20 if kind == "svg" else None]
                assert start in text, (kind, said)
        for step in waterfall(found.account).steps:
            assert words(step.title) in text, (kind, step.title)
            assert words(units.seconds(step.seconds)) in text, (kind, step.title)
        for row, function in zip(moved, names, strict=True):
            if kind == "svg" and is_wait(function, found.table.keys[row].root):
                continue  # the picture has the functions that work
            assert display_name(function) in text, (kind, function)
