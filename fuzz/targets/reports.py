"""Every renderer with any strings in every kind of block."""

from __future__ import annotations

from fuzz.mutate import Mutation
from fuzz.oracles import check_html, check_markdown, check_terminal
from fuzz.target import Target
from fuzz.targets.texts import text_of
from profkit.report import html, markdown, terminal
from profkit.report.document import (
    Bullets,
    Column,
    Document,
    Facts,
    Note,
    Row,
    Section,
    Step,
    Table,
    VerdictBlock,
    Waterfall,
)
from profkit.report.text import clean

_SEPARATOR = b"\xff"


def document(data: bytes) -> tuple[int, Document]:
    """Return a terminal's width, and a document whose every string is one of the input's, cleaned as builders do."""
    width = 20 + (data[0] if data else 60)
    texts = [clean(text_of(part)) for part in data[1:].split(_SEPARATOR)] or [""]
    count = len(texts)

    def text(number: int) -> str:
        return texts[number % count]

    columns = (
        Column(text(0), "name"),
        Column(text(1), "prose"),
        Column("n", "count", 1),
        Column(text(2), "path", 2),
    )
    rows = tuple(
        Row((text(i), text(i + 1), i, text(i + 2)), marked=i % 3 == 0) for i in range(min(40, count + 3))
    )
    steps = (Step(text(3), 0.5, 0.5, True, text(4)), Step(text(5), -0.1, 0.1, False))
    blocks = (
        VerdictBlock(text(0), text(2), "bad", text(1), 0.5),
        Waterfall(1.0, 1.4, steps, text(6)),
        Facts(((text(3), text(4)), (text(5), text(6)))),
        Bullets(tuple(texts)),
        Table(columns, rows, text(7)),
        Note(text(8)),
    )
    commands = Section("What to do next", (Bullets(tuple(texts[:3]), commands=True),), role="advice")
    return width, Document(
        text(0), (Section("", blocks), commands, Section(text(1), blocks[3:], detail=True))
    )


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    width, made = document(data)
    check_terminal(terminal.render(made, width=width, height=None, color_system=None, ascii_only=False))
    check_terminal(terminal.render(made, width=width, height=None, color_system=None, ascii_only=True))
    check_markdown(markdown.render(made))
    check_html(html.render(made))


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change one of the texts, their number, or any byte."""
    random = mutation.random
    if not data or random.random() < 0.4:
        return mutation.bytes_of(data, TARGET.most_bytes)
    parts = data[1:].split(_SEPARATOR)
    at = random.randrange(len(parts))
    parts[at] = mutation.text(text_of(parts[at])).encode("utf-8", "surrogatepass") * random.choice(
        (1, 1, 1, 40)
    )
    if random.random() < 0.3:
        parts.insert(at, random.choice(parts))
    return (bytes([random.randrange(256)]) + _SEPARATOR.join(parts))[: TARGET.most_bytes]


TARGET = Target(
    check,
    mutate,
    16 << 10,
    (b"\xff", b"```", b"</code>", b"<img src=x>", b"|", b"\\", b"@", b"#1", b"http://"),
    quick=150,
)
