"""``--mask-names``: no output has a name of the program, and each has the same pseudonym everywhere."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from profkit.formats import write_run
from profkit.model import Host, Manifest, Process, Profile, Roots, Run, Thread
from profkit.report.pseudonyms import Pseudonyms
from profkit.report.renderers import RENDERERS
from tests import builders
from tests import report_builders as build
from tests.shared import refused, words_of
from tests.unit.test_planted import cli, members

#: Names of a customer, one in each place that a program's names come from.
NAMES = tuple(words_of("globexscorer initechnet umbrellafeed hoolidriver vandelayrank wonkaext starkloader"))
ROOTS = Roots(("/opt/python/lib/python3.11",), ("/opt/venv/lib/python3.11/site-packages",), ("/data/job",))
PSEUDONYM = re.compile(r"\bn_[0-9a-f]{10}\b")


def run_of(side: int) -> Run:
    """Build a run whose functions, files, modules, ranges, threads and commands are called after customers."""
    rows = [
        ("/data/job/hoolidriver.py", "train_step", 10, 100, 1.0, 4.0),
        ("/data/job/initechnet/model.py", "globexscorer.forward", 20, 100, 1.0 + side, 2.0 + side),
        ("/opt/venv/lib/python3.11/site-packages/numpy/linalg/_linalg.py", "solve", 30, 10, 1.5, 1.5),
        ("/opt/python/lib/python3.11/json/decoder.py", "JSONDecoder.raw_decode", 332, 10, 0.5, 0.5),
        ("~", "<built-in method wonkaext.run>", 0, 10, 0.4, 0.4),
    ]
    profile = build.profile(rows, traced=True)
    module = profile.module.copy()
    module[1] = len(profile.strings)
    profile = replace(profile, strings=(*profile.strings, "initechnet.model"), module=module)
    ranges = builders.ranges([builders.Told("umbrellafeed 3", 0, 5), builders.Told("step 3", 10, 15)])
    command = ("python", "hoolidriver.py", "--model", "resnet50")
    host = Host("n17", "Linux 6.1.0", "AMD EPYC 7763 64-Core Processor", 8, 8)
    head = ("profkit.run/2", "0.1.0", command, "/data/job", 0, "2026-01-01T00:00:00Z", 5.0 + side)
    manifest = Manifest(*head, host=host, packages={"numpy": "2.4.6"})
    process = Process(
        *(4242, 1, "main", None, command, "exited", "3.11.7", 5.0 + side, 4.5 + side, 0.1),
        threads=(
            Thread(profile, 4242, "MainThread", 4.5 + side, 0.1),
            Thread(Profile.empty(), 5000, "vandelayrank", 0.1, 0.0),
        ),
        roots=ROOTS,
        host=host,
        ranges=ranges,
    )
    return Run("", (process,), manifest)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    paths = [tmp_path / "before.prof", tmp_path / "starkloader.prof"]
    for side, path in enumerate(paths):
        write_run(path, run_of(side))
    return paths


def named(text: str) -> list[str]:
    return [name for name in NAMES if name in text.lower()]


@pytest.mark.parametrize("command", ["diff", "show"])
@pytest.mark.parametrize("format", [renderer.name for renderer in RENDERERS])
def test_no_report_names_anything_of_the_program(
    runs: list[Path], tmp_path: Path, format: str, command: str
) -> None:
    taken = runs if command == "diff" else runs[1:]
    output = tmp_path / "report"
    arguments = (command, *taken, "--format", format, "--limit", "0", "-o", output)
    cli(*arguments, "--mask-names")
    assert named(output.read_text(encoding="utf-8")) == []
    cli(*arguments)
    assert named(output.read_text(encoding="utf-8")), "what is looked for can be found"


def test_a_name_has_one_pseudonym_in_all_outputs(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("diff", *runs, "--ticket", "--mask-names", "-o", tmp_path / "t.md")
    cli("show", runs[1], "--mask-names", "--limit", "0", "-o", tmp_path / "page.html")
    for to in ("perfetto", "speedscope", "pstats"):
        cli("export", runs[0], "--to", to, "--mask-names", "-o", tmp_path / f"out.{to}")
    archive = members(tmp_path / "t.zip")
    texts = {name: text for name, text in archive.items() if name.endswith(("strings.npy", ".json"))}
    for name in ("t.md", "page.html", "out.perfetto", "out.speedscope", "out.pstats"):
        texts[name] = (tmp_path / name).read_bytes().decode("utf-8", "replace")
    assert [name for name, text in (archive | texts).items() if named(text)] == []
    key = tmp_path / "cache" / "profkit" / "names.key"
    assert key.stat().st_mode & 0o077 == 0
    pseudonym = Pseudonyms(key.read_bytes(), ()).masked("globexscorer")
    assert PSEUDONYM.fullmatch(pseudonym)
    for name in ("page.html", "out.speedscope", "out.pstats"):
        assert pseudonym in texts[name], name
    # Both sides of the comparison.
    assert sum(pseudonym in text for name, text in texts.items() if name.endswith("strings.npy")) >= 2
    # What is public is shown as it is.
    for public in ("numpy", "solve", "raw_decode", "train_step"):
        assert public in texts["page.html"], public
    # Another user has others.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    cli("show", runs[1], "--mask-names", "--limit", "0", "-o", tmp_path / "other.html")
    assert pseudonym not in (tmp_path / "other.html").read_text(encoding="utf-8")


def test_names_cannot_be_masked_and_left_as_they_are(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["show", runs[0]], ["export", runs[0], "--to", "speedscope"]):
        refused(capsys, *command, "--mask-names", "--full-paths")


@pytest.mark.parametrize(
    "text",
    words_of("step 3|<module>|__init__|n_0123456789|<address 13>|***-b|host-a|epoch 1/90|MainThread", "|"),
)
def test_what_says_nothing_is_shown(text: str) -> None:
    assert Pseudonyms(b"secret", ()).masked(text) == text
