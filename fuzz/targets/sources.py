"""Source files of the target, which the packer reads: any text, in time that grows with its length."""

from __future__ import annotations

import zlib

from fuzz.mutate import Mutation
from fuzz.target import Target, Wrong
from fuzz.targets.texts import text_of
from profkit.capture.source import SourceFile

_NAMES = ("f", "<module>", "<lambda>", "C")


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    text = text_of(data)
    if thorough or zlib.crc32(data) % 64 == 0:
        text *= max(1, (200_000 if thorough else 20_000) // max(1, len(text)))
    source = SourceFile(text)
    lines = text.count("\n") + 2
    for line in {0, 1, 2, lines // 2, lines - 1, lines, lines + 5}:
        for name in _NAMES:
            found = source.hash(line, name)
            if found and len(found) != 16:
                raise Wrong(f"a hash has another length: {found}")
            qualified = source.qualname(line, name)
            if qualified and qualified.rpartition(".")[2] != name:
                raise Wrong(f"a qualified name is of another function: {qualified} {name}")


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Put in or repeat what matters to the end of a block, or change bytes."""
    random = mutation.random
    if random.random() < 0.4:
        return mutation.bytes_of(data, TARGET.most_bytes)
    at = random.randint(0, len(data))
    part = random.choice(TARGET.words) * random.choice((1, 1, 2, 30))
    return (data[:at] + part + data[random.choice((at, at + len(part))) :])[: TARGET.most_bytes]


TARGET = Target(
    check,
    mutate,
    2048,
    (
        b"def f():\n",
        b"async def f(x,\n",
        b"class C:\n",
        b"@d\n",
        b'"""',
        b"'''",
        b"\\\n",
        b"#",
        b"(",
        b")",
        b"[",
        b"{",
        b"}",
        b"\n    ",
        b"\n\t",
        b"\r\n",
        b"\r",
        b"lambda: 0",
        b"'",
        b'"',
        b"\\",
        b"\x0c",
        b"\n\n",
    ),
    quick=1000,
)
