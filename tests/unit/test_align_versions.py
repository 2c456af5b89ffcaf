"""The same script under several Pythons: what really written profiles of two versions have in common."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from profkit.compare.folded_comprehensions import fold_comprehensions, needs_folding
from profkit.formats import read_pstats
from profkit.identity.align import align
from profkit.model import Profile
from tests.interpreters import interpreter

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
    return read_pstats(output).profile


def basename_matches(a: Profile, b: Profile) -> int:
    """Pair greedily by base name and name: the bar that identity by path has to pass."""

    def counts(side: Profile) -> Counter[tuple[str, str]]:
        files = [side.strings[f].rpartition("/")[2] for f in side.file.tolist()]
        return Counter(zip(files, (side.strings[n] for n in side.name.tolist()), strict=True))

    return (counts(a) & counts(b)).total()


@pytest.mark.interpreters
@pytest.mark.parametrize("newer", ["3.12", "3.13", "3.14"])
def test_same_script_under_two_versions(tmp_path: Path, newer: str) -> None:
    a = recorded(interpreter("3.11"), tmp_path / "old")
    b = recorded(interpreter(newer), tmp_path / "new")
    assert needs_folding(a, b)
    folded_a, mapping = fold_comprehensions(a)
    folded_b, _ = fold_comprehensions(b)
    assert mapping
    assert folded_a.total == pytest.approx(a.total)
    found = align(folded_a, folded_b)
    assert len(found.baseline) >= basename_matches(folded_a, folded_b)
    strings, matched = folded_a.strings, found.baseline.tolist()
    mine = {strings[folded_a.name[i]] for i in matched if "script.py" in strings[folded_a.file[i]]}
    assert {"table", "main", "<module>"} <= mine
