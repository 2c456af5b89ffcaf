"""What the tests make once, whichever of pytest-xdist's workers is first: compiled binaries, installed packages.

conftest.py makes the directory for it, and removes it at the end.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import html
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_profiles"

#: The fixture ``capsys``.
Capture: TypeAlias = pytest.CaptureFixture[str]

#: Names the directory to the workers, which inherit it.
VARIABLE = "PROFKIT_TEST_SHARED"


@contextlib.contextmanager
def held(path: Path, alone: bool) -> Iterator[None]:
    """Hold a file that is there together with others, or alone; wait until that can be."""
    import fcntl

    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            # Not left to closing: a process that a test forked may have the file open for longer.
            fcntl.flock(file, fcntl.LOCK_UN)


def made_once(what: tuple[object, ...], make: Callable[[Path], None]) -> Path:
    """Return the directory that `make` filled for this key, in this worker or in another; not to be changed."""
    shared = Path(os.environ[VARIABLE])
    directory = shared / hashlib.sha256(repr(what).encode()).hexdigest()[:16]
    lock = directory.with_suffix(".lock")
    lock.touch()
    with held(lock, alone=True):
        if not directory.exists():
            made = Path(tempfile.mkdtemp(dir=shared))
            make(made)
            made.rename(directory)
    return directory


def exit_code(*words: object) -> int:
    """Run a command of profkit in this process, and return its exit code."""
    from profkit.cli import main

    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def printed(capsys: Capture, *words: object, code: int = 0) -> tuple[str, str]:
    """Run a command that exits with this code; return what it prints, and what on the error stream."""
    capsys.readouterr()
    assert exit_code(*words) == code
    out, err = capsys.readouterr()
    return out, err


def refused(capsys: Capture, *words: object) -> str:
    """Run a command that exits with 2 and prints one line, on the error stream alone; return that line."""
    out, err = printed(capsys, *words, code=2)
    assert (out, err[:16], err.count("\n"), err[-1:]) == ("", "profkit: error: ", 1, "\n"), err
    return err


@functools.cache
def validator(name: str) -> Any:
    """Return the validator of a schema of docs/schema."""
    import jsonschema

    schema = json.loads((ROOT / "docs" / "schema" / name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def check_schema(value: object, name: str) -> None:
    """Check a JSON value against a schema of docs/schema."""
    validator(name).validate(value)


def words_of(text: str, between: str | None = None) -> list[str]:
    """Return what stands between blanks, or between something else: long lists take a line each in a literal."""
    return text.split(between)


def words_of_page(text: str) -> str:
    """What a reader sees of a page: neither elements, nor what is in its style and its scripts."""
    body = re.sub(r"<wbr>|<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def finished(
    command: Sequence[str | Path] | str,
    cwd: Path | str | None = None,
    status: int | None = None,
    **kwargs: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which must be with `status` if one is given; return that and what it printed."""
    kwargs.setdefault("check", False)
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, **kwargs)
    assert status in (None, done.returncode), done.stderr
    return done


def succeeded(
    command: Sequence[str | Path] | str, cwd: Path | str | None = None, **kwargs: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command that must end with 0."""
    return finished(command, cwd, 0, **kwargs)


def until_end(reading: int) -> str:
    """What is written to a terminal or a pipe until it is closed."""
    text = b""
    with contextlib.suppress(OSError):  # at the end of a terminal
        while chunk := os.read(reading, 4096):
            text += chunk
    os.close(reading)
    return text.decode()


def screen(text: str) -> list[str]:
    """The lines of a terminal to which a text was written."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        cells = ""
        for part in line.split("\r"):
            cells = part + cells[len(part) :]
        lines.append(cells.rstrip())
    return lines
