"""`Document` → Markdown for GitHub and GitLab, below the size limit of one comment.

Function names are code, so they become no markup, mention or issue number; other would-be links are broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, takewhile

from profkit.report import units
from profkit.report.document import (
    Block,
    Bullets,
    Document,
    Facts,
    HeatMap,
    Note,
    Row,
    Section,
    Table,
    Trend,
    VerdictBlock,
    Waterfall,
    is_numeric,
)
from profkit.report.drawn_blocks import trend_lines, waterfall_lines
from profkit.report.layout import text_of
from profkit.report.text import shorten_middle

#: GitHub's limit for one comment is 65,536 characters; bytes are never fewer.
MAX_BYTES = 65_536

#: Most characters of a cell, tried in turn while the text is too long even with `FEWEST_ROWS`.
_CELLS: tuple[int | None, ...] = (None, 500, 200, 80)
#: Rows that a table or list always keeps.
FEWEST_ROWS = 3
#: Rows of a table that stay open, or more to show the marked ones; the rest is folded.
OPEN_ROWS = 10
#: Bytes of a table that hold no more than `FEWEST_ROWS`.
_LEAST_ROOM = 200

_TONES = {"bad": "❌", "good": "✅", "unsure": "❔"}
#: Characters with a meaning in GitHub's or GitLab's Markdown or in HTML.
_MARKUP = {ord(c): f"&#{ord(c)};" for c in "\\`*{}[]<>&|~^$"}
#: An underscore inside a word starts no emphasis.
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
#: Both services look for links after Markdown is rendered, when entities are characters again; an empty
#: element after these breaks a link. Inside code, only addresses are linked.
_LINKED_IN_CODE = re.compile(r":(?=//)|@(?=[\w.-])|\bwww(?=\.)", re.IGNORECASE)
#: In text, also: mentions, issues, merge requests, snippets, labels, milestones, epics, emoji and mathematics
#: (a sign before a word), wiki pages, and issues of other trackers (``GH-5``, ``ABC-12``).
_LINKED = re.compile(
    rf"{_LINKED_IN_CODE.pattern}|[@#!%~&$^*:](?=[^\s.,;:!?)\]}}])|\[(?=\[)"
    r"|(?<![\w-])(?:(?-i:[A-Z][A-Z0-9_]*)|gh)-(?=\d)",
    re.IGNORECASE,
)
#: A commit's hexadecimal digits, and a number of them too small to be linked.
_COMMIT = re.compile(r"(?<!\w)[0-9a-f]{7,64}(?!\w)", re.IGNORECASE)
_NO_COMMIT = 6
#: What begins a heading or a list at the start of a line.
_BLOCK_BEGIN = re.compile(r"[#=+-]|\d{1,9}[.)](?=\s|$)")
_BREAK = "<span></span>"
_FENCE = re.compile(r"^`{3,}", re.MULTILINE)
#: Most characters shown of one command.
MOST_COMMAND = 2_000
#: Width of a trend that a comment shows without a scroll bar.
_TREND_COLUMNS = 60
#: Width of a waterfall; wider lines scroll.
_WATERFALL_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class _Rows:
    """Lines of a table or list that may be cut at the end, and the note for that."""

    lines: list[str]
    cut: str

    def left_out(self, room: int) -> int:
        """Return how many lines at the end do not fit into `room` bytes."""
        sizes = accumulate(_bytes(line) + 1 for line in self.lines)
        fitting = sum(1 for _ in takewhile(lambda size: size <= room, sizes))
        return max(0, len(self.lines) - max(FEWEST_ROWS, fitting))

    def text(self, room: int) -> list[str]:
        """Return the lines that fit, and a note of how many do not."""
        left = self.left_out(room)
        return self.lines[: len(self.lines) - left] + ([self.cut.format(f"{left:,}")] if left else [])


def render(document: Document) -> str:
    """Return Markdown of at most `MAX_BYTES` bytes (UTF-8); the biggest table loses rows first."""
    text = ""
    for cell in _CELLS:
        pieces: list[str | _Rows] = []
        # Folded sections come last.
        for section in sorted(document.sections, key=lambda section: section.detail):
            pieces.extend(_section(section, cell))
        room = MAX_BYTES
        while room > _LEAST_ROOM:
            text = _joined(pieces, room, cell)
            if _bytes(text) <= MAX_BYTES:
                return text
            room = int(room * 0.95)
    return _truncate(text)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "backslashreplace"))


def _joined(pieces: Sequence[str | _Rows], room: int, cell: int | None) -> str:
    """Return the text with at most `room` bytes of each table or list."""
    left_out = sum(piece.left_out(room) for piece in pieces if isinstance(piece, _Rows))
    lines: list[str] = []
    if left_out or cell is not None:
        said = [f"{units.counted(left_out, 'row is', 'rows are')} left out"] * bool(left_out)
        said += [f"cells have at most {cell} characters"] * (cell is not None)
        lines += [f"_Cut to fit into one comment: {' and '.join(said)}; `--format json` has everything._", ""]
    for piece in pieces:
        lines.extend([piece] if isinstance(piece, str) else piece.text(room))
    return "\n".join(lines).rstrip() + "\n"


def _truncate(text: str) -> str:
    """Cut at a line and close open markup: the last resort, for thousands of warnings."""
    fences = _FENCE.findall(text)
    longest = max(map(len, fences), default=0)
    tail = "\n\n</details>\n\n_Cut here to fit into one comment._\n"
    room = MAX_BYTES - len(tail.encode()) - longest - 1
    kept = text.encode("utf-8", "backslashreplace")[:room].decode("utf-8", "ignore")
    kept = kept[: kept.rfind("\n")] if "\n" in kept else kept
    if kept.count("<details>") <= kept.count("</details>"):
        tail = tail.replace("</details>\n\n", "")
    fence = ""
    for found in _FENCE.findall(kept):
        # A fence ends only with as many backticks as began it.
        fence = "" if found == fence else fence or found
    return f"{kept}\n{fence}{tail}" if fence else kept + tail


def _section(section: Section, cell: int | None) -> Iterator[str | _Rows]:
    if section.detail:
        yield f"<details><summary>{_prose(_short(section.title, cell))}</summary>"
        yield ""
    elif section.title:
        yield f"### {_prose(_short(section.title, cell))}"
        yield ""
    for block in section.blocks:
        yield from _block(block, cell, folded=section.detail)
        yield ""
    if section.detail:
        yield "</details>"
        yield ""


def _block(block: Block, cell: int | None, *, folded: bool) -> Iterator[str | _Rows]:
    if isinstance(block, VerdictBlock):
        yield f"## {_TONES[block.tone]} {_prose(_short(block.named, cell))}"
        yield ""
        sure = "" if block.confidence is None else f"**Confidence {units.confidence(block.confidence)}.** "
        yield sure + _line(_short(block.summary, cell))
    elif isinstance(block, Waterfall):
        yield from _fenced([text_of(line) for line in waterfall_lines(block, _WATERFALL_COLUMNS)], "text")
        yield from _note(block.note)
    elif isinstance(block, HeatMap):
        yield from _heat_map(block)
    elif isinstance(block, Trend):
        # In a code block, all characters are equally wide.
        yield from _fenced([text_of(line)[2:] for line in trend_lines(block, _TREND_COLUMNS)], "text")
    elif isinstance(block, Table):
        yield from _table(block, cell, folded=folded)
    elif isinstance(block, Facts):
        yield from (
            f"- **{_prose(_short(label, cell))}**: {_code(_short(value, cell))}"
            for label, value in block.items
        )
    elif isinstance(block, Bullets):
        yield from _bullets(block, cell)
    elif isinstance(block, Note):
        yield _line(_short(block.text, cell))


def _note(text: str) -> Iterator[str]:
    if text:
        yield ""
        yield _line(text)


def _fenced(lines: Sequence[str], language: str) -> Iterator[str]:
    """Yield a code block; its fence is longer than any run of backticks in it, so it cannot end early."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence + language
    yield from lines
    yield fence


def _heat_map(block: HeatMap) -> Iterator[str]:
    yield "| " + " | ".join(map(_code, (block.corner, *block.columns))) + " |"
    yield "|---|" + "---:|" * len(block.columns)
    for title, cells in block.rows:
        shown = [f"**{_prose(cell.text)}**" if cell.marked else _prose(cell.text) for cell in cells]
        yield f"| {_code(title)} | " + " | ".join(shown) + " |"
    yield from _note(block.note)


def _bullets(block: Bullets, cell: int | None) -> Iterator[str | _Rows]:
    if block.commands:
        most = MOST_COMMAND if cell is None else min(MOST_COMMAND, 2 * cell)
        cut = "{} … [{:,} more characters]"
        items = [cut.format(c[:most], len(c) - most) if len(c) > most else c for c in block.items]
        yield from _fenced(items, "sh")
        return
    items = [f"- {_line(_short(item, cell))}" for item in block.items]
    yield _Rows(items, "- … and {} more")


def _table(table: Table, cell: int | None, *, folded: bool) -> Iterator[str | _Rows]:
    # A proportional font spoils bars.
    table = table.without_bars()
    marks = any(row.marked for row in table.rows)
    rules = ["---"] * marks + ["---:" if is_numeric(column) else "---" for column in table.columns]
    head = [
        "| " + " | ".join([""] * marks + [_prose(column.title) for column in table.columns]) + " |",
        "|" + "|".join(rules) + "|",
    ]
    escapes = [_code if column.kind in ("name", "path") else _prose for column in table.columns]

    def line(row: Row) -> str:
        cells = ["●" if row.marked else ""] * marks
        cells += [escape(_short(text, cell)) for escape, text in zip(escapes, table.texts(row), strict=True)]
        return "| " + " | ".join(cells) + " |"

    lines = [line(row) for row in table.rows]
    open_rows = len(lines) if folded else _open_rows(table)
    cut = "\n_{} more rows were cut._"
    yield from head
    yield _Rows(lines[:open_rows], cut)
    yield from _note(_short(table.note, cell))
    if open_rows < len(lines):
        yield ""
        yield f"<details><summary>{len(lines) - open_rows:,} more rows</summary>"
        yield ""
        yield from head
        yield _Rows(lines[open_rows:], cut)
        yield ""
        yield "</details>"


def _open_rows(table: Table) -> int:
    """Return how many rows stay open: up to the last marked one, and all if at most two more remain."""
    marked = [at for at, row in enumerate(table.rows) if row.marked]
    wanted = max(OPEN_ROWS, marked[-1] + 1 if marked and len(marked) <= 3 * OPEN_ROWS else 0)
    return wanted if len(table.rows) > wanted + 2 else len(table.rows)


def _short(text: str, most: int | None) -> str:
    return text if most is None else shorten_middle(text, most)


def _code(text: str) -> str:
    return f"<code>{_broken(text, _LINKED_IN_CODE)}</code>" if text else ""


def _prose(text: str) -> str:
    """Escape running text; empty elements break up would-be references and links."""
    return _broken(text, _LINKED, _COMMIT)


def _line(text: str) -> str:
    """Escape text at the start of a line, so that it begins no heading or list."""
    text = text.lstrip()
    begin = _BLOCK_BEGIN.match(text)
    if begin is None:
        return _prose(text)
    sign = begin.end()
    return f"{text[: sign - 1]}&#{ord(text[sign - 1])};{_BREAK}{_prose(text[sign:])}"


def _broken(text: str, linked: re.Pattern[str], commit: re.Pattern[str] | None = None) -> str:
    """Escape a text, with empty elements where a link would begin and inside would-be commits."""
    places = {found.end() for found in linked.finditer(text)}
    if commit is not None:
        for found in commit.finditer(text):
            places.update(range(found.start() + _NO_COMMIT, found.end(), _NO_COMMIT))
    bounds = [0, *sorted(places), len(text)]
    parts = (text[begin:end].translate(_MARKUP) for begin, end in pairwise(bounds))
    return _BREAK.join(_UNDERSCORE.sub("&#95;", part) for part in parts)
