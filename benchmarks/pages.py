"""The HTML page: what writing it adds to a diff, and how soon a reader can use it.

Its peer in the browser is the plainest page that shows as much: one static table of the same rows, without a script.
Both are opened in turn in one headless browser; a page counts as usable when a search has changed what is shown,
the table when it is laid out.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks import big_profiles
from benchmarks.measuring import Ratio, compare
from tests.integration.browser import Tab, find_browser, open_browser

FUNCTIONS = 10_000
#: Most that writing the page may add to the diff itself, and most until it is usable, in seconds.
WRITING_S, USABLE_S = 1.5, 1.0

#: Types into the search, waits for the layout, and says when that was, in milliseconds since the page was asked for.
SEARCH = """
(() => {
  const find = document.getElementById("table-find");
  find.value = "function_9";
  find.dispatchEvent(new Event("input"));
  document.getElementById("table-rows").getBoundingClientRect();
  return performance.now();
})()
"""
LAID_OUT = "(() => { document.body.getBoundingClientRect(); return performance.now(); })()"


def page(work: Path, repeats: int) -> list[Ratio]:
    """Measure both; without a browser only the writing."""
    names = [f"{FUNCTIONS}-{seed}.prof" for seed in (1, 2)]
    for seed, name in enumerate(names, 1):
        big_profiles.write(work / name, FUNCTIONS, seed)
    diff = [sys.executable, "-m", "profkit", "diff", *names]
    written = compare(
        f"diff -o report.html / diff, {FUNCTIONS} functions",
        [*diff, "-o", "report.html"],
        [*diff, "-o", "report.txt"],
        bar=0.0,
        cwd=work,
        repeats=repeats,
    )
    # The bars are times; as ratios they are what these are to the peer of this run.
    found = [replace(written, bar=round(1 + WRITING_S / written.peer_s, 2))]
    if find_browser() is not None:
        found.append(_usable(work, repeats))
    return found


def _usable(work: Path, repeats: int) -> Ratio:
    rows = "".join(
        f"<tr><td>{i}<td>function_{i % 997}_{i}<td>package{i % 40}/module{i % 1250}.py:{i}"
        "<td>1.23 ms<td>4.56 ms<td>7.89 s"
        for i in range(FUNCTIONS)
    )
    (work / "table.html").write_text(
        f"<!doctype html><meta charset=utf-8><table>{rows}</table>", encoding="utf-8"
    )
    with open_browser() as browser, browser.tab() as tab:
        pairs = [
            (_seconds(tab, work / "report.html", SEARCH), _seconds(tab, work / "table.html", LAID_OUT))
            for _ in range(repeats + 1)
        ][1:]
    ratios = [ours / peer for ours, peer in pairs]
    ours, peer = (statistics.median(column) for column in zip(*pairs, strict=True))
    name = f"page of {FUNCTIONS} functions usable / a table of them shown"
    return Ratio(
        name, ours, peer, statistics.median(ratios), min(ratios), max(ratios), round(USABLE_S / peer, 2)
    )


def _seconds(tab: Tab, path: Path, script: str) -> float:
    tab.open(path)
    return float(tab.run(script)) / 1e3
