"""Nothing of a run becomes a link, a mention or markup on GitHub and GitLab, and no fence stays open.

The Markdown is read by GitHub's own parser (cmark-gfm). What both services then look for in the text of the page is
spelled here as their documentation has it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest

from profkit.report import markdown
from profkit.report.document import Bullets, Column, Document, Facts, Note, Row, Section, Table, VerdictBlock
from tests.requirements import imported
from tests.shared import words_of
from tests.unit.test_report_renderers import HOSTILE

#: What programs call their functions, ranges and files, and users their options.
NAMES = words_of(
    "https://evil.example/x¦http://a.b¦ftp://a.b/c¦www.evil.example¦tcp://node17:2345¦rdar://1¦"
    "mailto:a@b.example¦bob@corp.example¦xmpp:bob@corp.example¦@octocat¦@org/team¦a@bob¦@a-b¦#1¦GH-5¦gh-12¦"
    'JIRA-123¦owner/repo#7¦owner/repo@0123456¦!12¦group/project!3¦$42¦%7¦%"v1 0"¦~bug¦~"two words"¦&12¦'
    "^alert#1¦*iteration:3¦[vulnerability:4]¦[[Home]]¦0123456¦deadbeef¦"
    "0123456789abcdef0123456789abcdef01234567¦fix-0123456f¦1234567¦:smile:¦:+1:¦:-1:¦:tada:¦$$x$$¦$x$¦"
    "$`x`$¦[^1]¦[a](http://a.b)¦![a](http://a.b)¦<b>bold</b>¦<script>x</script>¦<a href=x>y</a>¦<!-- x¦"
    "**bold**¦_em_¦`code`¦~~gone~~¦| a | b |¦# title¦- item¦1. item¦> quote¦```¦~~~¦---¦- [ ] task¦"
    "[ref]: http://a.b¦a\\|b¦\\¦&amp;¦&#64;octocat¦\\@octocat¦http:&#47;&#47;a.b",
    "¦",
)
#: Of the text outside code: what the services make a link, an emoji or mathematics of.
REFERENCES = (
    *(r"(?<![\w`/])@[A-Za-z0-9][\w-]*", r"(?<![\w&])#\d+", r"\b[\w.-]+/[\w.-]+[#!@]\w+", r"(?i)\bgh-\d+"),
    *(r"\b[A-Z][A-Z0-9_]*-\d+", r"(?<!\w)[!$%&]\d+", r"(?<!\w)[~%](?:\w|\")", r"(?<!\w)\^alert"),
    *(r"\*iteration:", r"\[(?:vulnerability|issue|epic|work_item):\d", r"\[\["),
    *(r"(?<!\w)[0-9a-f]{7,64}(?!\w)", r":[\w+-]+:", r"\b[a-z][\w+.-]*://\S", r"\bwww\.\w"),
)


class Reader(HTMLParser):
    """Collects tags, and the text nodes that are outside code."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.code = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        self.code += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self.code -= tag in ("code", "pre")

    def handle_data(self, data: str) -> None:
        if not self.code:
            self.texts.append(data)


def page(text: str) -> tuple[str, Reader]:
    cmark = imported("cmarkgfm.cmark")
    options = cmark.Options.CMARK_OPT_UNSAFE | cmark.Options.CMARK_OPT_FOOTNOTES
    rendered = imported("cmarkgfm").github_flavored_markdown_to_html(text, options=options)
    reader = Reader()
    reader.feed(rendered)
    reader.close()
    return rendered, reader


def everywhere(name: str) -> Document:
    """Put a text wherever a document has room for one."""
    columns = (Column(name, "name"), Column("what", "prose"), Column("where", "path"))
    table = Table(columns, (Row((name, name, name)), Row((f"a {name} b", f"a {name}.", name))), f"see {name}")
    blocks = (
        VerdictBlock(name, f"it is {name}, and {name}", "bad", name, 0.9),
        table,
        Facts(((name, name), ("a", f"x {name} y"))),
        Bullets((name, f"first {name}; then ({name})")),
        Bullets((f"profkit capture -- {name}", name), commands=True),
        Note(f"Note {name}."),
    )
    return Document("title", (Section(name, blocks), Section(name, blocks, detail=True)))


def references(texts: list[str]) -> Iterator[str]:
    for text in texts:
        for pattern in REFERENCES:
            yield from (found.group() for found in re.finditer(pattern, text))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_run_becomes_a_link_or_markup(name: str) -> None:
    text = markdown.render(everywhere(name))
    rendered, reader = page(text)
    # GitHub looks for mathematics before anything else.
    assert "$" not in re.sub(r"(?ms)^(`{3,})sh$.*?^\1$", "", text)
    plain, expected = page(markdown.render(everywhere("name")))
    assert [tag for tag in reader.tags if tag != "span"] == expected.tags, rendered
    assert list(references(reader.texts)) == []
    # It is still there to be read, whole, as often as any other name.
    read = html.unescape(re.sub(r"</?span>", "", rendered))
    assert read.count(name) >= html.unescape(plain).count("name")


@pytest.mark.parametrize("name", ["https://a.b/c", "@octocat", "GH-5", "0123456789", ":+1:"])
def test_what_is_looked_for_can_be_found(name: str) -> None:
    rendered, reader = page(f"see {name} there")
    assert "href" in rendered or list(references(reader.texts))


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_leave_the_markdown_whole(make: Callable[[], Document]) -> None:
    text = markdown.render(make())
    assert len(text.encode()) <= markdown.MAX_BYTES
    rendered, reader = page(text)
    shown = words_of("code details em h2 h3 li p pre span strong summary table tbody td th thead tr ul")
    assert set(reader.tags) <= set(shown)
    assert rendered.count("<details>") == rendered.count("</details>") >= 1
    assert list(references(reader.texts)) == []


@pytest.mark.parametrize("character", ["x", "é", "`", "``` ", "𝔘", "\\", "<b>"])
@pytest.mark.parametrize("count", [1, 40])
def test_a_long_command_pushes_nothing_out(character: str, count: int) -> None:
    command = "profkit capture -- python " + character * 70_000
    blocks = (
        VerdictBlock("The answer", "It is this.", "bad"),
        Bullets((command,) * count, commands=True),
        Note("what comes behind it"),
    )
    text = markdown.render(Document("title", (Section("", blocks), Section("More", blocks, detail=True))))
    assert len(text.encode()) <= markdown.MAX_BYTES
    rendered, reader = page(text)
    assert "The answer" in text[:200]
    assert "more characters]" in text
    # The text behind the fence is text: the fence is closed.
    assert any("what comes behind it" in words or "Cut here" in words for words in reader.texts)
    assert rendered.count("<pre") == rendered.count("</pre>") >= 1
    assert rendered.count("<details>") == rendered.count("</details>")


def test_a_report_that_is_cut_in_a_fence_closes_it() -> None:
    """Commands alone that are too many: the last resort cuts at a line of them."""
    commands = tuple(f"profkit capture -o {number}.prof -- python {'x' * 150}" for number in range(1000))
    text = markdown.render(Document("", (Section("", (Bullets(commands, commands=True),), detail=True),)))
    assert len(text.encode()) <= markdown.MAX_BYTES
    assert any("Cut here to fit" in words for words in page(text)[1].texts)
