"""`Document` → Markdown for a ticket or a merge request on GitHub and GitLab.

Function names are code, so that nothing in them is taken for markup, a mention or an issue number; sections
of detail are folded away. The text stays below what GitHub accepts as one comment, and says when it was cut.
Returns a string and prints nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from profkit.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    Facts,
    Note,
    Section,
    Table,
    VerdictBlock,
    format_cell,
    is_numeric,
)
from profkit.report.text import shorten_middle

__all__ = ["MAX_BYTES", "render"]

#: GitHub's limit for one comment (65 536 characters); counted in bytes, so that no reading of it is exceeded.
MAX_BYTES = 65_536

#: What a report that is too long is cut to, mildest first: rows per table, then characters per cell.
_CUTS: tuple[tuple[int | None, int | None], ...] = (
    (None, None),
    (None, 500),
    (200, 500),
    (100, 500),
    (50, 300),
    (25, 200),
    (10, 120),
    (3, 80),
)

_TONES = {"bad": "❌", "good": "✅", "unsure": "❔"}
#: Every character that starts or ends something in GitHub's or GitLab's Markdown or HTML.
_MARKUP = {ord(c): f"&#{ord(c)};" for c in "\\`*{}[]<>&|~^$"}
#: An underscore inside a word is no emphasis, and stays readable.
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
#: Mentions, issues, merge requests, snippets, labels, milestones: a sign before a word.
_REFERENCE = re.compile(r"([@#!%:])(?=\w)")
_LINK = re.compile(r"(?i)\b(https?|ftp)(?=://)|\bwww(?=\.)")


def render(document: Document) -> str:
    """Render a document as Markdown of at most `MAX_BYTES` bytes (UTF-8)."""
    text = ""
    for rows, cell in _CUTS:
        text = _render(document, rows, cell)
        if len(text.encode("utf-8", "backslashreplace")) <= MAX_BYTES:
            return text
    return _truncate(text)


def _truncate(text: str) -> str:
    """Cut at a line; the last resort, for a report of thousands of warnings."""
    tail = "\n\n</details>\n\n_Cut here to fit into one comment._\n"
    room = MAX_BYTES - len(tail.encode())
    kept = text.encode("utf-8", "backslashreplace")[:room].decode("utf-8", "ignore")
    kept = kept[: kept.rfind("\n")] if "\n" in kept else kept
    if kept.count("<details>") <= kept.count("</details>"):
        tail = tail.replace("</details>\n\n", "")
    return kept + tail


def _render(document: Document, rows: int | None, cell: int | None) -> str:
    lines: list[str] = []
    if rows is not None or cell is not None:
        shown = [f"{rows} rows per table"] * (rows is not None) + [f"{cell} characters per cell"] * (
            cell is not None
        )
        lines += [
            f"_Cut to {' and '.join(shown)} to fit into one comment; `--format json` has everything._",
            "",
        ]
    for section in document.sections:
        lines.extend(_section(section, rows, cell))
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section, rows: int | None, cell: int | None) -> Iterator[str]:
    if section.detail:
        yield f"<details><summary>{_prose(section.title)}</summary>"
        yield ""
    elif section.title:
        yield f"### {_prose(section.title)}"
        yield ""
    for block in section.blocks:
        yield from _block(block, rows, cell)
        yield ""
    if section.detail:
        yield "</details>"
        yield ""


def _block(block: Block, rows: int | None, cell: int | None) -> Iterator[str]:
    if isinstance(block, VerdictBlock):
        yield f"## {_TONES[block.tone]} {_prose(block.headline)}"
        yield ""
        sure = "" if block.confidence is None else f"**Confidence {100 * block.confidence:.0f} %.** "
        yield sure + _prose(_short(block.summary, cell))
    elif isinstance(block, Table):
        yield from _table(block, rows, cell)
    elif isinstance(block, Facts):
        yield from (f"- **{_prose(label)}**: {_code(_short(value, cell))}" for label, value in block.items)
    elif isinstance(block, Bullets):
        yield from _bullets(block, rows, cell)
    elif isinstance(block, Note):
        yield _prose(_short(block.text, cell))


def _bullets(block: Bullets, rows: int | None, cell: int | None) -> Iterator[str]:
    items = block.items if rows is None else block.items[:rows]
    if block.commands:
        # The fence is longer than any run of backticks in it, and a command is one line: it cannot end early.
        longest = max((len(run) for item in items for run in re.findall("`+", item)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"{fence}sh"
        yield from items
        yield fence
        return
    yield from (f"- {_prose(_short(item, cell))}" for item in items)
    if len(items) < len(block.items):
        yield f"- … and {len(block.items) - len(items):,} more"


def _table(table: Table, rows: int | None, cell: int | None) -> Iterator[str]:
    # A bar repeats a share as a drawing, which a proportional font spoils.
    kept = [(i, column) for i, column in enumerate(table.columns) if column.kind != "bar"]
    shown = table.rows if rows is None else table.rows[:rows]
    marks = any(row.marked for row in shown)
    yield "| " + " | ".join([""] * marks + [_prose(column.title) for _, column in kept]) + " |"
    yield (
        "|"
        + "|".join(["---"] * marks + ["---:" if is_numeric(column) else "---" for _, column in kept])
        + "|"
    )
    for row in shown:
        cells = ["●" if row.marked else ""] * marks
        cells += [_cell(column, _short(format_cell(column, row.cells[i]), cell)) for i, column in kept]
        yield "| " + " | ".join(cells) + " |"
    notes = [table.note] if table.note else []
    if len(shown) < len(table.rows):
        notes.append(f"{len(table.rows) - len(shown):,} more rows were cut.")
    if notes:
        yield ""
        yield _prose(" ".join(notes))


def _cell(column: Column, text: str) -> str:
    if column.kind in ("name", "path"):
        return _code(text)
    return _prose(text)


def _short(text: str, most: int | None) -> str:
    return text if most is None else shorten_middle(text, most)


def _code(text: str) -> str:
    return f"<code>{_escaped(text)}</code>" if text else ""


def _escaped(text: str) -> str:
    return _UNDERSCORE.sub("&#95;", text.translate(_MARKUP))


def _prose(text: str) -> str:
    """Escape running text; what would become a reference or a link is broken up by an empty element."""
    escaped = _escaped(text)
    # The entities just made hold "&#"; a reference sign never follows an ampersand.
    escaped = re.sub(r"(?<!&)" + _REFERENCE.pattern, r"\1<span></span>", escaped)
    return _LINK.sub(r"\g<0><span></span>", escaped)
