"""What the user names as runs: a file, a directory or a pattern is read, or one sentence says what to do."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fuzz.oracles import check_text
from fuzz.scratch import emptied
from fuzz.target import SEEDS, Target
from profkit.errors import FormatError, UsageError
from profkit.formats.load import load_run, load_side
from profkit.formats.regular_file import read_regular
from profkit.report.text import clean


def _directory() -> Path:
    """Return a directory with a run, a spool, and what is no run."""
    directory = emptied("paths")
    run = (SEEDS / "pstats" / "cprofile-3.11.prof").read_bytes()
    (directory / "run.prof").write_bytes(run)
    (directory / "more").mkdir()
    (directory / "more" / "a.prof").write_bytes(run)
    (directory / "more" / "b.prof").write_bytes(b"no run")
    (directory / "none").mkdir()
    (directory / "empty.prof").touch()
    os.mkfifo(directory / "pipe.prof")
    (directory / ".late.prof.spool-x").mkdir()
    (directory / ".late.prof.spool-x" / "launch.json").write_bytes(b"{}")
    return directory


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    name = os.fsdecode(data)
    if "/" in name or "**" in name:
        return  # nothing outside of the directory is read
    before = os.getcwd()
    os.chdir(_directory())
    try:
        for read in (load_run, load_side):
            try:
                read(name)
            except (FormatError, UsageError) as error:
                check_text(clean(str(error)))
        with contextlib.suppress(OSError, ValueError):
            read_regular(name, 100)
    finally:
        os.chdir(before)


TARGET = Target(check, None, 60, (b"*", b"[", b"baseline:", b".prof", b"none", b"more", b"late"), quick=500)
