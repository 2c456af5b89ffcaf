"""What a job of CI asks of a comparison: an exit code with a reason, a summary of the step, a note at the line."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.integration.capturing import captured, in_process

SOURCE = """
def mix(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total

for _ in range(20):
    mix({rounds})
"""
#: The second version does so much more in `mix` that it is slower on any machine.
CHANGED = SOURCE.replace("i * i % 7", "i * i % 7" + " + i ** 3 % 11 + i ** 4 % 13" * 4)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which a program was captured before and behind a change of one of its functions."""
    top = tmp_path_factory.mktemp("repository")
    (top / "app").mkdir()
    sides = {"before": SOURCE, "behind": CHANGED}
    for name in sides:
        (top / name).mkdir()
    # In turn: a machine that is busy for a while is so for both.
    for i, (name, source) in product(range(3), sides.items()):
        (top / "app" / "mix.py").write_text(source.format(rounds=40000))
        captured(top / "app", "python", "mix.py")
        (top / "app" / "run.prof").rename(top / name / f"{i}.prof")
    return top


@pytest.fixture
def variables(repository: Path, tmp_path: Path) -> dict[str, str]:
    return {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "GITHUB_WORKSPACE": str(repository)}


def test_the_summary_of_the_step_and_the_note_at_the_changed_line(
    repository: Path, variables: dict[str, str]
) -> None:
    summary = Path(variables["GITHUB_STEP_SUMMARY"])
    summary.write_text("# before\n")
    words = ("diff", "before", "behind", "--github", "--min-slowdown", "5%")
    done = in_process(repository, *words, status=1, **variables)
    note = done.stdout.splitlines()[-1]
    assert note.startswith("::error file=app/mix.py,line=2,title=profkit%3A ")
    assert "%25" in note or "%" not in note.partition("::")[2].partition("::")[2]
    text = summary.read_text()
    assert text.startswith("# before\n## ❌")
    assert "code-change" in text
    assert str(repository) not in text
    assert "exit status 1: the verdict is code-change" in done.stderr


def test_what_does_not_fail_is_a_warning(repository: Path, tmp_path: Path, variables: dict[str, str]) -> None:
    output = ("-o", str(tmp_path / "r.json"))
    done = in_process(repository, "diff", "before", "behind", "--github", *output, **variables)
    assert done.stdout.startswith("::warning file=app/mix.py,line=2,")
    assert done.stdout.count("\n") == 1
    same = in_process(repository, "diff", "behind", "behind", "--github", **variables)
    assert "::" not in same.stdout


def test_a_least_slow_down_decides(repository: Path) -> None:
    for words, status, said in (
        (("--min-slowdown", "5%"), 1, "exit status 1: the verdict is code-change"),
        (("--min-slowdown", "5%", "--fail-on", "code-change"), 1, "which --fail-on names, at "),
        (("--min-slowdown", "900%"), 0, "exit status 0: the verdict is code-change"),
        (("--min-slowdown", "5%", "--fail-on", "contention"), 0, ""),
    ):
        assert said in in_process(repository, "diff", "before", "behind", *words, status=status).stderr


def test_bad_input_gives_one_line(repository: Path, tmp_path: Path) -> None:
    summary = {"GITHUB_STEP_SUMMARY": str(tmp_path / "s.md")}
    for words, variables, said in (
        (("--github",), {"GITHUB_STEP_SUMMARY": ""}, "GITHUB_STEP_SUMMARY is not set"),
        (("--github", "--format", "json"), summary, "write the report with -o FILE"),
        (("--github",), {"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "s.md")}, "No such file"),
        (("--min-slowdown", "-5%"), {}, "give a percentage"),
    ):
        done = in_process(repository, "diff", "before", "behind", *words, status=2, **variables)
        assert done.stderr.count("\n") == 1
        assert said in done.stderr
