"""The public names of profkit: what they return, and that they say what the command line says."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import profkit
from profkit.api.columns import Columns, flags, numbers, texts, wholes
from profkit.cli import main
from profkit.errors import FormatError, UsageError
from profkit.formats import load_run
from profkit.model import RunSet
from profkit.report.renderers import RENDERERS
from profkit.verdict.diagnosis import diagnose as compare
from tests.shared import finished, words_of

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_profiles"
CLEAN, SLOW = SAMPLES / "train_mlp" / "clean-1.prof", SAMPLES / "train_mlp" / "oversubscribed.prof"
RANKS = SAMPLES / "mpi_train" / "oversubscribed.prof"
FORMATS = [renderer.name for renderer in RENDERERS]


@pytest.fixture(scope="module")
def contended() -> profkit.Diff:
    return profkit.diff(CLEAN, SLOW)


@pytest.fixture(scope="module")
def ranks() -> profkit.Run:
    return profkit.read(RANKS)


def loaded_by(statement: str) -> set[str]:
    """Modules that a statement loads, over those of a bare interpreter that has `sys`."""
    script = (
        "import sys; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(*sorted(set(sys.modules) - before), sep=chr(10))"
    )
    done = finished([sys.executable, "-c", script], ROOT, check=True)
    return set(done.stdout.split())


def test_the_names_are_these() -> None:
    assert dir(profkit) == sorted(profkit.__all__)
    of_reports = {"Diff", "Run", "Verdict", "__version__", "capture", "diff", "read"}
    assert set(profkit.__all__) == of_reports | {"start", "step", "stop", "window"}
    for name in profkit.__all__:
        assert getattr(profkit, name) is getattr(profkit, name)
    with pytest.raises(AttributeError, match="no attribute 'compared'"):
        profkit.compared  # noqa: B018
    assert isinstance(profkit.diff(CLEAN, CLEAN).verdict, profkit.Verdict)


def test_importing_costs_nothing() -> None:
    assert loaded_by("import profkit") == {"profkit"}
    assert "numpy" not in loaded_by("import profkit; profkit.capture")
    assert "numpy" not in loaded_by("import profkit; profkit.capture('x.prof')")


def test_capture_can_be_called_whatever_was_imported() -> None:
    # The room has the name of the function: the import system sets it as the package's attribute.
    for first in (
        "import profkit.capture.launcher",
        "from profkit.cli import main",
        "from profkit import capture",
    ):
        script = f"{first}\nimport profkit\nprint(profkit.capture('x.prof').path)"
        done = finished([sys.executable, "-c", script], ROOT)
        assert done.stdout == "x.prof\n", done.stderr


def test_what_runs_later_is_not_captured_by_its_call() -> None:
    async def later() -> None: ...

    def items() -> Iterator[int]:
        yield 1

    for function in (later, items):
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
    assert ranks.path == str(RANKS)
    assert ranks.command == loaded.manifest.command
    assert ranks.wall_s == loaded.manifest.wall_s
    assert ranks.warnings == loaded.warnings
    assert (ranks.verdict.cause, ranks.verdict.kind) == ("contention", "self-oversubscription")
    assert re.fullmatch(
        r"<profkit\.Run oversubscribed\.prof: \d+\.\d\d s, 3 processes, contention>", repr(ranks)
    )
    threads, processes = ranks.threads(), ranks.processes()
    assert len(threads) == sum(len(process.threads) for process in loaded.processes)
    assert [row.pid for row in processes] == [process.pid for process in loaded.processes]
    assert [row.rank for row in processes] == [process.rank for process in loaded.processes]
    assert np.isnan(processes["rank"]).tolist() == [process.rank is None for process in loaded.processes]
    assert sum(row.tottime for row in threads) == pytest.approx(ranks.functions()["tottime"].sum())


def test_the_functions_are_those_of_the_json_report(ranks: profkit.Run) -> None:
    told = json.loads(ranks.report("json", limit=0, full_paths=True))["functions"]
    table = ranks.functions()
    assert len(table) == len(told)
    of_function = words_of("rank name file line root path ncalls primitive_calls tottime wait")
    of_range = words_of("name kind count total_s median_s wait_share parent")
    ranges = json.loads(ranks.report("json", limit=0))["ranges"]
    for rows, objects, names in ((table, told, of_function), (ranks.ranges(), ranges, of_range)):
        for row, object_ in zip(rows, objects, strict=True):
            assert [getattr(row, name) for name in names] == [object_[name] for name in names]


def test_a_comparison_says_what_the_analysis_found(contended: profkit.Diff) -> None:
    side_a, side_b = (RunSet(str(path), (load_run(path),)) for path in (CLEAN, SLOW))
    found = compare(side_a, side_b)
    assert contended.verdict == found.verdict
    assert contended.slowdown.value == found.slowdown.value
    assert contended.account == found.account
    added = contended.account.candidate_s - contended.account.baseline_s
    assert sum(bucket.seconds for bucket in contended.account.buckets) == pytest.approx(added)
    assert contended.summary.startswith("The candidate was starved of CPU by its own threads and processes")
    assert set(found.comparability.warnings) <= set(contended.warnings)
    table = contended.functions()
    assert table["name"] == list(found.table.name)
    assert table["anomalous"].tolist() == found.table.anomalous.tolist()
    assert table["baseline_tottime"].tolist() == found.table.baseline.tottime.tolist()
    assert {row.same_source for row in table} == {True, None}
    assert re.fullmatch(
        r"<profkit\.Diff clean-1\.prof → oversubscribed\.prof: contention \(self-oversubscription\), \d\.\d\d times "
        r"the time>",
        repr(contended),
    )


def test_what_one_side_lacks_is_not_known() -> None:
    corpus = SAMPLES / "tokenize_corpus"
    table = profkit.diff(corpus / "clean-1.prof", corpus / "code-change.prof").functions()
    new = [row for row in table if row.match == "new"]
    assert len(new) == 2
    for row in new:
        lacking = row.baseline_rank, row.baseline_ncalls, row.baseline_tottime, row.baseline_share
        assert lacking == (None,) * 4
        assert row.candidate_ncalls > 0
        assert row.candidate_tottime >= 0
    assert np.isnan(table["baseline_tottime"]).sum() == np.isnan(table["baseline_ncalls"]).sum() == 2
    assert table["candidate_ncalls"].dtype == np.int64


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
    sides = [
        tmp_path,
        str(tmp_path / "*.prof"),
        [tmp_path / "1.prof", str(tmp_path / "2.prof")],
        [profkit.read(tmp_path / "1.prof"), tmp_path / "2.prof"],
        [tmp_path],
    ]
    verdicts = [profkit.diff(side, SLOW).verdict for side in sides]
    assert all(verdict == verdicts[0] for verdict in verdicts)
    assert json.loads(profkit.diff(sides[3], SLOW).report("json"))["baseline"]["runs"] == 2
    one = profkit.diff(profkit.read(CLEAN), profkit.read(SLOW))
    assert one.verdict == profkit.diff(CLEAN, SLOW).verdict
    with pytest.raises(UsageError, match="no run to compare"):
        profkit.diff([], SLOW)
    with pytest.raises(TypeError, match="not int"):
        profkit.diff(3, SLOW)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="matches no file"):
        profkit.diff(str(tmp_path / "x*.prof"), SLOW)


@pytest.mark.parametrize("format", FORMATS)
def test_reports_are_those_of_the_command_line(
    format: str, contended: profkit.Diff, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    renderer = next(renderer for renderer in RENDERERS if renderer.name == format)
    for options, asked in (
        ([], {}),
        (["--full-paths"], {"full_paths": True}),
        (["--explain", "--limit", "3"], {"explain": True, "limit": 3}),
    ):
        target = tmp_path / f"cli{renderer.suffixes[0]}"
        with pytest.raises(SystemExit, match=r"^0$"):
            main(["diff", str(CLEAN), str(SLOW), "-o", str(target), *options])
        assert ("masked" in capsys.readouterr().err) == ("full_paths" not in asked)
        text = contended.report(format, **asked)  # type: ignore[arg-type]
        assert text == target.read_text(encoding="utf-8")
        saved = tmp_path / f"api{renderer.suffixes[-1]}"
        contended.save(saved, **asked)  # type: ignore[arg-type]
        assert saved.read_text(encoding="utf-8") == text


def test_every_condition_is_listed_where_asked(contended: profkit.Diff, ranks: profkit.Run) -> None:
    for result in (contended, ranks):
        assert "checks" not in json.loads(result.report("json"))
        checks = json.loads(result.report("json", explain=True))["checks"]
        assert any(check["held"] for check in checks)
        assert len(result.report("terminal", explain=True)) > len(result.report("terminal"))


def test_reports_are_masked_unless_asked_otherwise(ranks: profkit.Run, contended: profkit.Diff) -> None:
    for result in (ranks, contended):
        assert any(file.startswith("/opt/venv/") for file in result.functions()["file"]), (
            "the data is not masked"
        )
        for format in ("json", "html"):
            assert "/opt/venv" not in result.report(format, limit=0)
        assert "<site>/numpy/" in result.report("json", limit=0)
        assert "/opt/venv/" in result.report("json", limit=0, full_paths=True)


def test_a_report_is_not_written_over_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "run.md"
    shutil.copy(CLEAN, path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is a profile that is read here") as error:
        profkit.read(path).save(path)
    assert error.value.parameter == "output"
    assert path.read_bytes() == before


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
    ],
    ids=words_of("by diff-by no-process process format limit suffix load"),
)
def test_errors_name_the_parameter_and_no_option(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        call()
    assert "--" not in str(error.value)


def test_what_a_notebook_shows_runs_no_script(contended: profkit.Diff, ranks: profkit.Run) -> None:
    for result in (contended, ranks):
        html = result._repr_html_()
        assert html.startswith('<div class="profkit">')
        assert html.endswith("</div>")
        assert not re.search(r"<(script|style|link|iframe|img)|\son\w+=|javascript:|https?:", html)
        assert "resource contention" in html.lower()
        assert "OPENBLAS_NUM_THREADS=1 profkit capture" in html
        assert len(html) < 40_000
    assert "normalise" in contended._repr_html_()
    assert "average_gradients" in ranks._repr_html_()
    table = ranks.functions()._repr_html_()
    assert "average_gradients" in table
    assert f"{len(ranks.functions()):,} rows" in table


def test_columns() -> None:
    table = Columns(
        {
            "name": texts(["a", None]),
            "time": numbers([1.5, None]),
            "count": wholes([3, None]),
            "calls": wholes(np.array([3, 4])),
            "new": flags([True, None]),
            "hot": flags(np.array([True, False])),
        }
    )
    assert len(table) == 2
    assert list(table.keys()) == ["name", "time", "count", "calls", "new", "hot"]
    assert "time" in table
    assert "nothing" not in table
    assert table["name"] == ["a", None]
    assert np.array_equal(table["time"], [1.5, np.nan], equal_nan=True)
    assert np.array_equal(table["count"], [3.0, np.nan], equal_nan=True)
    assert table["calls"].dtype == np.int64
    assert table["new"].tolist() == [True, None]
    assert table["hot"].dtype == np.bool_
    assert [tuple(row) for row in table] == [("a", 1.5, 3, 3, True, True), (None, None, None, 4, None, False)]
    assert next(iter(table)).calls == 3
    assert dict(table).keys() == table.to_dict().keys()  # type: ignore[call-overload]
    assert repr(table) == "<profkit.Columns, 2 rows: name, time, count, calls, new, hot>"
    with pytest.raises(KeyError, match="no column 'x', there are: name, time"):
        table["x"]
    with pytest.raises(ValueError, match="different lengths"):
        Columns({"a": wholes([1]), "b": wholes([])})
    assert list(Columns({})) == []


def test_foreign_profiles_know_less(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["extract", str(CLEAN), "-o", str(tmp_path / "plain.prof")])
    run = profkit.read(tmp_path / "plain.prof")
    assert (run.command, run.wall_s, run.verdict, run.summary) == ((), None, None, "")
    assert repr(run) == "<profkit.Run plain.prof: 1 process>"
    functions = run.functions()
    assert np.isnan(functions["wait"]).all()
    assert next(iter(functions)).wait is None
    assert len(run.ranges()) == 0
    (process,) = run.processes()
    assert process.pid is None
    assert process.host is None
