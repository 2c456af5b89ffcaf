"""``--ticket``: what is pasted, what is attached, and that the attachment makes the same report again."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest

from profkit.cli.output import archive_of
from profkit.report.markdown import MAX_BYTES
from tests.shared import exit_code, refused, words_of

SAMPLES = Path(__file__).parents[2] / "sample_profiles" / "tokenize_corpus"
SIDES = (SAMPLES / "clean-1.prof", SAMPLES / "external-load.prof")


def run(*arguments: object, code: int = 0) -> None:
    assert exit_code(*arguments) == code


def unpacked(archive: Path, to: Path) -> list[str]:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(to)
        return sorted(packed.namelist())


def test_the_attachment_makes_the_same_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("diff", *SIDES, "--ticket", "-o", tmp_path / "slow.md")
    text = (tmp_path / "slow.md").read_text(encoding="utf-8")
    assert "resource contention by other processes (contention" in text.splitlines()[0]
    assert len(text.encode()) <= MAX_BYTES
    assert "slow.zip holds the runs of both sides" in text
    opened = text.partition("<details>")[0]
    headings = "Where the added time went|What to do next|How to reproduce|Machines and versions"
    assert "|".join(re.findall(r"^### (.+)$", opened, re.MULTILINE)) == headings
    assert [
        fact for fact in words_of("CPU CPUs system python profkit date") if f"| {fact} |" not in opened
    ] == []
    folded = re.findall(r"<details><summary>(.+?)</summary>", text)
    assert {"Overview", "All packages", "Evidence"} <= set(folded)
    assert "###" not in text.partition("<details>")[2]
    assert "profkit capture -o baseline.prof -- python tokenize_corpus.py" in text
    assert "attach it to the ticket" in capsys.readouterr().err
    names = unpacked(tmp_path / "slow.zip", tmp_path / "there")
    members = ["README.md", "baseline.prof", "candidate.prof", "report.html", "report.json", "ticket.md"]
    assert names == [f"slow/{member}" for member in members]
    monkeypatch.chdir(tmp_path / "there" / "slow")
    assert Path("ticket.md").read_text(encoding="utf-8") == text
    readme = Path("README.md").read_text(encoding="utf-8")
    assert all(f"| `{member}` |" in readme for member in members[1:])
    assert "\nprofkit diff baseline.prof candidate.prof\n" in readme
    assert "<project>" in readme
    assert "\nprofkit diff baseline.prof candidate.prof\n" in text
    run("diff", "baseline.prof", "candidate.prof", "--format", "json", "-o", "again.json")
    reports = ("report.json", "again.json")
    attached, again = (json.loads(Path(name).read_text(encoding="utf-8")) for name in reports)
    for key in ("verdict", "ranking", "residue", "settings", "comparability"):
        assert again[key] == attached[key], key
    for one, other in zip(attached["functions"], again["functions"], strict=True):
        assert {**one, "match": ""} == {**other, "match": ""}


def test_replicates_are_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side, name in (("a", "clean-1"), ("b", "code-change")):
        (tmp_path / side).mkdir()
        for number in (1, 2):
            shutil.copy(SAMPLES / f"{name}.prof", tmp_path / side / f"{number}.prof")
    monkeypatch.chdir(tmp_path)
    run("diff", "a", "b", "--ticket", "-o", "t.md")
    names = unpacked(tmp_path / "t.zip", tmp_path / "there")
    assert names == words_of(
        "t/README.md t/baseline/1.prof t/baseline/2.prof t/candidate/1.prof "
        "t/candidate/2.prof t/report.html t/report.json t/ticket.md"
    )
    text = Path("t.md").read_text(encoding="utf-8")
    assert "\nprofkit diff baseline candidate\n" in text
    assert "--repeat 2 -- python" in text
    monkeypatch.chdir(tmp_path / "there" / "t")
    assert "\nprofkit diff baseline candidate\n" in Path("README.md").read_text(encoding="utf-8")
    run("diff", "baseline", "candidate", "--fail-on", "code-change", code=1)


def test_without_a_name_the_markdown_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run("show", SIDES[0], "--ticket")
    text = capsys.readouterr().out
    assert "<summary>Functions by self time</summary>" in text
    assert " profkit capture -o run.prof -- python tokenize_corpus.py" in text
    members = words_of("README.md report.html report.json run.prof ticket.md")
    assert unpacked(archive_of(None), tmp_path / "there") == [f"profkit-ticket/{name}" for name in members]
    run("show", tmp_path / "there" / "profkit-ticket" / "run.prof")


def test_full_paths_of_a_ticket_are_said(tmp_path: Path) -> None:
    run("show", SIDES[0], "--ticket", "--full-paths", "-o", tmp_path / "t.md")
    unpacked(tmp_path / "t.zip", tmp_path)
    assert "Nothing was masked" in (tmp_path / "t" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", [(), ("--mask-names",)])
def test_whether_names_are_masked_is_said(
    option: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run("show", SIDES[0], "--ticket", *option, "-o", tmp_path / "t.md")
    unpacked(tmp_path / "t.zip", tmp_path)
    readme = (tmp_path / "t" / "README.md").read_text(encoding="utf-8")
    assert ("are unchanged" in readme, "are pseudonyms" in readme) == (not option, bool(option))


@pytest.mark.parametrize("option", words_of("--format=json -ox.html -ox.json --format=terminal"))
def test_a_ticket_is_markdown(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, "diff", *SIDES, "--ticket", option)


def test_the_archive_does_not_replace_what_is_read(tmp_path: Path) -> None:
    shutil.copy(SIDES[0], tmp_path / "a.zip")
    run("diff", tmp_path / "a.zip", SIDES[1], "--ticket", "-o", tmp_path / "a.md", code=2)
    assert (tmp_path / "a.zip").read_bytes() == SIDES[0].read_bytes()


@pytest.mark.parametrize("named", [True, False])
def test_open_writes_a_page_and_hands_it_to_the_browser(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run("diff", *SIDES, "--open", *(["-o", tmp_path / "a.html"] if named else []))
    (page,) = tmp_path.glob("*.html")
    assert opened == [page.as_uri()]
    assert "resource contention" in page.read_text(encoding="utf-8")
    run("show", SIDES[0], "--open", "-o", tmp_path / "b.html")
    assert len(opened) == 2
    assert "opened file://" in capsys.readouterr().err


@pytest.mark.parametrize("option", words_of("--format=md -ox.md --ticket"))
def test_only_a_page_is_opened(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    refused(capsys, "diff", *SIDES, "--open", option)
    assert list(tmp_path.iterdir()) == []
