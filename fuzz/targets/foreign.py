"""Files of other tools: each is read, or one sentence says why not; its functions do not depend on edges."""

from __future__ import annotations

from fuzz.mutate import Mutation
from fuzz.oracles import check_text
from fuzz.scratch import emptied
from fuzz.target import Target
from profkit.errors import FormatError
from profkit.formats.foreign import read_foreign
from profkit.report.text import clean

_WORDS = (
    b"traceEvents",
    b"python_function",
    b"samples",
    b"weights",
    b"py::",
    b"HCAT",
    b"SQLite format 3\0",
    b"tid:",
)


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    path = emptied("foreign") / "file"
    path.write_bytes(data)
    try:
        run = read_foreign(path)
    except FormatError as error:
        check_text(clean(str(error)))
        return
    for process in () if run is None else run.processes:
        for thread in process.threads:
            thread.profile.validate()


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change JSON within its structure, and other files anywhere."""
    if data.lstrip()[:1] in (b"{", b"["):
        return mutation.json_bytes(data)
    changed = bytearray(data)
    for _ in range(mutation.random.randint(1, 4)):
        at = mutation.random.randrange(len(changed) + 1)
        if mutation.random.random() < 0.2:
            changed[at : at + mutation.random.randint(0, 9)] = mutation.random.choice(_WORDS)
        elif at < len(changed):
            changed[at] = mutation.random.randrange(256)
    return bytes(changed)


TARGET = Target(
    check,
    mutate,
    20_000,
    _WORDS,
    quick=300,
)
