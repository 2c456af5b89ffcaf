"""Runs under a name: saved, replaced, used and removed, by the command and in whatever takes runs."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import profkit
from profkit.errors import FormatError, UsageError
from profkit.formats.baselines import Store, store_of
from profkit.formats.runfile import write_run
from tests.programs import program, training
from tests.shared import Capture, exit_code, finished, printed, refused


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with runs, and the working directory somewhere in it."""
    for name in ("a", "b", "c"):
        write_run(tmp_path / f"{name}.prof", program(training(steps=100 + ord(name))))
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    monkeypatch.delenv("PROFKIT_BASELINES", raising=False)
    return tmp_path


def stored(store: Store) -> int:
    return len(list((store.directory / "runs").glob("*.prof")))


def test_a_name_stands_for_its_runs_wherever_runs_are_named(project: Path, capsys: Capture) -> None:
    assert exit_code("baseline", "save", "main", "../a.prof", "../b.prof") == 0
    assert (project / ".profkit" / "baselines" / "main.json").is_file()
    out, _ = printed(capsys, "diff", "baseline:main", "../c.prof", "--format", "json")
    assert json.loads(out)["baseline"]["runs"] == 2
    assert profkit.diff("baseline:main", "../c.prof").verdict.cause
    assert exit_code("baseline", "use", "main") == 0
    assert "baseline:" in printed(capsys, "compare", "baseline:", "../c.prof")[0]


def test_one_of_one_run_stands_for_a_file(project: Path, capsys: Capture) -> None:
    store_of().save("one", ["../a.prof"])
    store_of().save("two", ["../a.prof", "../b.prof"])
    assert exit_code("show", "baseline:one") == 0
    assert exit_code("extract", "baseline:one", "-o", "x.prof") == 0
    assert "baseline:two: holds 2 runs" in refused(capsys, "show", "baseline:two")
    assert "there is no such baseline" in refused(capsys, "export", "baseline:three", "--to", "csv")


def test_advice_names_it_as_the_user_did(project: Path, capsys: Capture) -> None:
    before, after = (project / name for name in ("before.prof", "after.prof"))
    samples = Path(__file__).resolve().parents[2] / "sample_profiles" / "train_mlp"
    before.write_bytes((samples / "clean-1.prof").read_bytes())
    after.write_bytes((samples / "oversubscribed.prof").read_bytes())
    assert exit_code("baseline", "save", "fast", before) == 0
    assert f"profkit verify baseline:fast {after}" in printed(capsys, "diff", "baseline:fast", after)[0]


def test_saving_again_replaces_and_removing_forgets_what_no_other_has(project: Path) -> None:
    store = store_of()
    store.save("main", ["../a.prof", "../b.prof"])
    store.save("other", ["../b.prof"])
    assert stored(store) == 2
    store.save("main", ["../c.prof"])
    assert store.read("main").sources == ("c.prof",)
    assert stored(store) == 2  # a is gone, b is the other's
    kept = (project / "c.prof").read_bytes()
    (project / "c.prof").unlink()
    assert Path(store.read("main").files[0]).read_bytes() == kept
    store.use("main")
    with pytest.raises(UsageError, match="cannot be a name"):
        store.use("")
    assert (store.read("").name, store.names()) == ("main", ["main", "other"])
    store.remove("main")
    assert (store.names(), stored(store), store.used()) == (["other"], 1, "")
    with pytest.raises(UsageError, match="there: other"):
        store.read("main")


def test_the_list_says_what_there_is(project: Path, capsys: Capture) -> None:
    assert printed(capsys, "baseline", "list")[0] == ""
    for words in ("save main ../a.prof", "save old ../a.prof ../b.prof", "use old"):
        assert exit_code("baseline", *words.split()) == 0
    first, second = printed(capsys, "baseline", "list")[0].splitlines()
    assert re.fullmatch(r"  main.*1 run  a\.prof", first)
    assert re.fullmatch(r"\* old.*2 runs  a\.prof, b\.prof", second)


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "-x", ".hidden", "x" * 101, "a b"])
def test_what_cannot_be_a_name_is_refused(project: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a name"):
        store_of().save(name, ["../a.prof"])


def test_bad_input_gives_one_line(project: Path, capsys: Capture) -> None:
    (project / "bad.prof").write_bytes(b"no profile")
    store = store_of()
    store.save("main", ["../a.prof"])
    (store.directory / "broken.json").write_text("{}")
    for words, expected in (
        ("baseline save x ../bad.prof", "bad.prof"),
        ("baseline save x ../none.prof", "no such file"),
        ("baseline use nothing", "there is no such baseline"),
        ("baseline remove nothing", "there is no such baseline"),
        ("diff baseline:nothing ../a.prof", "there is no such baseline"),
        ("diff baseline: ../a.prof", "no baseline is in use"),
        ("diff baseline:broken ../a.prof", "save it again"),
    ):
        assert expected in refused(capsys, *words.split())
    next((store.directory / "runs").iterdir()).unlink()
    with pytest.raises(FormatError, match="is missing"):
        store.read("main")


def test_where_it_cannot_be_kept_a_directory_is_advised_that_diff_also_reads(
    project: Path, capsys: Capture
) -> None:
    (project / "file").write_text("")
    said = refused(capsys, "baseline", "save", "main", "../a.prof", "--dir", project / "file" / "kept")
    assert said.strip().endswith("; name another directory with PROFKIT_BASELINES")


def test_a_damaged_one_can_be_removed(project: Path) -> None:
    store = store_of()
    for name in ("a", "b", "c"):
        store.save(name, [f"../{name}.prof"])
    Path(store.read("b").files[0]).unlink()
    store.remove("a")
    assert (store.names(), stored(store)) == (["b", "c"], 1)
    store.remove("b")
    (store.directory / "broken.json").write_text("{}")
    store.remove("c")
    assert (store.names(), stored(store)) == (["broken"], 1)  # which may have listed any run
    store.remove("broken")
    assert (store.names(), stored(store)) == ([], 0)


def test_where_the_directory_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code("baseline", "save", "main", "../a.prof", "--dir", project / "kept") == 0
    assert (project / "kept" / "main.json").is_file()
    (project / ".git").rmdir()
    assert finished(["git", "rev-parse"]).returncode != 0
    assert store_of().directory == project / "src" / ".profkit" / "baselines"
    monkeypatch.setenv("PROFKIT_BASELINES", str(project / "kept"))
    assert store_of().read("main").sources == ("a.prof",)


def test_baselines_that_are_saved_at_once_do_not_mix(project: Path) -> None:
    store = store_of()
    sides = [("../a.prof",), ("../b.prof", "../c.prof")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda files: [store.save("main", files) for _ in range(10)], sides))
    found = store.read("main")
    assert found.sources in {("a.prof",), ("b.prof", "c.prof")}
    assert stored(store) == len(found.files)
