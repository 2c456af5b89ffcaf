"""Targets under atheris, each in a process of its own, forked from one that has imported profkit.

atheris counts the branches of profkit's bytecode, for which an import takes a quarter of a minute, and drives
libFuzzer. ``python -m fuzz.engine`` reads a job (JSON) from each line of standard input; when it ends, its name
and exit status are a line of standard output. A finding does not end a job: its smallest input is kept by its
signature, so that one known defect hides no other.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import pkgutil
import random
import signal
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

from fuzz.mutate import Mutation
from fuzz.target import finding_of, load

#: Rooms that no input reaches: they run inside the target, or are the demo.
_NOT_REACHED = ("profkit.capture.agent", "profkit.demo", "profkit.__main__")


def _instrumented() -> None:
    """Import all of profkit now: what a function imports later would not be counted."""
    with atheris.instrument_imports(include=["profkit"]):
        import profkit

        for module in pkgutil.walk_packages(profkit.__path__, "profkit."):
            if not module.name.startswith(_NOT_REACHED):
                importlib.import_module(module.name)


def main() -> None:
    """Fuzz what standard input names, until it ends."""
    _instrumented()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in iter(sys.stdin.buffer.readline, b""):
        if os.fork() == 0:
            _follow(json.loads(line))


def _follow(job: dict[str, Any]) -> None:
    """Start a job, and say how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        said = os.open(job["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.environ["TMPDIR"] = job["scratch"]
        tempfile.tempdir = None
        _fuzz(job["name"], Path(job["findings"]), job["flags"])
    _, status = os.waitpid(pid, 0)
    os.write(1, f"{job['name']} {status}\n".encode())
    os._exit(0)


def _fuzz(name: str, folder: Path, flags: list[str]) -> None:
    """Fuzz until the engine ends the process."""
    target = load(name)
    with open(folder / "inputs", "r+b") as counter:
        count = mmap.mmap(counter.fileno(), 8)
    done = 0

    def check(data: bytes) -> None:
        nonlocal done
        finding = finding_of(target, data, thorough=False)
        done += 1
        struct.pack_into("<q", count, 0, done)
        if finding is None:
            return
        known = folder / finding.signature
        if not known.exists() or len(data) < known.stat().st_size:
            known.write_bytes(data)
            known.with_name(known.name + ".txt").write_text(
                finding.text, encoding="utf-8", errors="backslashreplace"
            )

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        mutation = Mutation(random.Random(seed), lambda part, room: atheris.Mutate(part, max(1, room)))
        assert target.mutate is not None
        changed = target.mutate(data, mutation)
        # An archive that is cut is none: what is too long stays as it was.
        return changed if len(changed) <= most else data

    custom = {} if target.mutate is None else {"custom_mutator": mutate}
    atheris.Setup([sys.argv[0], *flags], check, **custom)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
