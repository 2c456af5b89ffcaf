"""Functions keep their identity when prefixes, lines, files and comprehensions move; none gets two partners."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.compare.folded_comprehensions import fold_comprehensions, needs_folding
from profkit.formats import read_pstats
from profkit.identity.align import RUNGS, Alignment, align
from profkit.model import Profile, Roots
from tests.builders import Row, profile
from tests.interpreters import interpreter
from tests.shared import words_of


def pairs(found: Alignment) -> dict[int, tuple[int, str]]:
    columns = zip(found.baseline.tolist(), found.candidate.tolist(), found.rung.tolist(), strict=True)
    return {a: (b, RUNGS[r]) for a, b, r in columns}


def check_covers(found: Alignment, n: int, m: int) -> None:
    sides = (found.baseline, found.baseline_only, n), (found.candidate, found.candidate_only, m)
    for matched, rest, rows in sides:
        assert rest.tolist() == sorted(set(range(rows)) - set(matched.tolist()))
        assert len(matched) + len(rest) == rows


PREFIXES = ("/home/a/proj/", "C:\\b\\code\\", "/scratch/x/", "/tmp/tmpab12cd34/deep/er/", "")
LIBRARIES = ("/usr/lib/python3.11/", "C:\\Python312\\Lib\\", "/opt/conda/envs/t/lib/python3.13/")

FILES = ("train.py", "pkg/__init__.py", "pkg/model.py", "pkg/sub/__init__.py", "pkg/sub/model.py")
FUNCTIONS = st.tuples(
    st.sampled_from(FILES),
    st.integers(1, 400),
    st.sampled_from(["__init__", "f", "g", "<lambda>", "step", "<genexpr>"]),
    st.integers(1, 10**6),
)


def placed(file: str, prefix: str) -> str:
    return prefix + (file.replace("/", "\\") if "\\" in prefix else file)


@settings(max_examples=60)
@given(
    st.lists(FUNCTIONS, min_size=1, max_size=40, unique_by=lambda f: (f[0], f[1], f[2])),
    st.sampled_from(PREFIXES),
    st.sampled_from(PREFIXES),
    st.lists(st.integers(0, 900), min_size=len(FILES), max_size=len(FILES)),
    st.randoms(use_true_random=False),
)
def test_moved_profile_aligns_with_itself_totally(
    functions: list[tuple[str, int, str, int]],
    before: str,
    after: str,
    offsets: list[int],
    random: object,
) -> None:
    # A function that only its file has is what lets files be told from each other.
    only = [(f, 500, "only_" + f.replace("/", "_"), 1) for f in {f for f, *_ in functions}]
    functions = [*functions, *only]
    order = list(range(len(functions)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shift = dict(zip(FILES, offsets, strict=True))
    a = profile([Row(placed(f, before), line, name, calls) for f, line, name, calls in functions])
    moved_rows = [Row(placed(f, after), line + shift[f], name, calls) for f, line, name, calls in functions]
    b = profile([moved_rows[i] for i in order])
    found = align(a, b)
    check_covers(found, len(a), len(b))
    assert {x: order[y] for x, (y, _) in pairs(found).items()} == {i: i for i in range(len(a))}
    for x, (_, rung) in pairs(found).items():
        moved = before != after or shift[functions[x][0]] != 0
        assert rung == ("rooted" if moved else "exact")


ANY = st.lists(
    st.builds(
        Row,
        file=st.sampled_from(
            words_of("~ <string> /home/a/p/x.py /home/a/p/q/x.py /scratch/p/x.py C:\\w\\q\\x.py x.py")
            + [library + "os.py" for library in LIBRARIES]
        ),
        line=st.integers(0, 60),
        name=st.sampled_from(["f", "g", "__init__", "<lambda>", "<listcomp>", "<method at 0x1f>"]),
        ncalls=st.integers(1, 5),
        qualname=st.sampled_from(["", "", "A.f", "B.f"]),
        source=st.sampled_from(["", "", "h1", "h2", "h3"]),
    ),
    max_size=25,
)


@settings(max_examples=80)
@given(ANY, ANY)
def test_alignment_is_one_to_one_total_and_symmetric(rows_a: list[Row], rows_b: list[Row]) -> None:
    a, b = profile(rows_a), profile(rows_b)
    found, mirrored = align(a, b), align(b, a)
    check_covers(found, len(a), len(b))
    assert pairs(found) == {y: (x, rung) for x, (y, rung) in pairs(mirrored).items()}


def in_file(file: str, *names: str) -> list[Row]:
    """Functions of one file, a line each."""
    return [Row(file, line, name) for line, name in enumerate(names, 1)]


COPIES = [Row(f"{library}os.py", 10, "f") for library in (*LIBRARIES[:2], "/opt/lib/python3.11/")]
#: Functions of two sides, and which is which; the others are left to the residue.
PAIRED: dict[str, tuple[list[Row], list[Row], dict[int, tuple[int, str]]]] = {
    "generated methods by their calls": (
        [Row("<string>", 2, "__init__", 5, 0.5), Row("<string>", 2, "__init__", 3, 0.1)],
        [Row("<string>", 2, "__init__", 3, 0.2), Row("<string>", 2, "__init__", 5, 0.6)],
        {0: (1, "exact"), 1: (0, "exact")},
    ),
    "one base name in two directories": (
        in_file("/home/a/p/one/util.py", "f") + in_file("/home/a/p/two/util.py", "f"),
        in_file("/srv/q/two/util.py", "f") + in_file("/srv/q/one/util.py", "f"),
        {0: (1, "rooted"), 1: (0, "rooted")},
    ),
    "an ambiguous file": (
        in_file("/home/a/p/main.py", "f"),
        in_file("/srv/one/main.py", "f") + in_file("/srv/two/main.py", "f"),
        {},
    ),
    "an ambiguous file that others settle": (
        in_file("/home/a/p/main.py", "f") + in_file("/home/a/p/data.py", "load"),
        in_file("/srv/one/main.py", "f")
        + in_file("/srv/two/main.py", "f")
        + in_file("/srv/two/data.py", "load"),
        {0: (1, "rooted"), 1: (2, "rooted")},
    ),
    "one base name with other functions": (
        in_file("/home/a/p/utils.py", "parse", "emit", "__init__"),
        in_file("/srv/q/utils.py", "load", "save", "__init__"),
        {},
    ),
    "a project that became a package": (
        in_file("/home/a/lib/src/mylib/core.py", "run"),
        in_file("/opt/v/lib/python3.11/site-packages/mylib/core.py", "run"),
        {0: (0, "rooted")},
    ),
    "notebook cells and temporary files": (
        [
            Row("/tmp/ipykernel_1/11.py", 1, "f"),
            Row("<frozen os>", 3, "walk"),
            Row("/tmp/tmpaaaa1111/t.py", 2, "g"),
        ],
        [
            Row("C:\\Temp\\ipykernel_9\\11.py", 1, "f"),
            Row("/usr/lib/python3.9/os.py", 9, "walk"),
            Row("/tmp/tmpbbbb2222/t.py", 2, "g"),
        ],
        {0: (0, "rooted"), 1: (1, "rooted"), 2: (2, "rooted")},
    ),
    "an edited cell": (
        [Row("<ipython-input-3-aa>", 1, "f"), Row("<ipython-input-4-bb>", 1, "f")],
        [Row("<ipython-input-5-cc>", 1, "f"), Row("<ipython-input-3-aa>", 1, "f")],
        {0: (1, "exact"), 1: (0, "rooted")},
    ),
    "two edited cells": (
        [Row("<ipython-input-3-aa>", 1, "f"), Row("<ipython-input-4-bb>", 1, "f")],
        [Row("<ipython-input-3-cc>", 1, "f"), Row("<ipython-input-4-dd>", 1, "f")],
        {},
    ),
    "an inserted method": (
        [*(Row("m.py", line, "__init__") for line in (10, 50)), Row("m.py", 60, "run")],
        [*(Row("m.py", line, "__init__") for line in (10, 30, 70)), Row("m.py", 80, "run")],
        {0: (0, "exact"), 1: (2, "nearest-line"), 2: (3, "rooted")},
    ),
    "methods by their source": (
        [Row("m.py", 10, "__init__", source="p"), Row("m.py", 50, "__init__", source="q")],
        [Row("m.py", line, "__init__", source=source) for line, source in ((12, "q"), (48, "p"), (90, ""))],
        {0: (1, "rooted"), 1: (0, "rooted")},
    ),
    "a moved function by its source if that is unique": (
        [Row("/p/old.py", 5, "solve", source="h"), Row("/p/old.py", 9, "tiny", source="t")],
        [
            Row("/p/new.py", 70, "solve", source="h"),
            *(Row(file, 1, "tiny", source="t") for file in ("/p/x.py", "/p/y.py")),
        ],
        {0: (0, "same-source")},
    ),
    "qualified names": (
        [Row("m.py", 10, "f", qualname="A.f"), Row("m.py", 20, "f", qualname="B.f")],
        [Row("m.py", 10, "f", qualname="B.f"), Row("m.py", 20, "f", qualname="A.f")],
        {0: (1, "rooted"), 1: (0, "rooted")},
    ),
    "qualified names of one side alone": (
        [Row("m.py", 10, "f", qualname="A.f"), Row("m.py", 20, "f", qualname="B.f")],
        [Row("m.py", 11, "f"), Row("m.py", 21, "f")],
        {0: (0, "rooted"), 1: (1, "rooted")},
    ),
    "copies of a module by their raw paths": (COPIES, COPIES[::-1], {i: (2 - i, "exact") for i in range(3)}),
}


@pytest.mark.parametrize("name", PAIRED)
def test_which_function_is_which(name: str) -> None:
    a, b, expected = PAIRED[name]
    found = align(profile(a), profile(b))
    check_covers(found, len(a), len(b))
    assert pairs(found) == expected


@pytest.mark.parametrize("same", [True, False])
def test_a_file_with_another_name_is_the_same_if_a_function_is(same: bool) -> None:
    """Two programs have names in common, too."""

    def script(file: str, source: str, *others: str) -> Profile:
        names = ("<module>", "Model.fit", "Model.predict", *others)
        rows = [Row(f"/w/{file}", 10 * i + 1, name, 1, source=source) for i, name in enumerate(names)]
        return profile([*rows, Row(f"/w/{file}", 200, "load", 1, source="copied" if same else source)])

    roots = Roots(project=("/w",))
    old, new = script("train_old.py", "before"), script("train_new.py", "after", "Model.save")
    found = pairs(align(old, new, roots, roots))
    assert found == ({0: (0, "rooted"), 1: (1, "rooted"), 2: (2, "rooted"), 3: (4, "rooted")} if same else {})


def test_recorded_roots_match_a_foreign_file_without_any() -> None:
    a = profile([Row("/home/a/proj/src/t.py", 4, "f")])
    b = profile([Row("/scratch/proj/src/t.py", 4, "f")])
    for ours, theirs in ((("/home/a/proj",), ()), (("/home/a/proj/src",), ("/scratch/proj",))):
        assert pairs(align(a, b, Roots(project=ours), Roots(project=theirs))) == {0: (0, "rooted")}


def test_comprehension_folds_into_its_caller() -> None:
    rows = [
        Row("m.py", 1, "f", 2, 1.0, 4.0, wait=0.1, cumwait=0.6),
        Row("m.py", 3, "<listcomp>", 2, 2.0, 3.0, wait=0.2, cumwait=0.5),
        Row("m.py", 3, "<dictcomp>", 9, 0.5, 0.5, wait=0.3, cumwait=0.3),
        Row("~", 0, "<built-in method len>", 7, 0.5, 0.5, wait=0.0, cumwait=0.0),
        Row("m.py", 4, "<genexpr>", 7, 0.25, 0.25, wait=0.0, cumwait=0.0),
    ]
    given_ = profile(rows, [(0, 1, 2, 2.0), (1, 2, 9, 0.5), (1, 3, 4, 0.3), (0, 3, 3, 0.2), (0, 4, 7, 0.25)])
    folded, rows_after = fold_comprehensions(given_)
    folded.validate()
    assert rows_after.tolist() == [0, 0, 0, 1, 2]
    assert folded.tottime.tolist() == [3.5, 0.5, 0.25]
    assert folded.cumtime.tolist() == [4.0, 0.5, 0.25]
    assert folded.ncalls.tolist() == [2, 7, 7]
    assert folded.wait.tolist() == pytest.approx([0.6, 0.0, 0.0])
    assert folded.cumwait.tolist() == [0.6, 0.0, 0.0]
    edges = [column.tolist() for column in (folded.edges.caller, folded.edges.callee, folded.edges.ncalls)]
    assert edges == [[0, 0, 0], [1, 2, 1], [3, 7, 4]]  # a pair that occurs twice counts as the sum
    assert folded.total == given_.total


def test_comprehension_folds_by_qualified_name_and_by_line_without_edges() -> None:
    rows = [
        Row("m.py", 1, "f", 1, 1.0, qualname="A.f"),
        Row("m.py", 9, "g", 1, 1.0, qualname="g"),
        Row("m.py", 20, "<listcomp>", 1, 4.0, qualname="A.f.<locals>.<listcomp>"),
        Row("n.py", 5, "h", 1, 1.0),
        Row("n.py", 15, "k", 1, 1.0),
        Row("n.py", 12, "<setcomp>", 1, 2.0),
        Row("alone.py", 3, "<listcomp>", 1, 1.0),
    ]
    folded, rows_after = fold_comprehensions(profile(rows))
    assert rows_after.tolist() == [0, 1, 0, 2, 3, 2, 4]
    assert folded.tottime.tolist() == [5.0, 1.0, 3.0, 1.0, 1.0]


def test_folding_is_asked_for_across_versions_and_where_a_plain_profile_mixes_comprehensions_up() -> None:
    def under(version: str, *functions: Row) -> list[Row]:
        return [Row(f"/usr/lib/python3.{version}/os.py", 1, "walk"), Row("m.py", 1, "f"), *functions]

    old = under("11", Row("m.py", 2, "<listcomp>"))
    inner = "load.<locals>.<listcomp>"
    told = [
        Row("m.py", 2, "load", 60, 0.1, qualname="load"),
        Row("m.py", 3, "<listcomp>", 60, 0.1, qualname=inner),
        Row("m.py", 3, "<listcomp>", 12_000, 0.8, qualname=f"{inner}.<locals>.<listcomp>"),
    ]
    mixed = [Row("m.py", 2, "load", 60, 0.1), Row("m.py", 3, "<listcomp>", 12_000, 0.8)]
    for a, b, needed in (
        (old, under("13"), True),
        (old, under("10"), False),
        (told, mixed, True),
        (told, told, False),
        (mixed, mixed, False),
        (told[:2], [mixed[0], replace(mixed[1], ncalls=60)], False),
    ):
        assert needs_folding(profile(a), profile(b)) is needed
        assert needs_folding(profile(b), profile(a)) is needed
    assert fold_comprehensions(profile(told))[0].ncalls.tolist() == [60]


def test_hundred_thousand_functions_align_quickly() -> None:
    def side(home: str) -> Profile:
        places = ((f"{home}/pkg{i % 50}/mod{i % 4000}.py", 10 + i // 4000, i) for i in range(100_000))
        return profile([Row(file, line, f"func_{i % 997}_{i}", 1, 0.1) for file, line, i in places])

    a, b = side("/home/a/proj"), side("/scratch/b/proj2")
    start = time.process_time()  # the same however busy the machine is
    found = align(a, b)
    # A quarter of a second on the machine this was written on; the bound catches a loop over pairs, not noise.
    assert time.process_time() - start < 3.0
    assert len(found.baseline) == 100_000
    assert (found.baseline == found.candidate).all()


# The same script under several Pythons: what really written profiles of two versions have in common

SCRIPT = """
import argparse, collections, dataclasses, json, logging, re, string

@dataclasses.dataclass
class Point:
    x: int = 0

@dataclasses.dataclass
class Line:
    a: int = 0

def table(n):
    rows = [{k: i for k in "abc"} for i in range(n)]
    return {tuple(sorted(r)) for r in rows}

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=3)
    for n in range(50):
        table(parser.parse_args([]).n + n)
    re.compile(r"(a|b)+[0-9]{2,3}x*")
    json.loads(json.dumps({"a": [1, 2, 3]}, indent=1))
    [Point(i) for i in range(5)], Line()
    collections.namedtuple("N", "a b")
    string.Template("$a").substitute(a=1)
    logging.getLogger("x").debug("y")

main()
"""


def recorded(python: str, directory: Path) -> Profile:
    directory.mkdir()
    script, output = directory / "script.py", directory / "out.prof"
    script.write_text(SCRIPT)
    subprocess.run([python, "-m", "cProfile", "-o", str(output), str(script)], check=True, timeout=60)
    return read_pstats(output).profiles[0]


def basename_matches(a: Profile, b: Profile) -> int:
    """Pair greedily by base name and name: the bar that identity by path has to pass."""

    def counts(side: Profile) -> Counter[tuple[str, str]]:
        files = [side.strings[f].rpartition("/")[2] for f in side.file.tolist()]
        return Counter(zip(files, (side.strings[n] for n in side.name.tolist()), strict=True))

    return (counts(a) & counts(b)).total()


@pytest.mark.parametrize("newer", ["3.12", "3.13", "3.14"])
def test_same_script_under_two_versions(tmp_path: Path, newer: str) -> None:
    a = recorded(interpreter("3.11"), tmp_path / "old")
    b = recorded(interpreter(newer), tmp_path / "new")
    assert needs_folding(a, b)
    folded_a, _ = fold_comprehensions(a)
    folded_b, _ = fold_comprehensions(b)
    assert len(folded_a) < len(a)
    assert folded_a.total == pytest.approx(a.total)
    found = align(folded_a, folded_b)
    assert len(found.baseline) >= basename_matches(folded_a, folded_b)
    strings, matched = folded_a.strings, found.baseline.tolist()
    mine = {strings[folded_a.name[i]] for i in matched if "script.py" in strings[folded_a.file[i]]}
    assert {"table", "main", "<module>"} <= mine
