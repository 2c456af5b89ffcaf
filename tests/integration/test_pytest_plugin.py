"""Gated tests: real pytest runs in a real repository, with the revision before and the tree as it is."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import pytest

import profkit
from tests.integration.capturing import environment
from tests.shared import finished, succeeded

#: A calculation of some tens of milliseconds.
SOURCE = """
def parse(lines):
    total = 0
    for number in range(lines):
        total += len(str(number)) * 3 % 7
    return total
"""
#: The same with more work in each round.
SLOWER = SOURCE.replace("% 7\n", "% 7\n        total += len(str(number)) - len(str(number))\n")
TEST = """
import pytest
from parse import parse

@pytest.mark.profkit({mark})
def test_parse():
    assert parse(100_000) > 0

def test_other():
    assert parse(3) == 9
"""


def git(directory: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=directory, check=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit: a module, and a test that is marked."""
    directory = tmp_path / "project"
    for folder in ("src", "tests"):
        (directory / folder).mkdir(parents=True)
    write(directory, SOURCE, TEST.format(mark=""))
    (directory / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        git(directory, *words)
    return directory


def write(project: Path, source: str | None = None, test: str | None = None) -> None:
    for name, text in (("src/parse.py", source), ("tests/test_parse.py", test)):
        if text is not None:
            (project / name).write_text(text)


def in_no_time(project: Path) -> None:
    """Let any run of a side take too long: that it is tried is known, and a gate is decided at once."""
    (project / "conftest.py").write_text("import pytest_profkit.baselines as gate\ngate.LONGEST_S = 0.01\n")


def decided(project: Path, outcome: str) -> None:
    """Let each gate end so after the first run of both sides."""
    (project / "conftest.py").write_text(
        "from pytest_profkit import baselines, gate, sequential\n"
        f"decision = sequential.Decision({outcome!r}, 5, 1.5, 1.4, 1.6)\n"
        "baselines.gate = lambda run, least: gate.Gated(decision, 0, '', '')\n"
    )


def run_tests(project: Path, *words: str, status: int = 0, kept: bool = False, **variables: str) -> str:
    """Run the project's tests, which must end so; return what is printed, in one line. A cache is only `kept`."""
    without = () if kept else ("-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *without, "-p", "profkit", *words]
    # Other plugins take most of a second to be imported, in each of the runs that are compared.
    env = environment(COLUMNS="100", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **variables)
    done = finished(command, project, env=env, timeout=500)
    assert done.returncode == status, done.stdout
    return " ".join((done.stdout + done.stderr).split())


def test_that_nothing_is_marked_is_said(project: Path) -> None:
    write(project, test=TEST.replace("@pytest.mark.profkit({mark})", ""))
    said = run_tests(project, "--profkit")
    assert "none of these tests is marked with @pytest.mark.profkit: none was compared" in said


def test_without_the_option_the_plugin_is_loaded_and_a_marked_test_is_a_test(project: Path) -> None:
    """By its entry point; and it imports nothing until it is asked for."""
    write(project, SLOWER)
    code = "import sys, pytest; pytest.main(['--strict-markers', '-p', 'no:cacheprovider']); "
    code += "print(*sorted(n for n in sys.modules if n.startswith(('profkit', 'pytest_profkit', 'numpy'))))"
    said = succeeded([sys.executable, "-c", code], project, env=environment()).stdout
    assert "2 passed" in said
    assert "= profkit =" not in said
    assert said.splitlines()[-1].split() == ["pytest_profkit", "pytest_profkit.plugin"]


def test_the_plugin_is_for_the_version_of_profkit_whose_internals_it_uses() -> None:
    assert version("pytest-profkit") == profkit.__version__
    assert f"profkit=={profkit.__version__}" in (requires("pytest-profkit") or ())


@pytest.mark.alone
def test_a_slower_function_fails_and_is_named(project: Path) -> None:
    write(project, SLOWER, TEST.format(mark="fail_on='code-change'"))
    said = run_tests(project, "--profkit", status=1)
    assert "1 failed, 1 passed" in said
    assert "times the time at HEAD" in said
    assert "code-change" in said
    assert "The source of parse (parse.py:2) changed" in said
    listed = succeeded(["git", "worktree", "list"], project)
    assert len(listed.stdout.splitlines()) == 1


def test_what_is_not_slower_passes(project: Path) -> None:
    # A gate for 5 % may fail by chance, nearly one in a hundred.
    write(project, test=TEST.format(mark="min_slowdown=1.3"))
    said = run_tests(project, "--profkit", "--profkit-baseline", "HEAD")
    assert "no slower" in said or "not shown to be slower" in said


def test_what_is_slower_for_another_reason_passes(project: Path) -> None:
    """What is found is the same as in the test of a slower function."""
    (project / "conftest.py").write_text(
        "from pytest_profkit import baselines, gate, sequential\n"
        "slower = sequential.Decision('slower', 5, 1.5, 1.4, 1.6)\n"
        "baselines.Baselines.judge = lambda self, test: gate.Gated(slower, 0, 'code-change', 'It changed.')\n"
    )
    write(project, test=TEST.format(mark="fail_on=['blocked', 'data-starvation']"))
    said = run_tests(project, "--profkit")
    assert (
        "slower, but for another cause than blocked or data-starvation: 1.500 times the time at HEAD" in said
    )
    assert "2 passed" in said


def test_what_the_baseline_does_not_have_is_not_compared(project: Path) -> None:
    """A test of new code passes in the present tree alone: there is nothing to be slower than."""
    test = "import pytest\n@pytest.mark.profkit\ndef test_new():\n    from parse import new\n    assert new() == 1\n"
    write(project, SOURCE + "\ndef new(): return 1\n", test)
    said = run_tests(project, "--profkit")
    assert "not compared: at the baseline HEAD: the test does not pass" in said


def test_a_baseline_that_imports_the_present_tree_is_not_compared(project: Path) -> None:
    """As where the project is installed from it: both sides would run the same code."""
    write(
        project,
        test="import sys\nimport pytest\n"
        f"sys.path.insert(0, {str(project / 'src')!r})\nsys.modules.pop('parse', None)\n"
        "from parse import parse\n\n@pytest.mark.profkit\ndef test_parse():\n    assert parse(1000)\n",
    )
    assert "parse is imported from the present tree" in run_tests(project, "--profkit")


def test_another_checkout_can_be_the_baseline(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(project), str(tmp_path / "other"))
    (tmp_path / "other" / "src" / "parse.py").write_text("raise RuntimeError('the other checkout')\n")
    said = run_tests(project, "--profkit", f"--profkit-baseline={tmp_path / 'other'}")
    assert "at the baseline" in said
    assert "the other checkout" in said


def test_a_checkout_in_the_present_tree_is_compared_and_left_as_it_is(project: Path) -> None:
    """As where a job checks the base out into its workspace; whatever the ini file selects, the test runs there."""
    git(project, "clone", "-q", ".", "base")
    theirs = project / "base" / "tests" / "test_parse.py"
    theirs.write_text("raise RuntimeError('work that is not committed')\n")
    (project / "pytest.ini").write_text(
        "[pytest]\npythonpath = src\naddopts = --ff -m 'not perf'\nmarkers = perf\n"
    )
    decided(project, "no-slower")
    write(project, test=TEST.format(mark="").replace("def test_parse", "@pytest.mark.perf\ndef test_parse"))
    words = ("tests", "-m", "perf", "-o", f"cache_dir={project.parent / 'cache'}")
    said = run_tests(project, "--profkit", "--profkit-baseline=base", *words, kept=True)
    assert "no slower: 1.500 times the time at base" in said
    assert theirs.read_text() == "raise RuntimeError('work that is not committed')\n"
    assert [path.name for path in theirs.parent.iterdir() if path.suffix != ""] == [theirs.name]


def test_a_gate_in_a_hook_of_git_leaves_the_commit_as_it_is(project: Path) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    command = f"{sys.executable} -m pytest -p no:cacheprovider -p profkit --profkit tests > said 2>&1"
    hook.write_text(f"#!/bin/sh\nPYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {command}\n")
    hook.chmod(0o755)
    in_no_time(project)
    write(project, SOURCE + "\n# More.\n")
    git(project, "commit", "-qam", "second")
    assert "at the baseline HEAD: the test took longer" in (project / "said").read_text()
    assert "src/parse.py" in succeeded(["git", "show", "--stat", "--format="], project).stdout


def test_a_slower_test_that_cannot_be_captured_fails(project: Path) -> None:
    decided(project, "slower")
    # A block inside a captured process is refused.
    said = run_tests(project, "--profkit", status=1, PROFKIT_SPOOL=str(project))
    assert "slower: 1.500 times the time at HEAD" in said
    assert "inconclusive. Why is not known: " in said


def test_a_method_of_unittest_is_not_compared(project: Path) -> None:
    write(
        project,
        test="import unittest\nimport pytest\nclass TestParse(unittest.TestCase):\n"
        "    @pytest.mark.profkit\n    def test_parse(self): pass\n",
    )
    assert "not compared: it is a method of a unittest.TestCase" in run_tests(project, "--profkit")


def test_a_project_behind_a_link_and_a_baseline_beside_it(project: Path, tmp_path: Path) -> None:
    """The tree is Git's, which follows links; and where tests change the directory, the baseline is found."""
    git(tmp_path, "clone", "-q", str(project), str(tmp_path / "other"))
    link = tmp_path / "link"
    link.symlink_to(project)
    in_no_time(project)
    moved = TEST.format(mark="").replace("test_parse()", "test_parse(monkeypatch)")
    write(
        project,
        test=moved.replace("    assert parse(100", "    monkeypatch.chdir('/')\n    assert parse(100"),
    )
    for baseline in ("HEAD", "../other"):
        words = (f"--profkit-baseline={baseline}", "--rootdir", str(link), str(link / "tests"))
        assert f"at the baseline {baseline}: the test took longer" in run_tests(project, "--profkit", *words)
    # In the ini file, it is named from there, wherever pytest is started.
    (project / "pytest.ini").write_text("[pytest]\npythonpath = src\nprofkit_baseline = ../other\n")
    said = run_tests(project / "tests", "--profkit")
    assert "at the baseline ../other: the test took longer" in said


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("min_slowdown=0.05", "min_slowdown is a factor above 1"),
        ("calls=0", "calls is a number from 1 on"),
        ("fail_on='slow'", "fail_on='slow' is no cause"),
        ("fail_on=None", "fail_on=None is no cause"),
        ("minimum=2", "takes min_slowdown, fail_on, calls by name"),
        ("1.05", "takes min_slowdown, fail_on, calls by name"),
    ],
)
def test_a_wrong_marker_is_one_line_before_anything_runs(project: Path, mark: str, said: str) -> None:
    write(project, test=TEST.format(mark=mark))
    printed = run_tests(project, "--profkit", status=4)
    assert said in printed
    assert "Traceback" not in printed


def test_a_test_that_takes_too_long_is_not_compared(project: Path) -> None:
    in_no_time(project)
    said = run_tests(project, "--profkit")
    assert "test_parse: not compared: at the baseline HEAD: the test took longer than 0.01 s" in said
    assert "2 passed" in said


def test_an_unknown_revision_fails_in_one_line(project: Path) -> None:
    said = run_tests(project, "--profkit", "--profkit-baseline", "nothing", status=1)
    assert "profkit: nothing: no such revision" in said
