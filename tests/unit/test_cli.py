"""The command line as its users and their scripts meet it: output, exit codes, one-line errors."""

from __future__ import annotations

import cProfile
import inspect
import json
import marshal
import os
import pstats
import pty
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from profkit import __version__
from profkit.cli.app import COMMANDS, app
from profkit.cli.examples import EXAMPLES
from profkit.formats import join_ranks, write_run
from profkit.verdict.types import CAUSES
from tests.rank_files import Did, rank_run
from tests.shared import Capture, finished, printed, refused, screen, succeeded, until_end, words_of

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_profiles" / "train_mlp"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the environment that the tests run in, what would change the outputs that they look at is left out."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def busy(calls: int) -> int:
    return sum(step(i) for i in range(calls))


def step(i: int) -> int:
    return sum(range(i % 50))


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record real profiles of one program, of twice the work in it, and of nothing readable."""
    directory = tmp_path_factory.mktemp("profiles")
    for name, calls in (("a", 2000), ("b", 2000), ("twice", 4000)):
        profile = cProfile.Profile(time.process_time)  # the same however busy the machine is
        profile.runcall(busy, calls)
        profile.dump_stats(directory / f"{name}.prof")
    (directory / "empty.txt").write_bytes(b"")
    return directory


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that the examples of help name: runs of samples, a script, one job."""
    there = tmp_path_factory.mktemp("workshop")
    clean, slow = SAMPLES / "clean-1.prof", SAMPLES / "oversubscribed.prof"
    (there / "runs").mkdir()
    for name, sample in (
        *((name, clean) for name in ("run", "fast", "fast-1", "fast-2", "1", "runs/a", "runs/b")),
        *((name, slow) for name in ("slow", "slow-1", "2", "4")),
    ):
        shutil.copy(sample, there / f"{name}.prof")
    ranks = [rank_run(rank, {"load": Did(100, 1.0), "step": Did(100, 2.0)}) for rank in range(2)]
    write_run(there / "job.prof", join_ranks(ranks))
    for rank, run_ in enumerate(ranks):
        write_run(there / f"node-rank{rank}.prof", run_)
    (there / "train.py").write_text("print(sum(range(100000)))\n")
    return there


#: Examples that only read files, or start what every machine has; not those that need a killed capture.
_RUNS = words_of("show diff compare history ranks baseline extract export merge doctor")


def test_every_command_has_its_summary_and_examples_that_it_understands(capsys: Capture) -> None:
    assert printed(capsys, "--version") == (f"profkit {__version__}\n", "")
    help_ = " ".join(printed(capsys, "--help")[0].split())
    assert all(f" {name} {said}" in help_ for name, said in COMMANDS.items())
    assert EXAMPLES.keys() == COMMANDS.keys()
    for name, examples in EXAMPLES.items():
        shown, _ = printed(capsys, name, "--help")
        function = app.get_command(click.Context(app), name)
        assert (inspect.getdoc(function.callback) or "").splitlines()[0] == COMMANDS[name]
        assert COMMANDS[name] in " ".join(shown.split())
        for text, remark in examples:
            assert text in shown, name
            assert remark in shown, name
            words = shlex.split(text)
            assert words[0] == "profkit"
            assert name in text
            command = app.get_command(click.Context(app), words[1])
            with command.make_context(words[1], words[2:]) as context:  # raises what a shell would show
                if isinstance(command, click.Group):
                    below = command.get_command(context, words[2])
                    assert below is not None, text
                    below.make_context(words[2], words[3:])
                else:
                    assert not context.args, text
        assert max(map(len, shown.splitlines())) <= 100, name


@pytest.mark.parametrize("text", [t for name in _RUNS for t, _ in EXAMPLES[name] if ".spool-" not in t])
def test_an_example_runs(text: str, workshop: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workshop)
    monkeypatch.setenv("PROFKIT_BASELINES", str(workshop / "baselines"))
    if text.startswith(("profkit baseline use", "profkit diff baseline:")):
        printed(capsys, "baseline", "save", "main", "fast.prof")
        printed(capsys, "baseline", "use", "main")
    words = []
    for word in shlex.split(text)[1:]:
        quoted = f"'{word}'" in text
        words += [word] if quoted or "*" not in word else sorted(str(path) for path in Path().glob(word))
    _, err = printed(capsys, *words)
    if words[0] == "merge":
        assert "see it with: profkit show " in err
    for at, word in enumerate(words):
        if word == "-o":
            assert Path(words[at + 1]).stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("shwo x", "shwo: no such command; did you mean show?"),
        ("captur -- x", "did you mean capture?"),
        ("xyzzy", "profkit --help lists them"),
        ("show slwo.prof", "slwo.prof: there is no such file (did you mean slow"),
        ("show nosuch-*.prof", "there is no such file (there are 1.prof, 2.prof, 4.prof, "),
        ("show 99999999", "profkit attach 99999999 records"),
        ("diff nosuch-*.prof slow.prof", "matches no file (there are 1.prof, 2.prof,"),
        ("show nowhere/a.prof", "there is no directory nowhere"),
        ("show runs/**.prof", "runs/**.prof: there is no such file (there are a.prof, b.prof"),
        ("show run[1].prof", "run[1].prof: there is no such file (there are 1.prof, 2.prof,"),
        ("show fast-1.prof fast-2.prof", "show takes one run, and 2 were given"),
        ("export --to pstats 1.prof 2.prof 4.prof", "export takes one run, and 3 were given"),
    ],
)
def test_a_wrong_name_is_answered_by_the_one_that_is_near(
    words: str, said: str, workshop: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workshop)
    assert said in refused(capsys, *words.split())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("train.py", "it is a script: profkit capture -- python train.py"),
        ("python3 train.py", "leave out the quotes around it: profkit capture -- python3 train.py"),
        ("runme", "it is here, but not on PATH: profkit capture -- ./runme"),
        ("pyhton3", "did you mean python3"),
    ],
)
def test_a_command_that_is_none_is_answered_by_what_to_type(command: str, said: str, tmp_path: Path) -> None:
    for name in ("train.py", "runme"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "runme").chmod(0o755)
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from profkit.cli import main; main()"
    done = finished([sys.executable, "-c", start, "capture", "--", command], tmp_path, 127, timeout=60)
    (line,) = done.stderr.splitlines()
    assert said in line
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "runme"}


#: What names no command, or not what a command needs.
BAD_USAGE = (
    "--nonsense|diff|diff one|show|show a b|show a.prof --limit many|capture|capture --|"
    "capture --repeat 0 -- true|capture --repeat x -- true|capture --unknown -- true|"
    "merge -o out.prof|merge a.prof|extract a.prof"
)


def test_show_writes_what_was_recorded(capsys: Capture, profiles: Path, tmp_path: Path) -> None:
    plain, _ = printed(capsys, "show", profiles / "a.prof")
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 80
    value = json.loads(printed(capsys, "show", profiles / "a.prof", "--format", "json")[0])
    stats = pstats.Stats(str(profiles / "a.prof")).stats  # type: ignore[attr-defined]
    calls = {name: nc for (_, _, name), (_, nc, *_) in stats.items()}
    assert {f["name"]: f["ncalls"] for f in value["functions"]}["step"] == calls["step"] == 2000
    target = tmp_path / "report.MD"
    printed(capsys, "show", profiles / "a.prof", "-o", target, "--format", "json")
    assert json.loads(target.read_text(encoding="utf-8"))["functions"] == value["functions"]
    out, err = printed(capsys, "show", profiles / "a.prof", "-o", target)
    assert out == ""
    assert "--full-paths" in err
    assert printed(capsys, "show", profiles / "a.prof", "-o", target, "--full-paths") == ("", "")
    assert "step" in target.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [target]


def test_diff_shows_all_or_ranks_otherwise(capsys: Capture, profiles: Path) -> None:
    sides = profiles / "a.prof", profiles / "twice.prof"
    full, _ = printed(capsys, "diff", *sides, "--full")
    assert re.match(r"✗ [\d.]+× slower, .*: different work \(workload-change\)", full.splitlines()[0])
    assert len(full) > len(printed(capsys, "diff", *sides)[0])
    printed(capsys, "diff", *sides, "--by", "cumtime", "--limit", "2")


@pytest.mark.parametrize(
    ("sides", "fail_on", "code"),
    [
        (("clean-1", "oversubscribed"), "code-change, contention,inconclusive", 1),
        (("clean-1", "oversubscribed"), "code-change", 0),
        (("clean-1", "oversubscribed"), "any", 1),
        (("clean-1", "clean-1"), "any", 0),
        (("plain-1", "plain-2"), "any", 0),
        (("plain-1", "plain-2"), "any, inconclusive", 1),
    ],
)
def test_not_knowing_fails_only_where_it_is_asked_for(
    sides: tuple[str, str], fail_on: str, code: int, capsys: Capture, tmp_path: Path
) -> None:
    # Without the kernel's counters a run that takes twice as long everywhere cannot be told: see `plain-2`.
    plain = tmp_path / "plain-1.prof"
    printed(capsys, "extract", SAMPLES.parent / "tokenize_corpus" / "clean-1.prof", "-o", plain)
    rows = marshal.loads(plain.read_bytes())
    slower = {key: (cc, nc, 2 * tt, 2 * ct, callers) for key, (cc, nc, tt, ct, callers) in rows.items()}
    (tmp_path / "plain-2.prof").write_bytes(marshal.dumps(slower))
    paths = [tmp_path / f"{s}.prof" if s.startswith("plain") else SAMPLES / f"{s}.prof" for s in sides]
    printed(capsys, "diff", *paths, "--fail-on", fail_on, code=code)


@pytest.mark.parametrize("fail_on", ["weather", "contention,", "contention blocked", ""])
def test_an_unknown_cause_lists_those_that_there_are(fail_on: str, capsys: Capture, profiles: Path) -> None:
    error = refused(capsys, "diff", profiles / "a.prof", profiles / "b.prof", "--fail-on", fail_on)
    assert all(cause in error for cause in (*CAUSES, "any"))


def test_errors_are_one_line(capsys: Capture, profiles: Path, tmp_path: Path) -> None:
    profile, name = profiles / "a.prof", "a" * 300
    for said, arguments in (
        ("missing.prof", ("show", tmp_path / "missing.prof")),
        ("empty.txt", ("show", profiles / "empty.txt")),
        *(("", words.split()) for words in words_of(BAD_USAGE, "|")),
        *(("suffix", ("show", profile, "-o", tmp_path / name)) for name in ("x.pdf", "report")),
        ("--format", ("show", profile, "--format", "xml")),
        ("--by", ("show", profile, "--by", "ncalls")),
        ("--limit", ("show", profile, "--limit", "-1")),
        ("rank:7", ("show", profile, "--process", "rank:7")),
        *(
            ("not understood", ("show", profile, "--process", process))
            for process in ("rank:²", "pid:½", "rank:-1", "rank:", "main:1")
        ),
        ("nowhere", ("show", profile, "-o", tmp_path / "nowhere" / "x.md")),
        ("directory", ("merge", tmp_path, "-o", tmp_path / "m.prof")),
        ("cannot be written there", ("merge", profile, "-o", tmp_path)),
        ("cannot be written there", ("merge", profile, "-o", tmp_path / "no" / "x")),
        (name, ("show", name)),
        (name, ("capture", "-o", name, "--", "true")),
        (name, ("show", "x.prof", "-o", f"{name}.md")),
    ):
        assert said in refused(capsys, *arguments)
    assert "\x1b" not in refused(capsys, "show", tmp_path / "a\x1b[31m\nb")


def test_a_failed_write_keeps_the_old_report(
    capsys: Capture, profiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.md"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in refused(capsys, "show", profiles / "a.prof", "-o", target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_extract_says_which_process_it_took(capsys: Capture, tmp_path: Path) -> None:
    ranks = [rank_run(rank, {f"of_{rank}": Did(1, 1.0)}, size=2) for rank in range(2)]
    write_run(tmp_path / "two.prof", join_ranks(ranks))
    target = tmp_path / "out.prof"

    def extracted(*options: str) -> tuple[set[str], str]:
        _, err = printed(capsys, "extract", tmp_path / "two.prof", "-o", target, *options)
        functions = pstats.Stats(str(target)).stats  # type: ignore[attr-defined]
        return {name for _, _, name in functions}, err

    said = (
        "profkit: took the rank process (rank 0, pid 100) of 2 processes; --process all takes all of them\n"
    )
    assert extracted() == ({"of_0"}, said)
    assert extracted("--rank", "1") == ({"of_1"}, "")
    assert extracted("--process", "all") == ({"of_0", "of_1"}, "")
    for options, reason in (
        (("--rank", "1", "--process", "pid:100"), "--rank also names a process"),
        (("--rank", "9"), "it has main, rank:0, rank:1"),
    ):
        assert reason in refused(capsys, "extract", tmp_path / "two.prof", "-o", target, *options)


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return succeeded(
        [sys.executable, "-m", "profkit", *map(str, arguments)],
        ROOT,
        encoding="utf-8",
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_of_packing_is_shown_on_a_terminal_alone_and_leaves_nothing(terminal: bool) -> None:
    script = """
import sys
from profkit.cli.progress import Progress
progress = Progress("packing", 0.0 if sys.argv[1] == "True" else 3600.0)
for number in (1, 2):
    with progress as show:
        show(f"process {number} of \\x1b[1m2")
        sys.stdin.readline()
        progress.say(f"note {number}")
"""
    reading, writing = pty.openpty() if terminal else os.pipe()
    command = [sys.executable, "-c", script, str(terminal)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=writing, text=True)
    os.close(writing)
    text = ""
    for number in (1, 2):
        line = f"profkit: packing: process {number} of \\x1b[1m2"
        while terminal and screen(text)[-1] != line:
            text += os.read(reading, 100).decode()
        process.stdin.write("\n")
        process.stdin.flush()
    text += until_end(reading)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert screen(text) == ["profkit: note 1", "profkit: note 2", ""]
    assert ("packing" in text) == terminal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("show run.prof -o out.html", ("reading", "writing the report")),
        ("show run.prof --ticket -o out.md", ("writing the ticket",)),
        ("diff fast.prof slow.prof", ("comparing",)),
        ("compare fast.prof slow.prof", ("reading the runs",)),
        ("history runs", ("reading the runs",)),
        ("ranks job.prof --jobs 1", ("reading the job",)),
        ("scaling job.prof 1.prof --jobs 1", ("reading the runs",)),
        ("merge node-rank0.prof node-rank1.prof -o out.prof", ("merging",)),
        ("extract run.prof -o out.prof", ("extracting",)),
        ("export run.prof --to pstats -o out.prof", ("exporting",)),
        ("doctor --ranks 2", ("looking",)),
        ("capture -o out.prof -- true", ("packing",)),
    ],
)
def test_a_reader_says_on_a_terminal_what_it_does(text: str, said: tuple[str, ...], workshop: Path) -> None:
    """What takes a second; here the second is over at once."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from profkit.cli import main, progress\n"
        "progress.Progress.__init__.__defaults__ = (0.0,)\nmain(sys.argv[1:])"
    )
    reading, writing = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script, *text.split()], cwd=workshop, stdout=subprocess.DEVNULL, stderr=writing
    )
    os.close(writing)
    shown = until_end(reading)
    assert process.wait(timeout=60) == 0, shown
    for title in said:
        assert f"profkit: {title}: " in shown
    # It is gone when the command has ended.
    assert not any(line.startswith(f"profkit: {title}: ") for line in screen(shown) for title in said)


def test_a_closed_pipe_is_quiet_and_keeps_the_answer(profiles: Path) -> None:
    pair = [profiles / "a.prof", profiles / "twice.prof"]
    command = [sys.executable, "-m", "profkit", "diff", *pair, "--fail-on", "workload-change"]
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    finally:
        os.close(write)
    assert done.stderr == b"profkit: exit status 1: the verdict is workload-change, which --fail-on names\n"
    assert done.returncode == 1


def test_a_closed_stream_changes_neither_answer_nor_output(profiles: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "profkit", "diff", profiles / "a.prof", profiles / "twice.prof"]

    def through_shell(redirected: str, *more: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-c", f'exec "$@" {redirected}', "-", *command, "--format", "json", *more]
        return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)

    # `print` to a closed stderr prints to stdout.
    done = through_shell("2>&-", "--fail-on", "workload-change")
    assert (done.returncode, json.loads(done.stdout)["schema"]) == (1, "profkit.diff/2")
    assert [*vars(through_shell(">&-")).values()][1:] == [0, "", ""]
    # Exit status 1 would be the gate's.
    report = tmp_path / "report.json"
    assert through_shell("2>/dev/full", "--fail-on", "contention", "-o", str(report)).returncode == 0
    done = through_shell(">/dev/full")
    assert done.returncode == 2
    assert done.stderr == "profkit: error: cannot write: No space left on device; free some space\n"


def test_output_fits_what_stdout_can_print(profiles: Path) -> None:
    pair = profiles / "a.prof", profiles / "twice.prof"
    assert run("diff", *pair, PYTHONIOENCODING="ascii", PYTHONUTF8="0").stdout.isascii()
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[1;31m" in run("diff", *pair, **terminal).stdout
    assert "\x1b" not in run("show", pair[0], NO_COLOR="1", **terminal).stdout


def test_a_dash_is_stdout_for_reports_and_no_file(
    profiles: Path, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = profiles / "a.prof"
    said = printed(capsys, "show", one, "--format", "json")
    assert printed(capsys, "show", one, "--format", "json", "-o", "-") == said
    for command in (("capture", "-o", "-", "--", "true"), ("merge", one, one, "-o", "-")):
        assert "-o -: a run file is not written to stdout" in refused(capsys, *command)
    assert not [*tmp_path.iterdir()]


def test_a_report_is_not_written_over_what_it_reads(capsys: Capture, profiles: Path, tmp_path: Path) -> None:
    kept, link = tmp_path / "side" / "a.prof", tmp_path / "link.json"
    kept.parent.mkdir()
    shutil.copy(profiles / "a.prof", kept)
    link.symlink_to(kept)
    before = kept.read_bytes()
    for arguments in (
        ("diff", kept.parent, profiles / "b.prof", "--format", "json", "-o", kept),
        ("diff", profiles / "b.prof", kept, "-o", link),
        ("show", kept, "--format", "md", "-o", kept),
        ("extract", kept, "-o", kept),
        ("merge", profiles / "b.prof", kept, "-o", link),
    ):
        assert "name another file" in refused(capsys, *arguments)
        assert kept.read_bytes() == before
