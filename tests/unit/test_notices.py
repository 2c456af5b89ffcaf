"""Notices: every code that is made has a sentence, files keep them, and no layer reads a sentence of another."""

from __future__ import annotations

import ast
import copy
import json
import math
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.compare.pair import pair_of
from profkit.formats import load_run, write_run
from profkit.formats.codec import notice_of
from profkit.model import Notice, Process, Run, RunSet
from profkit.model.notices import MOST_PIDS, WHERE, Number, grouped, missing_ranks
from profkit.report.jsonvalues import plain as notice_object
from profkit.report.notices import SENTENCES, is_complete, notice_text, units_of
from tests.run_files import member_of, rewritten
from tests.shared import words_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "profkit"
#: `missing_ranks` and the reader of the sentences of old files.
CODES_FROM_TABLES = (PACKAGE / "model" / "notices.py", PACKAGE / "formats" / "codec.py")


def keys_of(node: ast.expr | None) -> set[str] | None:
    """Names in a literal of numbers; ``None`` where it is no literal."""
    if node is None:
        return set()
    if not isinstance(node, ast.Dict) or not all(isinstance(key, ast.Constant) for key in node.keys):
        return None
    return {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}


def made(path: Path) -> Iterator[tuple[str, set[str] | None, bool, int]]:
    """Codes of the notices that a module makes, the names of their numbers where these are written there, and
    whether they have a subject.

    A code that is an expression is given as the expression, unless it is that of another notice.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            code = ast.unparse(node.args[0])
            literal = isinstance(node.args[0], ast.Constant)
            expression = not code.endswith(".code") and path not in CODES_FROM_TABLES
            if node.func.id == "Notice" and (literal or expression):
                numbers = node.args[2] if len(node.args) > 2 else None
                has_subject = len(node.args) > 1 and ast.unparse(node.args[1]) != "''"
                yield code.strip("'"), keys_of(numbers), has_subject, node.lineno
            if node.func.id == "missing_ranks" and literal:
                yield code.strip("'"), None, False, node.lineno
        # What runs beside the target has no numpy, and writes the form that notices have in JSON.
        if isinstance(node, ast.Dict) and path.parent == PACKAGE / "capture":
            pairs = zip(node.keys, node.values, strict=True)
            fields = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
            if isinstance(code := fields.get("code"), ast.Constant):
                has_subject = ast.unparse(fields.get("subject", ast.Constant(""))) != "''"
                yield str(code.value), keys_of(fields.get("numbers")), has_subject, node.lineno


def example(code: str, *, optional: bool) -> Notice:
    """A notice of a code, with numbers of the right units."""
    values: dict[str, Number] = {"count": 1234, "bytes": 1 << 32, "s": 0.25, "Hz": 50, "CPUs": 16.0}
    values |= {"share": 0.125, "factor": 2.5, "ids": (7, 8)}
    numbers = {
        name: values.get(unit.rstrip("?"), "a text")
        for name, unit in units_of(code).items()
        if name not in ("subject", *WHERE) and (optional or not unit.endswith("?"))
    }
    return Notice(code, "the subject", numbers)


def test_codes_and_numbers_are_those_that_are_made_somewhere_and_have_a_sentence() -> None:
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if "agent" not in path.relative_to(PACKAGE).parts]
    everywhere = [(path, *found) for path in paths for found in made(path)]
    made_by_prefix = ["sampled-profile", "threads-in-one-stack"]
    of_older_files = words_of(
        "free-threaded functions-throttled no-snapshots nvtx-not-patchable nvtx-patched waiting-sampled "
        "waiting-sampling-failed"
    )
    assert set(SENTENCES) == {code for _, code, *_ in everywhere} | {*made_by_prefix, *of_older_files}
    for path, code, names, has_subject, line in everywhere:
        assert not has_subject or "the subject" in notice_text(example(code, optional=True)), f"{path}:{line}"
        if names is None:
            continue
        units = {name: unit for name, unit in units_of(code).items() if name != "subject"}
        needed = {name for name, unit in units.items() if not unit.endswith("?")}
        assert needed <= names <= set(units), f"{path}:{line} {code}"


@pytest.mark.parametrize("code", SENTENCES)
@pytest.mark.parametrize("optional", [False, True])
def test_a_sentence_says_its_numbers(code: str, optional: bool) -> None:
    notice = example(code, optional=optional)
    assert is_complete(notice)
    text = notice_text(notice)
    assert "\n" not in text
    assert not text.endswith((".", " ", ":"))
    assert "?" not in text
    # What goes before says where.
    assert notice_text(notice.at(file="a.prof")) == f"a.prof: {text}"


def test_a_notice_says_where_it_holds() -> None:
    notice = Notice("no-snapshots")
    text = notice_text(notice)
    assert notice_text(notice.at(pids=[7])) == f"process 7: {text}"
    assert notice_text(notice.at(pids=[7, None, 8])) == f"2 processes (7, 8): {text}"
    many = notice.at(pids=range(10, 1210))
    assert many.numbers["pids"] == tuple(range(10, 10 + MOST_PIDS))
    assert notice_text(many.at(file="a.prof")) == f"a.prof: 1,200 processes (10, 11, 12, 13, …): {text}"
    assert many.anywhere() == notice == notice.at(pids=[None])


@pytest.mark.parametrize(("known", "where"), [({"host": "node7"}, "on node7"), ({}, "where it ran")])
def test_records_elsewhere_are_merged_there(known: dict[str, Number], where: str) -> None:
    said = notice_text(Notice("records-elsewhere", "/tmp/profkit.spool-x", known))
    assert said.endswith(f": they are in /tmp/profkit.spool-x {where}; merge there")


SPELLED = (
    Notice("killed-by-signal", "SIGKILL", {"lost_s": 6.0, "cpu_s": 5.5, "estimated": 1}),
    Notice("ended-unrecorded", "", {"lost_s": 0.1, "cpu_s": 0.05, "pids": (7, 8)}),
    *(Notice("nvtx-events-damaged", "", {"events": events}) for events in (1, 2000)),
    Notice("file-skipped", "a.prof", {"problem": "is empty", "hint": "look"}),
    Notice("functions-of-one-side", "baseline", {"self_time": 0.98}),
    Notice("nvtx-file-cut", "", {"read": 1 << 32}),
)


def test_numbers_are_spelled_as_recorded(golden: Callable[[str, str], None]) -> None:
    golden("notices.txt", "\n".join(map(notice_text, SPELLED)) + "\n")


def test_a_notice_of_a_later_version_is_spelled_out() -> None:
    later = Notice("disk-slow", "/dev/sda", {"read": 3, "pids": (4,)})
    assert not is_complete(later)
    assert notice_text(later) == "disk-slow: /dev/sda: read 3, pids (4,)"
    for odd in (
        Notice("nvtx-events-lost"),
        Notice("nvtx-events-lost", "", {"events": "many"}),
        Notice("nvtx-events-lost", "", {"events": 1, "pids": 3}),
        Notice("nvtx-events-lost", "", {"events": 1, "pids": ("x",)}),
    ):
        assert not is_complete(odd)
        assert notice_text(odd).startswith("nvtx-events-lost")


def test_json_has_the_sentence_beside_the_data() -> None:
    assert notice_object(Notice("agent-failed", "caf\udce9", {"pids": (4, 5)})) == {
        "code": "agent-failed",
        "subject": "caf\\udce9",
        "numbers": {"pids": [4, 5]},
        "text": "2 processes (4, 5): profkit's agent failed, so the record may be incomplete: caf\\udce9",
    }


numbers = st.one_of(
    st.integers(-(2**64) + 1, 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=9),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
    st.lists(st.text(max_size=9), max_size=3).map(tuple),
)


@given(
    st.sampled_from(list(SENTENCES)),
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=9), numbers, max_size=4),
)
def test_a_notice_survives_json_and_pickling(code: str, subject: str, values: dict[str, Number]) -> None:
    notice = Notice(code, subject, values)
    again = Notice.from_json(json.loads(json.dumps(notice.as_json())))
    assert again == notice
    assert hash(again) == hash(notice)
    assert pickle.loads(pickle.dumps(notice)) == copy.deepcopy(notice) == notice
    assert isinstance(notice_text(notice), str)
    assert json.dumps(notice_object(notice), allow_nan=False)


@pytest.mark.parametrize(
    "value",
    [
        *(3, [], {}, {"code": "a", "subject": None}, {"code": "a", "numbers": []}),
        *({"code": code} for code in ("", "Odd", "a-", "a/b")),
        *({"code": "a", "numbers": {"n": n}} for n in (True, None, math.inf, 2**64, [1, "2"], [[1]])),
    ],
    ids=repr,
)
def test_what_is_no_notice_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^(is|has) "):
        Notice.from_json(value)


def test_equal_notices_of_several_processes_are_one() -> None:
    a, b = Notice("no-snapshots"), Notice("agent-failed", "x")
    assert grouped([(1, a), (2, b), (3, a), (1, a)]) == [
        Notice("no-snapshots", "", {"pids": (1, 3)}),
        Notice("agent-failed", "x", {"pids": (2,)}),
    ]


def test_missing_ranks() -> None:
    assert missing_ranks("rank-missing", [0, 1, None, 1], 2) is None
    assert missing_ranks("rank-missing", [], 0) is None
    found = missing_ranks("rank-missing", [0, 5, 99, -1], 4)
    assert found == Notice("rank-missing", "", {"ranks": (1, 2, 3), "missing": 3, "size": 4})
    assert missing_ranks("rank-missing", [0], 10**40) is not None


# Files of before


MIXED = (
    "where cProfile mixes the calls of all threads in one stack: times per function are not reliable there"
)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        pytest.param(
            "written by the sampling profiler: counts are samples, not calls, and rows are executed lines, "
            "so one function can be several rows",
            Notice("sampled-profile"),
        ),
        pytest.param(
            "cProfile of Python 3.12 records all threads in one stack: their times are mixed and cumulative "
            "times can exceed the run (profkit capture keeps threads apart)",
            Notice("threads-in-one-stack", "", {"python": "3.12"}),
        ),
        (
            f"6 processes (41, 42, 43, 44, …) ran several threads under Python 3.13, {MIXED}",
            Notice("threads-in-one-stack", "", {"python": "3.13", "pids": (41, 42, 43, 44), "pids_total": 6}),
        ),
        ("process 41: is odd", Notice("text", "is odd", {"pids": (41,)})),
        ("2 processes (41, 42): are odd", Notice("text", "are odd", {"pids": (41, 42)})),
        *((text, Notice("text", text)) for text in ("process 41 still ran when", "cProfile of Python", "")),
    ],
)
def test_sentences_of_old_files(sentence: str, expected: Notice, tmp_path: Path) -> None:
    assert notice_of(sentence) == expected
    path = tmp_path / "old.prof"
    write_run(path, Run("x", (Process(pid=41),)))
    manifest = {**member_of(path, "manifest.json"), "warnings": [sentence]}
    rewritten(path, {"manifest.json": json.dumps(manifest).encode()})
    side = RunSet("old", (load_run(path),))
    assert side.runs[0].warnings == (expected,)
    prepared = pair_of(side, side).baseline
    codes = ("sampled-profile", "threads-in-one-stack")
    assert (prepared.sampled, prepared.threads_mixed) == tuple(expected.code == code for code in codes)
    if expected.code == "text":
        assert notice_text(expected) == sentence
