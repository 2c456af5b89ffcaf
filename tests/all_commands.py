"""Every command over one file, in this process: what a hostile file must not break, wherever it is used.

`all_commands` runs each command that reads a run file, as the command line does, and holds what all of them promise:
exit code 0, 1 or 2; of 2 one line on stderr that names the problem, and of the others no traceback; and output that
its readers can read: strict JSON and XML, plain pstats data, run files that load. A warning of Python or numpy is a
failure: users would see it on stderr.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import pstats
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from profkit.cli import main
from profkit.errors import ProfkitError
from profkit.formats import load_run

__all__ = ["COMMANDS", "Ended", "all_commands", "run_command", "strict_json"]

#: Arguments of every command that reads a file, and what checks the file that it writes. ``{file}`` is the hostile
#: one, ``{good}`` one that is as it should be, ``{out}`` stands for the output without its suffix.
COMMANDS: dict[str, Callable[[Path], object] | None] = {
    "show {file}": None,
    "show {file} --explain --by cumtime --full-paths --process main": None,
    "show {file} --explain -o {out}.html": lambda path: path.read_text("utf-8"),
    "show {file} --explain -o {out}.md": lambda path: path.read_text("utf-8"),
    "show {file} --limit 0 -o {out}.json": lambda path: strict_json(path.read_bytes()),
    "show {file} -o {out}.svg": ElementTree.parse,
    "diff {file} {file} --explain": None,
    "diff {good} {file} --explain -o {out}.html": lambda path: path.read_text("utf-8"),
    "diff {file} {good} --explain -o {out}.json": lambda path: strict_json(path.read_bytes()),
    "diff {good} {file} --limit 0 --full-paths -o {out}.json": lambda path: strict_json(path.read_bytes()),
    "diff {file} {good} --format md": None,
    "diff {good} {file} -o {out}.svg": ElementTree.parse,
    "diff {file} {good} --by cumtime -o {out}.txt": lambda path: path.read_text("utf-8"),
    "diff {good} {file} --ticket -o {out}.md": lambda path: _check_archive(path.with_suffix(".zip")),
    "extract {file} -o {out}.prof": lambda path: pstats.Stats(str(path)),
    "extract {file} --process main -o {out}.prof": lambda path: pstats.Stats(str(path)),
    "merge {file} -o {out}.prof": load_run,
    "merge {file} {good} -o {out}.prof": load_run,
    "export {file} --to perfetto -o {out}.json": lambda path: strict_json(path.read_bytes()),
    "export {file} --to speedscope -o {out}.json": lambda path: strict_json(path.read_bytes()),
}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    command: str
    code: int
    output: str
    errors: str


def all_commands(
    file: Path, good: Path, folder: Path, commands: Sequence[str] = tuple(COMMANDS)
) -> list[Ended]:
    """Run every command over a file, and check how each ends.

    Parameters
    ----------
    file
        What is tried; nothing of it is trusted.
    good
        A run file to compare it with.
    folder
        Where the commands write; what is in it afterwards is of no use.
    commands
        Of `COMMANDS`.

    Returns
    -------
    list of Ended
        One for each command, in order, and one for the conversion of ``profkit view``.

    Raises
    ------
    AssertionError
        A command breaks its promise; the message names it.
    """
    found = []
    for number, command in enumerate(commands):
        out = folder / f"out{number}"
        ended = run_command(command, file=file, good=good, out=out)
        _check(ended)
        check = COMMANDS[command]
        if check is not None and ended.code != 2:
            written = Path(command.split()[-1].format(out=out))
            try:
                check(written)
            except Exception as error:
                raise AssertionError(f"{command}: what it wrote cannot be read") from error
        for left in folder.glob(f"{out.name}.*"):
            left.unlink()
        found.append(ended)
    found.append(_viewed(file))
    return found


def run_command(command: str, **places: Path) -> Ended:
    """Run a command line in this process; places are filled in when it is split, so that they may hold blanks."""
    arguments = [word.format(**places) for word in command.split()]
    # Streams as a process has them: with a buffer of bytes below.
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code: Any = 0
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            warnings.simplefilter("error")
            main(arguments)
    except SystemExit as ended:
        code = ended.code
    except Exception as error:
        raise AssertionError(f"{command}: {type(error).__name__}: {error}") from error
    finally:
        gc.enable()  # a command that ends with its process switches it off
    said = [stream.buffer.getvalue().decode("utf-8") for stream in (output, errors)]  # type: ignore[attr-defined]
    return Ended(command, code, said[0], said[1])


def strict_json(data: bytes) -> Any:
    """Read JSON as strictly as browsers and other languages do: no NaN, no infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(data.decode("utf-8"), parse_constant=refuse)


def _check(ended: Ended) -> None:
    assert ended.code in (0, 1, 2), ended
    assert "Traceback" not in ended.errors, ended
    if ended.code == 2:
        lines = ended.errors.splitlines()
        assert len(lines) == 1, ended
        assert lines[0].startswith("profkit: error: "), ended


def _check_archive(path: Path) -> None:
    """Check what ``--ticket`` attaches: the report, and runs that load."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            data = archive.read(member)
            if member.endswith(".json"):
                strict_json(data)
            elif member.endswith(".prof"):
                attached = path.with_name(f"{path.stem}.attached")
                attached.write_bytes(data)
                load_run(attached)


def _viewed(file: Path) -> Ended:
    """Convert the file as ``profkit view`` does before it serves it."""
    from profkit.cli.view import page_of
    from profkit.measure.select import select_profile

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            profile, _ = select_profile(load_run(file), "main")
            name, *scripts = page_of(profile, file.name) if len(profile) else ("",)
        except ProfkitError as error:
            return Ended("view {file}", error.exit_code, "", str(error))
        except Exception as error:
            raise AssertionError(f"view: {type(error).__name__}: {error}") from error
    for script in scripts:
        strict_json(script.encode())
    return Ended("view {file}", 0, name, "")
