"""The stand-alone picture: golden files, well-formed whatever names are in it, and closed to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from profkit.report import svg
from profkit.report.diffdoc import diff_document
from profkit.report.document import Document
from profkit.report.pictures import diff_figures, run_figures
from profkit.report.showdoc import show_document
from profkit.verdict.types import Diff, RunVerdict
from tests import report_builders as build

SVG = "{http://www.w3.org/2000/svg}"


def picture(diff: Diff) -> str:
    run = build.captured_run()
    return svg.render(replace(diff_document(diff), figures=diff_figures(diff, run, run)))


def of_run(hostile: bool, judged: RunVerdict | None = None) -> str:
    run = build.hostile_run() if hostile else build.captured_run()
    document = show_document(run, judged=judged)
    return svg.render(replace(document, figures=run_figures(run, "tottime")))


PICTURES: dict[str, Callable[[], str]] = {
    "diff-contended": lambda: picture(build.contended()),
    "diff-quiet": lambda: picture(build.quiet()),
    "show-captured": lambda: of_run(False),
    "show-verdict": lambda: of_run(False, build.alone()),
}
HOSTILE: dict[str, Callable[[], str]] = {
    "hostile diff": lambda: picture(build.hostile()),
    "hostile show": lambda: of_run(True),
    "hostile verdict": lambda: of_run(True, build.hostile_alone()),
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
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202a-\u202e\ud800-\udfff]", text)
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
