"""Files of other tools: each is read, or one sentence says why not; its functions do not depend on edges."""

from __future__ import annotations

from fuzz.mutate import Mutation
from fuzz.oracles import check_text
from fuzz.scratch import emptied
from fuzz.target import Target, Wrong
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
    read = []
    for edges in (True, False):
        try:
            run = read_foreign(path, edges=edges)
        except FormatError as error:
            check_text(clean(str(error)))
            read.append(None)
            continue
        found = (
            [] if run is None else [thread.profile for process in run.processes for thread in process.threads]
        )
        for profile in found:
            profile.validate()
        read.append([(profile.tottime.tolist(), profile.ncalls.tolist()) for profile in found])
    if read[0] != read[1]:
        raise Wrong("the functions depend on whether edges are read")


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
