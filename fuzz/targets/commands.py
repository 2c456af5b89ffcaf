"""Every command that reads a run, in this process, with each of its formats and a good run beside the input.

A replay runs all of `COMMANDS`; a fuzzing run takes a few of them by the input, some with options added that a user
may get wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import pstats
import random
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from fuzz.mutate import TEXTS
from fuzz.oracles import check_html, check_json, check_markdown, check_svg, check_terminal, check_text
from fuzz.scratch import emptied
from fuzz.target import SEEDS, Target, Wrong
from fuzz.targets import run_file
from profkit.cli import main
from profkit.formats import load_run
from profkit.measure.select import select_profile

#: A run that is compared with the input.
GOOD = SEEDS / "run_file" / "train-mlp-clean.prof"

Check = Callable[[Path, str], None]


def _text_of(output: Path, printed: str) -> str:
    return output.read_text(encoding="utf-8") if output.is_file() else printed


def _terminal(output: Path, printed: str) -> None:
    check_terminal(printed)


def _markdown(output: Path, printed: str) -> None:
    check_markdown(_text_of(output, printed))


def _html(output: Path, printed: str) -> None:
    check_html(_text_of(output, printed))


def _svg(output: Path, printed: str) -> None:
    check_svg(_text_of(output, printed))


def _show_json(output: Path, printed: str) -> None:
    check_json(_text_of(output, printed), "show-2.json")


def _diff_json(output: Path, printed: str) -> None:
    check_json(_text_of(output, printed), "diff-2.json")


def _trace(output: Path, printed: str) -> None:
    check_json(_text_of(output, printed))


def _plain(output: Path, printed: str) -> None:
    load_run(output)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it thinks of the numbers
        pstats.Stats(str(output))


def _run(output: Path, printed: str) -> None:
    load_run(output)
    _called(["show", str(output)])


def _ticket(schema: str) -> Check:
    def check(output: Path, printed: str) -> None:
        check_markdown(_text_of(output, printed))
        with zipfile.ZipFile(output.with_suffix(".zip")) as archive:
            for name in archive.namelist():
                data = archive.read(name)
                if name.endswith(".json"):
                    check_json(data.decode("utf-8"), schema)
                elif name.endswith(".html"):
                    check_html(data.decode("utf-8"))
                else:
                    attached = output.with_name("attached.prof")
                    attached.write_bytes(data)
                    load_run(attached)

    return check


_FORMATS: tuple[tuple[str, Check, Check], ...] = (
    ("terminal", _terminal, _terminal),
    ("json", _show_json, _diff_json),
    ("md", _markdown, _markdown),
    ("html", _html, _html),
    ("svg", _svg, _svg),
)

#: Arguments, with ``X`` for the input, ``GOOD`` for a good run, ``SIDE`` for a directory of both and ``OUT`` for the
#: output; and what is checked where the command succeeds.
COMMANDS: tuple[tuple[str, Check], ...] = (
    *((f"show X --format {name}", show) for name, show, _ in _FORMATS),
    *((f"show X --format {name} --explain --limit 0", show) for name, show, _ in _FORMATS),
    *((f"diff X GOOD --format {name}", diff) for name, _, diff in _FORMATS),
    *((f"diff GOOD X --format {name} --explain --limit 0", diff) for name, _, diff in _FORMATS),
    ("show X --by cumtime --full-paths", _terminal),
    ("show X --process main --format json", _show_json),
    ("show X --ticket -o OUT.md", _ticket("show-2.json")),
    ("diff X GOOD --ticket -o OUT.md", _ticket("diff-2.json")),
    ("diff X X --fail-on any", _terminal),
    ("diff SIDE GOOD --format json", _diff_json),
    ("diff GOOD SIDE --by cumtime --format html", _html),
    ("diff X GOOD --full-paths --format md", _markdown),
    ("export X --to chrome -o OUT.json", _trace),
    ("export X --to speedscope -o OUT.json", _trace),
    ("export X --to perfetto --process main -o OUT.json", _trace),
    ("extract X -o OUT.prof", _plain),
    ("merge X -o OUT.prof", _run),
    ("merge X GOOD -o OUT.prof", _run),
)

#: Options of ``show`` and ``diff`` with which a user may be wrong.
_OPTIONS = (
    "--process=pid:1",
    "--process=rank:0",
    "--iteration=*",
    "--iteration=forward",
    "--load=load",
    "--compute=*",
    "--batch-size=32",
    "--limit=1",
    "--limit=-1",
    "--by=cumtime",
    "--full-paths",
)


def _called(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command as `profkit` does; return its exit code and what it printed."""
    printed, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
        try:
            main(arguments)
        except SystemExit as end:
            code = 0 if end.code is None else end.code
    if code not in (0, 1, 2):
        raise Wrong(f"the exit code is not one that is documented: {code!r} of {arguments}")
    check_text(complained.getvalue())
    if code == 2 and not complained.getvalue():
        raise Wrong(f"a command fails without a word: {arguments}")
    return int(code), printed.getvalue(), complained.getvalue()


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    work = emptied("commands")
    run, side = work / "x.prof", work / "side"
    run.write_bytes(data)
    side.mkdir()
    (side / "1.prof").write_bytes(data)
    (side / "2.prof").write_bytes(data)
    (side / "3.prof").symlink_to(GOOD)
    chance = random.Random(zlib.crc32(data))
    chosen = COMMANDS if thorough else chance.sample(COMMANDS, 2)
    places = {"X": run, "GOOD": GOOD, "SIDE": side}
    for command, check_output in chosen:
        words = [str(places.get(word, word)).replace("OUT", str(work / "out")) for word in command.split()]
        if not thorough and words[0] in ("show", "diff") and chance.random() < 0.25:
            words.append(
                chance.choice(
                    (*_OPTIONS, f"--iteration={chance.choice(TEXTS)}", "--process=" + chance.choice(TEXTS))
                )
            )
        for old in work.glob("out*"):
            old.unlink()
        code, printed, _ = _called(words)
        output = Path(words[words.index("-o") + 1]) if "-o" in words else work / "out"
        if code < 2:
            check_output(output, printed)
    if thorough or chance.random() < 0.05:
        _check_view(run)


def _check_view(run: Path) -> None:
    """What ``profkit view`` makes of the run, without the server."""
    from profkit.cli.view import page_of
    from profkit.errors import ProfkitError

    try:
        profile, _ = select_profile(load_run(run), "main")
        if not len(profile):
            return
        _, rows, tree = page_of(profile, run.name)
    except ProfkitError:
        return
    for part in (rows, tree):
        json.loads(part)
        if "<" in part:
            raise Wrong("a string of the run can end the script of the page of profkit view")


TARGET = Target(check, run_file.mutate, 64 << 10, quick=250)
