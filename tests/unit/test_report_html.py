"""Pages and stand-alone pictures: whole, closed to names, right in their numbers; all formats say the same."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fuzz.oracles import check_html, check_text
from profkit.formats.load import load_side
from profkit.measure.waits_by_name import is_wait
from profkit.model import Run
from profkit.report import html, markdown, svg, terminal, units
from profkit.report.diffdoc import diff_document
from profkit.report.document import Document
from profkit.report.jsondoc import diff_object
from profkit.report.jsonvalues import dumps
from profkit.report.pictures import diff_figures, run_figures
from profkit.report.showdoc import show_document
from profkit.report.wording.accounts import waterfall
from profkit.report.wording.evidence import evidence_texts
from profkit.report.wording.functions import display_name, moved_text
from profkit.report.wording.summaries import summary_of
from profkit.report.wording.verdicts import comparison_block, verdict_block
from profkit.verdict.diagnosis import diagnose
from profkit.verdict.types import Diff, Evidence, RunVerdict, Value
from tests import report_builders as build
from tests.shared import words_of, words_of_page

VOID = {"meta", "input", "br", "hr", "wbr"}
#: What has an effect in a page beyond being shown.
DANGEROUS = set(words_of("iframe object embed link base img image use form a audio video"))


def page_of_diff(diff: Diff, run: Run) -> str:
    return html.render(replace(diff_document(diff, 0), figures=diff_figures(diff, run, run)))


def page_of_run(run: Run) -> str:
    document = show_document(run, limit=0, judged=build.hostile_alone())
    return html.render(replace(document, figures=run_figures(run, "tottime")))


PAGES: dict[str, Callable[[], str]] = {
    "contended": lambda: page_of_diff(build.contended(), build.captured_run()),
    "quiet": lambda: page_of_diff(build.quiet(), build.captured_run()),
    "hostile": lambda: page_of_diff(build.hostile(), build.hostile_run()),
    "hostile run": lambda: page_of_run(build.hostile_run()),
    "captured run": lambda: page_of_run(build.captured_run()),
    "foreign run": lambda: page_of_run(build.foreign_run()),
    "no figures": lambda: html.render(diff_document(build.contended())),
    "nothing": lambda: html.render(Document("profkit", ())),
}


class Page(HTMLParser):
    """Elements and their attributes; fails where an element is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag}: {names}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def inside(text: str, tag: str) -> list[str]:
    """What stands in elements whose content is no markup."""
    return re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", text, re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_asks_for_nothing(name: str) -> None:
    text = PAGES[name]()
    check_html(text)
    page = Page(text)
    assert page.open == []
    assert [tag for tag, _ in page.elements].count("script") == 2
    for tag, attributes in page.elements:
        assert not any(key.startswith("on") or key in ("style", "src", "srcdoc") for key in attributes), tag
        if tag in DANGEROUS:
            assert attributes == {"class": "skip", "href": "#answer"}
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    # The policy allows this style and this script alone.
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    data, script = inside(text, "script")
    (style,) = inside(text, "style")
    assert rules == {
        "default-src": "'none'",
        "script-src": allowed(script),
        "style-src": allowed(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    json.loads(data)
    assert not re.search("[<>&\x00-\x1f\u2028\u2029\u007f-\uffff]", data)


@pytest.mark.parametrize("name", ["hostile", "hostile run"])
def test_hostile_names_are_text_and_nothing_else(name: str) -> None:
    text = PAGES[name]()
    check_text(text)
    assert "</code></details><script>" in words_of_page(text)
    assert "<img src=x onerror=alert(1)>" in words_of_page(text)
    names = json.loads(inside(text, "script")[0])["functions"]["names"]
    assert any("<img src=x onerror=alert(1)>" in name for name in names)
    assert max(map(len, names)) <= 300


def test_the_data_say_what_the_table_says() -> None:
    diff = build.contended()
    data = json.loads(inside(PAGES["contended"](), "script")[0])["functions"]
    table = diff.table
    for row, name in enumerate(data["names"]):
        (at,) = [i for i, key in enumerate(table.keys) if display_name(table.name[i]) == name]
        a, b = table.baseline, table.candidate
        assert data["before"]["rank"][row] == a.rank[at]
        assert (row + 1 if row < data["present"] else 0) == b.rank[at]
        assert data["after"]["ncalls"][row] == b.ncalls[at]
        assert data["before"]["ncalls"][row] + data["after"]["ncalls"][row] == a.ncalls[at]
        for side, ours in (("before", a), ("after", b)):
            assert data[side]["tottime"][row] * 1e-9 == pytest.approx(ours.tottime[at], rel=1e-6, abs=1e-9)
            assert data[side]["cumtime"][row] * 1e-9 == pytest.approx(ours.cumtime[at], rel=1e-6, abs=1e-9)
        assert (row in data["marked"]) == bool(table.anomalous[at])
        assert data["reason"].get(str(row), "") == (moved_text(table, at) if table.anomalous[at] else "")


def test_bars_are_as_long_as_the_numbers_whatever_their_texts_look_like() -> None:
    """900 ms and 3.6 s are a quarter; names that look like numbers have no bars."""
    evidence = (
        Evidence("wall", "s", 0.9, 3.6, reading="times", numbers={"factor": 4.0}),
        Evidence("main.queue", "s", 0.0, 4.2, reading="no-cpu-free", whole=(9.0, 4.2)),
        Evidence("cpu.model", "text", "3 %", "90 %", reading="another-cpu"),
        Evidence("others", "cores", None, 1.75, 0.25, "other-programs"),
    )
    found = build.contended()
    diff = replace(found, verdict=replace(found.verdict, evidence=evidence))
    text = html.render(diff_document(diff))
    items = re.findall(r"<li><h3>(.*?)</h3>(.*?)</li>", text, re.DOTALL)
    bars = [re.findall(r'<rect width="([\d.]+)%"', body) for _, body in items]
    assert bars == [["25.0", "100.0"], ["0.4", "100.0"], [], []]


SVG = "{http://www.w3.org/2000/svg}"


def picture(diff: Diff) -> str:
    run = build.captured_run()
    return svg.render(replace(diff_document(diff), figures=diff_figures(diff, run, run)))


def picture_of_run(hostile: bool, judged: RunVerdict = build.UNJUDGED) -> str:
    run = build.hostile_run() if hostile else build.captured_run()
    document = show_document(run, judged=judged)
    return svg.render(replace(document, figures=run_figures(run, "tottime")))


PICTURES: dict[str, Callable[[], str]] = {
    "diff-contended": lambda: picture(build.contended()),
    "diff-quiet": lambda: picture(build.quiet()),
    "show-captured": lambda: picture_of_run(False),
    "show-verdict": lambda: picture_of_run(False, build.alone()),
}
HOSTILE: dict[str, Callable[[], str]] = {
    "hostile diff": lambda: picture(build.hostile()),
    "hostile show": lambda: picture_of_run(True),
    "hostile verdict": lambda: picture_of_run(True, build.hostile_alone()),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_recorded(name: str, golden: Callable[[str, str], None]) -> None:
    text = PICTURES[name]()
    # The style is the assets' own.
    golden(f"{name}.svg", re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).replace("><", ">\n<"))


@pytest.mark.parametrize("name", PICTURES | HOSTILE)
def test_a_picture_is_whole_and_does_nothing(name: str) -> None:
    """No text begins outside, no drawn thing lies below the end, and names are text."""
    text = (PICTURES | HOSTILE)[name]()
    check_text(text)
    assert ("&lt;/code&gt;&lt;/details&gt;&lt;script&gt;" in text) == (name in HOSTILE)
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    for node in root.iter():
        assert node.tag.removeprefix(SVG) in {
            *("svg", "title", "desc", "style", "g", "rect", "path", "circle", "line", "text", "tspan")
        }
        assert not any(key.startswith("on") or key.endswith("href") or key == "style" for key in node.attrib)
    (style,) = root.iter(f"{SVG}style")
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")
    assert [node.get("id") for node in root.iter() if node.get("id")] == ["title", "desc"]
    width, height = (float(n) for n in (root.get("viewBox") or "").split()[2:])
    for group in root.iter(f"{SVG}g"):
        shift = re.fullmatch(r"translate\((\S+) (\S+)\)", group.get("transform", "translate(0 0)"))
        assert shift is not None
        for node in group.iter(f"{SVG}text"):
            if node.get("x", "0") != "100%":  # of the drawing that it is in
                assert 0 <= float(node.get("x", 0)) + float(shift[1]) <= width
            assert 0 <= float(node.get("y", 0)) + float(shift[2]) <= height


def test_a_document_without_figures_is_a_picture_too() -> None:
    assert "Evidence" in svg.render(diff_document(build.contended()))
    assert ElementTree.fromstring(svg.render(Document("profkit", ()))).tag == f"{SVG}svg"


# Whatever the format, a report says the same: verdict, confidence, evidence, and the functions that moved most

SAMPLES = Path(__file__).parents[2] / "sample_profiles"


def sample(baseline: str, candidate: str) -> tuple[Diff, Run, Run]:
    a, b = (load_side(SAMPLES / name) for name in (baseline, candidate))
    return diagnose(a, b, calls=True), a.runs[0], b.runs[0]


#: Comparisons, and a run of either side.
CASES: dict[str, Callable[[], tuple[Diff, Run, Run]]] = {
    "built": lambda: (build.contended(), build.captured_run(), build.captured_run()),
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
    found, *runs = CASES[name]()
    document = replace(diff_document(found), figures=diff_figures(found, *runs))
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
