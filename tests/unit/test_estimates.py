"""Figures that are estimates: from a tracer's tables through run files and sums to reports."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import profkit
from profkit.capture.tables import ThreadTables
from profkit.capture.thread_tables import rows
from profkit.compare.folded_comprehensions import fold_comprehensions
from profkit.compare.replicates import gather
from profkit.formats import load_run
from profkit.formats.load import join_files
from profkit.formats.runfile import write_run
from profkit.model import Host, Process, Profile, ProfileError, Roots, Run, Thread, Tier
from profkit.model.merge import merge_profiles
from profkit.model.profile import ESTIMATES
from profkit.report import html, terminal
from profkit.report.diffdoc import diff_document
from profkit.report.functions import ranked_run
from profkit.report.jsondoc import show_object
from profkit.report.pictures import run_figures
from profkit.report.showdoc import run_facts, show_document
from profkit.report.wording.functions import moved_text
from tests import builders
from tests import report_builders as build
from tests.builders import Known, Row, with_estimates, with_main
from tests.programs import diffed
from tests.records import record, table
from tests.shared import finished

NAN = math.nan


def profile(
    calls: Sequence[int], known: Sequence[Known] | None, names: Sequence[str] = "abcdefgh"
) -> Profile:
    """Build a profile of functions that take a second each."""
    rows = [Row("train.py", 1, name, n, 1.0) for name, n in zip(names, calls, strict=False)]
    plain = builders.profile(rows, [(0, len(rows) - 1, 1, 1.0)])
    return plain if known is None else with_estimates(plain, known)


def known_of(found: Profile) -> dict[str, Known]:
    columns = [getattr(found, name).tolist() for name in ESTIMATES]
    names = [found.strings[i] for i in found.name.tolist()]
    return dict(zip(names, zip(*columns, strict=True), strict=True))


SAMPLED = profile([7, 1200, 0], [(7, 7, 0, 0.0), (1100.5, 1350, 40, 0.3), (NAN, NAN, 3, 0.5)])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"calls_low": None}, "has some of calls_low, calls_high, samples, tottime_error, and not all"),
        ({"calls_low": np.array([8.0, 1.0, NAN])}, "calls_low is not below calls_high"),
        ({"calls_high": np.array([7.0, 1300.0, 9.0])}, "calls_low is not below calls_high"),
        ({"tottime_error": np.array([0.0, -1.0, 0.0])}, "tottime_error is -1"),
        ({"samples": np.zeros(3)}, "samples is not a column of 3 int64"),
    ],
)
def test_columns_that_cannot_be(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ProfileError, match=problem):
        replace(SAMPLED, **change).validate()


# From a tracer's tables


def test_thread_tables_sum_open_and_returned_calls() -> None:
    found = table(
        functions=[(1, 10, 2, 4.0, 3.0), (2, 5, 0, 1.0, 1.0)],
        edges=[(1, 2, 5, 0, 1.0, 1.0)],
        open=[(0, 7.0, 0.5), (1, 2.0, 0.25)],
    )
    thread = ThreadTables().thread(record(threads=[found]), found)
    profile, calls = thread.profile, thread.open_calls
    assert thread.range_calls is None
    at = {profile.strings[profile.name[i]]: i for i in range(len(profile))}
    outer, inner, builtin = at["outer"], at["inner"], at["<built-in method x>"]
    assert profile.ncalls[[outer, inner, builtin]].tolist() == [1, 11, 5]
    assert profile.primitive_calls[[outer, inner, builtin]].tolist() == [1, 9, 5]
    assert profile.tottime[[outer, inner, builtin]].tolist() == [0.5, 3.25, 1.0]
    assert profile.cumtime[[outer, inner, builtin]].tolist() == [7.0, 6.0, 1.0]
    assert [(c.function, c.cumtime) for c in calls] == [(outer, 7.0), (inner, 2.0)]
    edges = list(zip(profile.edges.caller, profile.edges.callee, profile.edges.ncalls, strict=True))
    assert edges == [(inner, builtin, 5), (outer, inner, 1)]
    assert profile.strings[profile.module[outer]] == "a"
    # An open call adds one to what is known of the calls.
    estimates = rows("estimates", *np.array([[9.0, NAN], [12.0, NAN], [4, 2], [0.1, 0.2]]))
    estimated = ThreadTables().thread(record(threads=[found]), replace(found, estimates=estimates)).profile
    known = known_of(estimated)
    assert (known["outer"], known["inner"]) == ((1.0, 1.0, 0, 0.0), (10.0, 13.0, 4, 0.1))
    assert np.isnan(known["<built-in method x>"][:2]).all()


# Sums


def test_sums_add_distances_in_quadrature() -> None:
    other, exact = profile([10, 800], [(10, 10, 2, 0.0), (500, 1000, 9, 0.4)]), profile([1, 1, 1], None)
    found = merge_profiles([SAMPLED, other, exact]).validate()
    assert found.ncalls.tolist() == [18, 2001, 0]
    known = known_of(found)
    assert known["a"] == (18.0, 18.0, 2, 0.0)
    low, high = 2001 - math.hypot(99.5, 300), 2001 + math.hypot(150, 200)
    assert known["b"] == pytest.approx((low, high, 49, 0.5))
    assert known["c"] == pytest.approx((NAN, NAN, 3, 0.5), nan_ok=True)
    assert merge_profiles([exact] * 2).calls_low is None


def test_limits_of_few_calls_that_were_cut_off_are_no_nearer_to_their_sum() -> None:
    """Bursts saw 4 and 2 calls: their estimates are 79,000 and 28,000, and in truth there may be 200 each."""
    few = [profile([79_000], [(4, 398_000, 9, 0.0)]), profile([28_000], [(2, 169_000, 9, 0.0)])]
    assert known_of(merge_profiles(few).validate())["a"][0] == 6
    many = merge_profiles([profile([1000], [(100, 2500, 9, 0.0)])] * 64)
    assert known_of(many.validate())["a"][0] == pytest.approx(64_000 - 8 * 1500)


def test_sums_of_estimates_that_were_rounded_are_possible() -> None:
    """A number of calls that was rounded may be outside of its own narrow interval."""
    part = profile([0, 3], [(0.3, 0.4, 1, 0.0), (2.6, 2.9, 1, 0.0)])
    known = known_of(merge_profiles([part] * 7).validate())
    assert known["a"][0] == pytest.approx(2.1)
    assert known["b"][0] <= 21 <= known["b"][1] + 0.8


def test_a_comprehension_gives_its_error_and_not_its_calls() -> None:
    rows = [
        Row("a.py", 1, "f", 5, 1.0, qualname="f"),
        Row("a.py", 2, "<listcomp>", 9, 1.0, qualname="f.<locals>.x"),
    ]
    given = with_estimates(builders.profile(rows, [(0, 1, 9, 1.0)]), [(4, 6, 10, 0.3), (8, 20, 5, 0.4)])
    found, _ = fold_comprehensions(given)
    assert known_of(found.validate()) == {"f": (4.0, 6.0, 15, 0.5)}


def test_medians_over_runs() -> None:
    runs = [profile([n], [(n - 1, n + 3, n, 0.1 * n)], "f") for n in (10, 20, 40)]
    side = gather([*runs[:2], profile([30], None, "f")], [Roots()] * 3, [0.0] * 3)
    assert known_of(side.profile) == {"f": (19.0, 23.0, 10, 1.0)}
    assert gather(runs[:1], [Roots()], [0.0]).profile.calls_high.tolist() == [13.0]  # type: ignore[union-attr]
    assert gather([profile([30], None, "f")], [Roots()], [0.0]).profile.calls_low is None


# Files


def run_of(found: Profile, rank: int = 0) -> Run:
    manifest = builders.manifest(4.0, Host("host"), job={"id": "7", "rank": rank, "world_size": 2})
    return Run("run.prof", (Process(pid=10, threads=(Thread(found),)),), manifest)


@pytest.mark.parametrize("first_is_exact", [True, False])
def test_files_of_ranks_of_which_one_is_exact(tmp_path: Path, first_is_exact: bool) -> None:
    ranks = [profile([4, 5, 6], None), SAMPLED] if first_is_exact else [SAMPLED, profile([4, 5, 6], None)]
    for rank, part in enumerate(ranks):
        write_run(tmp_path / f"{rank}.prof", run_of(part, rank))
    head, portions = join_files([tmp_path / "0.prof", tmp_path / "1.prof"])
    write_run(tmp_path / "both.prof", head, portions=portions)
    found = [process.threads[0].profile for process in load_run(tmp_path / "both.prof").processes]
    assert [part.calls_low is None for part in found] == [first_is_exact, not first_is_exact]
    assert [part.ncalls.tolist() for part in found] == [part.ncalls.tolist() for part in ranks]
    for name in ESTIMATES:
        column = getattr(found[first_is_exact], name)
        assert column.dtype == getattr(SAMPLED, name).dtype
        np.testing.assert_array_equal(column, getattr(SAMPLED, name))


# Reports


@pytest.mark.parametrize(
    ("tiers", "said"),
    [
        ("", None),
        ("exact", None),
        ("sampled", "sampled (448 samples)"),
        ("sampled exact", "sampled for 1.00 s, then exact (448 samples)"),
        (
            "exact sampled exact sampled",
            "exact for 2.00 s and sampled for 10.1 s, in 4 turns (448 samples)",
        ),
    ],
)
def test_tiers_in_words(tiers: str, said: str | None) -> None:
    turns: Any = enumerate(tiers.split())
    run = with_main(build.sampled_run(), tiers=tuple(Tier(kind, float(i)) for i, kind in turns))
    assert dict(run_facts(run, ranked_run(run))).get("functions") == said


def test_json_of_a_run() -> None:
    found = show_object(build.sampled_run(), judged=build.UNJUDGED)
    (process,) = found["processes"]
    assert process["tiers"] == [{"kind": "exact", "begin_s": 0.0}, {"kind": "sampled", "begin_s": 0.031}]
    assert process["effect"] == {"seconds": 0.9, "interval": [0.7, 1.2]}
    rows = {row["name"]: row for row in process["threads"][0]["functions"]}
    for name, *expected in (
        ("TransformerBlock.forward", "estimated", [371.0, 431.0], "sampled"),
        ("train_one_epoch", "exact", [3.0, 3.0], "sampled"),
        ("<method 'acquire' of '_thread.lock' objects>", "unknown", None, "exact"),
    ):
        assert [rows[name][key] for key in ("ncalls_kind", "ncalls_interval", "tottime_kind")] == expected
    exact = show_object(build.captured_run(), judged=build.UNJUDGED)["functions"]
    assert {row["ncalls_kind"] for row in exact} == {"exact"}


@pytest.mark.parametrize(
    ("calls", "known", "said"),
    [
        (3000, (2500, 3500, 90, 0.2), "about 3.00× the calls"),
        (1100, (900, 1300, 90, 0.2), "no clear change in calls"),
        (0, (NAN, NAN, 90, 0.2), "calls not known"),
    ],
)
def test_what_is_said_of_calls(calls: int, known: Known, said: str) -> None:
    """A function takes three times as long; the run in which it does was sampled."""
    rows = ([Row("/work/train.py", 3, "step", n, own)] for n, own in ((1000, 1.0), (calls, 3.0)))
    before, after = map(builders.profile, rows)
    sides = before, with_estimates(after, [known])
    found = diffed(*(builders.captured(p, wall=p.total, run=p.total, wait=0.0) for p in sides))
    assert said in moved_text(found.table, 0)
    assert found.table.baseline.estimate(0) == (1000.0, 1000.0, 0, 0.0)
    if said.startswith("about"):
        assert found.table.candidate.estimate(0) == pytest.approx(known)
        assert "1,000 → ~3.0 k" in terminal.render(diff_document(found), width=200)


def test_the_python_interface_has_the_columns(tmp_path: Path) -> None:
    write_run(tmp_path / "a.prof", run_of(profile([7, 1000, 5], None)))
    write_run(tmp_path / "b.prof", run_of(SAMPLED))
    rows = {row.name: row for row in profkit.read(tmp_path / "b.prof").functions()}
    known = [(r.ncalls, r.calls_low, r.samples, r.tottime_error) for r in (rows[name] for name in "abc")]
    assert known == [(7, 7.0, 0, 0.0), (1200, 1100.5, 40, 0.3), (None, None, 3, 0.5)]
    both = {row.name: row for row in profkit.diff(tmp_path / "a.prof", tmp_path / "b.prof").functions()}
    assert (both["b"].baseline_calls_low, both["b"].candidate_calls_high) == (1000.0, 1350.0)
    assert (both["c"].baseline_ncalls, both["c"].candidate_ncalls) == (5, None)
    assert both["c"].candidate_tottime_error == 0.5


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_says_what_is_exact() -> None:
    assets = Path(html.__file__).parent / "assets"
    script = "".join((assets / name).read_text() for name in ("format.js", "model.js"))
    said = (
        "console.log(JSON.stringify(functions.names.map((name, row) => [name, functions.after.calls(row)])))"
    )
    run = build.sampled_run()
    document = replace(show_document(run, judged=build.UNJUDGED), figures=run_figures(run, "tottime"))
    text = html.render(document)
    data = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    page = f"globalThis.document = {{ getElementById: () => ({{ textContent: {json.dumps(data)} }}) }};"
    found = dict(json.loads(finished(["node", "-e", page + script + said], check=True).stdout))
    assert found["TransformerBlock.forward"] == "~400"
    assert found["train_one_epoch"] == "3"
    assert found["_thread.lock.acquire"] == "–"
