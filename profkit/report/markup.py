"""HTML and SVG elements as strings; page and picture escape all text here."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

from profkit.model.surrogates import spelled_out

#: Characters that begin or end markup or attributes; a backtick ends attributes in some old readers.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "`": "&#96;"})
_VOID = frozenset({"meta", "br", "hr", "input"})


def escape(text: str) -> str:
    """Escape a cleaned text for markup; lone surrogates, which UTF-8 cannot hold, are spelled out."""
    return spelled_out(text.translate(_ESCAPES))


def element(tag: str, *content: str, **attributes: str | float | None) -> str:
    """Return one element around content that is already markup.

    ``class_`` becomes ``class``, other underscores hyphens; ``None`` is no attribute.
    """
    begin = f"<{tag}"
    for name, value in attributes.items():
        if value is not None:
            text = escape(value) if isinstance(value, str) else number(value)
            begin += f' {name.rstrip("_").replace("_", "-")}="{text}"'
    return f"{begin}>" if tag in _VOID else f"{begin}>{''.join(content)}</{tag}>"


def svg_text(text: str, x: float, y: float, kind: str | None = None) -> str:
    """Return text of an SVG picture from (or, by its class, up to) a point on its base line."""
    return element("text", escape(text), x=x, y=y, class_=kind)


class Drawing(NamedTuple):
    """Markup drawn from y = 0 on, its height and width in its own units, and its content in words."""

    markup: str
    height: float
    width: float = 0.0
    said: str = ""

    def picture(self, kind: str, said: str) -> str:
        """Return an ``svg`` element that scales with the page."""
        box = f"0 0 {self.width:g} {self.height:g}"
        return element("svg", self.markup, viewBox=box, role="img", aria_label=said, class_=kind)


def assets(*names: str) -> str:
    folder = resources.files("profkit.report") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def number(value: float) -> str:
    """Return a coordinate with at most two decimals, finer than any screen."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
