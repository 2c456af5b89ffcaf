"""The page in a real browser: silent, closed, sortable, searchable, usable by keyboard, in both themes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import big_profiles
from profkit.compare.call_table import CallSide, CallTable
from profkit.model import Run, Series, Slice, ThreadSamples
from profkit.report import html, units
from profkit.report.diffdoc import diff_document
from profkit.report.document import Cell, Document, Table, format_cell
from profkit.report.pictures import diff_figures, run_figures
from profkit.report.showdoc import show_document
from profkit.report.wording.functions import display_name
from profkit.verdict.types import Diff
from tests import report_builders as build
from tests.integration.browser import Browser, Tab, find_browser, open_browser
from tests.integration.capturing import ROOT, in_process
from tests.requirements import require
from tests.shared import words_of

SAMPLES = ROOT / "sample_profiles"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require("browser", find_browser() is not None, "no chromium on the path")
    require("browser", find_spec("websockets") is not None, "no websockets to speak to it")
    with open_browser() as running:
        yield running


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    """Open a page that must not complain, nor ask for anything but itself."""
    with browser.tab() as page:
        yield page
        assert page.complaints == []
        assert page.requests == page.opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the pages that a user would: by the command, from real profiles, and one from hostile ones."""
    directory = tmp_path_factory.mktemp("pages")

    mpi, mlp = SAMPLES / "mpi_train", SAMPLES / "train_mlp"
    for words in (
        ("diff", mpi / "clean-1.prof", mpi / "oversubscribed.prof", "-o", "mpi.html"),
        ("diff", f"{mlp}/clean-*.prof", mlp / "oversubscribed.prof", "-o", "mlp.html"),
        ("show", mpi / "oversubscribed.prof", "-o", "show.html"),
    ):
        in_process(directory, *map(str, words))
    (directory / "hostile.html").write_text(hostile(), encoding="utf-8")
    (directory / "sampled.html").write_text(sampled(), encoding="utf-8")
    return directory


@pytest.fixture
def page(tab: Tab, pages: Path) -> Tab:
    """Open the comparison of a job's ranks."""
    tab.open(pages / "mpi.html")
    return tab


def hostile() -> str:
    """A page in which every text tries to break out, the longest and strangest names among them."""
    names = (
        *("</script><img src=x onerror=document.title='owned'>", "<!--<script>alert(1)"),
        *("]]><svg onload=document.title='owned'>", "\u202egnp.exe\u202c"),
        "x" * 2000,
        "🔥" * 200,
        "nul\x00byte",
        "עברית",
        "constructor",
        "__proto__",
    )
    rows = [
        build.Row(name, f"{name}.py", before=(1.0 + i, 5), after=(9.0 + i, 5)) for i, name in enumerate(names)
    ]
    n = len(rows)
    pairs = CallSide(np.full(n, 5), np.linspace(0.5, 1.0, n), np.linspace(1.0, 2.0, n))
    ring = np.arange(n, dtype=np.int32)
    calls = CallTable(np.roll(ring, 1), ring, pairs, pairs)
    diff = replace(build.hostile(), table=build.table(rows), calls=calls)
    run = build.hostile_run()
    return html.render(replace(diff_document(diff, 0), figures=diff_figures(diff, run, run)))


def sampled() -> str:
    """A page of a run with every kind of counter over time, two minutes long."""
    second, n = 1_000_000_000, 1200
    at = np.arange(n, dtype=np.int64) * second // 10
    run = build.captured_run()
    samples = ThreadSamples(np.full(n, 4242), at, at * 2 // 3, at // 3 + (at % second) // 5)
    samples = replace(samples, wait_ns=np.maximum.accumulate(samples.wait_ns)).validate()
    wave = np.sin(np.arange(n) / 60)
    series = Series(at, {"runnable": 6 + 4 * wave, "gpu_utilisation": 0.5 + 0.4 * wave}).validate()
    full = replace(
        run, processes=(replace(run.processes[0], samples=samples), run.processes[1]), series=series
    )
    return of_runs(build.contended(), full)


def of_runs(diff: Diff, run: Run) -> str:
    return html.render(replace(diff_document(diff), figures=diff_figures(diff, run, run)))


def table(tab: Tab) -> list[list[str]]:
    """Cells of the rows that the table of every function shows."""
    rows: list[list[str]] = tab.run(
        "[...document.querySelectorAll('#table-rows tbody tr')].map("
        "row => [...row.children].map(cell => (cell.querySelector('code') ?? cell).textContent))"
    )
    return rows


def column(tab: Tab, title: str) -> int:
    heads = texts(tab, "#table-rows thead th")
    return next(i for i, head in enumerate(heads) if head.startswith(title))


def heading(tab: Tab, title: str) -> str:
    """Selector of the button of a heading."""
    key = tab.run(
        f"[...document.querySelectorAll('#table-rows th[data-key]')].find("
        f"head => head.textContent.startsWith({json.dumps(title)})).dataset.key"
    )
    return f"#table-rows th[data-key={key}] button"


def texts(tab: Tab, selector: str) -> list[str]:
    found: list[str] = tab.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"
    )
    return found


@pytest.mark.parametrize(
    ("name", "theme"),
    [*((name, "light") for name in ("mpi", "mlp", "show", "hostile", "sampled")), ("mpi", "dark")],
)
def test_a_page_opens_in_both_themes_and_fits_narrow_windows(
    name: str, theme: str, tab: Tab, pages: Path, tmp_path: Path
) -> None:
    tab.theme(theme)
    for width in (1280, 420):
        tab.resize(width)
        tab.open(pages / f"{name}.html")
        assert tab.run("document.documentElement.dataset.ready") is not None
        assert fits(tab, width)
        colour = tab.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (sum(colour[:3]) < 200) == (theme == "dark")
        shot = tmp_path / f"{width}.png"
        tab.screenshot(shot, whole=name != "hostile")  # of which the whole is very long
        assert shot.stat().st_size > 10_000


def test_hostile_names_stay_text(tab: Tab, pages: Path) -> None:
    tab.open(pages / "hostile.html")
    assert tab.run("document.title") != "owned"
    assert count(tab, "img, svg[onload], iframe") == 0
    assert tab.run("document.scripts.length") == 2
    names = [row[1] for row in table(tab)]
    assert "</script><img src=x onerror=document.title='owned'>" in names
    assert "nul\\x00byte" in names
    assert "\\u202egnp.exe\\u202c" in names
    tab.click("#table-find")
    tab.type("<img")
    assert len(table(tab)) == 1
    tab.click("#table-rows tbody .link")
    assert tab.run("document.title") != "owned"


def test_the_policy_refuses_what_somebody_adds(browser: Browser, pages: Path) -> None:
    """The policy is at work: an inline handler, a style and a request that get in anyhow are refused."""
    with browser.tab() as tab:
        tab.open(pages / "mpi.html")
        added = '<p id=p style="color: red" onclick="document.title=1">x</p>'
        tab.run(f"document.body.insertAdjacentHTML('beforeend', {json.dumps(added)})")
        tab.run("document.getElementById('p').click()")
        assert tab.run("document.title") != "1"
        assert tab.run("fetch('data:text/plain,x').then(() => 'sent', () => 'refused')") == "refused"
        assert len(tab.complaints) >= 2
        assert all("Content Security Policy" in said for said in tab.complaints)


def test_the_table_sorts_searches_and_turns_pages(page: Tab) -> None:
    assert len(table(page)) == 10
    page.click("#table-more")
    rows = table(page)
    assert len(rows) == 50
    assert rows[0][1] == WAITED
    assert page.run("document.querySelector('th[aria-sort]').dataset.key") == "change"

    page.click(heading(page, "function"))
    names = [row[1].lower() for row in table(page)]
    assert page.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"
    assert names != [row[1].lower() for row in rows]
    page.press("Enter")  # the heading still has the focus
    assert page.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    page.click(heading(page, "rank"))
    assert [row[0].split("#")[-1] for row in table(page)][:3] == ["1", "2", "3"]
    assert count(page, "th[aria-sort]") == 1

    first = table(page)[0][1]
    page.click("#table-next")
    assert table(page)[0][1] != first
    assert texts(page, "#table-count")[0].startswith("51–100 of ")
    page.click("#table-last")
    assert page.run("document.getElementById('table-next').disabled")

    page.click("#table-find")
    page.type("mpi_train BACK")
    assert [row[1] for row in table(page)] == ["backward"]
    assert texts(page, "#table-count") == ["1–1 of 1"]
    page.type("no such function")
    assert table(page) == []
    assert texts(page, "#table-count") == ["No function is named “mpi_train BACKno such function”."]
    search(page, "table-find", "load")
    # A name that is exactly what was typed comes first, however little it took.
    assert len(table(page)) > 1
    search(page, "table-find", "main")
    assert table(page)[0][1] == "main"


def count(tab: Tab, selector: str) -> int:
    return int(tab.run(f"document.querySelectorAll({json.dumps(selector)}).length"))


def fits(tab: Tab, width: int) -> bool:
    return bool(tab.run("document.documentElement.scrollWidth") <= width)


def search(tab: Tab, field: str, text: str) -> None:
    """Put a text in the place of what a field has."""
    tab.run(f"document.getElementById('{field}').value = ''")
    tab.click(f"#{field}")
    tab.type(text)


#: The function of the ranks' sample whose time grew most.
WAITED = "mpi4py.MPI.Allreduce"


def active(tab: Tab, what: str = "ariaLabel") -> str:
    """The name or the text of the element that has the focus."""
    return str(tab.run(f"document.activeElement.{what}"))


def focused(tab: Tab) -> str:
    return texts(tab, "#calls-picture .focused")[0]


def test_calls_are_walked_by_mouse_and_by_keyboard(page: Tab) -> None:
    assert not page.run("document.getElementById('calls').open")
    page.click("#calls > summary")
    assert focused(page) == WAITED
    assert page.run("document.getElementById('calls-back').disabled")
    for caller in ("average_gradients", "train"):
        page.run("document.querySelector('#calls-picture .focused').focus()")
        page.press("ArrowUp")
        assert active(page, "textContent") == caller
        page.press("Enter")
        assert focused(page) == caller
    callees = page.run(
        "[...document.querySelectorAll('#calls-table tbody tr')].map(r => [...r.children].map(c => c.textContent))"
    )
    by_name = {row[1]: row for row in callees if row[0] == "callee"}
    assert {"forward", "backward", "average_gradients"} <= set(by_name)
    assert re.fullmatch(r"~\d+", by_name["forward"][5]), "calls are estimated"
    page.press("ArrowDown")
    assert page.run("document.activeElement.closest('.level').firstChild.textContent") == "calls"
    first = active(page, "textContent")
    page.press("ArrowRight")
    assert active(page, "textContent") != first
    page.click("#calls-back")
    assert focused(page) == "average_gradients"
    page.click("#calls-top")
    assert focused(page) != "average_gradients"
    name = texts(page, "#table-rows tbody tr:nth-child(2) .link")[0]
    page.click("#table-rows tbody tr:nth-child(2) .link")
    assert focused(page) == name
    assert name in texts(page, "#calls-said")[0]


#: Name, level, width in percent and classes of each block of the flame graph.
BLOCKS = """
[...document.querySelectorAll("#flame-picture .block")].map((block) => ({
  name: block.ariaLabel.split(": ")[0], top: block.offsetTop, left: parseFloat(block.style.left),
  width: parseFloat(block.style.width), classes: block.className }))
"""


def flame(tab: Tab) -> dict[str, dict[str, Any]]:
    return {block["name"]: block for block in sorted(tab.run(BLOCKS), key=lambda block: block["width"])}


def test_the_flame_graph_is_as_wide_as_the_time_and_as_red_as_the_change(page: Tab) -> None:
    blocks = flame(page)
    assert "reconstructed from pairs of caller and callee" not in texts(page, "#flame > .note")[0]
    assert blocks["train"]["top"] > blocks["main"]["top"]
    # Callees stand below their caller, inside its width.
    train, backward = blocks["train"], blocks["backward"]
    assert train["left"] <= backward["left"]
    assert backward["left"] + backward["width"] <= train["left"] + train["width"] + 0.01
    # What got slower by itself is red; what only calls it is not.
    for name in (WAITED, "forward", "backward"):
        assert " m" in blocks[name]["classes"], name
    for name in ("train", "main"):
        assert "same" in blocks[name]["classes"], name
    # Two runs of 186 and 200 iterations: times are those of one.
    assert "per iteration" in texts(page, "#flame-key")[0]
    widths = {name: block["width"] for name, block in blocks.items()}
    page.click("input[name=flame-side][value=before] + span")
    assert {name: block["width"] for name, block in flame(page).items()} != widths
    page.click("input[name=flame-side][value=after] + span")
    assert {name: block["width"] for name, block in flame(page).items()} == widths


def test_the_flame_graph_zooms_by_mouse_and_by_keyboard(page: Tab) -> None:
    page.click('#flame-picture .block[aria-label^="backward"]')
    blocks = flame(page)
    assert blocks["backward"]["width"] == 100
    assert "main › train ›" in texts(page, "#flame-path")[0]
    assert "backward (mpi_train.py:70)" in texts(page, "#flame-said")[0]
    for part in ("with all it calls per iteration", "queued", "running", " of the whole"):
        assert part in texts(page, "#flame-said")[0], part
    assert not re.search(r"\d calls", texts(page, "#flame-said")[0]), "they are estimated"
    assert active(page).startswith("backward")
    page.press("Escape")
    assert flame(page)["train"]["width"] == 100
    page.press("ArrowDown")
    first = active(page)
    assert first.startswith("average_gradients")
    page.press("ArrowRight")
    assert active(page) != first
    page.press("ArrowLeft")
    assert active(page) == first
    page.press("ArrowUp")
    assert active(page).startswith("train")
    page.press("Enter")
    page.click("#flame-whole")
    assert page.run("document.getElementById('flame-whole').disabled")
    # One block can be reached by Tab, the others from there.
    assert count(page, "#flame-picture .block[tabindex='0']") == 1
    page.click('#flame-picture .block[aria-label^="backward"]')
    page.click("#flame-said .link")
    assert page.run("document.getElementById('calls').open")
    assert focused(page) == "backward"


def hit(tab: Tab) -> set[str]:
    return {block["name"] for block in tab.run(BLOCKS) if " hit" in block["classes"]}


def test_the_flame_graph_is_searched(page: Tab) -> None:

    def searched(name: str) -> tuple[str, set[str]]:
        search(page, "flame-find", name)
        return texts(page, "#flame-found")[0], hit(page)

    said, hits = searched("train")
    assert hits == {"train"}, "an exact name wins over those that contain it"
    assert "of the whole" in said
    assert searched("ward")[1] == {"forward", "backward"}
    assert searched("no_such_function")[0] == "No function is named “no_such_function”."
    searched("backward")
    page.press("Enter")
    assert flame(page)["backward"]["width"] == 100
    # Out again by Escape, which in this field would clear the search.
    page.press("Escape")
    assert page.run("document.getElementById('flame-find').value") == "backward"
    assert float(flame(page)["backward"]["width"]) < 100
    assert hit(page) == {"backward"}


def test_a_phone_shows_function_change_and_per_call(tab: Tab, pages: Path) -> None:
    tab.resize(360)
    tab.open(pages / "mpi.html")
    heads = "[...document.querySelectorAll('#table-rows thead th')]"
    shown = f"{heads}.filter(h => h.offsetWidth).map(h => h.dataset.key)"
    assert tab.run(shown) == ["name", "change", "ratio"]
    assert fits(tab, 360)
    tab.open(pages / "show.html")
    assert tab.run(shown) == ["name", "after", "each"]


def test_the_time_line_zooms(page: Tab) -> None:

    def ticks() -> list[str]:
        return texts(page, "#time-picture svg:first-of-type > text:not([class])")

    whole, drawn = ticks(), count(page, "#time-picture .range rect")
    assert drawn > 1000
    page.click("#time-in")
    page.click("#time-in")
    assert ticks() != whole
    assert count(page, "#time-picture .range rect") < drawn
    page.run("document.querySelector('#time-picture svg').focus()")
    inside = ticks()
    page.press("ArrowRight")
    assert ticks() != inside
    page.click("#time-all")
    assert ticks() == whole
    ranges = {"allreduce", "backward", "forward", "load", "optimiser"}
    functions = {"average_gradients", "_call_with_frames_removed"}
    assert set(texts(page, "#time-picture .names li")) >= ranges | functions


def test_counters_over_time_are_drawn(tab: Tab, pages: Path) -> None:
    tab.open(pages / "sampled.html")
    said = texts(tab, "#time-picture text")
    assert "GPU" in said
    assert "≤ 64 runnable, 64 CPUs" in said
    assert said.count("100 %") == said.count("0") == 2, "an axis for the one process of each side"
    for kind in ("running", "queued", "blocked"):
        drawn = tab.run(f"document.querySelector('#time-picture .{kind}').getAttribute('d').length")
        assert drawn > 500, kind
    box = tab.run(
        "(() => { const b = document.querySelector('#time-picture svg').getBoundingClientRect(); "
        "scrollTo(0, scrollY + b.top - 100); const c = document.querySelector('#time-picture svg')"
        ".getBoundingClientRect(); return [c.left + c.width / 2, c.top + 30] })()"
    )
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    for part in ("rank 0: running", "queued", "off the CPU", "runnable threads"):
        assert part in texts(tab, "#time-said")[0]


def test_every_process_is_shown_when_asked_for(tab: Tab, pages: Path) -> None:
    at = np.arange(3, dtype=np.int64) * 1_000_000_000
    one = build.captured_run().processes[0]
    seen = replace(one.threads[0], slices=(Slice(1, 0, 1_500_000_000, 1.5),))
    processes = []
    for i in range(17):
        samples = ThreadSamples(np.full(3, 100 + i), at, at * i // 20, at * 0).validate()
        role = "worker" if i else "main"
        processes.append(replace(one, pid=100 + i, role=role, rank=None, threads=(seen,), samples=samples))
    run = replace(build.captured_run(), processes=tuple(processes))
    page = pages / "workers.html"
    page.write_text(of_runs(build.contended(), run), encoding="utf-8")
    for width in (500, 1400):
        tab.resize(width)
        tab.open(page)
        labels = "#time-picture svg:first-of-type .label title"
        assert texts(tab, labels) == [f"worker {pid}" for pid in range(112, 117)], "those that ran most"
        assert texts(tab, "#time-every") == ["All 17 processes"]
        tab.click("#time-every")
        assert len(texts(tab, labels)) == 17
        lanes = texts(tab, "#time-picture svg:first-of-type .range rect title")
        assert lanes == ["TransformerBlock.forward: 1.50 s from 0 s on"] * 17
        assert fits(tab, width)
        tab.click("#time-every")
        assert len(texts(tab, labels)) == 5
    assert not tab.run("document.querySelector('#waits details').open")
    tab.click("#waits summary")
    assert len(texts(tab, "#waits .waits:first-of-type .lanes li")) == 2 * 17


def test_what_is_read_aloud_has_names_and_roles(tab: Tab, pages: Path) -> None:
    for name in ("mpi", "show"):
        tab.open(pages / f"{name}.html")
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        seen = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored") and "role" in node
        ]
        controls = set(words_of("button checkbox radio searchbox combobox link image img columnheader"))
        unnamed = [role for role, text in seen if role in controls and not text.strip()]
        assert unnamed == []
        levels = tab.run("[...document.querySelectorAll('h1, h2, h3, h4')].map(h => Number(h.tagName[1]))")
        assert all(after - before <= 1 for before, after in pairwise(levels))
        assert tab.run("document.documentElement.lang") == "en"


def test_text_has_enough_contrast_in_both_themes(tab: Tab, pages: Path) -> None:
    """WCAG AA, 4.5 : 1, of all text on an opaque ground, as the browser computes both."""
    for name in ("mpi", "show"):
        for theme in ("light", "dark"):
            tab.theme(theme)
            tab.open(pages / f"{name}.html")
            assert tab.run(CONTRAST) == []


CONTRAST = """
(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map((c) => linear(c / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = rgb(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const poor = new Set();
  for (const node of document.querySelectorAll("main *, header")) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    if (!node.checkVisibility() || node.matches(":disabled") || node.closest("option, select")) continue;
    const style = getComputedStyle(node);
    const inSvg = node instanceof SVGElement;
    if (inSvg && node.tagName === "title") continue;
    const [a, b] = [light(rgb(inSvg ? style.fill : style.color)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.add(`${node.tagName}.${node.getAttribute("class")} ${ratio.toFixed(2)}`);
  }
  return [...poor];
})()
"""


def test_numbers_read_as_everywhere_else(tab: Tab, pages: Path) -> None:
    """The page's script formats as `profkit.report.units` does: compared through what the table shows."""
    values = [0.0, 2e-9, 9.99e-7, 1.5e-5, 0.00123456, 0.0999, 0.9996, 1.0, 9.994, 9.996, 99.94, 99.96]
    values += [999.4, 1000.0, 12345.678, 86400.0, 4.2e6]
    rows = [build.Row(f"f{i:02}", "a.py", after=(value, 1 + i)) for i, value in enumerate(values)]
    diff = replace(build.quiet(), table=build.table(rows))
    page = pages / "numbers.html"
    page.write_text(of_runs(diff, build.foreign_run()), encoding="utf-8")
    tab.open(page)
    tab.click("#table-more")
    shown = {row[1]: row for row in table(tab)}
    at = column(tab, "candidate")
    for i, value in enumerate(values):
        assert shown[f"f{i:02}"][at] == units.seconds(value), value


def per_call(document: Document) -> dict[Cell, str]:
    """Texts of a document's column "per call", by function."""
    found = {}
    for block in (b for s in document.sections if s.role == "functions" for b in s.blocks):
        assert isinstance(block, Table)
        titles = [column.title for column in block.columns]
        name, at = titles.index("function"), titles.index("per call")
        for row in block.rows:
            found[row.cells[name]] = format_cell(block.columns[at], row.cells[at])
    return found


def test_per_call_is_what_the_other_reports_say(tab: Tab, tmp_path: Path) -> None:
    """Of the self time, blocked or not, and only where the calls are known well enough."""
    found = build.contended().table
    ratios = np.resize([math.nan, 12345.6, 0.0096, 1.249, 99.94], len(found))
    diff = replace(build.contended(), table=replace(found, per_call_ratio=ratios))
    run = build.sampled_run()
    document = show_document(run, judged=build.UNJUDGED)
    pages = {
        of_runs(diff, run): dict(zip(map(display_name, found.name), map(units.factor, ratios), strict=True)),
        html.render(replace(document, figures=run_figures(run, "tottime"))): per_call(document),
    }
    for text, wanted in pages.items():
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        tab.open(tmp_path / "page.html")
        at = next(
            i for i, head in enumerate(texts(tab, "#table-rows thead th")) if head.startswith("per call")
        )
        assert {row[1]: row[at] for row in table(tab)} == wanted
        assert units.UNKNOWN in wanted.values()


def test_what_samples_may_have_missed_has_no_change(tab: Tab, tmp_path: Path) -> None:
    rows = [
        build.Row("missed", "a.py", after=(9.0, 1), match="unseen"),
        build.Row("missed-too", "a.py", before=(8.0, 1), match="unseen"),
        build.Row("new", "a.py", after=(1.0, 1), match="new"),
        build.Row("gone", "a.py", before=(2.0, 1), match="gone"),
    ]
    diff = replace(build.quiet(), table=build.table(rows))
    (tmp_path / "page.html").write_text(of_runs(diff, build.foreign_run()), encoding="utf-8")
    tab.open(tmp_path / "page.html")
    at = column(tab, "change")
    changes = [("gone", "-2.00 s"), ("new", "+1.00 s"), ("missed", "–"), ("missed-too", "–")]
    assert [(row[1], row[at]) for row in table(tab)] == changes


def test_it_says_what_it_says_without_a_script(tab: Tab, pages: Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(pages / "mpi.html")
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    seen = tab.run("document.querySelector('main').innerText")
    for part in ("slower, ", ": resource contention by the program itself", "drawn by a script"):
        assert part in seen
    assert f"{WAITED} rose from #4 to #1" in seen
    assert "Search" not in seen


def test_ten_thousand_functions_are_quick_and_small(tab: Tab, tmp_path: Path) -> None:
    """Below 1 MB and whole; how fast is the benchmark's question (``python -m benchmarks html``)."""
    for seed in (1, 2):
        big_profiles.write(tmp_path / f"{seed}.prof", 10_000, seed)
    in_process(tmp_path, "diff", "1.prof", "2.prof", "-o", "big.html")
    assert (tmp_path / "big.html").stat().st_size < 1_000_000
    tab.open(tmp_path / "big.html")
    assert texts(tab, "#table-count") == ["1–10 of 10,000"]
    tab.click("#table-find")
    tab.type("function_1_99")
    assert all("function_1_99" in row[1] for row in table(tab))


def test_one_run_has_a_page_too(tab: Tab, tmp_path: Path) -> None:
    for name, run in (("foreign", build.foreign_run()), ("captured", build.captured_run())):
        page = tmp_path / f"{name}.html"
        document = replace(show_document(run, judged=build.UNJUDGED), figures=run_figures(run, "tottime"))
        page.write_text(html.render(document), encoding="utf-8")
        tab.open(page)
        assert table(tab)[0][1] == "solve"
        assert count(tab, "input[name=width]") == 0
