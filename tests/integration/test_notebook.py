"""``%load_ext profkit`` in a real IPython: what a cell does, what is shown, and that the shell is as before."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import profkit
from tests.integration.capturing import ROOT, environment
from tests.shared import succeeded

#: Runs cells, given as JSON, and prints what a front end would get: text on the streams, and rich outputs.
SHELL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
shell.colors = "NoColor"
for cell in json.loads(sys.argv[1]):
    with capture_output() as got:
        result = shell.run_cell(cell, store_history=True)
    print(json.dumps({
        "ok": result.success, "value": repr(result.result), "out": got.stdout, "err": got.stderr,
        "shown": [output.data for output in got.outputs], "profile": repr(sys.getprofile()),
    }))
"""


def run_cells(directory: Path, *cells: str) -> list[dict[str, Any]]:
    variables = {"IPYTHONDIR": str(directory / "ipython"), "COLUMNS": "80", "NO_COLOR": "1"}
    env = environment(PYTHONPATH=str(ROOT), **variables)
    done = succeeded([sys.executable, "-c", SHELL, json.dumps(cells)], directory, env=env, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"ok"')]


def test_a_cell_is_captured_and_its_report_shown(tmp_path: Path) -> None:
    _, defined, captured, after = run_cells(
        *(tmp_path, "%load_ext profkit", "def leaf(n):\n    return sum(range(n))"),
        "%%profkit -o cell.prof\ntotals = [leaf(100) for _ in range(500)]\ntotal = sum(totals)\ntotal",
        "total",
    )
    assert defined["ok"]
    assert captured["ok"], captured
    assert captured["value"] == after["value"] == str(500 * 4950)
    assert captured["profile"] == "None"
    (report,) = [data for data in captured["shown"] if "Functions" in data.get("text/plain", "")]
    assert "leaf" in report["text/plain"]
    assert report["text/html"].startswith('<div class="profkit">')
    assert "leaf" in report["text/html"]
    functions = {row.name: row.ncalls for row in profkit.read(tmp_path / "cell.prof").functions()}
    assert functions["leaf"] == 500
    assert not [name for name in functions if "run_cell" in name or "profkit" in name]


def test_a_cell_is_compared_with_a_file(tmp_path: Path) -> None:
    said = run_cells(
        *(tmp_path, "%load_ext profkit", "def work(n):\n    return sum(len(str(i)) for i in range(n))"),
        "%%profkit -o before.prof\nwork(200_000)",
        *("%%profkit --diff before.prof --by cumtime\nwork(800_000)", "%unload_ext profkit\n%lsmagic"),
    )
    shown = [data["text/plain"] for data in said[3]["shown"] if "text/html" in data]
    assert len(shown) == 1
    assert "workload-change" in shown[0]
    assert "by cumtime" in shown[0]
    assert [path.name for path in tmp_path.glob("*.prof")] == ["before.prof"]
    assert "profkit" not in str(said[4]["shown"]) + said[4]["value"]


def test_what_goes_wrong_is_told_as_ipython_tells_it(tmp_path: Path) -> None:
    _, raised, wrong, nowhere, after = run_cells(
        *(tmp_path, "%load_ext profkit"),
        *("%%profkit -o raised.prof\ndef broken():\n    return 1 / 0\nbroken()", "%%profkit\nx = ("),
        *("%%profkit -o no/where.prof\nx = 1", "%%profkit\nx = 2\nx"),
    )
    assert [said["ok"] for said in (raised, wrong, nowhere, after)] == [False] * 3 + [True]
    assert "ZeroDivisionError" in raised["out"]
    assert "return 1 / 0" in raised["out"], "the traceback has the cell's source"
    assert (tmp_path / "raised.prof").exists()
    assert "SyntaxError" in wrong["out"]
    assert "UsageError" in nowhere["err"] + nowhere["out"]
    assert "where.prof" in nowhere["err"] + nowhere["out"]
    assert "Traceback" not in nowhere["err"] + nowhere["out"]
    assert after["value"] == "2"
    assert after["profile"] == "None"


def test_what_is_wrong_with_the_words_is_said_before_the_cell_runs(tmp_path: Path) -> None:
    _, kept, *said = run_cells(
        *(tmp_path, "%load_ext profkit", '%%profkit -o "a cell.prof"\nran = []'),
        *("%%profkit --diff befor.prof\nran.append(1)", "%%profkit --by weather\nran.append(2)"),
        *('%%profkit -o "a cell.prof" --diff "a cell.prof"\nran.append(3)', "ran"),
    )
    assert kept["ok"], kept
    assert said[-1]["value"] == "[]"
    nowhere, by, same = (one["err"] + one["out"] for one in said[:-1])
    assert "befor.prof" in nowhere
    assert "functions are ranked by tottime or cumtime" in by
    assert "is a profile that is read here, name another file" in same
