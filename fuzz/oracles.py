"""What must hold for every output, whatever the run says: no format lets a string of the run act in it."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from fuzz.target import Wrong

__all__ = ["check_html", "check_json", "check_markdown", "check_svg", "check_terminal", "check_text"]

_SCHEMAS = Path(__file__).resolve().parents[1] / "docs" / "schema"

#: Invisible characters that reorder or hide what stands around them.
_HIDING = frozenset("\u061c\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
#: GitHub's limit for one comment.
_MOST_MARKDOWN = 65_536
_FENCE = re.compile(r"(`{3,})(\w*)")
_OWN_TAGS = re.compile(r"</?(?:code|details|summary|span|br)>")
_CODE = re.compile(r"<code>[^<>`]*</code>|`[^`\n]+`")
_LINKED = re.compile(r"(?i)\b(?:https?|ftp)://|\bwww\.")


def check_text(text: str) -> None:
    """No character that a terminal obeys, or that cannot be encoded."""
    for char in set(text) - {"\n"}:
        category = unicodedata.category(char)
        if (
            category in ("Cc", "Cs", "Zl", "Zp")
            or unicodedata.bidirectional(char) in _BIDI
            or char in _HIDING
        ):
            raise Wrong(f"a control character is printed: {char!r} in {_around(text, char)!r}")


_BIDI = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))


def _around(text: str, part: str) -> str:
    at = text.find(part)
    return text[max(0, at - 60) : at + 60]


def check_terminal(text: str) -> None:
    """A report for a terminal without colours."""
    check_text(text)


def check_json(text: str, schema: str = "") -> Any:
    """One JSON value, without NaN; of a schema where one is named."""

    def refuse(constant: str) -> None:
        raise Wrong(f"the JSON holds a number that JSON does not have: {constant}")

    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        raise Wrong(f"the JSON cannot be parsed: {error}") from None
    if schema:
        error = next(iter(_validator(schema).iter_errors(value)), None)
        if error is not None:
            raise Wrong(f"the JSON does not follow {schema}: {error.json_path}: {error.message[:200]}")
    return value


@cache
def _validator(name: str) -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads((_SCHEMAS / name).read_text(encoding="utf-8")))


def check_markdown(text: str) -> None:
    """A comment that fits, with every fence and element closed and nothing of the run as markup or as a link."""
    check_text(text)
    if len(text.encode("utf-8", "backslashreplace")) > _MOST_MARKDOWN:
        raise Wrong("the Markdown is longer than a comment may be")
    fence = ""
    tags: Counter[str] = Counter()
    for line in text.split("\n"):
        if fence:
            fence = "" if line == fence else fence
            continue
        opened = _FENCE.match(line.lstrip())
        if opened is not None:
            if opened[2] not in ("sh", "text"):
                raise Wrong(f"a code fence of the Markdown is not its own: {line[:80]!r}")
            fence = opened[1]
            continue
        tags.update(_OWN_TAGS.findall(line))
        plain = _CODE.sub("", line)
        if "<" in _OWN_TAGS.sub("", plain):
            raise Wrong(f"a string of the run is markup in the Markdown: {line[:200]!r}")
        if _LINKED.search(plain):
            raise Wrong(f"a string of the run is a link in the Markdown: {line[:200]!r}")
    if fence:
        raise Wrong("a code fence of the Markdown is never closed")
    for tag in ("code", "details", "summary", "span"):
        if tags[f"<{tag}>"] != tags[f"</{tag}>"]:
            raise Wrong(f"an element of the Markdown is never closed: {tag}")


class _Page(html.parser.HTMLParser):
    """Collects what acts in a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.scripts: list[tuple[str, str]] = []
        self.policy = ""
        self.depth: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.depth[tag] += 1
        for name, value in attrs:
            if name.startswith("on"):
                raise Wrong(f"a string of the run is a handler in the page: {tag} {name}={value!r}")
            if name in ("href", "src", "action", "formaction") and not (value or "").startswith(
                ("#", "data:")
            ):
                raise Wrong(f"a string of the run is a link in the page: {tag} {name}={value!r}")
        known = dict(attrs)
        if tag == "script":
            self.scripts.append((known.get("type") or "", ""))
        if tag == "meta" and known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known.get("content") or ""

    def handle_endtag(self, tag: str) -> None:
        self.depth[tag] -= 1

    def handle_data(self, data: str) -> None:
        if self.depth["script"] > 0:
            kind, text = self.scripts[-1]
            self.scripts[-1] = kind, text + data


#: Elements by which a page could load or run something.
_ACTING = frozenset(("iframe", "object", "embed", "base", "link", "form", "audio", "video", "applet", "img"))
_ALLOWED = re.compile(r"script-src 'sha256-([^']+)'")


def check_html(text: str) -> None:
    """A page in which nothing of the run is an element, a link, or a script beside the one that the page allows."""
    page = _Page()
    page.feed(text)
    page.close()
    acting = page.tags & _ACTING
    if acting:
        raise Wrong(f"a string of the run is an element of the page: {sorted(acting)}")
    allowed = _ALLOWED.search(page.policy)
    for kind, body in page.scripts:
        if kind == "application/json":
            check_json(body)
        elif (
            allowed is None or base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() != allowed[1]
        ):
            raise Wrong(f"a string of the run is a script of the page: {body[:100]!r}")
    for tag in ("table", "section", "details", "div", "script", "style", "code"):
        if page.depth[tag]:
            raise Wrong(f"an element of the page is not closed: {tag}")


def check_svg(text: str) -> None:
    """A picture that every XML parser takes, without scripts and links."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise Wrong(f"the picture is no XML: {error}") from None
    for element in root.iter():
        name = str(element.tag).rpartition("}")[2]
        if name in ("script", "foreignObject", "image", "a", "use"):
            raise Wrong(f"a string of the run is an element of the picture: {name}")
        for attribute in element.attrib:
            if attribute.rpartition("}")[2].startswith("on"):
                raise Wrong(f"a string of the run is a handler in the picture: {attribute}")
