"""The page in a real browser: silent, closed, sortable, searchable, usable by keyboard, in both themes.

Screenshots stay in the directory that ``PROFKIT_ARTIFACTS`` names, where somebody may look at them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks import big_profiles
from profkit.cli import main
from profkit.formats import load_run
from profkit.measure.calls import CallSide, CallTable
from profkit.model import Run, Series, ThreadSamples
from profkit.report import html, units
from profkit.report.diffdoc import diff_document
from profkit.report.pictures import diff_figures, run_figures
from profkit.report.showdoc import show_document
from profkit.verdict.types import Diff
from tests import report_builders as build
from tests.integration.browser import Browser, Tab, find_browser, open_browser
from tests.requirements import require

ROOT = Path(__file__).parents[2]
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

    def profkit(*arguments: str | Path) -> None:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert ended.value.code == 0

    mpi, mlp = SAMPLES / "mpi_train", SAMPLES / "train_mlp"
    profkit("diff", mpi / "clean-1.prof", mpi / "oversubscribed.prof", "-o", directory / "mpi.html")
    profkit("diff", f"{mlp}/clean-*.prof", mlp / "oversubscribed.prof", "-o", directory / "mlp.html")
    profkit("show", mpi / "oversubscribed.prof", "-o", directory / "show.html")
    (directory / "hostile.html").write_text(hostile(), encoding="utf-8")
    (directory / "sampled.html").write_text(sampled(), encoding="utf-8")
    return directory


def hostile() -> str:
    """A page in which every text tries to break out, the longest and strangest names among them."""
    names = (
        "</script><img src=x onerror=document.title='owned'>",
        "<!--<script>alert(1)",
        "]]><svg onload=document.title='owned'>",
        "\u202egnp.exe\u202c",
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


@pytest.mark.parametrize("name", ["mpi", "mlp", "show", "hostile", "sampled"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_opens_in_both_themes_and_fits_narrow_windows(
    name: str, theme: str, tab: Tab, pages: Path, tmp_path: Path
) -> None:
    tab.theme(theme)
    artifacts = Path(os.environ.get("PROFKIT_ARTIFACTS") or tmp_path)
    artifacts.mkdir(parents=True, exist_ok=True)
    for width in (1280, 420):
        tab.resize(width)
        tab.open(pages / f"{name}.html")
        assert tab.run("document.documentElement.dataset.ready") is not None
        assert tab.run("document.documentElement.scrollWidth") <= width
        dark = sum(
            tab.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
        )
        assert (dark < 200) == (theme == "dark")
        shot = artifacts / f"{name}-{theme}-{width}.png"
        tab.screenshot(shot)
        assert shot.stat().st_size > 10_000


def test_hostile_names_stay_text(tab: Tab, pages: Path) -> None:
    tab.open(pages / "hostile.html")
    assert tab.run("document.title") != "owned"
    assert tab.run("document.querySelectorAll('img, svg[onload], iframe').length") == 0
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


def test_the_table_sorts_searches_and_turns_pages(tab: Tab, pages: Path) -> None:
    tab.open(pages / "mpi.html")
    rows = table(tab)
    assert len(rows) == 50
    assert rows[0][1] == "average_gradients"
    assert tab.run("document.querySelector('th[aria-sort]').dataset.key") == "change"

    tab.click(heading(tab, "function"))
    names = [row[1].lower() for row in table(tab)]
    assert tab.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"
    assert names != [row[1].lower() for row in rows]
    tab.press("Enter")  # the heading still has the focus
    assert tab.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    tab.click(heading(tab, "rank"))
    assert [row[0].split("#")[-1] for row in table(tab)][:3] == ["1", "2", "3"]
    assert tab.run("document.querySelectorAll('th[aria-sort]').length") == 1

    first = table(tab)[0][1]
    tab.click("#table-next")
    assert table(tab)[0][1] != first
    assert texts(tab, "#table-count")[0].startswith("51–100 of ")
    tab.click("#table-last")
    assert tab.run("document.getElementById('table-next').disabled")

    tab.click("#table-find")
    tab.type("mpi_train BACK")
    assert [row[1] for row in table(tab)] == ["backward"]
    assert texts(tab, "#table-count") == ["1–1 of 1"]
    tab.type("no such function")
    assert table(tab) == []
    assert texts(tab, "#table-count") == ["Nothing matches."]


def test_the_table_shows_only_what_moved_and_other_measures(tab: Tab, pages: Path) -> None:
    tab.open(pages / "mpi.html")
    tab.click("#table-marked")
    assert {row[1] for row in table(tab)} == {"average_gradients", "backward", "forward"}
    before = table(tab)
    tab.click("input[name=measure][value=cumtime] + span")
    assert table(tab) != before
    tab.click("#table-marked")
    total = len(table(tab))
    tab.run("document.getElementById('table-root').value = 'builtin'")
    tab.run("document.getElementById('table-root').dispatchEvent(new Event('change'))")
    assert 0 < len(table(tab)) <= total
    assert all("built-in" in text for text in texts(tab, "#table-rows .small"))


def focused(tab: Tab) -> str:
    return texts(tab, "#calls-picture .focused")[0]


def test_calls_are_walked_by_mouse_and_by_keyboard(tab: Tab, pages: Path) -> None:
    tab.open(pages / "mpi.html")
    assert focused(tab) == "average_gradients"
    assert tab.run("document.getElementById('calls-back').disabled")
    tab.run("document.querySelector('#calls-picture .focused').focus()")
    tab.press("ArrowUp")
    assert tab.run("document.activeElement.textContent") == "train"
    tab.press("Enter")
    assert focused(tab) == "train"
    callees = tab.run(
        "[...document.querySelectorAll('#calls-table tbody tr')].map(r => [...r.children].map(c => c.textContent))"
    )
    by_name = {row[1]: row for row in callees if row[0] == "callee"}
    assert {"forward", "backward", "average_gradients"} <= set(by_name)
    assert by_name["forward"][5] == "400"
    tab.press("ArrowDown")
    assert tab.run("document.activeElement.closest('.level').firstChild.textContent") == "calls"
    first = tab.run("document.activeElement.textContent")
    tab.press("ArrowRight")
    assert tab.run("document.activeElement.textContent") != first
    tab.click("#calls-back")
    assert focused(tab) == "average_gradients"
    tab.click("#calls-top")
    assert focused(tab) != "average_gradients"
    name = texts(tab, "#table-rows tbody tr:nth-child(2) .link")[0]
    tab.click("#table-rows tbody tr:nth-child(2) .link")
    assert focused(tab) == name
    assert name in texts(tab, "#calls-said")[0]


#: Widths of the measured blocks in percent, by name.
WIDTHS = """
Object.fromEntries([...document.querySelectorAll("#calls-picture button.block:not(.deep)")]
  .map((block) => [block.textContent, parseFloat(block.style.width)]))
"""


def called(caller: str, callee: str) -> float:
    """Cumulative seconds of one function when another called it, over all ranks of the candidate."""
    total = 0.0
    for process in load_run(SAMPLES / "mpi_train" / "oversubscribed.prof").processes:
        for thread in process.threads:
            profile, edges = thread.profile, thread.profile.edges
            assert edges is not None
            names = np.array(profile.strings)[profile.name] if len(profile) else np.array([], str)
            wanted = (names[edges.caller] == caller) & (names[edges.callee] == callee)
            total += float(edges.cumtime[wanted].sum())
    return total


def test_measured_calls_and_apportioned_ones_are_told_apart(tab: Tab, pages: Path) -> None:
    """Widths of the measured levels are the profile's own sums; what is apportioned says so, and goes at a click."""
    tab.open(pages / "mpi.html")
    tab.run("document.getElementById('calls-find').value = 'train'")
    tab.run("document.getElementById('calls-find').dispatchEvent(new Event('input'))")
    tab.run(
        "document.getElementById('calls-find').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))"
    )
    widths = tab.run(WIDTHS)
    assert widths["backward"] / widths["forward"] == pytest.approx(
        called("train", "backward") / called("train", "forward"), rel=0.02
    )
    apportioned, measured = (
        tab.run(f"[...document.querySelectorAll('#calls-picture {blocks}')].map(b => b.ariaLabel)")
        for blocks in ("button.deep", "button:not(.deep)")
    )
    assert apportioned
    assert all("apportioned" in label for label in apportioned)
    assert not any("apportioned" in label for label in measured)
    tab.click("#calls-deep")
    assert tab.run("document.querySelectorAll('#calls-picture .deep').length") == 0
    tab.click("input[name=width][value=before] + span")
    other = tab.run(WIDTHS)
    assert other["backward"] != pytest.approx(widths["backward"])


def test_the_time_line_zooms(tab: Tab, pages: Path) -> None:
    tab.open(pages / "mpi.html")

    def ticks() -> list[str]:
        return texts(tab, "#time-picture svg:first-of-type > text:not([class])")

    whole, drawn = ticks(), tab.run("document.querySelectorAll('#time-picture .range rect').length")
    assert drawn > 1000
    tab.click("#time-in")
    tab.click("#time-in")
    assert ticks() != whole
    assert tab.run("document.querySelectorAll('#time-picture .range rect').length") < drawn
    tab.run("document.querySelector('#time-picture svg').focus()")
    inside = ticks()
    tab.press("ArrowRight")
    assert ticks() != inside
    tab.click("#time-all")
    assert ticks() == whole
    names = texts(tab, "#time-picture .names li")
    assert set(names) == {"allreduce", "backward", "forward", "load", "optimiser"}


def test_counters_over_time_are_drawn(tab: Tab, pages: Path) -> None:
    tab.open(pages / "sampled.html")
    said = texts(tab, "#time-picture text")
    assert "GPU" in said
    assert "≤ 64 runnable, 64 CPUs" in said
    assert tab.run("document.querySelector('#time-picture .queue').getAttribute('d').length") > 500


def test_what_is_read_aloud_has_names_and_roles(tab: Tab, pages: Path) -> None:
    """Every control has a name, every picture a text, and headings follow each other."""
    for name in ("mpi", "show"):
        tab.open(pages / f"{name}.html")
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        seen = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored") and "role" in node
        ]
        controls = {
            "button",
            "checkbox",
            "radio",
            "searchbox",
            "combobox",
            "link",
            "image",
            "img",
            "columnheader",
        }
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
    shown = {row[1]: row for row in table(tab)}
    at = next(i for i, text in enumerate(texts(tab, "#table-rows thead th")) if text.startswith("candidate"))
    for i, value in enumerate(values):
        assert shown[f"f{i:02}"][at] == units.seconds(value), value


def test_it_says_what_it_says_without_a_script(tab: Tab, pages: Path) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(pages / "mpi.html")
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    seen = tab.run("document.querySelector('main').innerText")
    assert "slower, " in seen
    assert ": resource contention by the program itself" in seen
    assert "average_gradients rose from #5 to #1" in seen
    assert "drawn by a script" in seen
    assert "Search" not in seen


def test_it_prints(tab: Tab, pages: Path) -> None:
    tab.open(pages / "mpi.html")
    printed = tab.call("Page.printToPDF", printBackground=True)["data"]
    assert len(printed) > 20_000


def test_ten_thousand_functions_are_quick_and_small(tab: Tab, tmp_path: Path) -> None:
    """Below 1 MB and whole; how fast is the benchmark's question (``python -m benchmarks html``)."""
    for seed in (1, 2):
        big_profiles.write(tmp_path / f"{seed}.prof", 10_000, seed)
    with pytest.raises(SystemExit):
        main(["diff", str(tmp_path / "1.prof"), str(tmp_path / "2.prof"), "-o", str(tmp_path / "big.html")])
    assert (tmp_path / "big.html").stat().st_size < 1_000_000
    tab.open(tmp_path / "big.html")
    assert texts(tab, "#table-count") == ["1–50 of 10,000"]
    tab.click("#table-find")
    tab.type("function_1_99")
    assert all("function_1_99" in row[1] for row in table(tab))


def test_one_run_has_a_page_too(tab: Tab, tmp_path: Path) -> None:
    for name, run in (("foreign", build.foreign_run()), ("captured", build.captured_run())):
        page = tmp_path / f"{name}.html"
        page.write_text(
            html.render(replace(show_document(run), figures=run_figures(run, "tottime"))), encoding="utf-8"
        )
        tab.open(page)
        assert table(tab)[0][1] == "solve"
        assert tab.run("document.querySelectorAll('input[name=width]').length") == 0
