"""Every command that reads a run, in this process, with each of its formats and a good run beside the input.

A replay runs all of `COMMANDS`; a fuzzing run takes a few of them by the input, some with options added that a user
may get wrong. Each ends with 0, 1 or 2, of which 2 has one line that names the problem, and what it writes is what
its readers can read. Tests of hostile files run `all_commands` too.
"""

from __future__ import annotations

import contextlib
import gc
import io
import pstats
import random
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutate import TEXTS
from fuzz.oracles import check_html, check_json, check_markdown, check_svg, check_terminal, check_text
from fuzz.scratch import emptied
from fuzz.target import SEEDS, Target, Wrong
from fuzz.targets import run_file
from profkit.cli import main
from profkit.cli.view import page_of
from profkit.errors import ProfkitError
from profkit.formats import load_run
from profkit.measure.selected_processes import select

__all__ = ["COMMANDS", "TARGET", "Ended", "all_commands", "run_command"]

#: A run that is compared with the input.
GOOD = SEEDS / "run_file" / "train-mlp-clean.prof"

Check = Callable[[Path, str], None]


def _text_of(output: Path, printed: str) -> str:
    return output.read_text(encoding="utf-8") if output.is_file() else printed


def _terminal(output: Path, printed: str) -> None:
    check_terminal(_text_of(output, printed))


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
    run_command("show X", {"X": output})


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
                elif name.endswith(".md"):
                    check_markdown(data.decode("utf-8"))
                elif not name.endswith("/"):
                    attached = output.with_name("attached.prof")
                    attached.write_bytes(data)
                    load_run(attached)

    return check


#: Formats of a report: name, suffix of a file, and the checks of ``show`` and of ``diff``.
_FORMATS: tuple[tuple[str, str, Check, Check], ...] = (
    ("terminal", "txt", _terminal, _terminal),
    ("json", "json", _show_json, _diff_json),
    ("md", "md", _markdown, _markdown),
    ("html", "html", _html, _html),
    ("svg", "svg", _svg, _svg),
)

#: Commands, with ``X`` for the input, ``GOOD`` for a good run, ``SIDE`` for a directory with both and ``OUT`` for the
#: output without its suffix; and what is checked where the command succeeds.
COMMANDS: dict[str, Check] = {
    **{f"show X --format {name}": show for name, _, show, _ in _FORMATS},
    **{f"show X --explain --limit 0 -o OUT.{suffix}": show for _, suffix, show, _ in _FORMATS},
    **{f"diff X GOOD --format {name}": diff for name, _, _, diff in _FORMATS},
    **{f"diff GOOD X --explain --limit 0 -o OUT.{suffix}": diff for _, suffix, _, diff in _FORMATS},
    "show X --explain --by cumtime --full-paths --process main": _terminal,
    "show X --process main --format json": _show_json,
    "show X --ticket -o OUT.md": _ticket("show-2.json"),
    "diff X GOOD --ticket -o OUT.md": _ticket("diff-2.json"),
    "diff X X --explain --fail-on any": _terminal,
    "diff SIDE GOOD --format json": _diff_json,
    "diff GOOD SIDE --by cumtime --format html": _html,
    "diff X GOOD --full-paths --format md": _markdown,
    "diff GOOD X --limit 0 --full-paths -o OUT.json": _diff_json,
    "export X --to chrome -o OUT.json": _trace,
    "export X --to speedscope -o OUT.json": _trace,
    "export X --to perfetto --process main -o OUT.json": _trace,
    "extract X -o OUT.prof": _plain,
    "extract X --process main -o OUT.prof": _plain,
    "merge X -o OUT.prof": _run,
    "merge X GOOD -o OUT.prof": _run,
}

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


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and what it printed on stdout and stderr."""

    command: str
    code: int
    printed: str
    errors: str


def run_command(command: str, places: Mapping[str, Path], options: Sequence[str] = ()) -> Ended:
    """Run a command line as `profkit` does, and check what holds for every end; a warning is an exception.

    Parameters
    ----------
    command
        As in `COMMANDS`.
    places
        What its words ``X``, ``GOOD``, ``SIDE`` and ``OUT`` stand for.
    options
        More arguments.
    """
    arguments = []
    for word in command.split():
        place, dot, suffix = word.partition(".")
        arguments.append(f"{places[place]}{dot}{suffix}" if place in places else word)
    # Streams as a process has them: bytes below, and text that has to be encoded.
    printed, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code: object = 0
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(errors),
        ):
            warnings.simplefilter("error")
            main([*arguments, *options])
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    finally:
        gc.enable()  # a command that ends with its process switches it off
    said, complained = (stream.buffer.getvalue().decode("utf-8") for stream in (printed, errors))  # type: ignore[attr-defined]
    if not isinstance(code, int) or code not in (0, 1, 2):
        raise Wrong(f"the exit code is not one that is documented: {code!r} of {command} {options}")
    check_text(complained)
    if "Traceback (most recent call last)" in complained:
        raise Wrong(f"a command prints a traceback: {command} {options}: {complained[-300:]}")
    if code == 2 and not (complained.startswith("profkit: error: ") and complained.count("\n") == 1):
        raise Wrong(
            f"a command fails without one line that says why: {command} {options}: {complained[:300]}"
        )
    return Ended(command, code, said, complained)


def all_commands(
    data: bytes, good: Path, folder: Path, commands: Sequence[str] = tuple(COMMANDS)
) -> list[Ended]:
    """Run commands on an input, and check how each ends and what it writes.

    Parameters
    ----------
    data
        The input; nothing of it is trusted.
    good
        A run file that it is compared with.
    folder
        An empty directory. The input is its file ``side/x.prof``.
    commands
        Of `COMMANDS`, every one unless told otherwise.

    Returns
    -------
    list of Ended
        One for each command, in order, and one for the data of ``profkit view``.

    Raises
    ------
    Wrong
        A command breaks its promise.
    """
    places = _laid_out(data, good, folder)
    return [*(_checked(command, places) for command in commands), _viewed(places["X"])]


def _laid_out(data: bytes, good: Path, folder: Path) -> dict[str, Path]:
    side = folder / "side"
    side.mkdir()
    for name in ("x.prof", "y.prof"):
        (side / name).write_bytes(data)
    (side / "z.prof").symlink_to(good)
    return {"X": side / "x.prof", "GOOD": good, "SIDE": side, "OUT": folder / "out"}


def _checked(command: str, places: Mapping[str, Path], options: Sequence[str] = ()) -> Ended:
    out = places["OUT"]
    for old in out.parent.glob(f"{out.name}*"):
        old.unlink()
    ended = run_command(command, places, options)
    if ended.code < 2:
        last = command.split()[-1]
        output = out.with_suffix(Path(last).suffix) if last.startswith("OUT.") else out
        COMMANDS[command](output, ended.printed)
    return ended


def _viewed(run: Path) -> Ended:
    """Check what ``profkit view`` makes of the run, without the server."""
    scripts: list[str] = []
    try:
        profile = select(load_run(run), "main").profile
        if len(profile):
            _, *scripts = page_of(profile, run.name)
    except ProfkitError as error:
        return Ended("view X", error.exit_code, "", f"profkit: error: {error}\n")
    for script in scripts:
        check_json(script)
        if "<" in script:
            raise Wrong("a string of the run can end the script of the page of profkit view")
    return Ended("view X", 0, "".join(scripts), "")


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    work = emptied("commands")
    if thorough:
        all_commands(data, GOOD, work)
        return
    places = _laid_out(data, GOOD, work)
    chance = random.Random(zlib.crc32(data))
    for command in chance.sample(list(COMMANDS), 2):
        options = []
        if command.startswith(("show", "diff")) and chance.random() < 0.25:
            texts = (f"--iteration={chance.choice(TEXTS)}", f"--process={chance.choice(TEXTS)}")
            options.append(chance.choice((*_OPTIONS, *texts)))
        _checked(command, places, options)
    if chance.random() < 0.05:
        _viewed(places["X"])


TARGET = Target(check, run_file.mutate, 64 << 10, quick=250)
