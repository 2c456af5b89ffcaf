"""One target under atheris, in a process of its own: ``python -m fuzz.engine TARGET FOLDER [FLAG …]``.

atheris counts the branches of profkit's bytecode and drives libFuzzer, whose flags these are. A finding does not end
the run: its smallest input is kept in FOLDER by its signature, so that one known defect hides no other.
"""

from __future__ import annotations

import importlib
import mmap
import pkgutil
import random
import struct
import sys
from pathlib import Path

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


def main(name: str, folder: Path, flags: list[str]) -> None:
    """Fuzz until the engine ends the process."""
    _instrumented()
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
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
