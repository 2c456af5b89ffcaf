"""The public names of profkit: what they return, and that they say what the command line says."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profkit
from profkit.api.columns import Column, Columns, flags, numbers, texts, wholes
from profkit.errors import CaptureError, FormatError, ProfkitError, UsageError
from profkit.formats import load_run
from profkit.model import RunSet
from profkit.report.renderers import RENDERERS
from profkit.verdict.diagnosis import diagnose as compare
from tests.shared import ROOT, SAMPLES, Capture, exit_code, finished, words_of

CLEAN, SLOW = SAMPLES / "train_mlp" / "clean-1.prof", SAMPLES / "train_mlp" / "oversubscribed.prof"
RANKS = SAMPLES / "mpi_train" / "oversubscribed.prof"


@pytest.fixture(scope="module")
def contended() -> profkit.Diff:
    return profkit.diff(CLEAN, SLOW)


@pytest.fixture(scope="module")
def ranks() -> profkit.Run:
    return profkit.read(RANKS)


def test_the_names_are_these() -> None:
    names = words_of("Diff Run Verdict __version__ capture diff read start step stop window")
    assert dir(profkit) == sorted(profkit.__all__) == sorted(names)
    assert all(getattr(profkit, name) is getattr(profkit, name) for name in names)
    with pytest.raises(AttributeError, match="no attribute 'compared'"):
        profkit.compared  # noqa: B018


@pytest.mark.parametrize(
    "first",
    ["import profkit.capture.launcher", "from profkit.cli import main", "from profkit import capture"],
)
def test_capture_can_be_called_whatever_was_imported(first: str) -> None:
    # The room has the name of the function: the import system sets it as the package's attribute.
    script = f"{first}\nimport profkit\nprint(profkit.capture('x.prof').path)"
    done = finished([sys.executable, "-c", script], ROOT)
    assert done.stdout == "x.prof\n", done.stderr


def test_what_runs_later_is_not_captured_by_its_call() -> None:
    async def later() -> None: ...

    def items() -> Iterator[int]:
        yield 1

    async def later_items() -> AsyncIterator[int]:
        yield 1

    for function in (later, items, later_items):
        with pytest.raises(TypeError, match="use a with block inside it"):
            profkit.capture("x.prof")(function)


def test_an_exit_stack_may_stand_between(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(profkit.capture(tmp_path / "x.prof"))
        sorted([2, 1])
    names = profkit.read(tmp_path / "x.prof").functions()["name"]
    assert "test_an_exit_stack_may_stand_between" in names
    assert "ExitStack.enter_context" not in names


def test_a_run_is_what_its_file_holds(ranks: profkit.Run) -> None:
    loaded = load_run(RANKS)
    known = ranks.path, ranks.command, ranks.wall_s, ranks.warnings
    manifest = loaded.manifest
    assert known == (str(RANKS), manifest.command, manifest.wall_s, loaded.warnings)
    assert (ranks.verdict.cause, ranks.verdict.kind) == ("contention", "self-oversubscription")
    told = r"<profkit\.Run oversubscribed\.prof: \d+\.\d\d s, 3 processes, contention>"
    assert re.fullmatch(told, repr(ranks))
    threads, processes = ranks.threads(), ranks.processes()
    assert len(threads) == sum(len(process.threads) for process in loaded.processes)
    assert [(row.pid, row.rank) for row in processes] == [(p.pid, p.rank) for p in loaded.processes]
    assert np.isnan(processes["rank"]).tolist() == [process.rank is None for process in loaded.processes]
    assert sum(row.tottime for row in threads) == pytest.approx(ranks.functions()["tottime"].sum())


def test_the_tables_are_those_of_the_json_report(ranks: profkit.Run) -> None:
    told = json.loads(ranks.report("json", limit=0, full_paths=True))
    of_function = words_of("rank name file line root path ncalls primitive_calls tottime wait")
    of_range = words_of("name kind count total_s median_s wait_share parent")
    tables = (ranks.functions(), told["functions"], of_function), (ranks.ranges(), told["ranges"], of_range)
    for rows, objects, names in tables:
        for row, object_ in zip(rows, objects, strict=True):
            if object_.get("ncalls_kind") == "unknown":
                object_ |= {"ncalls": None, "primitive_calls": None}
            assert [getattr(row, name) for name in names] == [object_[name] for name in names]


def test_a_comparison_says_what_the_analysis_found(contended: profkit.Diff) -> None:
    found = compare(*(RunSet(str(path), (load_run(path),)) for path in (CLEAN, SLOW)))
    assert (contended.verdict, contended.account) == (found.verdict, found.account)
    assert contended.slowdown.value == found.slowdown.value
    assert contended.summary.startswith("The candidate was starved of CPU by its own threads and processes")
    assert set(found.comparability.warnings) <= set(contended.warnings)
    table = contended.functions()
    assert table["name"] == list(found.table.name)
    assert table["anomalous"].tolist() == found.table.anomalous.tolist()
    there = ~np.isnan(table["baseline_tottime"])
    assert table["baseline_tottime"][there].tolist() == found.table.baseline.tottime[there].tolist()
    assert there.tolist() == [row.baseline_rank is not None for row in table]
    assert {row.same_source for row in table} == {True, None}
    told = (
        r"<profkit\.Diff clean-1\.prof → oversubscribed\.prof: contention \(self-over.*\), \d\.\d\d times .*>"
    )
    assert re.fullmatch(told, repr(contended))


def test_what_one_side_lacks_is_not_known() -> None:
    corpus = SAMPLES / "tokenize_corpus"
    table = profkit.diff(corpus / "clean-1.prof", corpus / "code-change.prof").functions()
    new = [row for row in table if row.match == "new"]
    assert [row.name for row in new] == ["count_pairs.<locals>.<genexpr>"]
    for row in new:
        lacking = row.baseline_rank, row.baseline_ncalls, row.baseline_tottime, row.baseline_share
        assert lacking == (None,) * 4
        assert row.candidate_ncalls > 0
    lacking = [row.baseline_rank is None for row in table]
    assert np.isnan(table["baseline_tottime"]).tolist() == lacking
    assert np.isnan(table["baseline_ncalls"][lacking]).all()


def test_ranges_of_both_sides() -> None:
    found = profkit.diff(SAMPLES / "mpi_train" / "clean-1.prof", RANKS)
    told = json.loads(found.report("json", limit=0))["ranges"]
    rows = list(found.ranges())
    assert [row.name for row in rows] == [object_["name"] for object_ in told]
    for row, object_ in zip(rows, told, strict=True):
        assert row.median_ratio == object_["median_ratio"]
        assert row.candidate_total_s == object_["candidate"]["total_s"]


def test_a_side_may_be_many_things(tmp_path: Path) -> None:
    for number in (1, 2):
        shutil.copy(SAMPLES / "train_mlp" / f"clean-{number}.prof", tmp_path / f"{number}.prof")
    first, second = tmp_path / "1.prof", tmp_path / "2.prof"
    sides = [
        tmp_path,
        str(tmp_path / "*.prof"),
        [first, str(second)],
        [profkit.read(first), second],
        [tmp_path],
    ]
    found = [profkit.diff(side, SLOW) for side in sides]
    assert all(one.verdict == found[0].verdict for one in found)
    assert json.loads(found[3].report("json"))["baseline"]["runs"] == 2
    assert profkit.diff(profkit.read(CLEAN), profkit.read(SLOW)).verdict == profkit.diff(CLEAN, SLOW).verdict
    for side, error, said in (
        ([], UsageError, "no run to compare"),
        (3, TypeError, "not int"),
        (str(tmp_path / "x*.prof"), FormatError, "matches no file"),
    ):
        with pytest.raises(error, match=said):
            profkit.diff(side, SLOW)  # type: ignore[arg-type]


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.name)
def test_reports_are_those_of_the_command_line(
    renderer: Any, contended: profkit.Diff, capsys: Capture, tmp_path: Path
) -> None:
    for options, asked in (
        ([], {}),
        (["--full-paths", "--explain", "--limit", "3"], {"full_paths": True, "explain": True, "limit": 3}),
    ):
        target, saved = tmp_path / f"cli{renderer.suffixes[0]}", tmp_path / f"api{renderer.suffixes[-1]}"
        assert exit_code("diff", CLEAN, SLOW, "-o", target, *options) == 0
        assert ("masked" in capsys.readouterr().err) == ("full_paths" not in asked)
        text = contended.report(renderer.name, **asked)  # type: ignore[arg-type]
        assert text == target.read_text(encoding="utf-8")
        contended.save(saved, **asked)  # type: ignore[arg-type]
        assert saved.read_text(encoding="utf-8") == text


read, diff = profkit.read, profkit.diff


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: read(CLEAN, by="ncalls"), "by ncalls: functions are ranked by tottime or cumtime"),
        (lambda: diff(CLEAN, SLOW, by="x"), "by x: functions are ranked by tottime or cumtime"),
        (lambda: read(CLEAN, process="rank:9"), "process rank:9: .* has no such process, it has main"),
        (lambda: read(CLEAN, process="every"), "process every: not understood"),
        (lambda: read(CLEAN).report("pdf"), "format pdf: not a format, use terminal, json, md, html or svg"),
        (lambda: read(CLEAN).report(limit=-1), "limit -1: give the number of rows"),
        (lambda: read(CLEAN).save("x.pdf"), "output x.pdf: the suffix names no format, use .txt, .json"),
        (
            lambda: diff(RANKS, RANKS, load=["disk"]),
            "load disk: no NVTX range has that name, there are: allreduce",
        ),
        (lambda: diff(RANKS, RANKS, load="disk"), "load disk: no NVTX range has that name"),
        (lambda: read(RANKS, batch_size=0), "batch_size 0: give the number of samples"),
    ],
    ids=words_of("by diff-by no-process process format limit suffix load one-name batch"),
)
def test_errors_name_the_parameter_and_no_option(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        call()
    assert "--" not in str(error.value)


def test_results_and_errors_pass_between_processes(ranks: profkit.Run, contended: profkit.Diff) -> None:
    for result in (ranks, contended):
        again = pickle.loads(pickle.dumps(result))
        assert again.report("json") == result.report("json")
        table = result.functions()
        assert pickle.loads(pickle.dumps(list(table)))[0]._asdict() == next(iter(table))._asdict()
    error = FormatError("a.prof", "is damaged", "capture it again")
    for raised in (error, UsageError("is none", "by", "x"), CaptureError("it is traced")):
        again = pickle.loads(pickle.dumps(raised))
        assert (type(again), str(again), vars(again)) == (type(raised), str(raised), vars(raised))


def test_a_report_is_not_written_over_what_was_read(tmp_path: Path) -> None:
    path = Path(shutil.copy(CLEAN, tmp_path / "run.md"))
    with pytest.raises(UsageError, match="is a profile that is read here") as error:
        profkit.read(path).save(path)
    assert error.value.parameter == "output"
    assert path.read_bytes() == CLEAN.read_bytes()


def test_what_a_notebook_shows_runs_no_script(contended: profkit.Diff, ranks: profkit.Run) -> None:
    for result, name in ((contended, "normalise"), (ranks, "backward")):
        html = result._repr_html_()
        assert (html[:21], html[-6:]) == ('<div class="profkit">', "</div>")
        assert not re.search(r"<(script|style|link|iframe|img)|\son\w+=|javascript:|https?:", html)
        assert "resource contention" in html.lower()
        assert "OPENBLAS_NUM_THREADS=1 profkit capture" in html
        assert name in html
        assert len(html) < 40_000
    table = ranks.functions()._repr_html_()
    assert "backward" in table
    assert f"{len(ranks.functions()):,} rows" in table


MIXED = Columns(
    {
        "name": texts(["a", None, "", "函数", "caf\udce9"]),
        "time": numbers([1.5, None, 0.0, float("nan"), -2.25]),
        "count": wholes([3, None, -(2**63), 2**63 - 1, 0]),
        "calls": wholes(np.arange(5)),
        "new": flags([True, None, False, True, None]),
        "hot": flags(np.array([True, False, True, True, False])),
    }
)
#: The same as plain values; what is no text is spelled.
VALUES = {
    "name": ["a", None, "", "函数", "caf\\udce9"],
    "time": [1.5, None, 0.0, None, -2.25],
    "count": [3, None, -(2**63), 2**63 - 1, 0],
    "calls": [0, 1, 2, 3, 4],
    "new": [True, None, False, True, None],
    "hot": [True, False, True, True, False],
}


def test_columns() -> None:
    assert (len(MIXED), "time" in MIXED, "nothing" in MIXED) == (5, True, False)
    assert MIXED["name"][:2] == ["a", None]
    for name, known in (("time", [1.5, np.nan, 0.0]), ("count", [3.0, np.nan, -(2.0**63)])):
        assert np.array_equal(MIXED[name][:3], known, equal_nan=True)
    assert (MIXED["calls"].dtype, MIXED["hot"].dtype) == (np.int64, np.bool_)
    assert MIXED["new"].tolist() == VALUES["new"]
    first, second, *_ = MIXED
    assert (tuple(first), tuple(second)) == (("a", 1.5, 3, 0, True, True), (None, None, None, 1, None, False))
    assert second.calls == 1
    assert dict(MIXED).keys() == VALUES.keys()  # type: ignore[call-overload]
    assert repr(MIXED) == "<profkit.Columns, 5 rows: name, time, count, calls, new, hot>"
    with pytest.raises(KeyError, match="no column 'x', there are: name, time"):
        MIXED["x"]
    with pytest.raises(ValueError, match="different lengths"):
        Columns({"a": wholes([1]), "b": wholes([])})
    assert list(Columns({})) == []


def test_foreign_profiles_know_less(tmp_path: Path) -> None:
    plain = tmp_path / "plain.prof"
    assert exit_code("extract", CLEAN, "-o", plain) == 0
    run = profkit.read(plain)
    assert (run.command, run.wall_s, run.verdict, run.summary) == ((), None, None, "")
    assert repr(run) == "<profkit.Run plain.prof: 1 process>"
    functions = run.functions()
    assert np.isnan(functions["wait"]).all()
    assert next(iter(functions)).wait is None
    assert len(run.ranges()) == 0
    (process,) = run.processes()
    assert (process.pid, process.host) == (None, None)


# Tables given to data frame libraries: values, nulls, strings that are no text, and memory that is let go


def test_pyarrow_finds_it_valid() -> None:
    table = pyarrow.table(MIXED)
    table.validate(full=True)
    assert table.to_pydict() == VALUES == MIXED.to_dict()
    types = [str(field.type) for field in table.schema]
    assert types == ["large_string", "double", "int64", "int64", "bool", "bool"]
    assert [column.null_count for column in table.columns] == [1, 2, 1, 0, 2, 0]


def test_pandas_takes_it() -> None:
    import pandas

    if hasattr(pandas.DataFrame, "from_arrow"):
        frame = pandas.DataFrame.from_arrow(MIXED)
    else:  # before pandas 3.0
        frame = pyarrow.table(MIXED).to_pandas()
    assert frame["calls"].tolist() == VALUES["calls"]
    assert frame["name"].tolist()[3:] == VALUES["name"][3:]
    for name in ("name", "time"):
        assert frame[name].isna().tolist() == [value is None for value in VALUES[name]]
    assert pandas.DataFrame(MIXED.to_dict())["calls"].dtype == np.int64


values = st.one_of(
    st.lists(st.none() | st.text(st.characters(codec=None), max_size=6)).map(texts),
    st.lists(st.none() | st.floats()).map(numbers),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)).map(wholes),
    st.lists(st.none() | st.booleans()).map(flags),
)


@given(values)
def test_whatever_is_in_a_column(column: Column) -> None:
    import polars

    table = Columns({"x\n": column})
    read = pyarrow.table(table)
    read.validate(full=True)
    assert read.to_pydict() == table.to_dict()
    assert polars.DataFrame(table).to_dict(as_series=False) == table.to_dict()
    json.dumps(table.to_dict(), allow_nan=False).encode("ascii")


def test_numbers_are_not_copied() -> None:
    values = np.arange(1000, dtype=np.float64)
    read = pyarrow.table(Columns({"x": numbers(values)}))
    assert read.column(0).chunk(0).buffers()[1].address == values.ctypes.data


def test_without_pyarrow_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ProfkitError, match=r"pip install 'profkit\[arrow\]'"):
        MIXED.__arrow_c_stream__()
    assert MIXED.to_dict() == VALUES
